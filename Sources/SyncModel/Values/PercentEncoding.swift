/// Percent-encoding (RFC 3986, 2.1): the one place that decodes a `%`.
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

    /// The decoded text. A `%` without two hex digits after it stays.
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

    /// The text after decoding until nothing is left to decode. In one pass: a decoded byte may complete an escape that
    /// began before it.
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

    /// Everything but unreserved characters (RFC 3986, 2.3) is encoded.
    package static func encoded(_ text: String) -> [UInt8] {
        text.utf8.flatMap { byte -> [UInt8] in
            switch byte {
            case 48...57, 65...90, 97...122, 0x2d, 0x2e, 0x5f, 0x7e: [byte]
            default: escaped(byte)
            }
        }
    }

    /// `%` and two digits.
    package static func escaped(_ byte: UInt8) -> [UInt8] {
        [0x25, digits[Int(byte >> 4)], digits[Int(byte & 15)]]
    }

    /// The byte that exactly two hex digits encode; nil for anything else.
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
