/// Rules for a path to an upstream.
///
/// They apply to the path of a push's entry, a person's correction, a preview, and a request in which ids were
/// replaced.
///
/// In every interpretation, a path must be below the base URL. Servers, and the proxies in front of them, interpret
/// paths differently. Some decode the path first, some more than once; some treat a decoded slash or backslash as a
/// separator; and some drop the part after a `;`.
///
/// A segment may contain an encoded slash, as an upstream's id may. It is refused if one of these interpretations turns
/// a part of it into `.` or `..`.
public enum PathRules {
    /// The error in a path and its query; nil for a valid path. The text continues a sentence that begins with
    /// "endpoint".
    public static func problem(in text: String) -> String? {
        var text = text
        return text.withUTF8 { problem(in: $0) }
    }

    private static func problem(in bytes: UnsafeBufferPointer<UInt8>) -> String? {
        guard bytes.first == slash else { return "must start with one '/', without scheme or host" }
        if bytes.count > 1, bytes[1] == slash { return "must start with one '/' only: '//' names a host" }
        var end = bytes.count
        // most paths have neither escapes nor dots at the start of a segment
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
        // each decoding can only reveal dots, so the last form has the dots of all others
        return final.split(whereSeparator: separates).contains(where: isDots) ? "has a '.' or '..' segment" : nil
    }

    /// Whether some servers interpret the segment as `.` or `..`.
    ///
    /// The bytes that some servers cut off are ignored.
    private static func isDots(_ segment: ArraySlice<UInt8>) -> Bool {
        let name = segment.prefix { !cutsOff.contains($0) }
        return (1...2).contains(name.count) && name.allSatisfy { $0 == UInt8(ascii: ".") }
    }

    private static func separates(_ byte: UInt8) -> Bool { byte == slash || byte == backslash }

    private static let slash = UInt8(ascii: "/")
    private static let backslash = UInt8(ascii: "\\")
    /// Bytes at which some servers end a name.
    ///
    /// Such a byte begins parameters, ends a C string, or ends a path.
    private static let cutsOff: Set<UInt8> = [UInt8(ascii: ";"), 0, UInt8(ascii: "?"), UInt8(ascii: "#")]
}

/// Percent-encoding (RFC 3986, 2.1): only this code decodes a `%`.
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

    /// The decoded text. A `%` without two hex digits after it stays unchanged.
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

    /// The text, decoded until it has no escapes.
    ///
    /// One pass is enough, because it also decodes escapes that contain a decoded byte.
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

    /// The encoded text. All characters except unreserved characters (RFC 3986, 2.3) are encoded.
    package static func encoded(_ text: String) -> [UInt8] {
        text.utf8.flatMap { byte -> [UInt8] in
            switch byte {
            case 48...57, 65...90, 97...122, 0x2d, 0x2e, 0x5f, 0x7e: [byte]
            default: escaped(byte)
            }
        }
    }

    /// A byte as `%` and two digits.
    package static func escaped(_ byte: UInt8) -> [UInt8] {
        [0x25, digits[Int(byte >> 4)], digits[Int(byte & 15)]]
    }

    /// The byte that exactly two hex digits encode; nil for any other bytes.
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
