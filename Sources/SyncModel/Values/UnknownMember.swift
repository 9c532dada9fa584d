/// The error text for a member that an object does not have.
public enum UnknownMember {
    /// Characters of an unknown name that an error repeats at most.
    private static let shownCharacters = 64
    /// Errors of one body that come with a suggestion.
    public static let suggestions = 8

    /// - Parameters:
    ///   - what: the object and, behind a colon, its members: `a push: device_id, mutations`.
    ///   - isSuggesting: whether to search for the member that was probably meant. Limit the suggestions for one body,
    ///     which may have many unknown members.
    public static func detail(_ name: String, of what: String, isSuggesting: Bool = true) -> String {
        "'\(shown(name))' is not a member of \(what)" + (isSuggesting ? hint(name, known: names(in: what)) : "")
    }

    /// `; is 'sequence_number' meant?` if a known name is close; else empty.
    public static func hint(_ name: String, known: [String]) -> String {
        NearestName.of(name, among: known).map { "; is '\($0)' meant?" } ?? ""
    }

    /// A name as far as an error repeats it.
    public static func shown(_ name: String) -> String {
        guard name.utf8.count > shownCharacters else { return name }
        let start = name.unicodeScalars.prefix(shownCharacters)
        return start.endIndex == name.endIndex ? name : String(start) + "…"
    }

    /// The words behind the colon that can be members' names.
    private static func names(in what: String) -> [String] {
        guard let colon = what.utf8.firstIndex(of: UInt8(ascii: ":")) else { return [] }
        let list = what[colon...].before(";")
        return list.split { !($0.isASCII && ($0.isLetter || $0.isNumber) || $0 == "_") }
            .map(String.init).filter { $0 != "and" && $0 != "or" }
    }
}
