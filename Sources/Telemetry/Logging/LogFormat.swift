import Logging

/// How a log line looks.
package enum LogFormat: String, Sendable, CaseIterable {
    /// One JSON object a line, for what collects logs: see ``JSONLogLine``.
    case json
    /// For a person: see ``TextLogLine``.
    case text
}
