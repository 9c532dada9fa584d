import FoundationEssentials
import Glibc

/// Wraps help texts, and contains their recurring parts.
///
/// ArgumentParser would break long lines without indentation, even the lines of commands that readers paste. Therefore
/// ArgumentParser renders lines of unlimited length, and this type wraps them.
package enum HelpText {
    /// The width for rendering without line breaks.
    package static let unlimited = 1_000_000

    /// Returns the section of exit codes at the end of a discussion.
    ///
    /// - Parameters:
    ///   - meanings: meanings that replace the usual ones or add codes.
    ///   - usesDatabase: whether the command exits with 69 if the database is unavailable, and with 78 if the settings
    ///     are invalid.
    package static func exitCodes(_ meanings: KeyValuePairs<Int, String>, usesDatabase: Bool = true) -> String {
        var codes = [0: "Success.", 1: "Failure; standard error has the reason.", 64: "Wrong usage."]
        if usesDatabase {
            codes[69] = "The database is unreachable."
            codes[78] = "The configuration is invalid."
        }
        for (code, meaning) in meanings { codes[code] = meaning }
        let lines = codes.sorted { $0.key < $1.key }.map { "  \($0.key)\($0.key < 10 ? " " : "")  \($0.value)" }
        return (["\n\nEXIT CODES"] + lines).joined(separator: "\n")
    }

    /// The meaning of exit code 1 for a command with typical causes of a failure. Each cause is a clause.
    package static func failure(_ causes: String...) -> String {
        causes.joined(separator: ", ") + ", or another failure; standard error has the reason."
    }

    /// The width of the terminal, but at most 100 columns; 80 if there is no terminal.
    package static var columns: Int {
        if let variable = ProcessInfo.processInfo.environment["COLUMNS"].flatMap({ Int($0) }) {
            return min(max(variable, 40), 100)
        }
        var size = winsize()
        guard ioctl(STDOUT_FILENO, UInt(TIOCGWINSZ), &size) == 0, size.ws_col > 0 else { return 80 }
        return min(max(Int(size.ws_col), 40), 100)
    }

    /// If a message of ArgumentParser is a help text, wraps it at the terminal's width. Other messages are not changed.
    package static func wrapped(from message: String) -> String {
        guard let start = message.range(of: "OVERVIEW: ")?.lowerBound else { return message }
        return message[..<start] + wrapped(String(message[start...]), columns: columns)
    }

    /// Wraps a help text, except for its examples, which already have line breaks.
    ///
    /// Continuation lines are indented like the text of the first line. That text begins after the hyphen of a list, or
    /// after a label (such as an option) that at least two spaces follow.
    package static func wrapped(_ help: String, columns: Int) -> String {
        var isExample = false
        return help.split(separator: "\n", omittingEmptySubsequences: false)
            .map { line in
                if !line.isEmpty, !line.hasPrefix(" ") { isExample = line == "EXAMPLES" }
                return isExample || line.count <= columns ? String(line) : wrapped(line: line, columns: columns)
            }
            .joined(separator: "\n")
    }

    private static func wrapped(line: Substring, columns: Int) -> String {
        let text = text(of: line)
        let label = line[..<text.startIndex]
        let indentation = String(repeating: " ", count: label.count)
        var lines: [String] = []
        var current = String(label)
        for word in words(of: text) {
            if current.count > indentation.count, current.count + 1 + word.count > columns {
                lines.append(current)
                current = indentation
            }
            current += (current.count > indentation.count ? " " : "") + word
        }
        return (lines + [current]).joined(separator: "\n")
    }

    /// The part of a line that follows its indentation and its label.
    private static func text(of line: Substring) -> Substring {
        for label in ["USAGE: ", "- "] where line.hasPrefix(label) { return line.dropFirst(label.count) }
        let text = line.drop(while: \.isWhitespace)
        guard text.startIndex > line.startIndex, let gap = text.range(of: "  ") else { return text }
        return text[gap.upperBound...].drop(while: \.isWhitespace)
    }

    /// The words of a text. A text in brackets, such as `[--reason <text>]`, is one word.
    private static func words(of text: Substring) -> [String] {
        var words: [String] = []
        var depth = 0
        for word in text.split(separator: " ") {
            if depth > 0, let last = words.popLast() {
                words.append(last + " " + word)
            } else {
                words.append(String(word))
            }
            depth += word.utf8.reduce(0) { $0 + ($1 == UInt8(ascii: "[") ? 1 : $1 == UInt8(ascii: "]") ? -1 : 0) }
        }
        return words
    }
}
