/// Rules for a path to an upstream.
///
/// In a push, in a person's correction, in a preview, and in a request with replaced ids.
///
/// A path must lead below the base URL in every reading of it. Servers, and proxies before them, read differently: some
/// decode it first, some more than once; some treat a decoded slash or backslash as a separator; and some drop the part
/// after a `;`. A segment may contain an encoded slash, as in an upstream's id, where no such reading makes dots of it.
public enum PathRules {
    /// The error in a path and its query; completes "endpoint …". Nil for none.
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
        guard PercentEncoding.isWellFormed(path) else { return "has a '%' that two hex digits do not follow" }
        let decoded = PercentEncoding.decoded(path)
        if decoded.contains(where: { $0 < 0x20 || $0 == 0x7f }) { return "has an encoded control character" }
        guard String(validating: decoded, as: UTF8.self) != nil else { return "is not UTF-8 once it is decoded" }
        let final = PercentEncoding.fullyDecoded(decoded)
        if final.count > 1, separates(final[1]) { return "names a host once it is decoded: '//'" }
        // decoding further never hides dots: the last reading shows those of all others
        return final.split(whereSeparator: separates).contains(where: isDots) ? "has a '.' or '..' segment" : nil
    }

    /// Whether some server reads the segment as `.` or `..`.
    ///
    /// The parts that some servers cut off are removed.
    private static func isDots(_ segment: ArraySlice<UInt8>) -> Bool {
        let name = segment.prefix { !cutsOff.contains($0) }
        return (1...2).contains(name.count) && name.allSatisfy { $0 == UInt8(ascii: ".") }
    }

    private static func separates(_ byte: UInt8) -> Bool { byte == slash || byte == backslash }

    private static let slash = UInt8(ascii: "/")
    private static let backslash = UInt8(ascii: "\\")
    /// Bytes that end a name for some servers.
    ///
    /// Parameters, C strings, and the ends of a path.
    private static let cutsOff: Set<UInt8> = [UInt8(ascii: ";"), 0, UInt8(ascii: "?"), UInt8(ascii: "#")]
}
