/// A member's name. Keeps its tree alive.
public struct JSONName: Sendable {
    let storage: JSONStorage
    let index: Int

    /// Whether it is this name, once unescaped. Allocates nothing.
    public func equals(_ other: StaticString) -> Bool {
        storage.bytes.withUnsafeBufferPointer { storage.nodes[index].equals(other, in: $0) }
    }

    /// The name, unescaped; U+FFFD for lone surrogates.
    public var string: String {
        storage.bytes.withUnsafeBufferPointer { storage.nodes[index].string(in: $0) }
    }

    /// The name's text as written, quotes included.
    public var raw: ArraySlice<UInt8> { storage.bytes[storage.nodes[index].range] }
}
