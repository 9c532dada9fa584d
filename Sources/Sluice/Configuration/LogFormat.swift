/// How a log line looks.
enum LogFormat: String, Sendable, CaseIterable {
    /// One JSON object a line, for what collects logs.
    case json
    /// For a person.
    case text
}
