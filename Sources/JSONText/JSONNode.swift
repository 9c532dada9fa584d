internal import CSimdJSON

/// A value or a member's name in the parser's flat array.
///
/// A name's value is the node after it.
typealias JSONNode = csj_node

extension csj_node {
    var isObject: Bool { kind == UInt8(CSJ_OBJECT.rawValue) }
    var isArray: Bool { kind == UInt8(CSJ_ARRAY.rawValue) }
    var isString: Bool { kind == UInt8(CSJ_STRING.rawValue) }
    var isName: Bool { kind == UInt8(CSJ_NAME.rawValue) }
    var isNull: Bool { kind == UInt8(CSJ_NULL.rawValue) }
    var hasEscapes: Bool { flags & UInt8(CSJ_HAS_ESCAPES.rawValue) != 0 }
    /// Never set on a name.
    var isUUID: Bool { flags & UInt8(CSJ_IS_UUID.rawValue) != 0 }
    var isInteger: Bool { flags & UInt8(CSJ_IS_INTEGER.rawValue) != 0 }

    /// The first node after its subtree.
    var after: Int { Int(next) }

    var range: Range<Int> { Int(start)..<Int(end) }

    func text(in bytes: UnsafeBufferPointer<UInt8>) -> UnsafeBufferPointer<UInt8> {
        UnsafeBufferPointer(rebasing: bytes[range])
    }

    /// The text between a string's or name's quotes, as written.
    func content(in bytes: UnsafeBufferPointer<UInt8>) -> UnsafeBufferPointer<UInt8> {
        UnsafeBufferPointer(rebasing: bytes[Int(start) + 1..<Int(end) - 1])
    }

    /// Passes the unescaped content of a string or name.
    ///
    /// A lone surrogate is three bytes (WTF-8).
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

    /// The unescaped content of a string or name; U+FFFD for lone surrogates.
    func string(in bytes: UnsafeBufferPointer<UInt8>) -> String {
        withUnescaped(in: bytes) { String(decoding: $0, as: UTF8.self) }
    }

    /// Compares a string or name, once unescaped.
    func equals(_ other: StaticString, in bytes: UnsafeBufferPointer<UInt8>) -> Bool {
        other.withUTF8Buffer { other in
            // An escape is never shorter than the character it encodes.
            guard Int(end - start) - 2 >= other.count else { return false }
            return withUnescaped(in: bytes) { $0.isEqual(to: other) }
        }
    }
}
