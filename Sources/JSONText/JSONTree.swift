import CSimdJSON

/// A parsed text: its bytes, and the position of every value in them.
///
/// A tree is immutable. A copy of the tree refers to the same text.
///
/// Parsing takes linear time for any input. A value is decoded only when it is requested.
public struct JSONTree: Sendable {
    let storage: JSONStorage

    /// Parses one JSON text (RFC 8259) in UTF-8, without a byte order mark.
    ///
    /// A text can be valid JSON, but ambiguous or impossible to store. In that case, the initializer does not throw,
    /// and ``defects`` lists the reasons.
    public init(parsing bytes: [UInt8], limits: JSONLimits = .init()) throws(JSONParseError) {
        storage = try JSONStorage(parsing: bytes, limits: limits)
    }

    public var root: JSONValue { JSONValue(storage: storage, index: 0) }

    public var bytes: [UInt8] { storage.bytes }

    /// The number of values and member names.
    public var nodeCount: Int { storage.nodes[0].after }

    /// The first 64 defects of the text, in document order.
    ///
    /// The pointers of these defects start at the root.
    public var defects: [JSONDefect] { root.defects }
}

/// A value or a member's name in the parser's flat array.
///
/// The node after a name is the name's value.
typealias JSONNode = csj_node

extension csj_node {
    var isObject: Bool { kind == UInt8(CSJ_OBJECT.rawValue) }
    var isArray: Bool { kind == UInt8(CSJ_ARRAY.rawValue) }
    var isString: Bool { kind == UInt8(CSJ_STRING.rawValue) }
    var isName: Bool { kind == UInt8(CSJ_NAME.rawValue) }
    var isNull: Bool { kind == UInt8(CSJ_NULL.rawValue) }
    var hasEscapes: Bool { flags & UInt8(CSJ_HAS_ESCAPES.rawValue) != 0 }
    /// Whether the node is a string with a UUID. Always false for a name.
    var isUUID: Bool { flags & UInt8(CSJ_IS_UUID.rawValue) != 0 }
    var isInteger: Bool { flags & UInt8(CSJ_IS_INTEGER.rawValue) != 0 }

    /// The index of the first node after this node's subtree.
    var after: Int { Int(next) }

    var range: Range<Int> { Int(start)..<Int(end) }

    func text(in bytes: UnsafeBufferPointer<UInt8>) -> UnsafeBufferPointer<UInt8> {
        UnsafeBufferPointer(rebasing: bytes[range])
    }

    /// Returns the text between the quotes of a string or name, as written.
    func content(in bytes: UnsafeBufferPointer<UInt8>) -> UnsafeBufferPointer<UInt8> {
        UnsafeBufferPointer(rebasing: bytes[Int(start) + 1..<Int(end) - 1])
    }

    /// Calls `body` with the unescaped content of a string or name.
    ///
    /// A lone surrogate is encoded in three bytes (WTF-8).
    func withUnescaped<Result>(
        in bytes: UnsafeBufferPointer<UInt8>,
        _ body: (UnsafeBufferPointer<UInt8>) -> Result
    ) -> Result {
        let content = content(in: bytes)
        guard hasEscapes else { return body(content) }
        return withUnsafeTemporaryAllocation(of: UInt8.self, capacity: content.count) { buffer in
            let count = csj_unescape(content.baseAddress, content.count, buffer.baseAddress)
            return body(UnsafeBufferPointer(rebasing: buffer[..<count]))
        }
    }

    /// Returns the unescaped content of a string or name, with U+FFFD in place of lone surrogates.
    func string(in bytes: UnsafeBufferPointer<UInt8>) -> String {
        withUnescaped(in: bytes) { String(decoding: $0, as: UTF8.self) }
    }

    /// Compares the unescaped string or name with a text.
    func equals(_ other: StaticString, in bytes: UnsafeBufferPointer<UInt8>) -> Bool {
        other.withUTF8Buffer { other in
            // An escape is never shorter than the character it encodes.
            guard Int(end - start) - 2 >= other.count else { return false }
            return withUnescaped(in: bytes) { $0.isEqual(to: other) }
        }
    }
}

/// A text and its nodes.
///
/// The class is `@unchecked` because it contains pointers. Their memory belongs only to this object. The parser wrote
/// the memory before the object existed. After that, the memory is never changed, until `deinit` frees it.
final class JSONStorage: @unchecked Sendable {
    let bytes: [UInt8]
    let nodes: UnsafePointer<csj_node>
    let defects: UnsafeBufferPointer<csj_defect>
    private let ownedNodes: UnsafeMutablePointer<csj_node>
    private let ownedDefects: UnsafeMutablePointer<csj_defect>?

    init(parsing bytes: [UInt8], limits: JSONLimits) throws(JSONParseError) {
        let result = bytes.withUnsafeBufferPointer { text in
            csj_parse(text.baseAddress, text.count, csj_limits(limits))
        }
        guard result.error == CSJ_OK.rawValue, let nodes = result.nodes else {
            throw JSONParseError(kind: .init(rawValue: result.error) ?? .outOfMemory, offset: Int(result.error_offset))
        }
        self.bytes = bytes
        self.nodes = UnsafePointer(nodes)
        self.defects = UnsafeBufferPointer(start: result.defects, count: Int(result.defect_count))
        self.ownedNodes = nodes
        self.ownedDefects = result.defects
    }

    deinit {
        csj_free(ownedNodes, ownedDefects)
    }
}

extension csj_limits {
    fileprivate init(_ limits: JSONLimits) {
        self.init(
            bytes: UInt32(clamping: limits.maximumBytes),
            depth: UInt32(clamping: limits.maximumDepth),
            nodes: UInt32(clamping: limits.maximumNodes)
        )
    }
}

/// The elements of an array, in order. Iterating allocates no memory.
public struct JSONElements: Sequence, Sendable {
    let storage: JSONStorage
    let index: Int

    public struct Iterator: IteratorProtocol, Sendable {
        let storage: JSONStorage
        var index: Int
        let end: Int

        public mutating func next() -> JSONValue? {
            guard index < end else { return nil }
            let element = index
            index = storage.nodes[element].after
            return JSONValue(storage: storage, index: element)
        }
    }

    public func makeIterator() -> Iterator {
        Iterator(storage: storage, index: index + 1, end: storage.nodes[index].after)
    }

    public var isEmpty: Bool { storage.nodes[index].after == index + 1 }

    /// The number of elements, found by iterating over all elements.
    public var count: Int { reduce(0) { count, _ in count + 1 } }
}

extension JSONValue {
    /// The elements of an array; nil for a value of any other type.
    public var elements: JSONElements? {
        node.isArray ? JSONElements(storage: storage, index: index) : nil
    }
}

// MARK: - JSONMembers

/// The members of an object, including duplicates, in document order. Iterating allocates no memory.
public struct JSONMembers: Sequence, Sendable {
    let storage: JSONStorage
    let index: Int

    public struct Iterator: IteratorProtocol, Sendable {
        let storage: JSONStorage
        var index: Int
        let end: Int

        public mutating func next() -> (name: JSONName, value: JSONValue)? {
            guard index < end else { return nil }
            let name = index
            index = storage.nodes[name + 1].after
            return (JSONName(storage: storage, index: name), JSONValue(storage: storage, index: name + 1))
        }
    }

    public func makeIterator() -> Iterator {
        Iterator(storage: storage, index: index + 1, end: storage.nodes[index].after)
    }

    /// Calls `body` with the name and the value of each member. Unlike a loop, it does not change reference counts.
    public func forEach(_ body: (JSONName, JSONValue) -> Void) {
        let end = storage.nodes[index].after
        var member = index + 1
        while member < end {
            body(JSONName(storage: storage, index: member), JSONValue(storage: storage, index: member + 1))
            member = storage.nodes[member + 1].after
        }
    }

    public var isEmpty: Bool { storage.nodes[index].after == index + 1 }
}

extension JSONValue {
    /// The members of an object; nil for a value of any other type.
    public var members: JSONMembers? {
        node.isObject ? JSONMembers(storage: storage, index: index) : nil
    }

    /// The value of the first member with this name, found by linear search.
    ///
    /// Nil if there is no such member, or if this value is not an object.
    public subscript(name: StaticString) -> JSONValue? {
        let node = node
        guard node.isObject else { return nil }
        let nodes = storage.nodes
        let found = storage.bytes.withUnsafeBufferPointer { bytes -> Int? in
            var member = index + 1
            while member < node.after {
                if nodes[member].equals(name, in: bytes) { return member + 1 }
                member = nodes[member + 1].after
            }
            return nil
        }
        return found.map { JSONValue(storage: storage, index: $0) }
    }
}

// MARK: - JSONName

/// A member's name. A name keeps the whole tree in memory.
public struct JSONName: Sendable {
    let storage: JSONStorage
    let index: Int

    /// The name's length in bytes. Nil for a name with escapes, because such a name is shorter than its text.
    public var utf8Count: Int? {
        let node = storage.nodes[index]
        return node.hasEscapes ? nil : node.range.count - 2
    }

    /// Compares the unescaped name with a text. Allocates no memory.
    public func equals(_ other: StaticString) -> Bool {
        storage.bytes.withUnsafeBufferPointer { storage.nodes[index].equals(other, in: $0) }
    }

    /// Compares the unescaped name with a text.
    public func equals(_ other: String) -> Bool {
        var other = other
        return storage.bytes.withUnsafeBufferPointer { bytes in
            other.withUTF8 { other in storage.nodes[index].withUnescaped(in: bytes) { $0.isEqual(to: other) } }
        }
    }

    /// Compares the unescaped name with UTF-8. Allocates no memory.
    public func equals(utf8 other: [UInt8]) -> Bool {
        storage.bytes.withUnsafeBufferPointer { bytes in
            let node = storage.nodes[index]
            // an escape is never shorter than the character it encodes
            guard node.range.count - 2 >= other.count else { return false }
            return other.withUnsafeBufferPointer { other in node.withUnescaped(in: bytes) { $0.isEqual(to: other) } }
        }
    }

    /// The unescaped name, with U+FFFD in place of lone surrogates.
    public var string: String {
        storage.bytes.withUnsafeBufferPointer { storage.nodes[index].string(in: $0) }
    }

    /// The name's text as written, including the quotes.
    public var raw: ArraySlice<UInt8> { storage.bytes[storage.nodes[index].range] }
}

/// A tree's text and nodes, for code that visits many nodes in one call.
struct JSONSource {
    let nodes: UnsafePointer<JSONNode>
    let bytes: UnsafeBufferPointer<UInt8>

    subscript(index: Int) -> JSONNode { nodes[index] }

    func text(_ range: Range<Int>) -> UnsafeBufferPointer<UInt8> {
        UnsafeBufferPointer(rebasing: bytes[range])
    }
}

extension JSONStorage {
    func withSource<Result>(_ body: (JSONSource) -> Result) -> Result {
        bytes.withUnsafeBufferPointer { body(JSONSource(nodes: nodes, bytes: $0)) }
    }
}
