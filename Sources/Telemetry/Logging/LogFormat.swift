import Logging

package enum LogFormat: String, Sendable, CaseIterable {
    /// One JSON object a line, for log collectors: see ``JSONLogLine``.
    case json
    /// For a person: see ``TextLogLine``.
    case text
}
