internal import CSimdJSON
public import FoundationEssentials

/// A value within a ``JSONTree``, which it keeps alive. Cheap to copy.
public struct JSONValue: Sendable {
    let storage: JSONStorage
    let index: Int

    @inline(__always)
    var node: JSONNode { storage.nodes[index] }

    /// The types of RFC 8259.
    public enum Kind: Sendable, Equatable {
        case object
        case array
        case string
        /// A number of any size and precision.
        case number
        case bool
        case null
    }

    public var kind: Kind {
        switch csj_kind(UInt32(node.kind)) {
        case CSJ_OBJECT: .object
        case CSJ_ARRAY: .array
        case CSJ_STRING: .string
        case CSJ_NUMBER: .number
        case CSJ_NULL: .null
        default: .bool
        }
    }

    /// The value's text, byte for byte as written, without white space around it.
    public var raw: ArraySlice<UInt8> { storage.bytes[node.range] }

    /// The length of ``raw``, in bytes.
    public var rawCount: Int { Int(node.end - node.start) }

    /// Where ``raw`` starts in the whole text, in bytes.
    public var offset: Int { Int(node.start) }

    /// How deep arrays and objects nest: 0 for a scalar, 1 for `[]`, 2 for `[[]]`. Known since parsing.
    public var depth: Int { Int(node.height) }

    public var isNull: Bool { node.isNull }

    /// `true` or `false`; nil for any other type.
    public var bool: Bool? {
        switch csj_kind(UInt32(node.kind)) {
        case CSJ_TRUE: true
        case CSJ_FALSE: false
        default: nil
        }
    }

    /// A string's characters, unescaped; U+FFFD for lone surrogates. Nil unless it is a string.
    public var string: String? {
        let node = node
        guard node.isString else { return nil }
        return storage.bytes.withUnsafeBufferPointer { node.string(in: $0) }
    }

    /// Passes a string's characters, unescaped. Nil unless it is a string.
    ///
    /// A lone surrogate is three bytes (WTF-8).
    public func withString<Result>(_ body: (UnsafeBufferPointer<UInt8>) -> Result) -> Result? {
        let node = node
        guard node.isString else { return nil }
        return storage.bytes.withUnsafeBufferPointer { node.withUnescaped(in: $0, body) }
    }

    /// Compares the unescaped string. Allocates nothing.
    public func stringEquals(_ other: StaticString) -> Bool {
        let node = node
        return node.isString && storage.bytes.withUnsafeBufferPointer { node.equals(other, in: $0) }
    }

    /// The UUID in a string of the shape 8-4-4-4-12; nil for other values.
    ///
    /// The digits may be in either case, and escaped or not.
    public var uuid: UUID? {
        let node = node
        guard node.isUUID else { return nil }
        return storage.bytes.withUnsafeBufferPointer { node.uuid(in: $0) }
    }

    /// A whole number within Int64, in any notation.
    ///
    /// `25`, `25.0` and `2.5e1` are one number. `-0` is 0.
    public var int64: Int64? {
        let node = node
        guard node.isInteger else { return kind == .number ? Int64(decimal: raw) : nil }
        return storage.bytes.withUnsafeBufferPointer { Int64(digits: node.text(in: $0)) }
    }

    /// The text of a number that is written as an integer; nil for other values.
    ///
    /// It has neither fraction nor exponent, and may have any size.
    public var integerText: String? {
        node.isInteger ? String(decoding: raw, as: UTF8.self) : nil
    }
}

extension csj_node {
    /// The UUID of a UUID-shaped string.
    func uuid(in bytes: UnsafeBufferPointer<UInt8>) -> UUID? {
        guard hasEscapes else { return UUID(text: content(in: bytes)) }
        return withUnescaped(in: bytes) { UUID(text: $0) }
    }
}
