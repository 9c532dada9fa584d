package import SyncModel

/// Makes untrusted text, such as a token's claims, safe for a terminal.
package enum TerminalText {
    /// Characters of a text that are shown at most.
    package static let maximum = 300

    /// Returns the text with escaped control characters, as `\u{…}`, cut if it is long.
    ///
    /// Characters that reverse or hide their neighbors are escaped, too.
    package static func of(_ text: some StringProtocol, upTo maximum: Int = maximum) -> String {
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

    package static func of(_ text: ByteExactString) -> String { of(text.string) }

    /// Returns a whole output, such as lines or JSON, without characters that would control a terminal.
    ///
    /// It escapes control characters except line ends and tabs, and characters that reverse a line. JSON stays the same
    /// JSON: there these characters occur only within strings, except for carriage returns, which are white space.
    static func harmless(_ output: String) -> String {
        if output.utf8.allSatisfy({ (0x20..<0x7f).contains($0) || $0 == 0x0a || $0 == 0x09 }) { return output }
        var shown = ""
        for scalar in output.unicodeScalars {
            switch scalar.value {
            case 0x09, 0x0a: shown.unicodeScalars.append(scalar)
            case 0x0d: shown += " "
            case ..<0x20, 0x7f...0x9f, 0x061c, 0x200e, 0x200f, 0x2028...0x202e, 0x2066...0x2069:
                let digits = String(scalar.value, radix: 16)
                shown += "\\u" + String(repeating: "0", count: 4 - digits.count) + digits
            default: shown.unicodeScalars.append(scalar)
            }
        }
        return shown
    }
}
