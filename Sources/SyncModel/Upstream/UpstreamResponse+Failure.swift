import Foundation

/// Answers that may be caused by the operator or by the mutation (product rule 11).
extension UpstreamAnswer {
    public var mayNeedOperator: Bool {
        if case .response(let response) = self { response.mayNeedOperator } else { false }
    }
}

extension UpstreamResponse {
    /// The longest quotation of a `Location`, in characters.
    private static let longestPlace = 200
    /// The text before a place.
    private static let placeMark = "Location: "

    var mayNeedOperator: Bool {
        switch status {
        case 401, 407, 300...399: true
        default: false
        }
    }

    /// The target of a redirect, or how the upstream wants requests to authenticate.
    ///
    /// For operators and users. Nil for other responses, and for those that do not contain it.
    package var pointer: String? {
        switch status {
        case 300...399: Self.place(location).map { Self.placeMark + $0 }
        case 401, 407: challenge.map { "it asks for \($0)" }
        default: nil
        }
    }

    /// A `Location` without parts that may be secret: user, query and fragment.
    private static func place(_ location: String?) -> String? {
        guard let location, location.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7f }) else { return nil }
        var text = location.before("?", "#")
        if let authority = text.range(of: "//") {
            let rest = text[authority.upperBound...]
            let host = rest.before("/", "\\")
            if let user = host.lastIndex(of: "@") {
                text = text[..<authority.upperBound] + rest[rest.index(after: user)...]
            }
        }
        guard !text.isEmpty else { return nil }
        return text.count > longestPlace ? text.prefix(longestPlace) + "…" : String(text)
    }

    /// A stored text about an answer, without the address that a redirect names.
    static func withoutPlace(_ words: String) -> String {
        guard let mark = words.range(of: "(" + placeMark) else { return words }
        // a quoted place has no space in it
        let end = words[mark.upperBound...].firstIndex(of: " ") ?? words.endIndex
        let comma = words[..<end].hasSuffix("),") ? "," : ""
        return "\(words[..<mark.lowerBound])(Location withheld)\(comma)\(words[end...])"
    }

    /// Precedes the first bytes of an answer, at the end of a sentence about it.
    static let excerptMark = " The body begins with: "

    /// A sentence about an answer without the first bytes of the answer.
    static func withoutExcerpt(_ words: String) -> String {
        guard let mark = words.range(of: excerptMark) else { return words }
        return words[..<mark.lowerBound] + " (beginning of the body withheld)"
    }

    /// Whether a text may be the scheme of a challenge, and can be quoted.
    public static func isScheme(_ text: String) -> Bool {
        text.utf8.count <= 40 && HeaderField.isName(text)
    }
}
