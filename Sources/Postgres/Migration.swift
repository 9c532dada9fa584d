/// One forward step of a schema.
public struct Migration: Sendable, Hashable {
    /// The migration's name, such as `0001_tables`. Migrations run in the order of their names.
    public let name: String
    /// The migration's statements, without BEGIN and COMMIT.
    public let sql: String
    /// The SHA-256 of the text as it was published, in hexadecimal; `nil` if `sql` is that text.
    ///
    /// Databases store the checksum of the published text. If comments of a migration are corrected later, builds from
    /// before and after the correction therefore accept each other's databases.
    public let publishedChecksum: String?

    public init(name: String, sql: String, publishedChecksum: String? = nil) {
        self.name = name
        self.sql = sql
        self.publishedChecksum = publishedChecksum
    }

    /// Returns the text, in which each `:name` of a variable is replaced by the variable's value.
    ///
    /// A token is a colon and an identifier, without a colon or an identifier directly before the token. For this
    /// reason, `::text` and `a[1:n]` are not changed. A token is also not changed if no variable has its name. Tokens
    /// in comments and strings are replaced.
    func text(with variables: [String: String]) -> String {
        if variables.isEmpty { return sql }
        var text = ""
        var rest = Substring(sql)
        var previous: Character = " "
        while let colon = rest.firstIndex(of: ":") {
            if colon > rest.startIndex { previous = rest[rest.index(before: colon)] }
            text += rest[..<colon]
            rest = rest[colon...].dropFirst()
            let name = rest.prefix { Self.isWord($0) }
            if previous != ":", !Self.isWord(previous), let value = variables[String(name)] {
                text += value
                rest = rest.dropFirst(name.count)
                previous = " "
            } else {
                text += ":"
                previous = ":"
            }
        }
        return text + rest
    }

    private static func isWord(_ character: Character) -> Bool {
        character.isLetter || character.isNumber || character == "_"
    }
}

extension Migration {
    /// Splits a text into its statements, without parts that are only comments.
    ///
    /// The statements must run one at a time, because Citus forwards the text of a statement that changes a distributed
    /// table to the other servers of its cluster. If a text had several statements, Citus would forward all of them.
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

    /// The index after the comment that begins here.
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

    /// The index after the quoted text or name that begins here.
    private static func quotedEnd(_ bytes: [UInt8], _ place: Int) -> Int? {
        switch bytes[place] {
        case UInt8(ascii: "\""), UInt8(ascii: "'"):
            let quote = bytes[place]
            let hasEscapes =
                quote == UInt8(ascii: "'") && place > 0 && bytes[place - 1] | 0x20 == UInt8(ascii: "e")
                && (place < 2 || !isWord(bytes[place - 2]))
            var next = place + 1
            // a doubled quote is treated as the end of one text and the beginning of the next
            while next < bytes.count, bytes[next] != quote {
                next += hasEscapes && bytes[next] == UInt8(ascii: "\\") ? 2 : 1
            }
            return min(next + 1, bytes.count)
        case UInt8(ascii: "$") where place == 0 || !isWord(bytes[place - 1]):
            // excludes parameters such as $1
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

/// Compares a build's migrations with the migrations that a database has applied. The comparison changes nothing.
struct MigrationPlan {
    struct Applied: Equatable {
        let name: String
        let checksum: String
    }

    let status: MigratorStatus

    /// - Parameter known: the build's migrations with their checksums.
    /// - Throws: the reason why the applied migrations do not match the known migrations.
    init(known: [Applied], applied: [Applied]) throws(MigratorError) {
        let known = known.sorted { $0.name < $1.name }
        for (first, second) in zip(known, known.dropFirst()) where first.name == second.name {
            throw .duplicate(first.name)
        }
        let applied = applied.sorted { $0.name < $1.name }
        let checksums = Dictionary(known.map { ($0.name, $0.checksum) }) { first, _ in first }
        let lastKnown = known.last?.name ?? ""
        for entry in applied {
            if let checksum = checksums[entry.name] {
                if checksum != entry.checksum { throw .changed(entry.name) }
            } else if entry.name < lastKnown {
                throw .missing(entry.name)
            }
        }
        let done = Set(applied.map(\.name))
        let pending = known.map(\.name).filter { !done.contains($0) }
        if let first = pending.first, let last = applied.last?.name, first < last {
            throw .gap(pending: first, applied: last)
        }
        status = MigratorStatus(
            applied: applied.map(\.name).filter { checksums[$0] != nil },
            pending: pending,
            unknownNewer: applied.map(\.name).filter { checksums[$0] == nil }
        )
    }
}
