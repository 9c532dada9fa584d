/// The words of a typed line; double quotes combine several words into one.
struct Words {
    private var rest: Substring

    init(_ line: String) { rest = line[...].drop { $0 == " " } }

    var isEmpty: Bool { rest.isEmpty }

    /// - Throws: ``Complaint`` if no word is left.
    mutating func next(_ meaning: String) throws -> String {
        guard let first = rest.first else { throw Complaint("\(meaning) is missing: see help") }
        let isQuoted = first == "\""
        if isQuoted { rest.removeFirst() }
        let end = rest.firstIndex(of: isQuoted ? "\"" : " ") ?? rest.endIndex
        defer { rest = rest[end...].drop { $0 == " " || $0 == "\"" && isQuoted } }
        return String(rest[..<end])
    }

    /// The remaining text, as typed.
    mutating func remainder(_ meaning: String) throws -> String {
        if rest.first == "\"" { return try next(meaning) }
        guard !rest.isEmpty else { throw Complaint("\(meaning) is missing: see help") }
        defer { rest = "" }
        return String(rest)
    }
}
