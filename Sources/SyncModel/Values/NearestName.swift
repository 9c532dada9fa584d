/// Finds the known name that is most similar to an unknown name.
public enum NearestName {
    /// The maximum length, in bytes, of a name for which a similar name is searched.
    ///
    /// The length is limited because the cost of a comparison is the product of both lengths.
    public static let maximumBytes = 64

    /// The candidate closest to `name`.
    ///
    /// For example, these names are similar to `sequence_number`:
    /// - `sequenceNumber`, which differs only in spelling.
    /// - `sequnce_number`, which has few typing errors.
    /// - `sequence`, if no other candidate begins or ends with the words of this name.
    ///
    /// Nil if no candidate is similar.
    public static func of(_ name: String, among candidates: [String]) -> String? {
        guard (1...maximumBytes).contains(name.utf8.count) else { return nil }
        let plain = folded(name)
        guard !plain.isEmpty else { return nil }
        if let other = candidates.first(where: { folded($0) == plain }) { return other }
        let limit = plain.count < 4 ? 1 : max(2, plain.count / 3)
        var nearest: (candidate: String, distance: Int)?
        for candidate in candidates {
            let other = folded(candidate)
            guard abs(other.count - plain.count) <= limit, limit < other.count else { continue }
            let distance = distance(plain, other)
            if distance <= limit, distance < nearest?.distance ?? .max { nearest = (candidate, distance) }
        }
        if let nearest { return nearest.candidate }
        guard plain.count >= 3 else { return nil }
        let parts = candidates.filter { candidate in
            let words = words(candidate).map(folded)
            return (1..<max(words.count, 1)).contains { count in
                words.prefix(count).joined().elementsEqual(plain) || words.suffix(count).joined().elementsEqual(plain)
            }
        }
        return parts.count == 1 ? parts.first : nil
    }

    private static func words(_ name: String) -> [String] {
        name.unicodeScalars.split(whereSeparator: { ["_", "-"].contains($0) }).map { String($0) }
    }

    /// The bytes in lower case, without the separators of words.
    private static func folded(_ name: String) -> [UInt8] {
        name.utf8.compactMap { byte in
            switch byte {
            case UInt8(ascii: "_"), UInt8(ascii: "-"), UInt8(ascii: " "), UInt8(ascii: "."): nil
            case UInt8(ascii: "A")...UInt8(ascii: "Z"): byte + 32
            default: byte
            }
        }
    }

    /// The Levenshtein distance, computed row by row.
    private static func distance(_ left: [UInt8], _ right: [UInt8]) -> Int {
        var row = Array(0...right.count)
        for (index, byte) in left.enumerated() {
            var diagonal = row[0]
            row[0] = index + 1
            for column in 1..<row.count {
                let substitution = diagonal + (byte == right[column - 1] ? 0 : 1)
                diagonal = row[column]
                row[column] = min(substitution, diagonal + 1, row[column - 1] + 1)
            }
        }
        return row.last ?? left.count
    }
}

/// The error text for an unknown member of an object.
public enum UnknownMember {
    /// The maximum number of characters of an unknown name that an error quotes.
    private static let shownCharacters = 64
    /// The maximum number of errors of one body that contain a suggestion.
    public static let suggestions = 8

    /// - Parameters:
    ///   - what: the object's name, a colon and the names of its members, as in `a push: device_id, mutations`.
    ///   - objection: the error, which follows the member's name; nil for the default, "is not a member of" the object.
    ///   - isSuggesting: whether to search for a similar member. Limit the number of suggestions for each body, because
    ///     a body may have many unknown members.
    public static func detail(
        _ name: String,
        of what: String,
        _ objection: String? = nil,
        isSuggesting: Bool = true
    ) -> String {
        let hint = isSuggesting ? hint(name, known: names(in: what)) : ""
        return "'\(shown(name))' \(objection ?? "is not a member of \(what)")" + hint
    }

    /// `; is 'sequence_number' meant?` if a known name is similar; otherwise empty.
    public static func hint(_ name: String, known: [String]) -> String {
        NearestName.of(name, among: known).map { "; is '\($0)' meant?" } ?? ""
    }

    /// The part of a name that an error quotes.
    public static func shown(_ name: String) -> String {
        guard name.utf8.count > shownCharacters else { return name }
        let start = name.unicodeScalars.prefix(shownCharacters)
        return start.endIndex == name.endIndex ? name : String(start) + "…"
    }

    /// The names of members after the colon.
    private static func names(in what: String) -> [String] {
        guard let colon = what.utf8.firstIndex(of: UInt8(ascii: ":")) else { return [] }
        let list = what[colon...].before(";")
        return list.split { !($0.isASCII && ($0.isLetter || $0.isNumber) || $0 == "_") }
            .map(String.init).filter { $0 != "and" && $0 != "or" }
    }
}
