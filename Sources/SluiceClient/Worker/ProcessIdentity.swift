import Foundation

/// Identifies a process, even among earlier and later processes with the same process id.
///
/// After a crash, the restarted app or any other program may get the app's former process id. In a container, this
/// happens nearly always.
struct ProcessIdentity {
    private let number: pid_t
    /// The time when the process was started, in the system's format; empty if the system does not provide it.
    private let start: String
    private let token: String

    /// This process.
    static let own = ProcessIdentity(
        number: ProcessInfo.processInfo.processIdentifier,
        start: start(of: ProcessInfo.processInfo.processIdentifier) ?? "",
        token: UUID.random().wire
    )

    private init(number: pid_t, start: String, token: String) {
        self.number = number
        self.start = start
        self.token = token
    }

    /// - Returns: nil for text that does not identify a process.
    init?(text: some StringProtocol) {
        let parts = text.split(separator: ".", omittingEmptySubsequences: false)
        guard let number = parts.first.flatMap({ pid_t($0) }), number > 0 else { return nil }
        self.number = number
        start = parts.count > 1 ? String(parts[1]) : ""
        token = parts.count > 2 ? String(parts[2]) : ""
    }

    var text: String { "\(number).\(start).\(token)" }

    /// Whether it is certain that the process has ended.
    var isGone: Bool {
        // this process has the id now, so any other process with the same id has ended
        if number == Self.own.number { return token != Self.own.token }
        if kill(number, 0) != 0 && errno == ESRCH { return true }
        guard !start.isEmpty, let other = Self.start(of: number) else { return false }
        return other != start
    }

    /// Returns the start time in ticks since the system was started; nil on systems other than Linux.
    private static func start(of number: pid_t) -> String? {
        guard let status = try? String(contentsOfFile: "/proc/\(number)/stat", encoding: .utf8),
            // the program's name is in parentheses, and may contain any character
            let end = status.lastIndex(of: ")")
        else { return nil }
        let fields = status[end...].split(separator: " ")
        return fields.count > 20 ? String(fields[20]) : nil
    }
}
