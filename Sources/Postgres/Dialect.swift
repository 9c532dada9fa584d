/// How statements are sent to servers of another kind.
///
/// Each connection asks its server once whether it is of that kind, in the round trip that applies the settings.
public struct Dialect: Sendable {
    /// Answers one row with one boolean: whether the server is of the kind.
    public var detection: Statement
    /// Returns one row with one text, which identifies the server among its kind.
    ///
    /// Asked where another server than the URI's is connected to, whose name may refer to another server from here; see
    /// `ServerAddress.identity`.
    public var identity: Statement
    /// Settings that a server of the kind needs in place of the configuration's.
    public var settings: [(String, String)]
    /// The query that is sent there in place of a query.
    ///
    /// It is another text for the same parameters, or another query with the same result. Under one name it is always
    /// the same text. Errors name the original statement. A query that it refuses is not sent, and fails with nothing
    /// done.
    public var translation: @Sendable (Query) throws(PostgresError) -> Query
    /// The statements around a transaction there.
    public var transactionGuard: TransactionGuard?
    /// Called on the connection's thread with each answer. It must not block.
    public var onAnswer: @Sendable (Bool) -> Void

    /// Two statements around a transaction, for servers that may run it in two places.
    ///
    /// One follows `BEGIN`, and the other precedes `COMMIT`. Their results are not returned.
    public struct TransactionGuard: Sendable {
        /// Records the present state.
        public var before: Statement
        /// Divides by zero where they have changed.
        ///
        /// The committing caller then gets a serialization failure (40001).
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
