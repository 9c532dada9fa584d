/// The adaptation of statements for servers of a special kind, such as the servers of a Citus cluster.
///
/// Each connection queries once whether its server is of that kind, in the round trip that applies the settings.
public struct Dialect: Sendable {
    /// A statement that returns one row with one boolean, which is true if the server is of this kind.
    public var detection: Statement
    /// A statement that returns one row with one text, which identifies the server among the servers of its kind.
    ///
    /// After a connection to ``ConnectionConfiguration/server``, the result is compared with
    /// ``ServerAddress/identity``, because from this host the address may lead to a different server.
    public var identity: Statement
    /// Settings for servers of this kind, which replace settings of the configuration.
    public var settings: [(String, String)]
    /// Returns the query that is sent to such a server in place of a given query.
    ///
    /// The returned query has the same parameters and another text, or is another query with the same result. The
    /// closure must return the same text for every query with the same statement name. Errors contain the name of the
    /// original statement. If the closure throws, the query fails and is not sent.
    public var translation: @Sendable (Query) throws(PostgresError) -> Query
    /// The statements that guard a transaction on such a server.
    public var transactionGuard: TransactionGuard?
    /// A closure that is called on the connection's thread with each detection result. It must not block.
    public var onAnswer: @Sendable (Bool) -> Void

    /// The statements that make a transaction fail if a certain state has changed since the transaction began.
    ///
    /// On a Citus cluster, the state is the assignment of shards to servers. ``before`` runs after `BEGIN`, and
    /// ``verify`` runs before `COMMIT`. The caller does not receive their results.
    public struct TransactionGuard: Sendable {
        /// Records the present state.
        public var before: Statement
        /// Divides by zero if the state has changed.
        ///
        /// The caller then gets a serialization failure (40001).
        public var verify: Statement

        public init(before: Statement, verify: Statement) {
            self.before = before
            self.verify = verify
        }
    }

    public init(
        detection: Statement,
        identity: Statement,
        settings: [(String, String)],
        translation: @escaping @Sendable (Query) throws(PostgresError) -> Query,
        transactionGuard: TransactionGuard? = nil,
        onAnswer: @escaping @Sendable (Bool) -> Void = { _ in }
    ) {
        self.detection = detection
        self.identity = identity
        self.settings = settings
        self.translation = translation
        self.transactionGuard = transactionGuard
        self.onAnswer = onAnswer
    }
}
