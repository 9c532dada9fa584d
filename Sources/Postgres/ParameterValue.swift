public import FoundationEssentials

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
