/// A statement with the parameters of one execution.
public struct Query: Sendable {
    public let statement: Statement
    /// The values for `$1`, `$2`, ….
    public let parameters: Parameters
    /// Whether each array among the parameters has a single element, because the query is for one row. A ``Dialect``
    /// can use this.
    public var isOfOneRow = false
    /// Returns another query with the same result, which a ``Dialect`` may send instead of this query. The closure is
    /// called only in that case.
    public var alternative: (@Sendable () -> Query)?

    /// Creates a query with values in the order of the statement's parameters.
    public init(_ statement: Statement, _ parameters: Parameters = .init()) {
        assert(
            statement.parameters.isEmpty || statement.parameters.count == parameters.count,
            "statement '\(statement.name)' has parameters \(statement.parameters), not \(parameters.count) values"
        )
        self.statement = statement
        self.parameters = parameters
    }

    /// `BEGIN`, with the isolation level of the connection's settings.
    public static let begin = Query(Statement("postgres_begin", "BEGIN"))
    /// Begins a read-only transaction without locks. All its statements read the database as of the same moment.
    public static let beginReading = Query(
        Statement("postgres_begin_reading", "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
    )
    /// `COMMIT`. If the transaction has already failed, running this query throws 25P02, whereas plain SQL would roll
    /// back silently.
    public static let commit = Query(Statement("postgres_commit", "COMMIT"))
    public static let rollback = Query(Statement("postgres_rollback", "ROLLBACK"))
}

/// The text of a statement. Each connection prepares the statement at its first use.
///
/// ```swift
/// static let waiters = Statement(
///     "settle_waiters",
///     ["organization", "user", "blocker"],
///     """
///     SELECT m.id FROM mutations m
///     WHERE m.organization_id = :organization AND m.user_id = :user AND m.blocked_on = :blocker
///     """
/// )
/// let query = waiters(organization: lane.organization, user: lane.user, blocker: id)
/// ```
@dynamicCallable
public struct Statement: Sendable, Hashable {
    /// The name of the prepared statement, unique in the process.
    ///
    /// Two statements with different texts must not have the same name. A statement without a name is prepared for each
    /// execution.
    public let name: String
    /// The names of `$1`, `$2`, …; empty for a text with numbered parameters.
    public let parameters: [String]
    /// One SQL statement with `$1`, `$2`, … for its parameters.
    public let sql: String
    /// An alternative text, for a ``Dialect`` that cannot adapt ``sql``.
    ///
    /// The alternative text has the same parameters and the same result.
    public let variant: String?

    /// Creates a statement without parameters, or with numbered parameters.
    ///
    /// - Parameter name: a name that no other statement in the process has.
    public init(_ name: String, _ sql: String, variant: String? = nil) {
        self.name = name
        parameters = []
        self.sql = sql
        self.variant = variant
    }

    /// Creates a statement whose text names its parameters: `:organization` is the parameter `organization`.
    ///
    /// Names consist of lower-case letters, digits and underscores. `::` is a cast. It is a programming error if the
    /// text names a parameter that is not listed, or if a listed parameter is not in the text.
    ///
    /// - Parameter parameters: the names, in the order in which their values are bound.
    public init(_ name: String, _ parameters: [String], _ sql: String, variant: String? = nil) {
        let (text, missing) = Self.numbered(sql, parameters, of: name)
        precondition(missing.isEmpty, "statement '\(name)' has no parameter :\(missing.joined(separator: ", :"))")
        self.name = name
        self.parameters = parameters
        self.sql = text
        self.variant = variant.map { Self.numbered($0, parameters, of: name).text }
    }

    /// Returns the query with a value for each parameter, in the order of the list.
    ///
    /// It is a programming error if the names of the values differ from the names of the parameters.
    public func dynamicallyCall(withKeywordArguments values: KeyValuePairs<String, any PostgresEncodable>) -> Query {
        let isBound = values.count == parameters.count && zip(values, parameters).allSatisfy { $0.key == $1 }
        precondition(isBound, "statement '\(name)' has parameters \(parameters), and not \(values.map(\.key))")
        var bound = Parameters()
        for (_, value) in values { bound.add(value) }
        return Query(self, bound)
    }

    /// Replaces `:name` by the number of the parameter, and returns the parameters that the text does not name.
    private static func numbered(
        _ text: String,
        _ parameters: [String],
        of statement: String
    ) -> (text: String, missing: [String]) {
        let bytes = Array(text.utf8)
        var (result, missing) = ([UInt8](), parameters)
        var place = 0
        while place < bytes.count {
            let start = place + 1
            let isName = bytes[place] == UInt8(ascii: ":") && (place == 0 || bytes[place - 1] != UInt8(ascii: ":"))
            guard isName, start < bytes.count, isLetter(bytes[start]) else {
                result.append(bytes[place])
                place = start
                continue
            }
            place = bytes[start...].firstIndex { !isLetter($0) && !isDigit($0) } ?? bytes.count
            let name = String(decoding: bytes[start..<place], as: UTF8.self)
            guard let index = parameters.firstIndex(where: { $0 == name }) else {
                preconditionFailure("the text of statement '\(statement)' has the unlisted parameter :\(name)")
            }
            result.append(contentsOf: "$\(index + 1)".utf8)
            missing.removeAll { $0 == name }
        }
        return (String(decoding: result, as: UTF8.self), missing)
    }

    private static func isLetter(_ byte: UInt8) -> Bool {
        (UInt8(ascii: "a")...UInt8(ascii: "z")).contains(byte) || byte == UInt8(ascii: "_")
    }

    private static func isDigit(_ byte: UInt8) -> Bool {
        (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte)
    }
}
