/// A parsed text: its bytes, and the place of every value in them.
///
/// Immutable, and a reference to pass around.
///
/// Parsing takes time linear in the text, for any input. Values are decoded when they are requested.
public struct JSONTree: Sendable {
    let storage: JSONStorage

    /// Parses one JSON text (RFC 8259) in UTF-8, without a byte order mark.
    ///
    /// A text that the grammar allows but no reader could make good use of is not an error but has a ``JSONDefect``.
    public init(parsing bytes: [UInt8], limits: JSONLimits = .init()) throws(JSONParseError) {
        storage = try JSONStorage(parsing: bytes, limits: limits)
    }

    public var root: JSONValue { JSONValue(storage: storage, index: 0) }

    public var bytes: [UInt8] { storage.bytes }

    /// The number of values and member names.
    public var nodeCount: Int { storage.nodes[0].after }

    /// The first 64 defects of the text, in document order.
    ///
    /// Their pointers start at the root.
    public var defects: [JSONDefect] { root.defects }
}
