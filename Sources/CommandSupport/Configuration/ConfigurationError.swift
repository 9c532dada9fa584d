/// Invalid settings. Each problem names the setting and the allowed values; no problem contains a secret.
package struct ConfigurationError: Error, Sendable, CustomStringConvertible {
    /// Whole sentences, in the order of the settings.
    package let problems: [String]

    init(_ problems: [String]) {
        self.problems = problems
    }

    init(_ problem: String) {
        self.init([problem])
    }

    package var description: String { problems.joined(separator: " ") }
}

/// Collects the problems of several settings that are read in sequence, so that all are reported together.
struct ConfigurationProblems {
    private var problems: [String] = []

    /// What `body` makes; nil if it cannot, and its problems are noted.
    mutating func gather<Value>(_ body: () throws(ConfigurationError) -> Value) -> Value? {
        do throws(ConfigurationError) {
            return try body()
        } catch {
            problems += error.problems
            return nil
        }
    }

    /// The same for asynchronous reads.
    mutating func gather<Value>(_ body: () async throws(ConfigurationError) -> Value) async -> Value? {
        do throws(ConfigurationError) {
            return try await body()
        } catch {
            problems += error.problems
            return nil
        }
    }

    /// - Throws: all that was noted, if anything was.
    func check() throws(ConfigurationError) {
        if !problems.isEmpty { throw ConfigurationError(problems) }
    }
}
