public import FoundationEssentials

/// The result of one statement, in PostgreSQL's binary format. Immutable; any thread may read it.
///
/// Rows and columns are counted from 0. A getter throws `PostgresError` of kind `decoding` where the cell does not
/// exist, is NULL (use the `optional…` twin), or has another type than the one asked for. Types are never converted,
/// except that a narrower integer may be read as a wider one.
public struct Rows: Sendable {
    let handle: ResultHandle
    let statement: String

    public var count: Int { handle.rows }

    /// The rows that an INSERT, UPDATE, DELETE or SELECT counted.
    ///
    /// 0 for other statements.
    public var affected: Int { handle.affected }

    /// Whether a cell is NULL. A cell that does not exist counts as NULL.
    public func isNull(_ row: Int, _ column: Int) -> Bool {
        guard contains(row, column) else { return true }
        return handle.cell(row, column) == nil
    }

    public func uuid(_ row: Int, _ column: Int) throws(PostgresError) -> UUID {
        try required(optionalUUID(row, column), row, column)
    }

    public func optionalUUID(_ row: Int, _ column: Int) throws(PostgresError) -> UUID? {
        guard let bytes = try cell(row, column, "uuid", where: { $0 == OID.uuid }) else { return nil }
        guard let value = Wire.uuid(bytes) else { throw mismatch(row, column, "uuid") }
        return value
    }

    /// Reads an `int8`, `int4`, `int2` or `oid`.
    public func int64(_ row: Int, _ column: Int) throws(PostgresError) -> Int64 {
        try required(optionalInt64(row, column), row, column)
    }

    public func optionalInt64(_ row: Int, _ column: Int) throws(PostgresError) -> Int64? {
        let type = try columnType(row, column)
        guard let bytes = handle.cell(row, column) else {
            guard Wire.integerSize(type) != nil else { throw mismatch(row, column, "integer") }
            return nil
        }
        guard let value = Wire.integer(bytes, type: type) else { throw mismatch(row, column, "integer") }
        return value
    }

    /// Reads an `int4` or `int2`.
    public func int32(_ row: Int, _ column: Int) throws(PostgresError) -> Int32 {
        try required(optionalInt32(row, column), row, column)
    }

    public func optionalInt32(_ row: Int, _ column: Int) throws(PostgresError) -> Int32? {
        guard try cell(row, column, "int4", where: { $0 == OID.int4 || $0 == OID.int2 }) != nil else { return nil }
        return try optionalInt64(row, column).map { Int32(truncatingIfNeeded: $0) }
    }

    /// Reads an `int2`.
    public func int16(_ row: Int, _ column: Int) throws(PostgresError) -> Int16 {
        try required(optionalInt16(row, column), row, column)
    }

    public func optionalInt16(_ row: Int, _ column: Int) throws(PostgresError) -> Int16? {
        guard try cell(row, column, "int2", where: { $0 == OID.int2 }) != nil else { return nil }
        return try optionalInt64(row, column).map { Int16(truncatingIfNeeded: $0) }
    }

    /// Reads a `float8` or `float4`.
    public func double(_ row: Int, _ column: Int) throws(PostgresError) -> Double {
        try required(optionalDouble(row, column), row, column)
    }

    public func optionalDouble(_ row: Int, _ column: Int) throws(PostgresError) -> Double? {
        guard let bytes = try cell(row, column, "float8", where: { $0 == OID.float8 || $0 == OID.float4 }) else {
            return nil
        }
        if let bits = Wire.load(bytes, as: UInt64.self) { return Double(bitPattern: bits) }
        if let bits = Wire.load(bytes, as: UInt32.self) { return Double(Float(bitPattern: bits)) }
        throw mismatch(row, column, "float8")
    }

    public func bool(_ row: Int, _ column: Int) throws(PostgresError) -> Bool {
        try required(optionalBool(row, column), row, column)
    }

    public func optionalBool(_ row: Int, _ column: Int) throws(PostgresError) -> Bool? {
        guard let bytes = try cell(row, column, "bool", where: { $0 == OID.bool }) else { return nil }
        guard let value = Wire.load(bytes, as: UInt8.self) else { throw mismatch(row, column, "bool") }
        return value != 0
    }

    /// Reads a `timestamptz` or `timestamp` in microseconds since the Unix epoch.
    ///
    /// A `timestamp` is taken as UTC.
    public func timestamp(_ row: Int, _ column: Int) throws(PostgresError) -> Int64 {
        try required(optionalTimestamp(row, column), row, column)
    }

    public func optionalTimestamp(_ row: Int, _ column: Int) throws(PostgresError) -> Int64? {
        let accepted = { (type: UInt32) in type == OID.timestamptz || type == OID.timestamp }
        guard let bytes = try cell(row, column, "timestamptz", where: accepted) else { return nil }
        guard let value = Wire.load(bytes, as: Int64.self) else { throw mismatch(row, column, "timestamptz") }
        return TimestampEpoch.unix(fromWire: value)
    }
}

extension Rows {
    func contains(_ row: Int, _ column: Int) -> Bool {
        row >= 0 && row < handle.rows && column >= 0 && column < handle.columns
    }

    func columnType(_ row: Int, _ column: Int) throws(PostgresError) -> UInt32 {
        guard contains(row, column) else {
            throw error("no cell (\(row), \(column)) in \(handle.rows) rows of \(handle.columns) columns")
        }
        return handle.type(column)
    }

    /// The bytes of a cell whose type is accepted; `nil` for NULL.
    ///
    /// They live as long as `handle`.
    @inline(__always)
    func cell(
        _ row: Int,
        _ column: Int,
        _ wanted: StaticString,
        where accepts: (UInt32) -> Bool
    ) throws(PostgresError) -> UnsafeRawBufferPointer? {
        guard accepts(try columnType(row, column)) else { throw mismatch(row, column, wanted) }
        return handle.cell(row, column)
    }

    @inline(__always)
    func required<Value>(_ value: Value?, _ row: Int, _ column: Int) throws(PostgresError) -> Value {
        guard let value else { throw error("unexpected NULL in (\(row), \(column))") }
        return value
    }

    func mismatch(_ row: Int, _ column: Int, _ wanted: StaticString) -> PostgresError {
        error("(\(row), \(column)) of type \(handle.type(column)) is not readable as \(wanted)")
    }

    private func error(_ message: String) -> PostgresError {
        PostgresError(.decoding, message, statement: statement)
    }
}
