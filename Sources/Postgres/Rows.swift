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

// Values of any length.
extension Rows {
    /// Reads a text, a `json`, a `jsonb` or the label of an enum.
    public func string(_ row: Int, _ column: Int) throws(PostgresError) -> String {
        try required(optionalString(row, column), row, column)
    }

    public func optionalString(_ row: Int, _ column: Int) throws(PostgresError) -> String? {
        let accepted = { (type: UInt32) in Wire.isText(type) || type == OID.jsonb }
        guard let bytes = try content(row, column, "text", where: accepted) else { return nil }
        // The server has validated the encoding; connections are always UTF-8.
        return withExtendedLifetime(handle) { String(decoding: bytes, as: UTF8.self) }
    }

    /// Reads the bytes of a `bytea`, text, `json`, `jsonb` or enum label.
    ///
    /// The version byte of a `jsonb` is left out.
    public func bytes(_ row: Int, _ column: Int) throws(PostgresError) -> [UInt8] {
        try required(optionalBytes(row, column), row, column)
    }

    public func optionalBytes(_ row: Int, _ column: Int) throws(PostgresError) -> [UInt8]? {
        guard let bytes = try content(row, column, "bytea", where: Rows.isBytes) else { return nil }
        return withExtendedLifetime(handle) { Array(bytes) }
    }

    private static func isBytes(_ type: UInt32) -> Bool {
        type == OID.bytea || type == OID.jsonb || Wire.isText(type)
    }

    /// A cell without the version byte of a `jsonb`.
    private func content(
        _ row: Int,
        _ column: Int,
        _ wanted: StaticString,
        where accepts: (UInt32) -> Bool
    ) throws(PostgresError) -> UnsafeRawBufferPointer? {
        guard let bytes = try cell(row, column, wanted, where: accepts) else { return nil }
        guard handle.type(column) == OID.jsonb else { return bytes }
        guard bytes.first == 1 else { throw mismatch(row, column, "jsonb version 1") }
        return UnsafeRawBufferPointer(rebasing: bytes.dropFirst())
    }
}

// One-dimensional arrays without NULL elements; anything else throws `decoding`.
extension Rows {
    /// Reads a `uuid[]`.
    public func uuids(_ row: Int, _ column: Int) throws(PostgresError) -> [UUID] {
        try required(optionalUUIDs(row, column), row, column)
    }

    public func optionalUUIDs(_ row: Int, _ column: Int) throws(PostgresError) -> [UUID]? {
        try array(row, column, "uuid[]", where: { $0 == OID.uuid }) { bytes, _ in Wire.uuid(bytes) }
    }

    /// Reads an `int8[]`, `int4[]` or `int2[]`.
    public func int64s(_ row: Int, _ column: Int) throws(PostgresError) -> [Int64] {
        try required(optionalInt64s(row, column), row, column)
    }

    public func optionalInt64s(_ row: Int, _ column: Int) throws(PostgresError) -> [Int64]? {
        try array(row, column, "int8[]", where: { Wire.integerSize($0) != nil }) { bytes, type in
            Wire.integer(bytes, type: type)
        }
    }

    /// Reads a `bool[]`.
    public func bools(_ row: Int, _ column: Int) throws(PostgresError) -> [Bool] {
        try required(optionalBools(row, column), row, column)
    }

    public func optionalBools(_ row: Int, _ column: Int) throws(PostgresError) -> [Bool]? {
        try array(row, column, "bool[]", where: { $0 == OID.bool }) { bytes, _ in
            Wire.load(bytes, as: UInt8.self).map { $0 != 0 }
        }
    }

    /// Reads a `text[]`, or an array of another type whose binary form is text.
    public func strings(_ row: Int, _ column: Int) throws(PostgresError) -> [String] {
        try required(optionalStrings(row, column), row, column)
    }

    public func optionalStrings(_ row: Int, _ column: Int) throws(PostgresError) -> [String]? {
        try array(row, column, "text[]", where: Wire.isText) { bytes, _ in String(decoding: bytes, as: UTF8.self) }
    }

    private static let arrayTypes: Set<UInt32> = [
        OID.boolArray, OID.int2Array, OID.int4Array, OID.int8Array, OID.textArray, OID.uuidArray, 1003, 1015,
    ]

    private func array<Element>(
        _ row: Int,
        _ column: Int,
        _ wanted: StaticString,
        where accepts: (UInt32) -> Bool,
        element: (UnsafeRawBufferPointer, UInt32) -> Element?
    ) throws(PostgresError) -> [Element]? {
        let isArray = { (type: UInt32) in Self.arrayTypes.contains(type) || type >= OID.firstUserDefined }
        guard let bytes = try cell(row, column, wanted, where: isArray) else { return nil }
        let elements: [Element]? = withExtendedLifetime(handle) {
            guard var reader = ArrayReader(bytes), reader.count == 0 || accepts(reader.elementType) else { return nil }
            var elements: [Element] = []
            elements.reserveCapacity(reader.count)
            for _ in 0..<reader.count {
                guard let bytes = reader.next(), let value = element(bytes, reader.elementType) else { return nil }
                elements.append(value)
            }
            return elements
        }
        guard let elements else { throw mismatch(row, column, wanted) }
        return elements
    }
}

// MARK: - ArrayReader

/// Walks the binary form of an array without reading past its end.
///
/// The array has at most one dimension.
struct ArrayReader {
    let elementType: UInt32
    let count: Int
    private var rest: UnsafeRawBufferPointer

    /// `nil` where the bytes are no such array.
    init?(_ bytes: UnsafeRawBufferPointer) {
        rest = bytes
        guard let dimensions = Self.integer(&rest), Self.integer(&rest) != nil, let type = Self.integer(&rest) else {
            return nil
        }
        elementType = UInt32(bitPattern: type)
        if dimensions == 0 {
            count = 0
            return
        }
        guard dimensions == 1, let length = Self.integer(&rest), Self.integer(&rest) != nil else { return nil }
        // Each element takes at least the four bytes of its length.
        guard length >= 0, Int(length) <= rest.count / 4 else { return nil }
        count = Int(length)
    }

    /// The next element's bytes; `nil` for NULL, and where the array is cut short.
    mutating func next() -> UnsafeRawBufferPointer? {
        guard let length = Self.integer(&rest), length >= 0, Int(length) <= rest.count else { return nil }
        let element = UnsafeRawBufferPointer(rebasing: rest.prefix(Int(length)))
        rest = UnsafeRawBufferPointer(rebasing: rest.dropFirst(Int(length)))
        return element
    }

    private static func integer(_ bytes: inout UnsafeRawBufferPointer) -> Int32? {
        guard bytes.count >= 4 else { return nil }
        let value = Int32(bigEndian: bytes.loadUnaligned(as: Int32.self))
        bytes = UnsafeRawBufferPointer(rebasing: bytes.dropFirst(4))
        return value
    }
}
