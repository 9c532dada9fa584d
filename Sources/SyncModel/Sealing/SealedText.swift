public import FoundationEssentials
import JSONText

/// The written form of a sealed value: `sluice-sealed:1:NUMBER:BASE64`.
///
/// The base 64 part contains nonce, ciphertext and tag. In a json column, the form is a JSON string; in a text column,
/// it is plain text. A value that is sealed with both a user's own key and the organization's key has the form
/// `sluice-sealed:1:NUMBER.USER:BASE64`. `USER` is the user for whom the key was created.
///
/// A value is sealed if and only if it begins with `sluice-sealed:1:`. A plain value can begin with the same text, with
/// or without leading spaces. Such a value is stored with one more space in front (``escaped(json:)``,
/// ``escaped(text:)``), which the reader removes. So no client and no upstream can make a payload or a response look
/// like a sealed value, and each value is read exactly as it was written.
public enum SealedText {
    static let prefix = Array("sluice-sealed:1:".utf8)
    private static let quote = UInt8(ascii: "\"")
    private static let space = UInt8(ascii: " ")
    /// The size of nonce and tag, in bytes: the minimum size of a sealed value.
    private static let overhead = 28

    @inline(__always)
    static func isSealed(json: some Collection<UInt8>) -> Bool {
        guard json.first == quote else { return false }
        return json.dropFirst().starts(with: prefix)
    }

    static func isSealed(text: String) -> Bool { text.utf8.starts(with: prefix) }

    /// The beginning of a sealed value, for comparisons in SQL.
    ///
    /// With arguments, it is the beginning of a value that is sealed with the data key of this number and with this
    /// user's key.
    public static func beginning(number: Int32? = nil, user: UUID? = nil, isJSON: Bool) -> String {
        let digits = number.map { String($0) + (user.map { "." + $0.lowercased } ?? "") + ":" } ?? ""
        return (isJSON ? "\"" : "") + String(decoding: prefix, as: UTF8.self) + digits
    }

    /// Whether a plain value of a json column must be escaped.
    public static func needsEscape(json: ArraySlice<UInt8>) -> Bool {
        // most values are objects
        guard let first = json.first, first == quote || first == space else { return false }
        return isSealed(json: json.drop { $0 == space })
    }

    /// Whether a plain value of a text column must be escaped.
    public static func needsEscape(text: String) -> Bool { text.utf8.drop { $0 == space }.starts(with: prefix) }

    /// A plain value as it is stored in a json column. White space in front of a JSON text has no meaning (RFC 8259,
    /// section 2).
    static func escaped(json: [UInt8]) -> [UInt8] { needsEscape(json: json[...]) ? [space] + json : json }

    /// Reverses ``escaped(json:)``.
    static func unescaped(json: [UInt8]) -> [UInt8] {
        json.first == space && needsEscape(json: json[...]) ? Array(json.dropFirst()) : json
    }

    /// A plain value as it is stored in a text column.
    static func escaped(text: String) -> String { needsEscape(text: text) ? " " + text : text }

    /// Reverses ``escaped(text:)``.
    static func unescaped(text: String) -> String {
        text.utf8.first == space && needsEscape(text: text) ? String(text.dropFirst()) : text
    }

    static func written(_ sealed: Data, number: [UInt8], user: UUID?, isJSON: Bool) -> [UInt8] {
        let encoded = sealed.base64EncodedData()
        var bytes: [UInt8] = []
        bytes.reserveCapacity(prefix.count + number.count + encoded.count + 40)
        if isJSON { bytes.append(quote) }
        bytes += prefix
        bytes += number
        if let user {
            bytes.append(UInt8(ascii: "."))
            bytes += user.lowercased.utf8
        }
        bytes.append(UInt8(ascii: ":"))
        bytes += encoded
        if isJSON { bytes.append(quote) }
        return bytes
    }

    /// The parts of a value that begins like a sealed value.
    typealias Parts = (number: Int32, user: UUID?, sealed: Data)

    /// Reads a value that begins like a sealed value; nil if the rest is malformed.
    ///
    /// The result has the data key's number, the user whose key was used, and the sealed bytes.
    static func read(_ bytes: some RandomAccessCollection<UInt8>, isJSON: Bool) -> Parts? {
        guard let (number, user, rest) = names(bytes, isJSON: isJSON) else { return nil }
        var text = bytes[rest...]
        if isJSON, text.popLast() != quote { return nil }
        guard let sealed = Data(base64Encoded: Data(text)), sealed.count >= overhead else { return nil }
        return (number, user, sealed)
    }

    /// The keys with which a stored value is sealed.
    public enum Cover: Sendable, Hashable {
        case plain
        /// A data key by its number, and the key of a user, if any.
        case keys(Int32, user: UUID?)
        /// The value begins like a sealed value, but its keys cannot be read.
        case unknown
    }

    public static func cover(of bytes: some RandomAccessCollection<UInt8>, isJSON: Bool) -> Cover {
        guard bytes.dropFirst(isJSON ? 1 : 0).starts(with: prefix) else { return .plain }
        return names(bytes, isJSON: isJSON).map { .keys($0.number, user: $0.user) } ?? .unknown
    }

    /// The keys before the sealed bytes, and the position at which the sealed bytes begin.
    private static func names<Bytes: RandomAccessCollection<UInt8>>(
        _ bytes: Bytes,
        isJSON: Bool
    ) -> (number: Int32, user: UUID?, rest: Bytes.Index)? {
        let rest = bytes.dropFirst(prefix.count + (isJSON ? 1 : 0))
        guard let end = rest.firstIndex(of: UInt8(ascii: ":")) else { return nil }
        let names = rest[..<end].split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
        guard names.count <= 2, let number = Int32(String(decoding: names[0], as: UTF8.self)), number > 0 else {
            return nil
        }
        var user: UUID?
        if names.count == 2 {
            user = UUID(uuidString: String(decoding: names[1], as: UTF8.self))
            if user == nil { return nil }
        }
        return (number, user, bytes.index(after: end))
    }
}
