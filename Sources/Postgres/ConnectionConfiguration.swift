/// The connection parameters, and the settings of every connection.
public struct ConnectionConfiguration: Sendable {
    /// A libpq connection URI or keyword string. It may contain a password, so it must not be logged.
    public var uri: String
    /// The server to connect to in place of the server in the URI; nil for the server in the URI. If set, it must be a
    /// server of the dialect's kind.
    ///
    /// The database and the role are taken from the URI.
    public var server: ServerAddress?
    /// The application name in `pg_stat_activity`.
    public var applicationName: String
    /// The server settings, such as `("lock_timeout", "2s")`. A connection sets them once after connecting.
    public var settings: [(String, String)]
    /// The maximum time for connecting, including authentication. The time for name resolution is not limited.
    public var connectTimeout: Duration
    /// The server's `statement_timeout`, for each statement. The limit of a whole pipeline is longer by
    /// `Connection.timeoutMargin`. Zero or less means no limit.
    public var statementTimeout: Duration
    /// Whether the session belongs to this client alone, so that settings can be applied to it.
    ///
    /// Set it to false if a pooler may give the session to another client. In that case, run only statements without a
    /// name, because these leave nothing in the session.
    public var ownsSession = true
    /// Whether to refuse servers that cannot write, and to replace a session whose server can no longer write.
    ///
    /// If true, `target_session_attrs` is `read-write`, and a session is replaced if its server becomes read-only. A
    /// `target_session_attrs` in the URI or in `PGTARGETSESSIONATTRS` takes precedence.
    public var requiresWrites = true
    /// The adaptation of statements for servers of a special kind; nil if statements are never adapted.
    public var dialect: Dialect?
    /// A closure that is called on the connection's thread for each notice or warning. It must not block.
    public var onNotice: (@Sendable (String) -> Void)?
    /// A closure that is called on the connection's thread for each NOTIFY on a subscribed channel. It must not block.
    public var onNotification: (@Sendable (Notification) -> Void)?

    /// A NOTIFY from another session.
    public struct Notification: Sendable, Equatable {
        public let channel: String
        /// The payload; empty if the notification has no payload.
        public let payload: String
    }

    /// Whether a text is a libpq connection URI or keyword string that can be used.
    ///
    /// The result is false if the password contains special characters that are not percent-encoded. libpq would
    /// interpret a part of such a password as another part of the URI.
    public static func isURI(_ text: String) -> Bool { LibPQConnection.password(in: text) != nil }

    /// - Parameter connectTimeout: must be positive.
    public init(
        uri: String,
        applicationName: String = "sluice",
        settings: [(String, String)] = [],
        connectTimeout: Duration = .seconds(5),
        statementTimeout: Duration = .seconds(10),
        onNotice: (@Sendable (String) -> Void)? = nil,
        onNotification: (@Sendable (Notification) -> Void)? = nil
    ) {
        self.uri = uri
        self.applicationName = applicationName
        self.settings = settings
        self.connectTimeout = connectTimeout
        self.statementTimeout = statementTimeout
        self.onNotice = onNotice
        self.onNotification = onNotification
    }
}

/// The address of a server, as libpq's `host` and `port`.
public struct ServerAddress: Sendable, Hashable, CustomStringConvertible {
    public let host: String
    public let port: Int32
    /// The result of `Dialect.identity` on the server. A new connection compares this text with the result on the
    /// server that the connection has reached.
    ///
    /// The comparison is necessary because from this host the address may lead to a different server, especially if
    /// `host` is `localhost`.
    public let identity: String

    public init(host: String, port: Int32, identity: String) {
        self.host = host
        self.port = port
        self.identity = identity
    }

    /// `host:port`.
    public var description: String { "\(host):\(port)" }
}

/// The cancellation and the deadline of a job, each of which can end the job early.
struct Limits: Sendable {
    let deadline: ContinuousClock.Instant?
    let ticket: CancellationToken

    /// The reason to stop the job, if there is one.
    func interruption(at now: ContinuousClock.Instant) -> PostgresError.Kind? {
        if ticket.isCancelled { return .cancelled }
        if let deadline, deadline <= now { return .timedOut }
        return nil
    }
}
