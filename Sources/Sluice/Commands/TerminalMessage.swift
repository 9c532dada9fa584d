import ArgumentParser
import FoundationEssentials
import JSONText

/// The error message about invalid arguments, without the arguments.
///
/// The arguments may contain a token, or parts of a token that was copied with line ends. The token would remain in a
/// terminal's scrollback, and in the logs of programs that run commands.
enum TerminalMessage {
    /// The maximum length of a value that is treated as a word. Longer values may be parts of a token.
    private static let longestWord = 15

    /// The message without arguments that may be a token or a part of a token. Options and UUIDs stay in the message.
    static func of(_ message: String, about arguments: [String]) -> String {
        let isAboutToken = arguments.first == "token"
        let values = isAboutToken ? shortValues(in: arguments) : []
        let pieces = arguments.flatMap(pieces).filter { !values.contains($0) && mayBeToken($0, isAboutToken) }
        var shown = message
        for piece in Set(pieces).sorted(by: { $0.utf8.count > $1.utf8.count }) {
            if piece.utf8.count > longestWord {
                shown = shown.replacing(piece, with: "…")
            } else {
                for (before, after) in [("'", "'"), ("\"", "\"")] {
                    shown = shown.replacing(before + piece + after, with: before + "…" + after)
                }
            }
        }
        return shown
    }

    /// Returns the values of options that never contain a token, if the values are words or numbers. For example, a
    /// message about `--user anna` keeps `anna`.
    private static func shortValues(in arguments: [String]) -> Set<String> {
        let options: Set = ["--user", "--organization", "--ttl", "--name", "--scope"]
        var values: Set<String> = []
        for (option, value) in zip(arguments, arguments.dropFirst()) where options.contains(option) {
            values.insert(value)
        }
        for argument in arguments {
            guard let equals = argument.firstIndex(of: "="), options.contains(String(argument[..<equals])) else {
                continue
            }
            values.insert(String(argument[argument.index(after: equals)...]))
        }
        // a part of a token usually contains letters of both cases, or letters and digits
        return values.filter { value in
            let isWord = value.utf8.allSatisfy { (0x61...0x7a).contains($0) }
            let isNumber = value.utf8.allSatisfy { (0x30...0x39).contains($0) }
            return value.utf8.count <= longestWord && (isWord || isNumber)
        }
    }

    /// Returns an argument, the part after its `=`, and the parts that a parser may quote separately.
    private static func pieces(of argument: String) -> [String] {
        var pieces = [argument, String(argument.drop { $0 == "-" })]
        if let equals = argument.firstIndex(of: "=") {
            pieces += [String(argument[..<equals]), String(argument[argument.index(after: equals)...])]
        }
        pieces += argument.split(whereSeparator: { ".= \t\n\r".contains($0) }).map(String.init)
        // the parser's message names an unknown option in short form by its first letter
        if argument.hasPrefix("-"), !argument.hasPrefix("--") { pieces.append(String(argument.prefix(2))) }
        return pieces
    }

    private static func mayBeToken(_ piece: String, _ isAboutToken: Bool) -> Bool {
        if piece.isEmpty || piece == "-" || isOption(piece) || UUID(parsing: piece) != nil { return false }
        let isLong = piece.utf8.count > longestWord
        return isAboutToken ? !["token", "explain", "make"].contains(piece) : isLong && piece.utf8.allSatisfy(isTokens)
    }

    private static func isOption(_ piece: String) -> Bool {
        piece.hasPrefix("--") && piece.utf8.allSatisfy { $0 == 0x2d || (0x61...0x7a).contains($0) }
            && piece.utf8.count < 24
    }

    /// Whether a byte is a character of a token (RFC 6750): a letter, a digit or one of `-._~+/=`.
    private static func isTokens(_ byte: UInt8) -> Bool {
        switch byte {
        case 0x30...0x39, 0x41...0x5a, 0x61...0x7a, 0x2b, 0x2d...0x2f, 0x3d, 0x5f, 0x7e: true
        default: false
        }
    }
}
