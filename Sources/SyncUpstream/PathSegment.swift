/// What a server, or a proxy before it, might make of one segment of a path.
enum PathSegment {
    /// Whether somebody might read the segment as `.` or `..`, and so leave the path before it.
    ///
    /// Some decode it first, some more than once; some take a decoded slash or backslash for one that separates; and
    /// some drop what follows a `;`.
    static func mayLeave(_ segment: ArraySlice<UInt8>) -> Bool {
        // most segments are neither dots nor escaped
        guard segment.first == UInt8(ascii: ".") || segment.contains(UInt8(ascii: "%")) else { return false }
        var text = Array(segment)
        while true {
            if hasDots(text) { return true }
            let decoded = decoded(text)
            // each round of decoding makes it shorter
            if decoded.count == text.count { return false }
            text = decoded
        }
    }

    static func hexValue(_ byte: UInt8) -> UInt8? {
        switch byte {
        case 48...57: byte - 48
        case 65...70: byte - 55
        case 97...102: byte - 87
        default: nil
        }
    }

    private static func hasDots(_ text: [UInt8]) -> Bool {
        text.split { $0 == UInt8(ascii: "/") || $0 == UInt8(ascii: "\\") }.contains { part in
            let name = part.prefix { $0 != UInt8(ascii: ";") && $0 != 0 }
            return (1...2).contains(name.count) && name.allSatisfy { $0 == UInt8(ascii: ".") }
        }
    }

    private static func decoded(_ text: [UInt8]) -> [UInt8] {
        var output: [UInt8] = []
        var rest = text[...]
        while let byte = rest.popFirst() {
            if byte == UInt8(ascii: "%"), rest.count >= 2, let high = hexValue(rest[rest.startIndex]),
                let low = hexValue(rest[rest.startIndex + 1])
            {
                output.append(high << 4 | low)
                rest = rest.dropFirst(2)
            } else {
                output.append(byte)
            }
        }
        return output
    }
}
