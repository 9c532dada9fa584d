/// A statement with the parameters of one execution.
public struct Query: Sendable {
    public let statement: Statement
    /// The values for `$1`, `$2`, ….
    public let parameters: Parameters
    /// Whether the arrays among them, which are the columns of rows, hold one row each. A ``Dialect`` may make use of it.
    public var isOfOneRow = false
    /// A query with the same result, which a ``Dialect`` may send instead.
    ///
    /// It is only made where it is sent.
    public var alternative: (@Sendable () -> Query)?

    /// A query with values in the order of the statement's parameters.
    public init(_ statement: Statement, _ parameters: Parameters = .init()) {
        assert(
            statement.parameters.isEmpty || statement.parameters.count == parameters.count,
            "statement '\(statement.name)' has parameters \(statement.parameters), not \(parameters.count) values"
        )
        self.statement = statement
        self.parameters = parameters
    }

    /// `BEGIN`, at the isolation level the connection is set to.
    public static let begin = Query(Statement("postgres_begin", "BEGIN"))
    /// Begins a read-only transaction that may take no locks.
    ///
    /// All its statements see the database as of one moment.
    public static let beginReading = Query(
        Statement("postgres_begin_reading", "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
    )
    /// `COMMIT`. A transaction that had already failed makes it throw 25P02, where plain SQL would silently roll back.
    public static let commit = Query(Statement("postgres_commit", "COMMIT"))
    public static let rollback = Query(Statement("postgres_rollback", "ROLLBACK"))
}
