/// A failure of a statement, a connection or the pool.
///
/// `kind` is for decisions, `message` for logs. Neither contains a password. `message` also omits the row contents that
/// PostgreSQL puts in an error's detail.
public struct PostgresError: Error, Sendable, Equatable, CustomStringConvertible {
    /// The cause, as far as a caller can act on it.
    public enum Kind: Sendable, Hashable {
        /// The server refused a statement with this five-character SQLSTATE.
        case server(sqlState: String)
        /// The connection ended while it was in use. Whether an outstanding COMMIT took effect is unknown.
        case connectionLost
        /// A transaction is committed on its server, but the wait for a synchronous standby was cancelled, so a
        /// failover may lose the transaction. The connection is usable.
        case unreplicated
        /// No connection can be made at present.
        case unavailable
        /// A deadline passed, and the server has ended the statement.
        ///
        /// It is a client-side deadline or the server's `statement_timeout`. The database is available, but the
        /// statement took too long.
        case timedOut
        /// A deadline passed, and the server did not react to the request to cancel.
        case unresponsive
        /// The awaiting task was cancelled.
        case cancelled
        /// Every connection of the pool stayed in use for the whole acquire time-out.
        case poolExhausted
        /// A programming error: a value was read as a wrong type, or parameters cannot be sent.
        case decoding
    }

    public let kind: Kind
    /// Details for the log, never for a client.
    public let message: String
    /// The name of the failed statement, if there is one.
    public let statement: String?
    /// The position of that statement in its pipeline, counted from 0.
    public let statementIndex: Int?
    /// Whether the session was usable after the error.
    var leavesSession = false
    /// The reason why a connection could not be made, if it is known.
    public private(set) var connectFailure: ConnectFailure?

    public init(_ kind: Kind, _ message: String, statement: String? = nil, statementIndex: Int? = nil) {
        self.kind = kind
        self.message = message
        self.statement = statement
        self.statementIndex = statementIndex
    }

    /// Creates the error of a connection that could not be made.
    init(_ report: ConnectFailure.Report) {
        self.init(.unavailable, report.message + (report.sqlState.map { " (SQLSTATE \($0))" } ?? ""))
        connectFailure = report.failure
    }

    public var sqlState: String? {
        if case .server(let sqlState) = kind { sqlState } else { nil }
    }

    /// Whether the same transaction may succeed when run again.
    ///
    /// True for a serialization failure, a deadlock and a lock time-out.
    public var isRetryable: Bool {
        switch sqlState {
        case "40001", "40P01", "55P03": true
        default: false
        }
    }

    /// Whether a statement took too long, or waited too long for a lock.
    ///
    /// The database is available. Other statements of the same group may succeed without this statement.
    public var isTooLong: Bool { kind == .timedOut || sqlState == "55P03" }

    /// Whether the database cannot be reached or has no capacity at present.
    ///
    /// The caller should retry later.
    public var isUnavailable: Bool {
        switch kind {
        case .connectionLost, .unreplicated, .unavailable, .unresponsive, .poolExhausted: true
        // poolers report a lost server as a protocol violation and end the session; PostgreSQL reports one statement
        case .server(sqlState: "08P01") where leavesSession: false
        case .server(let sqlState):
            Self.unavailableStates.contains(sqlState) || Self.isOutage(sqlState) || message == Self.shutdownMessage
                || isOfReadOnlyServer
        case .timedOut, .cancelled, .decoding: false
        }
    }

    /// SQLSTATEs of an ended session.
    ///
    /// Causes are an administrator, a crash, the removal of the database, or a time-out: of an idle transaction, of a
    /// long transaction, or of an idle session. Another cause is a lack of capacity.
    private static let unavailableStates: Set = ["57P01", "57P02", "57P03", "57P04", "57P05", "25P03", "25P04"]

    /// Whether the server cannot write at present.
    ///
    /// It is a standby, or the session is read-only by default.
    ///
    /// 25006 is PostgreSQL's code for a write in such a session, LISTEN and row locks included. A few functions report
    /// recovery under 55000 or 0A000, which have other meanings too, so these are detected by the message.
    public var isOfReadOnlyServer: Bool {
        switch kind {
        case .server(sqlState: "25006"): true
        case .server(sqlState: "55000"), .server(sqlState: "0A000"):
            message.contains("recovery") || message.contains("hot standby")
        // libpq's messages if target_session_attrs refuses the server
        case .unavailable: message.contains("session is read-only") || message.contains("server is in hot standby mode")
        default: false
        }
    }

    /// Whether the server lacks a resource that writes need, such as disk space.
    ///
    /// True for class 53 and class 58. A single write may still succeed, for example a write that reuses space. A limit
    /// that one statement exceeds (53400) is not such a failure.
    public var isOfLackingResource: Bool {
        guard let sqlState, sqlState != "53300", sqlState != "53400" else { return false }
        return sqlState.hasPrefix("53") || sqlState.hasPrefix("58")
    }

    /// Whether the database refuses statements for a reason that their parameters cannot cause.
    ///
    /// The reasons are missing privileges or objects (42501, 42P01, 42703, 42883), and damaged files (XX001, XX002).
    public var isOfDatabase: Bool {
        sqlState.map { Self.databaseStates.contains($0) } ?? false
    }

    private static let databaseStates: Set = ["42501", "42P01", "42703", "42883", "XX001", "XX002"]

    /// The message of a Citus session whose own server dies while the session waits for another server. It is sent as
    /// an internal error (XX000).
    private static let shutdownMessage = "postmaster was shut down, exiting"

    /// The error classes of an outage.
    ///
    /// These are class 08 (connection exceptions, as a pooler or a proxy reports them in its own protocol), class 53
    /// (insufficient resources) and class 58 (errors of the operating system).
    private static func isOutage(_ sqlState: String) -> Bool {
        ["08", "53", "58"].contains { sqlState.hasPrefix($0) }
    }

    /// The message of the server or the connection, for people.
    ///
    /// It contains the code by which the error can be looked up.
    public var userMessage: String {
        switch kind {
        case .server(let sqlState): message.isEmpty ? "SQLSTATE \(sqlState)" : "\(message) (SQLSTATE \(sqlState))"
        default: message.isEmpty ? "\(kind)" : message
        }
    }

    /// Kind, place and message in one line, for logs.
    public var description: String {
        var text = "\(kind)"
        if let statement { text += " in \(statement)" }
        if let statementIndex { text += " (statement \(statementIndex))" }
        return message.isEmpty ? text : "\(text): \(message)"
    }
}
