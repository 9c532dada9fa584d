extension Migration {
    /// The statements of a text, without parts that are only comments.
    ///
    /// So they can be run one by one: Citus takes a change of a distributed table to the other servers by the whole
    /// text that it came in.
    ///
    /// A semicolon ends a statement, but not within quotes, dollar quotes and comments. The bodies of SQL-standard
    /// functions (`BEGIN ATOMIC`) are not recognized.
    static func statements(in text: String) -> [String] {
        let bytes = Array(text.utf8)
        var statements: [String] = []
        var (start, place, isStatement) = (0, 0, false)
        func end(at end: Int) {
            if isStatement { statements.append(String(decoding: bytes[start..<end], as: UTF8.self)) }
            (start, isStatement) = (end + 1, false)
        }
        while place < bytes.count {
            if let next = commentEnd(bytes, place) {
                place = next
                continue
            }
            let byte = bytes[place]
            if byte == UInt8(ascii: ";") { end(at: place) } else if !isSpace(byte) { isStatement = true }
            place = quotedEnd(bytes, place) ?? (place + 1)
        }
        end(at: bytes.count)
        return statements
    }

    /// Behind the comment that begins here.
    private static func commentEnd(_ bytes: [UInt8], _ place: Int) -> Int? {
        if starts(bytes, place, "--") { return bytes[place...].firstIndex(of: UInt8(ascii: "\n")) ?? bytes.count }
        guard starts(bytes, place, "/*") else { return nil }
        var (place, depth) = (place + 2, 1)
        while place < bytes.count, depth > 0 {
            let change = starts(bytes, place, "/*") ? 1 : starts(bytes, place, "*/") ? -1 : 0
            depth += change
            place += change == 0 ? 1 : 2
        }
        return place
    }

    /// Behind the text or name in quotes that begins here.
    private static func quotedEnd(_ bytes: [UInt8], _ place: Int) -> Int? {
        switch bytes[place] {
        case UInt8(ascii: "\""), UInt8(ascii: "'"):
            let quote = bytes[place]
            let hasEscapes =
                quote == UInt8(ascii: "'") && place > 0 && bytes[place - 1] | 0x20 == UInt8(ascii: "e")
                && (place < 2 || !isWord(bytes[place - 2]))
            var next = place + 1
            // a quote that is doubled ends here and begins again
            while next < bytes.count, bytes[next] != quote {
                next += hasEscapes && bytes[next] == UInt8(ascii: "\\") ? 2 : 1
            }
            return min(next + 1, bytes.count)
        case UInt8(ascii: "$") where place == 0 || !isWord(bytes[place - 1]):
            // not a parameter, such as $1
            guard let close = bytes[(place + 1)...].firstIndex(where: { !isWord($0) }),
                bytes[close] == UInt8(ascii: "$"), !(48...57).contains(bytes[place + 1])
            else { return nil }
            let tag = bytes[place...close]
            var next = close + 1
            while next < bytes.count, !bytes[next...].starts(with: tag) { next += 1 }
            return min(next + tag.count, bytes.count)
        default: return nil
        }
    }

    private static func starts(_ bytes: [UInt8], _ place: Int, _ mark: StaticString) -> Bool {
        place + 1 < bytes.count && bytes[place] == mark.utf8Start[0] && bytes[place + 1] == mark.utf8Start[1]
    }

    private static func isWord(_ byte: UInt8) -> Bool {
        byte >= 128 || byte == UInt8(ascii: "_") || (48...57).contains(byte) || (97...122).contains(byte | 0x20)
    }

    private static func isSpace(_ byte: UInt8) -> Bool { byte == 32 || (9...13).contains(byte) }
}
