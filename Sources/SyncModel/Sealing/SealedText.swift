public import FoundationEssentials
import JSONText

/// The written form of a sealed value: `sluice-sealed:1:NUMBER:BASE64`.
///
/// `NUMBER` is the number of the data key. `BASE64` contains the nonce, the ciphertext and the tag. In a json column,
/// the form is a JSON string. In a text column, it is plain text. If a value is sealed with both a user's own key and
/// the organization's key, its form is `sluice-sealed:1:NUMBER.USER:BASE64`. `USER` is the user for whom the key was
/// created.
///
/// A stored value that begins with `sluice-sealed:1:` is sealed, and all other values are plain. If a plain value
/// begins with this text, with or without leading spaces, it is escaped: it is stored with one more space in front
/// (``escaped(json:)``, ``escaped(text:)``), and the reader removes this space. Therefore no payload and no response
/// can be mistaken for a sealed value, and each value is read exactly as it was written.
public enum SealedText {
    static let prefix = Array("sluice-sealed:1:".utf8)
    private static let quote = UInt8(ascii: "\"")
    private static let space = UInt8(ascii: " ")
    /// The size of the nonce and the tag, in bytes. A sealed value has at least this size.
    private static let overhead = 28

    @inline(__always)
    static func isSealed(json: some Collection<UInt8>) -> Bool {
        guard json.first == quote else { return false }
        return json.dropFirst().starts(with: prefix)
    }

    static func isSealed(text: String) -> Bool { text.utf8.starts(with: prefix) }

    /// The beginning of a sealed value, for comparisons in SQL.
    ///
    /// If the arguments are given, only values that are sealed with this data key, and with this user's key, have this
    /// beginning.
    public static func beginning(number: Int32? = nil, user: UUID? = nil, isJSON: Bool) -> String {
        let digits = number.map { String($0) + (user.map { "." + $0.lowercased } ?? "") + ":" } ?? ""
        return (isJSON ? "\"" : "") + String(decoding: prefix, as: UTF8.self) + digits
    }

    /// Whether a plain value of a json column must be escaped.
    public static func needsEscape(json: ArraySlice<UInt8>) -> Bool {
        // most values are objects, which need no escape
        guard let first = json.first, first == quote || first == space else { return false }
        return isSealed(json: json.drop { $0 == space })
    }

    /// Whether a plain value of a text column must be escaped.
    public static func needsEscape(text: String) -> Bool { text.utf8.drop { $0 == space }.starts(with: prefix) }

    /// The stored form of a plain value in a json column.
    ///
    /// The escape does not change the value, because white space in front of a JSON text has no meaning (RFC 8259,
    /// section 2).
    static func escaped(json: [UInt8]) -> [UInt8] { needsEscape(json: json[...]) ? [space] + json : json }

    /// Reverses ``escaped(json:)``.
    static func unescaped(json: [UInt8]) -> [UInt8] {
        json.first == space && needsEscape(json: json[...]) ? Array(json.dropFirst()) : json
    }

    /// The stored form of a plain value in a text column.
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

    /// The parts of a sealed value.
    typealias Parts = (number: Int32, user: UUID?, sealed: Data)

    /// Reads a value that begins like a sealed value; nil if the rest of the value is malformed.
    ///
    /// The result has the number of the data key, the user whose key was used (or nil), and the sealed bytes.
    static func read(_ bytes: some RandomAccessCollection<UInt8>, isJSON: Bool) -> Parts? {
        guard let (number, user, rest) = names(bytes, isJSON: isJSON) else { return nil }
        var text = bytes[rest...]
        if isJSON, text.popLast() != quote { return nil }
        guard let sealed = Data(base64Encoded: Data(text)), sealed.count >= overhead else { return nil }
        return (number, user, sealed)
    }

    /// The keys that seal a stored value.
    public enum Cover: Sendable, Hashable {
        case plain
        /// The number of the data key, and the user whose key was used; nil if no user's key was used.
        case keys(Int32, user: UUID?)
        /// The value begins like a sealed value, but its keys cannot be read.
        case unknown
    }

    public static func cover(of bytes: some RandomAccessCollection<UInt8>, isJSON: Bool) -> Cover {
        guard bytes.dropFirst(isJSON ? 1 : 0).starts(with: prefix) else { return .plain }
        return names(bytes, isJSON: isJSON).map { .keys($0.number, user: $0.user) } ?? .unknown
    }

    /// Reads the number of the data key, the user, and the index at which the sealed bytes begin.
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
