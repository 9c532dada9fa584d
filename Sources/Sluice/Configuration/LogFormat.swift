enum LogFormat: String, Sendable, CaseIterable {
    /// One JSON object a line, for what collects logs.
    case json
    case text
}
