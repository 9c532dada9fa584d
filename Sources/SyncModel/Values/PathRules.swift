/// The rules for a path to an upstream.
///
/// The rules apply to the path in an entry of a push, in a person's correction and in a preview, and to the path of a
/// request after ids were replaced.
///
/// A path must be below the base URL in every interpretation. Servers, and the proxies in front of them, interpret
/// paths differently. Some decode the path first, or more than once. Some treat a decoded slash or backslash as a
/// separator. Some drop the part after a `;`.
///
/// A segment may contain an encoded slash, because an upstream's id may contain a slash. A segment is refused if a part
/// of it becomes `.` or `..` in one of these interpretations.
public enum PathRules {
    /// The error in a path with its query; nil for a valid path.
    ///
    /// The text continues a sentence that begins with "endpoint".
    public static func problem(in text: String) -> String? {
        var text = text
        return text.withUTF8 { problem(in: $0) }
    }

    private static func problem(in bytes: UnsafeBufferPointer<UInt8>) -> String? {
        guard bytes.first == slash else { return "must start with one '/', without scheme or host" }
        if bytes.count > 1, bytes[1] == slash { return "must start with one '/' only: '//' names a host" }
        var end = bytes.count
        // most paths need no further check, because they have neither escapes nor dots at the start of a segment
        var isPlain = true
        for (index, byte) in bytes.enumerated() {
            switch byte {
            case 0...0x20, 0x7f: return "has a space or a control character; percent-encode it"
            case backslash: return "has a backslash; percent-encode it"
            case UInt8(ascii: "#"): return "has a fragment ('#')"
            case UInt8(ascii: "?"): end = min(end, index)
            case UInt8(ascii: "%"), UInt8(ascii: "."):
                if end == bytes.count, byte != UInt8(ascii: ".") || bytes[index - 1] == slash { isPlain = false }
            default: break
            }
        }
        return isPlain ? nil : problem(decoding: bytes[..<end])
    }

    private static func problem(decoding path: Slice<UnsafeBufferPointer<UInt8>>) -> String? {
        guard PercentEncoding.isWellFormed(path) else { return "has a '%' without two hex digits after it" }
        let decoded = PercentEncoding.decoded(path)
        if decoded.contains(where: { $0 < 0x20 || $0 == 0x7f }) { return "has an encoded control character" }
        guard String(validating: decoded, as: UTF8.self) != nil else { return "is not UTF-8 once it is decoded" }
        let final = PercentEncoding.fullyDecoded(decoded)
        if final.count > 1, separates(final[1]) { return "names a host once it is decoded: '//'" }
        // it is sufficient to check the fully decoded form, because each decoding can only reveal further dots
        return final.split(whereSeparator: separates).contains(where: isDots) ? "has a '.' or '..' segment" : nil
    }

    /// Whether some servers interpret the segment as `.` or `..`.
    ///
    /// The check ignores the part of the segment that some servers cut off.
    private static func isDots(_ segment: ArraySlice<UInt8>) -> Bool {
        let name = segment.prefix { !cutsOff.contains($0) }
        return (1...2).contains(name.count) && name.allSatisfy { $0 == UInt8(ascii: ".") }
    }

    private static func separates(_ byte: UInt8) -> Bool { byte == slash || byte == backslash }

    private static let slash = UInt8(ascii: "/")
    private static let backslash = UInt8(ascii: "\\")
    /// The bytes at which some servers cut off a segment.
    ///
    /// These bytes begin parameters, end a C string, or end a path.
    private static let cutsOff: Set<UInt8> = [UInt8(ascii: ";"), 0, UInt8(ascii: "?"), UInt8(ascii: "#")]
}

/// Percent-encoding (RFC 3986, 2.1). No other code decodes a `%`.
package enum PercentEncoding {
    /// Whether each `%` is followed by two hex digits.
    package static func isWellFormed(_ text: some Collection<UInt8>) -> Bool {
        var rest = text[...]
        while let percent = rest.firstIndex(of: 0x25) {
            rest = rest[rest.index(after: percent)...]
            guard escape(rest.prefix(2)) != nil else { return false }
            rest = rest.dropFirst(2)
        }
        return true
    }

    /// The decoded text. A `%` that is not followed by two hex digits remains unchanged.
    package static func decoded(_ text: some Collection<UInt8>) -> [UInt8] {
        var output: [UInt8] = []
        output.reserveCapacity(text.count)
        var rest = text[...]
        while let byte = rest.popFirst() {
            if byte == 0x25, let value = escape(rest.prefix(2)) {
                output.append(value)
                rest = rest.dropFirst(2)
            } else {
                output.append(byte)
            }
        }
        return output
    }

    /// The result of decoding the text repeatedly until it has no escapes.
    ///
    /// The method reads the text only once, because it immediately decodes the escapes that arise from decoded bytes.
    package static func fullyDecoded(_ text: some Sequence<UInt8>) -> [UInt8] {
        var output: [UInt8] = []
        for byte in text {
            output.append(byte)
            while output.count >= 3, output[output.count - 3] == 0x25, let value = escape(output.suffix(2)) {
                output.removeLast(3)
                output.append(value)
            }
        }
        return output
    }

    /// The encoded text, in which all characters except unreserved characters (RFC 3986, 2.3) are escaped.
    package static func encoded(_ text: String) -> [UInt8] {
        text.utf8.flatMap { byte -> [UInt8] in
            switch byte {
            case 48...57, 65...90, 97...122, 0x2d, 0x2e, 0x5f, 0x7e: [byte]
            default: escaped(byte)
            }
        }
    }

    /// The escape of a byte, which is `%` and two hex digits.
    package static func escaped(_ byte: UInt8) -> [UInt8] {
        [0x25, digits[Int(byte >> 4)], digits[Int(byte & 15)]]
    }

    /// The byte that two hex digits encode; nil if the bytes are not exactly two hex digits.
    package static func escape(_ digits: some Collection<UInt8>) -> UInt8? {
        guard digits.count == 2, let first = digits.first.flatMap(hexValue),
            let second = digits.dropFirst().first.flatMap(hexValue)
        else { return nil }
        return first << 4 | second
    }

    private static func hexValue(_ byte: UInt8) -> UInt8? {
        switch byte {
        case 48...57: byte - 48
        case 65...70: byte - 55
        case 97...102: byte - 87
        default: nil
        }
    }

    private static let digits = Array("0123456789ABCDEF".utf8)
}
