/// Settings that cannot work. Each problem names the setting and says what is allowed; none holds a secret.
struct ConfigurationError: Error, Sendable, CustomStringConvertible {
    /// Whole sentences, in the order of the settings.
    let problems: [String]

    init(_ problems: [String]) {
        self.problems = problems
    }

    init(_ problem: String) {
        self.init([problem])
    }

    var description: String { problems.joined(separator: " ") }
}
