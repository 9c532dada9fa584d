/// A failure of a statement, a connection or the pool.
///
/// Make decisions by `kind`, and log `message`. Neither contains a password. `message` omits the error's detail,
/// because PostgreSQL may quote contents of rows there.
public struct PostgresError: Error, Sendable, Equatable, CustomStringConvertible {
    /// The category of the cause. Callers use the category to decide how to continue.
    public enum Kind: Sendable, Hashable {
        /// The server refused a statement with this five-character SQLSTATE.
        case server(sqlState: String)
        /// The connection ended while it was in use. Whether an outstanding COMMIT took effect is unknown.
        case connectionLost
        /// A transaction is committed on its server, but the wait for a synchronous standby was cancelled. A failover
        /// may lose the transaction. The connection can still be used.
        case unreplicated
        /// No connection can be made at present.
        case unavailable
        /// The client's deadline or the server's `statement_timeout` passed, and the server has ended the statement.
        ///
        /// The database is available, but the statement took too long.
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
    /// The index of the failed statement in its pipeline.
    public let statementIndex: Int?
    /// Whether the session could still be used after the error.
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

    /// Whether the same transaction may succeed if it runs again, after a serialization failure, a deadlock or a lock
    /// time-out.
    public var isRetryable: Bool {
        switch sqlState {
        case "40001", "40P01", "55P03": true
        default: false
        }
    }

    /// Whether a statement took too long or waited too long for a lock, or the client took too long between two
    /// statements of a transaction (25P03).
    ///
    /// The database is available. The other statements of a group may succeed without this one.
    public var isTooLong: Bool { kind == .timedOut || sqlState == "55P03" || sqlState == "25P03" }

    /// Whether the database cannot be reached, or has no capacity at present. The caller should retry later.
    public var isUnavailable: Bool {
        switch kind {
        case .connectionLost, .unreplicated, .unavailable, .unresponsive, .poolExhausted: true
        // a pooler reports a lost server as a protocol violation and ends the session; PostgreSQL itself reports a
        // protocol violation for a single statement, and the session continues
        case .server(sqlState: "08P01") where leavesSession: false
        case .server(let sqlState):
            Self.unavailableStates.contains(sqlState) || Self.isOutage(sqlState) || message == Self.shutdownMessage
                || isOfReadOnlyServer
        case .timedOut, .cancelled, .decoding: false
        }
    }

    /// The SQLSTATEs of an ended session.
    ///
    /// Causes are an administrator, a crash, the deletion of the database, or the time-out of a session or of a
    /// transaction. The code for the time-out of an idle transaction is not included, because it shows only that this
    /// client was slow.
    private static let unavailableStates: Set = ["57P01", "57P02", "57P03", "57P04", "57P05", "25P04"]

    /// Whether the server cannot write at present, because it is a standby, or sessions are read-only by default.
    ///
    /// 25006 is PostgreSQL's code for a write in such a session, including LISTEN and row locks. On a standby, a few
    /// functions report 55000 or 0A000. Because these codes also have other meanings, the message is checked as well.
    public var isOfReadOnlyServer: Bool {
        switch kind {
        case .server(sqlState: "25006"): true
        case .server(sqlState: "55000"), .server(sqlState: "0A000"):
            message.contains("recovery") || message.contains("hot standby")
        // libpq's messages if the server does not fulfil target_session_attrs
        case .unavailable: message.contains("session is read-only") || message.contains("server is in hot standby mode")
        default: false
        }
    }

    /// Whether the server lacks a resource that writes need, such as disk space.
    ///
    /// True for the SQLSTATE classes 53 and 58, except for 53300 (too many connections) and 53400 (a limit that a
    /// single statement exceeds). A single write may still succeed, for example if it reuses space.
    public var isOfLackingResource: Bool {
        guard let sqlState, sqlState != "53300", sqlState != "53400" else { return false }
        return sqlState.hasPrefix("53") || sqlState.hasPrefix("58")
    }

    /// Whether the database refuses a statement for a reason that does not depend on the parameters. Reasons are
    /// missing privileges or objects (42501, 42P01, 42703, 42883) and damaged files (XX001, XX002).
    public var isOfDatabase: Bool {
        sqlState.map { Self.databaseStates.contains($0) } ?? false
    }

    private static let databaseStates: Set = ["42501", "42P01", "42703", "42883", "XX001", "XX002"]

    /// The message of a server in a Citus cluster that stops while its session waits for another server of the cluster.
    /// The SQLSTATE is XX000, an internal error.
    private static let shutdownMessage = "postmaster was shut down, exiting"

    /// Whether the SQLSTATE belongs to a class of outages: 08 (connection exceptions, which poolers and proxies
    /// report), 53 (insufficient resources) or 58 (errors of the operating system).
    private static func isOutage(_ sqlState: String) -> Bool {
        ["08", "53", "58"].contains { sqlState.hasPrefix($0) }
    }

    /// The message of the server or the connection, to be read by people.
    ///
    /// The message includes the error code, so that a reader can look up the error.
    public var userMessage: String {
        switch kind {
        case .server(let sqlState): message.isEmpty ? "SQLSTATE \(sqlState)" : "\(message) (SQLSTATE \(sqlState))"
        default: message.isEmpty ? "\(kind)" : message
        }
    }

    /// The kind, the statement and the message in one line, for logs.
    public var description: String {
        var text = "\(kind)"
        if let statement { text += " in \(statement)" }
        if let statementIndex { text += " (statement \(statementIndex))" }
        return message.isEmpty ? text : "\(text): \(message)"
    }
}
