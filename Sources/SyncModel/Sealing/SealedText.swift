import Foundation

/// How a sealed value is written: `sluice-sealed:1:NUMBER:BASE64` of nonce, ciphertext and tag; in a json column as a
/// JSON string of that, and in a text column as it is.
///
/// What begins so is sealed, and nothing else is. Plain values that begin so are written another way that means the same
/// (``escaped(json:)``, ``escaped(text:)``), so that nobody can make an upstream's answer look like a sealed one.
public enum SealedText {
    /// Of the form.
    static let version: UInt8 = 1
    static let prefix = Array("sluice-sealed:1:".utf8)
    private static let quote = UInt8(ascii: "\"")

    /// Whether a value of a json column is sealed.
    @inline(__always)
    static func isSealed(json: some Collection<UInt8>) -> Bool {
        guard json.first == quote else { return false }
        return json.dropFirst().starts(with: prefix)
    }

    /// Whether a value of a text column is sealed.
    static func isSealed(text: String) -> Bool { text.utf8.starts(with: prefix) }

    /// How a value begins that is sealed, or sealed under one number, as SQL compares it.
    public static func beginning(number: Int32? = nil, isJSON: Bool) -> String {
        let digits = number.map { String($0) + ":" } ?? ""
        return (isJSON ? "\"" : "") + String(decoding: prefix, as: UTF8.self) + digits
    }

    /// A plain value for a json column: a string that begins like a sealed one gets its first letter as an escape
    /// sequence, which is the same string (RFC 8259, section 7).
    static func escaped(json: [UInt8]) -> [UInt8] {
        guard isSealed(json: json) else { return json }
        return [quote] + Array("\\u0073".utf8) + json.dropFirst(2)
    }

    /// A plain value for a text column: words for people, to which a space does nothing.
    static func escaped(text: String) -> String { isSealed(text: text) ? " " + text : text }

    static func written(_ sealed: Data, number: [UInt8], isJSON: Bool) -> [UInt8] {
        let encoded = sealed.base64EncodedData()
        var bytes: [UInt8] = []
        bytes.reserveCapacity(prefix.count + number.count + encoded.count + 3)
        if isJSON { bytes.append(quote) }
        bytes += prefix
        bytes += number
        bytes.append(UInt8(ascii: ":"))
        bytes += encoded
        if isJSON { bytes.append(quote) }
        return bytes
    }

    /// The data key's number and the sealed bytes of a value that begins like a sealed one; nil where it goes on in
    /// another way.
    static func read(_ bytes: some RandomAccessCollection<UInt8>, isJSON: Bool) -> (number: Int32, sealed: Data)? {
        var rest = bytes.dropFirst(prefix.count + (isJSON ? 1 : 0))
        if isJSON {
            guard rest.last == quote else { return nil }
            rest = rest.dropLast()
        }
        guard let end = rest.firstIndex(of: UInt8(ascii: ":")),
            let number = Int32(String(decoding: rest[..<end], as: UTF8.self)), number > 0
        else { return nil }
        guard let sealed = Data(base64Encoded: Data(rest[rest.index(after: end)...])) else { return nil }
        return (number, sealed)
    }
}
