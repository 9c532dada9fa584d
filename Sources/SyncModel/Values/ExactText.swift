/// A text that is its bytes and no others. Swift takes `é` and `e` with an accent for equal; who is who must not
/// depend on that.
public struct ExactText: Sendable, Hashable, CustomStringConvertible {
    public let string: String

    public init(_ string: some StringProtocol) { self.string = String(string) }

    public var description: String { string }

    public static func == (left: ExactText, right: ExactText) -> Bool {
        left.string.utf8.elementsEqual(right.string.utf8)
    }

    public func hash(into hasher: inout Hasher) {
        var text = string
        text.withUTF8 { hasher.combine(bytes: UnsafeRawBufferPointer($0)) }
        hasher.combine(0xff as UInt8)
    }
}

extension ExactText: ExpressibleByStringLiteral {
    public init(stringLiteral text: String) { self.init(text) }
}

extension ExactText {
    /// Reads UTF-8 in which bytes may be percent-encoded (RFC 3986), as in a header; nil for what is none.
    public init?(percentEncoded text: some StringProtocol) {
        let bytes = Array(text.utf8)
        guard PercentEncoding.isWellFormed(bytes),
            let decoded = String(validating: PercentEncoding.decoded(bytes), as: UTF8.self)
        else { return nil }
        self.init(decoded)
    }
}
