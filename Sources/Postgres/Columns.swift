/// The rows that a statement takes as input, column by column.
///
/// Each column's name, type and value are declared once, in this list. The SQL and the parameters for a statement's
/// input are generated from the list.
///
/// ```swift
/// private static let columns = Columns<Device>(
///     .value("id", \.id),
///     .value("accepted_sequence", \.acceptedSequence)
/// )
/// static let write = Statement(
///     "write_devices",
///     columns.inputs + ["now"],
///     """
///     INSERT INTO devices (\(columns.names), seen_at)
///     SELECT \(columns.names(of: "k")), :now
///     FROM \(columns.unnested(as: "k"))
///     """
/// )
/// ```
///
/// The values of a column are sent as one array, so that no value is boxed, regardless of the number of rows.
public struct Columns<Row>: Sendable {
    private struct Column: Sendable {
        let name: String
        let type: String
        let add: @Sendable ([Row], inout Parameters) -> Void
        let areNull: @Sendable ([Row]) -> Bool
    }

    private let columns: [Column]
    private var prefix = ""

    /// Combines the columns of all parts in this order. These columns are the first parameters of a statement.
    public init(_ parts: Columns<Row>...) {
        columns = parts.flatMap(\.columns)
    }

    @usableFromInline
    init(
        _ name: String,
        _ type: String,
        areNull: @escaping @Sendable ([Row]) -> Bool,
        _ add: @escaping @Sendable ([Row], inout Parameters) -> Void
    ) {
        columns = [Column(name: name, type: type, add: add, areNull: areNull)]
    }

    /// Whether all columns are NULL in all rows.
    ///
    /// If so, a statement can omit the columns.
    public func areNull(_ rows: [Row]) -> Bool { columns.allSatisfy { $0.areNull(rows) } }

    /// `a, b, c`
    public var names: String { columns.map(\.name).joined(separator: ", ") }

    /// `k.a, k.b, k.c`
    ///
    /// - Parameter others: expressions that replace some columns.
    public func names(of table: String, except others: [String: String] = [:]) -> String {
        columns.map { others[$0.name] ?? "\(table).\($0.name)" }.joined(separator: ", ")
    }

    /// The assignments of an upsert, except to the columns with the given names: `a = excluded.a, b = excluded.b`.
    public func overwritten(except keys: Set<String>) -> String {
        columns.map(\.name).filter { !keys.contains($0) }.map { "\($0) = excluded.\($0)" }.joined(separator: ", ")
    }

    /// The assignments of an update: `a = k.a, b = k.b`.
    public func assigned(from table: String) -> String {
        columns.map { "\($0.name) = \(table).\($0.name)" }.joined(separator: ", ")
    }

    /// The assignments of an update if all columns are NULL in all rows: `a = NULL, b = NULL`.
    public var cleared: String { columns.map { "\($0.name) = NULL" }.joined(separator: ", ") }

    /// The names of the parameters for the rows. Each parameter is the array of a column's values.
    public var inputs: [String] { columns.map { prefix + $0.name } }

    /// Returns the columns with a prefix in the names of their parameters, for a statement with several kinds of rows.
    public func inputs(prefixed prefix: String) -> Self {
        var copy = self
        copy.prefix = prefix
        return copy
    }

    /// The rows as a table: `unnest(:a::uuid[], :b::text[]) AS k (a, b)`.
    public func unnested(as table: String) -> String {
        let arrays = columns.map { ":\(prefix)\($0.name)::\($0.type)[]" }.joined(separator: ", ")
        return "unnest(\(arrays)) AS \(table) (\(names))"
    }

    public func parameters(_ rows: [Row]) -> Parameters {
        var parameters = Parameters()
        add(rows, to: &parameters)
        return parameters
    }

    /// Adds the values of rows after other parameters.
    public func add(_ rows: [Row], to parameters: inout Parameters) {
        for column in columns { column.add(rows, &parameters) }
    }
}

// These methods are inlined, so that the value closure is compiled into the loop over the rows.
extension Columns {
    /// A column that is sent as the type of `Value`. The closure returns the value of a row.
    @inlinable
    public static func value<Value: PostgresEncodable>(
        _ name: String,
        _ value: @escaping @Sendable (Row) -> Value
    ) -> Self {
        Self(name, Value.postgresType.name.description, areNull: { $0.allSatisfy { value($0).postgresSize == nil } }) {
            $1.add($0.map(value))
        }
    }

    /// A column of UTF-8 text, which is stored unchanged.
    @inlinable
    public static func json<Text: Collection<UInt8> & SendableMetatype>(
        _ name: String,
        _ text: @escaping @Sendable (Row) -> Text?
    ) -> Self {
        .value(name) { PostgresJSON(text($0)) }
    }

    @inlinable public static func bytes(_ name: String, _ bytes: @escaping @Sendable (Row) -> [UInt8]?) -> Self {
        .value(name) { PostgresBytes(bytes($0)) }
    }
}
