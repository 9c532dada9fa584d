import FoundationEssentials

/// Base64 with padding (RFC 4648, 4).
enum Base64Text {
    static func encode(_ bytes: [UInt8]) -> String { Data(bytes).base64EncodedString() }

    /// Decodes a text; nil for anything that ``encode(_:)`` would not have written.
    ///
    /// Padding may be left out.
    static func decode(_ text: some StringProtocol) -> [UInt8]? {
        let digits = text.utf8.count
        guard digits % 4 != 1, text.utf8.allSatisfy({ (0x21...0x7e).contains($0) }) else { return nil }
        let padded = String(text) + (digits % 4 == 0 ? "" : String(repeating: "=", count: 4 - digits % 4))
        guard let data = Data(base64Encoded: padded) else { return nil }
        let bytes = Array(data)
        // one text for one value: no stray bits in the last digit
        return encode(bytes) == padded ? bytes : nil
    }
}
