/// The adaptation of statements for servers of another kind.
///
/// Each connection queries once whether its server is of that kind, in the round trip that applies the settings.
public struct Dialect: Sendable {
    /// A statement that returns one row with one boolean: whether the server is of this kind.
    public var detection: Statement
    /// A statement that returns one row with one text, which identifies the server among the servers of its kind.
    ///
    /// It runs after a connection to another server than the URI's, because the address may lead to a different server
    /// from this host (`ServerAddress.identity`).
    public var identity: Statement
    /// Settings that replace those of the configuration on a server of the kind.
    public var settings: [(String, String)]
    /// Returns the query that is sent to such a server in place of a given query.
    ///
    /// The result has another text for the same parameters, or is another query with the same result. A name always has
    /// the same text. Errors name the original statement. If the closure throws, the query is not sent, and fails
    /// without an effect.
    public var translation: @Sendable (Query) throws(PostgresError) -> Query
    /// The statements that guard a transaction on such a server.
    public var transactionGuard: TransactionGuard?
    /// Called on the connection's thread with each detection result. It must not block.
    public var onAnswer: @Sendable (Bool) -> Void

    /// The statements that guard a transaction on servers that may run it in two places.
    ///
    /// One follows `BEGIN`, and the other precedes `COMMIT`. Their results are not returned.
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
