/// A second implementation of RFC 8259, slow and recursive: decides whether a text is JSON.
struct ReferenceGrammar {
    private let bytes: [UInt8]
    private let maximumDepth: Int
    private var place = 0

    /// Whether the bytes are one JSON value in UTF-8, nested at most to this depth.
    static func accepts(_ bytes: [UInt8], maximumDepth: Int) -> Bool {
        guard String(validating: bytes, as: UTF8.self) != nil else { return false }
        var grammar = ReferenceGrammar(bytes: bytes, maximumDepth: maximumDepth)
        grammar.space()
        guard grammar.value(depth: 0) else { return false }
        grammar.space()
        return grammar.place == bytes.count
    }

    private init(bytes: [UInt8], maximumDepth: Int) {
        self.bytes = bytes
        self.maximumDepth = maximumDepth
    }

    private var next: UInt8? { place < bytes.count ? bytes[place] : nil }

    private mutating func take(_ byte: Character) -> Bool {
        guard next == byte.asciiValue else { return false }
        place += 1
        return true
    }

    private mutating func space() {
        while let byte = next, [0x20, 0x09, 0x0a, 0x0d].contains(byte) { place += 1 }
    }

    private mutating func value(depth: Int) -> Bool {
        switch next.map({ Character(UnicodeScalar($0)) }) {
        case "{": container("}", depth: depth) { $0.member(depth: depth + 1) }
        case "[": container("]", depth: depth) { $0.value(depth: depth + 1) }
        case "\"": string()
        case "t": word("true")
        case "f": word("false")
        case "n": word("null")
        default: number()
        }
    }

    private mutating func container(_ end: Character, depth: Int, _ item: (inout Self) -> Bool) -> Bool {
        guard depth < maximumDepth else { return false }
        place += 1
        space()
        if take(end) { return true }
        while true {
            space()
            guard item(&self) else { return false }
            space()
            if take(end) { return true }
            guard take(",") else { return false }
        }
    }

    private mutating func member(depth: Int) -> Bool {
        guard string() else { return false }
        space()
        guard take(":") else { return false }
        space()
        return value(depth: depth)
    }

    private mutating func string() -> Bool {
        guard take("\"") else { return false }
        while let byte = next {
            place += 1
            switch byte {
            case 0x22: return true
            case 0..<0x20: return false
            case 0x5c:
                guard let escape = next else { return false }
                place += 1
                if escape == UInt8(ascii: "u") {
                    for _ in 0..<4 {
                        guard let digit = next, Character(UnicodeScalar(digit)).isHexDigit, digit < 0x80 else {
                            return false
                        }
                        place += 1
                    }
                } else if !"\"\\/bfnrt".utf8.contains(escape) {
                    return false
                }
            default: break
            }
        }
        return false
    }

    private mutating func word(_ word: String) -> Bool {
        guard bytes[place...].starts(with: word.utf8) else { return false }
        place += word.utf8.count
        return true
    }

    private mutating func number() -> Bool {
        _ = take("-")
        if !take("0") {
            guard digits() else { return false }
        }
        if take(".") {
            guard digits() else { return false }
        }
        if take("e") || take("E") {
            if !take("+") { _ = take("-") }
            return digits()
        }
        return true
    }

    private mutating func digits() -> Bool {
        let start = place
        while let byte = next, (48...57).contains(byte) { place += 1 }
        return place > start
    }
}
