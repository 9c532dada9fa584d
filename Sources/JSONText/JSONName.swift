/// A member's name. Keeps its tree alive.
public struct JSONName: Sendable {
    let storage: JSONStorage
    let index: Int

    /// The name's length in bytes.
    ///
    /// Nil where it has escapes, and is shorter than it is written.
    public var utf8Count: Int? {
        let node = storage.nodes[index]
        return node.hasEscapes ? nil : node.range.count - 2
    }

    /// Compares the unescaped name. Allocates nothing.
    public func equals(_ other: StaticString) -> Bool {
        storage.bytes.withUnsafeBufferPointer { storage.nodes[index].equals(other, in: $0) }
    }

    /// Compares the unescaped name.
    public func equals(_ other: String) -> Bool {
        var other = other
        return storage.bytes.withUnsafeBufferPointer { bytes in
            other.withUTF8 { other in storage.nodes[index].withUnescaped(in: bytes) { $0.isEqual(to: other) } }
        }
    }

    /// Compares the unescaped name with UTF-8. Allocates nothing.
    public func equals(utf8 other: [UInt8]) -> Bool {
        storage.bytes.withUnsafeBufferPointer { bytes in
            let node = storage.nodes[index]
            // an escape is never shorter than the character it encodes
            guard node.range.count - 2 >= other.count else { return false }
            return other.withUnsafeBufferPointer { other in node.withUnescaped(in: bytes) { $0.isEqual(to: other) } }
        }
    }

    /// The name, unescaped; U+FFFD for lone surrogates.
    public var string: String {
        storage.bytes.withUnsafeBufferPointer { storage.nodes[index].string(in: $0) }
    }

    /// The name's text as written, quotes included.
    public var raw: ArraySlice<UInt8> { storage.bytes[storage.nodes[index].range] }
}
