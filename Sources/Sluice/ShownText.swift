/// What others have written, such as a token's claims, as a terminal may show it.
enum ShownText {
    /// Characters of a text that are shown at most.
    static let maximum = 300

    /// The text with its control characters, and those that reverse or hide what stands beside them, as `\u{…}`; cut
    /// where it is long.
    static func of(_ text: some StringProtocol) -> String {
        var shown = ""
        for scalar in text.unicodeScalars.prefix(maximum) {
            switch scalar.properties.generalCategory {
            case .control, .format, .surrogate, .privateUse, .unassigned, .lineSeparator, .paragraphSeparator:
                shown += "\\u{" + String(scalar.value, radix: 16) + "}"
            default: shown.unicodeScalars.append(scalar)
            }
        }
        return text.unicodeScalars.count > maximum ? shown + "…" : shown
    }
}
