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

// The binary form of an array: dimensions, a flag for NULLs, the element type; for each dimension its length and lower
// bound; then each element's length (-1 for NULL) and bytes. All numbers are big-endian.
extension Parameters {
    private mutating func append<Value: FixedWidthInteger>(_ value: Value) {
        withUnsafeBytes(of: value.bigEndian) { buffer.append(contentsOf: $0) }
    }

    private mutating func appendHeader(count: Int, hasNulls: Bool, element: UInt32) {
        append(Int32(count == 0 ? 0 : 1))
        append(Int32(hasNulls ? 1 : 0))
        append(element)
        if count > 0 {
            // A count past Int32 would need 8 GiB of elements, which the length check at sending refuses.
            append(Int32(clamping: count))
            append(Int32(1))
        }
    }

    mutating func addIntegers<Value: FixedWidthInteger>(_ values: [Value], element: UInt32, array: UInt32) {
        addFixed(values, size: MemoryLayout<Value>.size, element: element, array: array) { value, target in
            target.storeBytes(of: value.bigEndian, as: Value.self)
        }
    }

    mutating func addIntegers<Value: FixedWidthInteger>(_ values: [Value?], element: UInt32, array: UInt32) {
        addFixedOptional(values, size: MemoryLayout<Value>.size, element: element, array: array) { value, target in
            target.storeBytes(of: value.bigEndian, as: Value.self)
        }
    }

    /// Elements that all have `size` bytes. The space is made once; `store` fills exactly `size` bytes.
    @inline(__always)
    mutating func addFixed<Value>(
        _ values: [Value],
        size: Int,
        element: UInt32,
        array: UInt32,
        store: (Value, UnsafeMutableRawPointer) -> Void
    ) {
        let start = buffer.count
        appendHeader(count: values.count, hasNulls: false, element: element)
        appendSpace(values.count * (4 + size)) { target in
            var target = target
            for value in values {
                target.storeBytes(of: Int32(size).bigEndian, as: Int32.self)
                store(value, target + 4)
                target += 4 + size
            }
        }
        addSlot(from: start, type: array)
    }

    /// As `addFixed`, with NULLs.
    @inline(__always)
    mutating func addFixedOptional<Value>(
        _ values: [Value?],
        size: Int,
        element: UInt32,
        array: UInt32,
        store: (Value, UnsafeMutableRawPointer) -> Void
    ) {
        let start = buffer.count
        var nulls = 0
        for value in values where value == nil { nulls += 1 }
        appendHeader(count: values.count, hasNulls: nulls > 0, element: element)
        appendSpace(values.count * (4 + size) - nulls * size) { target in
            var target = target
            for value in values {
                if let value {
                    target.storeBytes(of: Int32(size).bigEndian, as: Int32.self)
                    store(value, target + 4)
                    target += 4 + size
                } else {
                    target.storeBytes(of: Int32(-1).bigEndian, as: Int32.self)
                    target += 4
                }
            }
        }
        addSlot(from: start, type: array)
    }

    mutating func addBytes<Bytes: Collection<UInt8>>(
        _ values: [Bytes?],
        element: UInt32,
        array: UInt32
    ) {
        addVariable(values, element: element, array: array) {
            $0?.count
        } copy: { value, target in
            if let value { target.copyBytes(from: value) }
        }
    }

    /// Elements of any length, written to space made once. `length` is nil for NULL; `copy` fills no more than the
    /// space it is given.
    @inline(__always)
    mutating func addVariable<Value>(
        _ values: [Value],
        element: UInt32,
        array: UInt32,
        length: (Value) -> Int?,
        copy: (Value, UnsafeMutableRawBufferPointer) -> Void
    ) {
        let start = buffer.count
        var hasNulls = false
        var size = values.count * 4
        for value in values {
            if let length = length(value) { size += length } else { hasNulls = true }
        }
        appendHeader(count: values.count, hasNulls: hasNulls, element: element)
        appendSpace(size) { target in
            var target = target
            for value in values {
                guard let length = length(value) else {
                    target.storeBytes(of: Int32(-1).bigEndian, as: Int32.self)
                    target += 4
                    continue
                }
                // Clamping is harmless: such a long value exceeds the bound that sending checks.
                target.storeBytes(of: Int32(clamping: length).bigEndian, as: Int32.self)
                copy(value, UnsafeMutableRawBufferPointer(start: target + 4, count: length))
                target += 4 + length
            }
        }
        addSlot(from: start, type: array)
    }

    /// Appends bytes that a closure writes.
    ///
    /// Without optimization, appending a repeated element takes a hundred times longer than this copy.
    @inline(__always)
    private mutating func appendSpace(_ size: Int, fill: (UnsafeMutableRawPointer) -> Void) {
        withUnsafeTemporaryAllocation(of: UInt8.self, capacity: size) { bytes in
            guard size > 0, let base = bytes.baseAddress else { return }
            fill(base)
            buffer.append(contentsOf: bytes)
        }
    }
}
