public import FoundationEssentials

// One-dimensional arrays, for `unnest` and `= ANY`. Elements may be NULL where the element type is optional. Arrays and
// slices of bytes have separate overloads because the generic one is a good deal slower.
extension Parameters {
    public mutating func add(_ values: [UUID]) {
        addFixed(values, size: 16, element: OID.uuid, array: OID.uuidArray) { value, target in
            target.storeBytes(of: value.uuid, as: uuid_t.self)
        }
    }

    public mutating func add(_ values: [UUID?]) {
        addFixedOptional(values, size: 16, element: OID.uuid, array: OID.uuidArray) { value, target in
            target.storeBytes(of: value.uuid, as: uuid_t.self)
        }
    }

    public mutating func add(_ values: [Int64]) { addIntegers(values, element: OID.int8, array: OID.int8Array) }
    public mutating func add(_ values: [Int64?]) { addIntegers(values, element: OID.int8, array: OID.int8Array) }
    public mutating func add(_ values: [Int32]) { addIntegers(values, element: OID.int4, array: OID.int4Array) }
    public mutating func add(_ values: [Int32?]) { addIntegers(values, element: OID.int4, array: OID.int4Array) }
    public mutating func add(_ values: [Int16]) { addIntegers(values, element: OID.int2, array: OID.int2Array) }
    public mutating func add(_ values: [Int16?]) { addIntegers(values, element: OID.int2, array: OID.int2Array) }

    public mutating func add(_ values: [Bool]) {
        addFixed(values, size: 1, element: OID.bool, array: OID.boolArray) { value, target in
            target.storeBytes(of: value ? 1 : 0, as: UInt8.self)
        }
    }

    public mutating func add(_ values: [Bool?]) {
        addFixedOptional(values, size: 1, element: OID.bool, array: OID.boolArray) { value, target in
            target.storeBytes(of: value ? 1 : 0, as: UInt8.self)
        }
    }

    /// Microseconds since the Unix epoch.
    public mutating func add(timestamps values: [Int64]) {
        addFixed(values, size: 8, element: OID.timestamptz, array: OID.timestamptzArray) { value, target in
            target.storeBytes(of: TimestampEpoch.wire(fromUnix: value).bigEndian, as: Int64.self)
        }
    }

    public mutating func add(timestamps values: [Int64?]) {
        addFixedOptional(values, size: 8, element: OID.timestamptz, array: OID.timestamptzArray) { value, target in
            target.storeBytes(of: TimestampEpoch.wire(fromUnix: value).bigEndian, as: Int64.self)
        }
    }

    public mutating func add(_ values: [String]) {
        addVariable(values, element: OID.text, array: OID.textArray) {
            $0.utf8.count
        } copy: { value, target in
            var value = value
            value.withUTF8 { target.copyMemory(from: UnsafeRawBufferPointer($0)) }
        }
    }

    public mutating func add(_ values: [String?]) {
        addVariable(values, element: OID.text, array: OID.textArray) {
            $0?.utf8.count
        } copy: { value, target in
            guard var value else { return }
            value.withUTF8 { target.copyMemory(from: UnsafeRawBufferPointer($0)) }
        }
    }

    public mutating func add(byteas values: [[UInt8]?]) {
        addBytes(values, element: OID.bytea, array: OID.byteaArray)
    }

    /// UTF-8 texts, each stored as it is.
    public mutating func add(jsons values: [[UInt8]?]) {
        addBytes(values, element: OID.json, array: OID.jsonArray)
    }

    public mutating func add(jsons values: [ArraySlice<UInt8>?]) {
        addBytes(values, element: OID.json, array: OID.jsonArray)
    }
}
