public import FoundationEssentials

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
