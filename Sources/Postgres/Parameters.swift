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

/// A value in a list of parameters, ``Parameters/init(_:)``.
///
/// Most are one parameter; a key of several columns is as many.
public protocol ParameterValue {
    func add(to parameters: inout Parameters)
}

/// A value that may be NULL.
public protocol NullableParameterValue: ParameterValue {
    static func add(_ value: Self?, to parameters: inout Parameters)
}

extension NullableParameterValue {
    public func add(to parameters: inout Parameters) { Self.add(self, to: &parameters) }
}

extension Optional: ParameterValue where Wrapped: NullableParameterValue {
    public func add(to parameters: inout Parameters) { Wrapped.add(self, to: &parameters) }
}

/// An element of an array.
public protocol ParameterElement: NullableParameterValue {
    static func add(all values: [Self], to parameters: inout Parameters)
}

extension Array: ParameterValue where Element: ParameterElement {
    public func add(to parameters: inout Parameters) { Element.add(all: self, to: &parameters) }
}

extension UUID: ParameterElement {
    public static func add(_ value: UUID?, to parameters: inout Parameters) { parameters.add(value) }
    public static func add(all values: [UUID], to parameters: inout Parameters) { parameters.add(values) }
}

extension Int64: ParameterElement {
    public static func add(_ value: Int64?, to parameters: inout Parameters) { parameters.add(value) }
    public static func add(all values: [Int64], to parameters: inout Parameters) { parameters.add(values) }
}

extension Int32: ParameterElement {
    public static func add(_ value: Int32?, to parameters: inout Parameters) { parameters.add(value) }
    public static func add(all values: [Int32], to parameters: inout Parameters) { parameters.add(values) }
}

extension Int16: ParameterElement {
    public static func add(_ value: Int16?, to parameters: inout Parameters) { parameters.add(value) }
    public static func add(all values: [Int16], to parameters: inout Parameters) { parameters.add(values) }
}

extension String: ParameterElement {
    public static func add(_ value: String?, to parameters: inout Parameters) { parameters.add(value) }
    public static func add(all values: [String], to parameters: inout Parameters) { parameters.add(values) }
}

extension Bool: ParameterElement {
    public static func add(_ value: Bool?, to parameters: inout Parameters) { parameters.add(value) }
    public static func add(all values: [Bool], to parameters: inout Parameters) { parameters.add(values) }
}

extension Double: NullableParameterValue {
    public static func add(_ value: Double?, to parameters: inout Parameters) { parameters.add(value) }
}

/// A `json` or `jsonb` from its UTF-8 text, a `bytea` or an array of `bytea`.
public enum BytesParameter: ParameterValue {
    case json([UInt8]?)
    case jsonb([UInt8]?)
    case bytea([UInt8]?)
    case byteas([[UInt8]?])

    public func add(to parameters: inout Parameters) {
        switch self {
        case .json(let text): parameters.add(json: text)
        case .jsonb(let text): parameters.add(jsonb: text)
        case .bytea(let bytes): parameters.add(bytes: bytes)
        case .byteas(let values): parameters.add(byteas: values)
        }
    }
}

extension Parameters {
    /// The values of $1 and the following parameters, from left to right.
    public init<each Value: ParameterValue>(_ values: repeat each Value) {
        self.init()
        repeat (each values).add(to: &self)
    }
}
