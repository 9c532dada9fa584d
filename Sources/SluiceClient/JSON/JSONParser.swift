/// Reads one JSON text (RFC 8259).
struct JSONParser {
    private let bytes: UnsafeBufferPointer<UInt8>
    private var position = 0
    private var depth = 0
    /// The maximum nesting. No response of the gateway is nested as deep: a document has at most 64 levels, and a
    /// response adds a few levels around it.
    private static let depthLimit = 512

    private init(_ bytes: UnsafeBufferPointer<UInt8>) { self.bytes = bytes }

    static func parse(_ bytes: some Sequence<UInt8>) throws(JSONSyntaxError) -> JSON {
        let parsed = bytes.withContiguousStorageIfAvailable { read($0) } ?? Array(bytes).withUnsafeBufferPointer(read)
        return try parsed.get()
    }

    static func isNumber(_ text: [UInt8]) -> Bool {
        text.withUnsafeBufferPointer { bytes in
            var parser = JSONParser(bytes)
            guard (try? parser.number()) != nil else { return false }
            return parser.position == bytes.count
        }
    }

    private static func read(_ bytes: UnsafeBufferPointer<UInt8>) -> Result<JSON, JSONSyntaxError> {
        Result { () throws(JSONSyntaxError) in
            var parser = JSONParser(bytes)
            parser.skipSpace()
            let value = try parser.value()
            parser.skipSpace()
            guard parser.position == bytes.count else { throw parser.error("the end of the text") }
            return value
        }
    }

    private func error(_ expected: String) -> JSONSyntaxError {
        JSONSyntaxError(offset: position, expected: expected)
    }

    private var next: UInt8? { position < bytes.count ? bytes[position] : nil }

    private mutating func skipSpace() {
        while let byte = next, byte == 0x20 || byte == 0x0A || byte == 0x0D || byte == 0x09 { position += 1 }
    }

    private mutating func take(_ byte: Character) throws(JSONSyntaxError) {
        guard next == byte.asciiValue else { throw error("'\(byte)'") }
        position += 1
    }

    private mutating func take(_ word: StaticString, as value: JSON) throws(JSONSyntaxError) -> JSON {
        for index in 0..<word.utf8CodeUnitCount {
            guard next == word.utf8Start[index] else { throw error("a value") }
            position += 1
        }
        return value
    }

    private mutating func value() throws(JSONSyntaxError) -> JSON {
        switch next {
        case UInt8(ascii: "{"): try nested { parser throws(JSONSyntaxError) in try parser.members() }
        case UInt8(ascii: "["): try nested { parser throws(JSONSyntaxError) in try parser.elements() }
        case UInt8(ascii: "\""): .string(try string())
        case UInt8(ascii: "t"): try take("true", as: true)
        case UInt8(ascii: "f"): try take("false", as: false)
        case UInt8(ascii: "n"): try take("null", as: .null)
        default: .number(try number())
        }
    }

    private mutating func nested(
        _ read: (inout JSONParser) throws(JSONSyntaxError) -> JSON
    ) throws(JSONSyntaxError) -> JSON {
        guard depth < Self.depthLimit else { throw error("at most \(Self.depthLimit) levels") }
        depth += 1
        position += 1
        skipSpace()
        let value = try read(&self)
        depth -= 1
        return value
    }

    private mutating func members() throws(JSONSyntaxError) -> JSON {
        var members: [String: JSON] = [:]
        if next == UInt8(ascii: "}") {
            position += 1
            return .object(members)
        }
        while true {
            guard next == UInt8(ascii: "\"") else { throw error("a member's name") }
            let name = try string()
            skipSpace()
            try take(":")
            skipSpace()
            members[name] = try value()
            skipSpace()
            if next != UInt8(ascii: ",") { break }
            position += 1
            skipSpace()
        }
        try take("}")
        return .object(members)
    }

    private mutating func elements() throws(JSONSyntaxError) -> JSON {
        var elements: [JSON] = []
        if next == UInt8(ascii: "]") {
            position += 1
            return .array(elements)
        }
        while true {
            elements.append(try value())
            skipSpace()
            if next != UInt8(ascii: ",") { break }
            position += 1
            skipSpace()
        }
        try take("]")
        return .array(elements)
    }

    private mutating func number() throws(JSONSyntaxError) -> JSONNumber {
        let start = position
        if next == UInt8(ascii: "-") { position += 1 }
        if next == UInt8(ascii: "0") { position += 1 } else { try digits("a value") }
        if next == UInt8(ascii: ".") {
            position += 1
            try digits("a digit")
        }
        if next == UInt8(ascii: "e") || next == UInt8(ascii: "E") {
            position += 1
            if next == UInt8(ascii: "+") || next == UInt8(ascii: "-") { position += 1 }
            try digits("a digit")
        }
        return JSONNumber(checked: String(decoding: bytes[start..<position], as: UTF8.self))
    }

    private mutating func digits(_ expected: String) throws(JSONSyntaxError) {
        let start = position
        while let byte = next, (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte) { position += 1 }
        guard position > start else { throw error(expected) }
    }

    // MARK: - Strings

    private mutating func string() throws(JSONSyntaxError) -> String {
        position += 1
        let start = position
        while let byte = next {
            if byte == UInt8(ascii: "\"") {
                defer { position += 1 }
                return text(start..<position)
            }
            if byte == UInt8(ascii: "\\") { return try escaped(from: start) }
            guard byte >= 0x20 else { throw error("no control character") }
            position += 1
        }
        throw error("the end of a string")
    }

    /// Invalid UTF-8 becomes replacement characters. The gateway sends only valid UTF-8.
    private func text(_ range: Range<Int>) -> String { String(decoding: bytes[range], as: UTF8.self) }

    /// Reads the rest of a string from its first escape on.
    private mutating func escaped(from start: Int) throws(JSONSyntaxError) -> String {
        var result = text(start..<position)
        var plain = position
        while let byte = next {
            if byte == UInt8(ascii: "\"") {
                result += text(plain..<position)
                position += 1
                return result
            }
            guard byte >= 0x20 else { throw error("no control character") }
            if byte == UInt8(ascii: "\\") {
                result += text(plain..<position)
                position += 1
                result.unicodeScalars.append(try escape())
                plain = position
            } else {
                position += 1
            }
        }
        throw error("the end of a string")
    }

    private mutating func escape() throws(JSONSyntaxError) -> Unicode.Scalar {
        guard let byte = next else { throw error("an escape") }
        position += 1
        switch byte {
        case UInt8(ascii: "\""), UInt8(ascii: "\\"), UInt8(ascii: "/"): return Unicode.Scalar(byte)
        case UInt8(ascii: "b"): return "\u{8}"
        case UInt8(ascii: "f"): return "\u{C}"
        case UInt8(ascii: "n"): return "\n"
        case UInt8(ascii: "r"): return "\r"
        case UInt8(ascii: "t"): return "\t"
        case UInt8(ascii: "u"): return try unicodeEscape()
        default: throw error("an escape")
        }
    }

    private mutating func unicodeEscape() throws(JSONSyntaxError) -> Unicode.Scalar {
        let first = try codeUnit()
        if let scalar = Unicode.Scalar(first) { return scalar }
        // the first half of a surrogate pair; a lone half becomes the replacement character
        guard UTF16.isLeadSurrogate(first), next == UInt8(ascii: "\\"), position + 1 < bytes.count,
            bytes[position + 1] == UInt8(ascii: "u")
        else { return "\u{FFFD}" }
        let before = position
        position += 2
        let second = try codeUnit()
        guard UTF16.isTrailSurrogate(second) else {
            position = before
            return "\u{FFFD}"
        }
        return UTF16.decode(UTF16.EncodedScalar([first, second]))
    }

    private mutating func codeUnit() throws(JSONSyntaxError) -> UInt16 {
        var unit: UInt16 = 0
        for _ in 0..<4 {
            guard let digit = next.flatMap({ Character(Unicode.Scalar($0)).hexDigitValue }) else {
                throw error("four hexadecimal digits")
            }
            unit = unit << 4 | UInt16(digit)
            position += 1
        }
        return unit
    }
}

/// An error in a text that is not valid JSON.
public struct JSONSyntaxError: Error, Sendable, Hashable, CustomStringConvertible {
    /// The offset of the first invalid byte, counted from 0.
    public let offset: Int
    /// A description of the text that would be valid at this offset.
    public let expected: String

    public var description: String { "invalid JSON: expected \(expected) at byte \(offset)" }
}
