/// The result of one statement, in PostgreSQL's binary format. It is immutable, and any thread may read it.
///
/// Rows and columns are counted from 0.
public struct Rows: Sendable {
    let handle: ResultHandle
    let statement: String

    public var count: Int { handle.rows }

    /// The number of rows that the server reported for an INSERT, UPDATE, DELETE or SELECT; 0 for other statements.
    public var affected: Int { handle.affected }

    /// Returns whether a cell is NULL. True for a cell that does not exist.
    public func isNull(_ row: Int, _ column: Int) -> Bool { !contains(row, column) || handle.cell(row, column) == nil }

    /// Reads a cell.
    ///
    /// Throws a `PostgresError` of kind `decoding` if the cell does not exist, if its type is not readable as `Value`,
    /// or if it is NULL and `Value` is not optional.
    @inlinable
    public func read<Value: PostgresDecodable>(
        _ row: Int,
        _ column: Int,
        as _: Value.Type = Value.self
    ) throws(PostgresError) -> Value {
        let (type, bytes) = try cell(row, column)
        guard Value.isReadable(from: type) else { throw mismatch(row, column, type, Value.self) }
        guard let bytes else {
            guard let null = Value.postgresNull else { throw error("unexpected NULL in (\(row), \(column))") }
            return null
        }
        guard let value = withExtendedLifetime(self, { Value(postgres: bytes, type: type) }) else {
            throw mismatch(row, column, type, Value.self)
        }
        return value
    }

    private func contains(_ row: Int, _ column: Int) -> Bool {
        row >= 0 && row < handle.rows && column >= 0 && column < handle.columns
    }

    /// Returns the OID of a cell's type, and the cell's bytes; nil for NULL. The bytes are valid as long as `handle`
    /// exists.
    @usableFromInline
    func cell(_ row: Int, _ column: Int) throws(PostgresError) -> (type: UInt32, bytes: UnsafeRawBufferPointer?) {
        guard contains(row, column) else {
            throw error("no cell (\(row), \(column)) in \(handle.rows) rows of \(handle.columns) columns")
        }
        return (handle.type(column), handle.cell(row, column))
    }

    /// A column's name in the statement's result; nil if there is no such column.
    @usableFromInline
    func name(_ column: Int) -> String? { handle.name(column) }

    @usableFromInline
    func hasColumn(_ column: Int, _ name: StaticString) -> Bool { handle.name(column) == name.description }

    @usableFromInline
    func mismatch(_ row: Int, _ column: Int, _ type: UInt32, _ wanted: Any.Type) -> PostgresError {
        error("(\(row), \(column)) of type \(type) is not readable as \(wanted)")
    }

    @usableFromInline
    func error(_ message: String) -> PostgresError { PostgresError(.decoding, message, statement: statement) }
}

extension Rows: RandomAccessCollection {
    public var startIndex: Int { 0 }
    public var endIndex: Int { count }
    /// A reader of a row, which starts at the first column.
    public subscript(row: Int) -> RowReader { RowReader(self, row) }
}

// MARK: - RowReader

/// Reads one row from its first column to its last.
///
/// The caller passes the name of each column in turn. Builds with assertions check the name, so that a test fails
/// immediately if the caller confuses two columns. All builds check types and NULLs.
public struct RowReader: Sendable {
    @usableFromInline let rows: Rows
    @usableFromInline let row: Int
    @usableFromInline var column = 0

    init(_ rows: Rows, _ row: Int) {
        self.rows = rows
        self.row = row
    }

    /// Reads the next column, as ``Rows/read(_:_:as:)`` does.
    @inlinable
    public mutating func read<Value: PostgresDecodable>(
        _ name: StaticString,
        as _: Value.Type = Value.self
    ) throws(PostgresError) -> Value {
        skip(name)
        return try rows.read(row, column - 1)
    }

    @inlinable
    public mutating func skip(_ name: StaticString) {
        assert(rows.hasColumn(column, name), "column \(column) is '\(rows.name(column) ?? "")', not '\(name)'")
        column += 1
    }

    public var isNextNull: Bool { rows.isNull(row, column) }
}
