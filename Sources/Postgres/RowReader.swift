package import FoundationEssentials

/// Reads one row from its first column to its last: whoever reads says which column comes next.
///
/// The name is checked in builds with assertions, so that a column which is taken for another fails a test at once.
/// Types and NULLs are checked in all builds, as ``Rows`` says.
package struct RowReader {
    private let rows: Rows
    private let row: Int
    private var column = 0

    init(_ rows: Rows, _ row: Int) {
        self.rows = rows
        self.row = row
    }

    /// The place of the next column.
    @inline(__always)
    private mutating func next(_ name: StaticString) -> Int {
        assert(rows.name(column) == name.description, "column \(column) is '\(rows.name(column) ?? "")', not '\(name)'")
        defer { column += 1 }
        return column
    }

    /// Passes over a column.
    package mutating func skip(_ name: StaticString) { _ = next(name) }

    /// Whether the next column is NULL.
    package var isNextNull: Bool { rows.isNull(row, column) }

    /// Reads a `uuid`.
    package mutating func uuid(_ name: StaticString) throws(PostgresError) -> UUID { try rows.uuid(row, next(name)) }

    /// Reads a `uuid`; nil for NULL.
    package mutating func optionalUUID(_ name: StaticString) throws(PostgresError) -> UUID? {
        try rows.optionalUUID(row, next(name))
    }

    /// Reads an `int8`, `int4`, `int2` or `oid`.
    package mutating func int64(_ name: StaticString) throws(PostgresError) -> Int64 { try rows.int64(row, next(name)) }

    /// Reads an `int8`, `int4`, `int2` or `oid`; nil for NULL.
    package mutating func optionalInt64(_ name: StaticString) throws(PostgresError) -> Int64? {
        try rows.optionalInt64(row, next(name))
    }

    /// Reads an `int4` or `int2`.
    package mutating func int32(_ name: StaticString) throws(PostgresError) -> Int32 { try rows.int32(row, next(name)) }

    /// Reads an `int4` or `int2`; nil for NULL.
    package mutating func optionalInt32(_ name: StaticString) throws(PostgresError) -> Int32? {
        try rows.optionalInt32(row, next(name))
    }

    /// Reads an `int2`.
    package mutating func int16(_ name: StaticString) throws(PostgresError) -> Int16 { try rows.int16(row, next(name)) }

    /// Reads an `int2`; nil for NULL.
    package mutating func optionalInt16(_ name: StaticString) throws(PostgresError) -> Int16? {
        try rows.optionalInt16(row, next(name))
    }

    /// Reads a `float8` or `float4`.
    package mutating func double(_ name: StaticString) throws(PostgresError) -> Double {
        try rows.double(row, next(name))
    }

    /// Reads a `float8` or `float4`; nil for NULL.
    package mutating func optionalDouble(_ name: StaticString) throws(PostgresError) -> Double? {
        try rows.optionalDouble(row, next(name))
    }

    /// Reads a `bool`.
    package mutating func bool(_ name: StaticString) throws(PostgresError) -> Bool { try rows.bool(row, next(name)) }

    /// Reads a `bool`; nil for NULL.
    package mutating func optionalBool(_ name: StaticString) throws(PostgresError) -> Bool? {
        try rows.optionalBool(row, next(name))
    }

    /// Reads a text, a `json`, a `jsonb` or the label of an enum.
    package mutating func string(_ name: StaticString) throws(PostgresError) -> String {
        try rows.string(row, next(name))
    }

    /// Reads a text, a `json`, a `jsonb` or the label of an enum; nil for NULL.
    package mutating func optionalString(_ name: StaticString) throws(PostgresError) -> String? {
        try rows.optionalString(row, next(name))
    }

    /// Reads the bytes of a `bytea`, text, `json`, `jsonb` (without its version byte) or enum label.
    package mutating func bytes(_ name: StaticString) throws(PostgresError) -> [UInt8] {
        try rows.bytes(row, next(name))
    }

    /// Reads the bytes of a `bytea`, text, `json`, `jsonb` (without its version byte) or enum label; nil for NULL.
    package mutating func optionalBytes(_ name: StaticString) throws(PostgresError) -> [UInt8]? {
        try rows.optionalBytes(row, next(name))
    }

    /// Reads a `timestamptz` in microseconds since the Unix epoch.
    package mutating func timestamp(_ name: StaticString) throws(PostgresError) -> Int64 {
        try rows.timestamp(row, next(name))
    }

    /// Reads a `timestamptz` in microseconds since the Unix epoch; nil for NULL.
    package mutating func optionalTimestamp(_ name: StaticString) throws(PostgresError) -> Int64? {
        try rows.optionalTimestamp(row, next(name))
    }

    /// Reads a `uuid[]` without NULLs.
    package mutating func uuids(_ name: StaticString) throws(PostgresError) -> [UUID] {
        try rows.uuids(row, next(name))
    }

    /// Reads a `uuid[]` without NULLs; nil for NULL.
    package mutating func optionalUUIDs(_ name: StaticString) throws(PostgresError) -> [UUID]? {
        try rows.optionalUUIDs(row, next(name))
    }

    /// Reads an `int8[]`, `int4[]` or `int2[]` without NULLs.
    package mutating func int64s(_ name: StaticString) throws(PostgresError) -> [Int64] {
        try rows.int64s(row, next(name))
    }

    /// Reads an `int8[]`, `int4[]` or `int2[]` without NULLs; nil for NULL.
    package mutating func optionalInt64s(_ name: StaticString) throws(PostgresError) -> [Int64]? {
        try rows.optionalInt64s(row, next(name))
    }

    /// Reads a `bool[]` without NULLs.
    package mutating func bools(_ name: StaticString) throws(PostgresError) -> [Bool] {
        try rows.bools(row, next(name))
    }

    /// Reads a `bool[]` without NULLs; nil for NULL.
    package mutating func optionalBools(_ name: StaticString) throws(PostgresError) -> [Bool]? {
        try rows.optionalBools(row, next(name))
    }

    /// Reads a `text[]` without NULLs.
    package mutating func strings(_ name: StaticString) throws(PostgresError) -> [String] {
        try rows.strings(row, next(name))
    }

    /// Reads a `text[]` without NULLs; nil for NULL.
    package mutating func optionalStrings(_ name: StaticString) throws(PostgresError) -> [String]? {
        try rows.optionalStrings(row, next(name))
    }
}

extension Rows: RandomAccessCollection {
    /// The first row.
    package var startIndex: Int { 0 }
    /// Behind the last row.
    package var endIndex: Int { count }
    /// A row, to be read from its first column on.
    package subscript(row: Int) -> RowReader { RowReader(self, row) }

    /// What a column is called in the statement's result; nil where there is none.
    func name(_ column: Int) -> String? { handle.name(column) }
}
