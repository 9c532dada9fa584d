public import FoundationEssentials

/// Reads one row from its first column to its last.
///
/// The caller names each column in turn.
///
/// The name is checked in builds with assertions, so that a column which is taken for another fails a test at once.
/// Types and NULLs are checked in all builds: each method reads what the getter of ``Rows`` of its name does,
/// `optional…` NULL too.
public struct RowReader: Sendable {
    private let rows: Rows
    private let row: Int
    private var column = 0

    init(_ rows: Rows, _ row: Int) {
        self.rows = rows
        self.row = row
    }

    @inline(__always)
    private mutating func next(_ name: StaticString) -> Int {
        assert(rows.name(column) == name.description, "column \(column) is '\(rows.name(column) ?? "")', not '\(name)'")
        defer { column += 1 }
        return column
    }

    public mutating func skip(_ name: StaticString) { _ = next(name) }

    public var isNextNull: Bool { rows.isNull(row, column) }

    public mutating func uuid(_ name: StaticString) throws(PostgresError) -> UUID { try rows.uuid(row, next(name)) }
    public mutating func optionalUUID(_ name: StaticString) throws(PostgresError) -> UUID? {
        try rows.optionalUUID(row, next(name))
    }

    public mutating func int64(_ name: StaticString) throws(PostgresError) -> Int64 { try rows.int64(row, next(name)) }
    public mutating func optionalInt64(_ name: StaticString) throws(PostgresError) -> Int64? {
        try rows.optionalInt64(row, next(name))
    }

    public mutating func int32(_ name: StaticString) throws(PostgresError) -> Int32 { try rows.int32(row, next(name)) }
    public mutating func optionalInt32(_ name: StaticString) throws(PostgresError) -> Int32? {
        try rows.optionalInt32(row, next(name))
    }

    public mutating func int16(_ name: StaticString) throws(PostgresError) -> Int16 { try rows.int16(row, next(name)) }
    public mutating func optionalInt16(_ name: StaticString) throws(PostgresError) -> Int16? {
        try rows.optionalInt16(row, next(name))
    }

    public mutating func bool(_ name: StaticString) throws(PostgresError) -> Bool { try rows.bool(row, next(name)) }
    public mutating func string(_ name: StaticString) throws(PostgresError) -> String {
        try rows.string(row, next(name))
    }
    public mutating func optionalString(_ name: StaticString) throws(PostgresError) -> String? {
        try rows.optionalString(row, next(name))
    }

    public mutating func bytes(_ name: StaticString) throws(PostgresError) -> [UInt8] {
        try rows.bytes(row, next(name))
    }
    public mutating func optionalBytes(_ name: StaticString) throws(PostgresError) -> [UInt8]? {
        try rows.optionalBytes(row, next(name))
    }

    public mutating func timestamp(_ name: StaticString) throws(PostgresError) -> Int64 {
        try rows.timestamp(row, next(name))
    }
    public mutating func optionalTimestamp(_ name: StaticString) throws(PostgresError) -> Int64? {
        try rows.optionalTimestamp(row, next(name))
    }

    public mutating func uuids(_ name: StaticString) throws(PostgresError) -> [UUID] {
        try rows.uuids(row, next(name))
    }
    public mutating func optionalUUIDs(_ name: StaticString) throws(PostgresError) -> [UUID]? {
        try rows.optionalUUIDs(row, next(name))
    }

    public mutating func int64s(_ name: StaticString) throws(PostgresError) -> [Int64] {
        try rows.int64s(row, next(name))
    }
    public mutating func optionalInt64s(_ name: StaticString) throws(PostgresError) -> [Int64]? {
        try rows.optionalInt64s(row, next(name))
    }

    public mutating func bools(_ name: StaticString) throws(PostgresError) -> [Bool] {
        try rows.bools(row, next(name))
    }
    public mutating func optionalBools(_ name: StaticString) throws(PostgresError) -> [Bool]? {
        try rows.optionalBools(row, next(name))
    }

    public mutating func strings(_ name: StaticString) throws(PostgresError) -> [String] {
        try rows.strings(row, next(name))
    }
    public mutating func optionalStrings(_ name: StaticString) throws(PostgresError) -> [String]? {
        try rows.optionalStrings(row, next(name))
    }
}

extension Rows: RandomAccessCollection {
    public var startIndex: Int { 0 }
    public var endIndex: Int { count }
    /// A row, to be read from its first column on.
    public subscript(row: Int) -> RowReader { RowReader(self, row) }

    /// A column's name in the statement's result; nil where there is no such column.
    func name(_ column: Int) -> String? { handle.name(column) }
}
