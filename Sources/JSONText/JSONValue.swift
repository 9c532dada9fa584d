import CSimdJSON
public import FoundationEssentials

/// A value within a ``JSONTree``. A value keeps the whole tree in memory, and is cheap to copy.
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

    /// The value's text exactly as written, without white space before and after it.
    public var raw: ArraySlice<UInt8> { storage.bytes[node.range] }

    /// The length of ``raw``, in bytes.
    public var rawCount: Int { Int(node.end - node.start) }

    /// The offset of ``raw`` in the whole text, in bytes.
    public var offset: Int { Int(node.start) }

    /// The depth of nested arrays and objects: 0 for a scalar, 1 for `[]`, 2 for `[[]]`. The parser computes the depth.
    public var depth: Int { Int(node.height) }

    public var isNull: Bool { node.isNull }

    /// `true` or `false`; nil for a value of any other type.
    public var bool: Bool? {
        switch csj_kind(UInt32(node.kind)) {
        case CSJ_TRUE: true
        case CSJ_FALSE: false
        default: nil
        }
    }

    /// A string's unescaped characters, with U+FFFD for lone surrogates; nil for a value of any other type.
    public var string: String? {
        let node = node
        guard node.isString else { return nil }
        return storage.bytes.withUnsafeBufferPointer { node.string(in: $0) }
    }

    /// Calls `body` with a string's unescaped characters. Returns nil if the value is not a string.
    ///
    /// A lone surrogate is encoded in three bytes (WTF-8).
    public func withString<Result>(_ body: (UnsafeBufferPointer<UInt8>) -> Result) -> Result? {
        let node = node
        guard node.isString else { return nil }
        return storage.bytes.withUnsafeBufferPointer { node.withUnescaped(in: $0, body) }
    }

    /// Compares the unescaped string with a text. Allocates no memory.
    public func stringEquals(_ other: StaticString) -> Bool {
        let node = node
        return node.isString && storage.bytes.withUnsafeBufferPointer { node.equals(other, in: $0) }
    }

    /// The UUID in a string of the form 8-4-4-4-12; nil for other values.
    ///
    /// The digits may be in upper or lower case, and may be escaped.
    public var uuid: UUID? {
        let node = node
        guard node.isUUID else { return nil }
        return storage.bytes.withUnsafeBufferPointer { node.uuid(in: $0) }
    }

    /// A whole number in the range of `Int64`, in any notation; nil for other values.
    ///
    /// `25`, `25.0` and `2.5e1` are the same number. `-0` is 0.
    public var int64: Int64? {
        let node = node
        guard node.isInteger else { return kind == .number ? Int64(decimal: raw) : nil }
        return storage.bytes.withUnsafeBufferPointer { Int64(digits: node.text(in: $0)) }
    }

    /// The text of a number that is written without a fraction and without an exponent; nil for other values.
    ///
    /// The number may have any size.
    public var integerText: String? {
        node.isInteger ? String(decoding: raw, as: UTF8.self) : nil
    }
}

extension csj_node {
    /// The UUID in a string of the form 8-4-4-4-12. The node must be such a string.
    func uuid(in bytes: UnsafeBufferPointer<UInt8>) -> UUID? {
        guard hasEscapes else { return UUID(text: content(in: bytes)) }
        return withUnescaped(in: bytes) { UUID(text: $0) }
    }
}

extension JSONValue {
    /// Returns the value to which a JSON Pointer (RFC 6901) leads from this value.
    ///
    /// Nil if there is no such value, or if the pointer is malformed.
    public func value(at pointer: String) -> JSONValue? {
        guard let steps = JSONPointer.steps(of: pointer) else { return nil }
        var value = self
        for step in steps {
            guard let next = value.child(at: step) else { return nil }
            value = next
        }
        return value
    }

    private func child(at step: [UInt8]) -> JSONValue? {
        if node.isObject { return member(named: step) }
        if node.isArray { return element(numbered: step) }
        return nil
    }

    private func member(named name: [UInt8]) -> JSONValue? {
        let nodes = storage.nodes
        let end = node.after
        let found = storage.bytes.withUnsafeBufferPointer { bytes in
            name.withUnsafeBufferPointer { name -> Int? in
                var member = index + 1
                while member < end {
                    if nodes[member].withUnescaped(in: bytes, { $0.isEqual(to: name) }) { return member + 1 }
                    member = nodes[member + 1].after
                }
                return nil
            }
        }
        return found.map { JSONValue(storage: storage, index: $0) }
    }

    private func element(numbered digits: [UInt8]) -> JSONValue? {
        let zero = UInt8(ascii: "0")
        guard let first = digits.first, digits.count <= 10, digits.allSatisfy({ $0 >= zero && $0 <= zero + 9 }),
            first != zero || digits.count == 1
        else { return nil }
        let number = digits.reduce(0) { $0 * 10 + Int($1 - zero) }
        let end = node.after
        var element = index + 1
        for _ in 0..<number where element < end { element = storage.nodes[element].after }
        return element < end ? JSONValue(storage: storage, index: element) : nil
    }
}

extension JSONValue {
    /// The UUIDs of all string values within this value that are UUIDs, in document order.
    ///
    /// Duplicates are included. Names of members are not included.
    public var uuids: [UUID] {
        storage.withSource { source in
            var found: [UUID] = []
            for index in index..<source[index].after where source[index].isUUID {
                if let uuid = source[index].uuid(in: source.bytes) { found.append(uuid) }
            }
            return found
        }
    }

    /// Returns this value's text with some of its UUID strings replaced; nil if nothing changes.
    ///
    /// All other bytes are as written, including digits, white space and order.
    ///
    /// - Parameter replacement: Called for each UUID in document order. If it returns nil, the UUID is not changed.
    public func rewritten(_ replacement: (UUID) -> JSONReplacement?) -> [UInt8]? { rewritten([], replacement) }
}

extension JSONNode {
    func isWritten(as replacement: JSONReplacement, in bytes: UnsafeBufferPointer<UInt8>) -> Bool {
        var writer = JSONWriter(capacity: 64)
        writer.replacement(replacement)
        return writer.bytes.withUnsafeBufferPointer { text(in: bytes).isEqual(to: $0) }
    }
}

extension JSONReplacement {
    /// The number of bytes of the replacement as JSON.
    var count: Int {
        var writer = JSONWriter(capacity: 64)
        writer.replacement(self)
        return writer.bytes.count
    }
}

extension JSONWriter {
    /// Writes a replacement without a preceding comma, because the surrounding text already contains the comma.
    mutating func replacement(_ replacement: JSONReplacement) {
        needsComma = false
        switch replacement {
        case .uuid(let uuid): self.uuid(uuid)
        case .string(let text): string(text)
        case .integer(let number): int(number)
        case .digits(let text): raw(text.utf8)
        }
    }
}
