public import FoundationEssentials

/// The values of a statement's parameters in PostgreSQL's binary format.
///
/// They are encoded as they are added.
///
/// All values share one buffer. Each is declared to the server with the type its `add` names, so a value that does not
/// fit its place in the statement is an error there and never a misread byte. Text that holds U+0000 is refused by the
/// server (22021).
public struct Parameters: Sendable {
    /// The place of a value in `buffer`; a negative length means NULL.
    struct Slot {
        var offset: Int
        var length: Int
    }

    var buffer: [UInt8] = []
    private(set) var slots: [Slot] = []
    private(set) var types: [UInt32] = []

    public init() {}

    public var count: Int { slots.count }

    public mutating func add(_ value: UUID?) {
        addValue(value, type: OID.uuid) { value, buffer in
            withUnsafeBytes(of: value.uuid) { buffer.append(contentsOf: $0) }
        }
    }

    public mutating func add(_ value: Int64?) { addInteger(value, type: OID.int8) }
    public mutating func add(_ value: Int32?) { addInteger(value, type: OID.int4) }
    public mutating func add(_ value: Int16?) { addInteger(value, type: OID.int2) }
    public mutating func add(_ value: Double?) { addInteger(value?.bitPattern, type: OID.float8) }

    public mutating func add(_ value: Bool?) {
        addValue(value, type: OID.bool) { value, buffer in buffer.append(value ? 1 : 0) }
    }

    public mutating func add(_ value: String?) {
        addValue(value, type: OID.text) { value, buffer in buffer.append(contentsOf: value.utf8) }
    }

    /// Adds a `timestamptz`. `Int64.max` and `Int64.min` are `infinity` and `-infinity`.
    public mutating func add(timestamp microsecondsSinceUnixEpoch: Int64?) {
        addInteger(microsecondsSinceUnixEpoch.map(TimestampEpoch.wire(fromUnix:)), type: OID.timestamptz)
    }

    public mutating func add(bytes value: [UInt8]?) { addBytes(value, type: OID.bytea) }

    /// Adds a `json` from its UTF-8 text, stored as it is.
    public mutating func add(json value: [UInt8]?) { addBytes(value, type: OID.json) }

    /// Adds a `jsonb` from its UTF-8 text.
    public mutating func add(jsonb value: [UInt8]?) { addBytes(value, type: OID.jsonb, prefix: 1) }
}

extension Parameters {
    private mutating func addInteger<Value: FixedWidthInteger>(_ value: Value?, type: UInt32) {
        addValue(value, type: type) { value, buffer in
            withUnsafeBytes(of: value.bigEndian) { buffer.append(contentsOf: $0) }
        }
    }

    private mutating func addBytes(_ value: [UInt8]?, type: UInt32, prefix: UInt8? = nil) {
        addValue(value, type: type) { value, buffer in
            if let prefix { buffer.append(prefix) }
            buffer.append(contentsOf: value)
        }
    }

    @inline(__always)
    private mutating func addValue<Value>(_ value: Value?, type: UInt32, encode: (Value, inout [UInt8]) -> Void) {
        let start = buffer.count
        if let value {
            encode(value, &buffer)
        }
        addSlot(from: value == nil ? nil : start, type: type)
    }

    /// Records the bytes appended since `start` as one value; `nil` for NULL.
    mutating func addSlot(from start: Int?, type: UInt32) {
        slots.append(start.map { Slot(offset: $0, length: buffer.count - $0) } ?? Slot(offset: 0, length: -1))
        types.append(type)
    }
}
