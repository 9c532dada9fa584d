/// Two texts of different bytes that some Unicode comparison treats as equal: canonically or compatibly equivalent
/// texts, texts that differ by case, and texts whose characters absorb a delimiter.
package struct TextPair: Sendable, CustomStringConvertible {
    package let left: String
    package let right: String

    package init(left: String, right: String) {
        self.left = left
        self.right = right
    }

    package var description: String { "\(Self.escaped(left)) and \(Self.escaped(right))" }

    /// Every kind of pair, once.
    package static let all: [TextPair] = [
        // canonically equivalent: one scalar, and another that decomposes to it
        ("K", "\u{212a}"), ("\u{c5}", "\u{212b}"), ("\u{3a9}", "\u{2126}"), (";", "\u{37e}"), ("`", "\u{1fef}"),
        ("\u{b7}", "\u{387}"), ("\u{2002}", "\u{2000}"), ("\u{2003}", "\u{2001}"), ("\u{3008}", "\u{2329}"),
        // composed and decomposed
        ("caf\u{e9}", "cafe\u{301}"), ("\u{c5}", "A\u{30a}"), ("\u{1e69}", "s\u{323}\u{307}"),
        ("\u{2260}", "=\u{338}"), ("\u{226e}", "<\u{338}"), ("\u{ac01}", "\u{1100}\u{1161}\u{11a8}"),
        ("\u{f900}", "\u{8c48}"), ("\u{1d15e}", "\u{1d157}\u{1d165}"),
        // the order of combining marks
        ("q\u{307}\u{323}", "q\u{323}\u{307}"), ("a\u{315}\u{300}", "a\u{300}\u{315}"),
        // compatibly equivalent
        ("fi", "\u{fb01}"), ("A", "\u{ff21}"), ("1", "\u{ff11}"), ("2", "\u{b2}"), ("ss", "\u{df}"),
        ("TM", "\u{2122}"), ("\u{3bc}", "\u{b5}"), (" ", "\u{a0}"), ("...", "\u{2026}"), ("\u{30ab}", "\u{ff76}"),
        // equal without regard to case
        ("k", "\u{212a}"), ("s", "\u{17f}"), ("i", "\u{130}"), ("i", "\u{131}"), ("a", "A"),
        // invisible
        ("ab", "a\u{200d}b"), ("ab", "a\u{200b}b"), ("ab", "a\u{ad}b"), ("ab", "\u{feff}ab"), ("a", "a\u{fe0f}"),
        // one character for Swift, two for other programs
        ("/", "/\u{338}"), (":", ":\u{301}"), ("\"", "\"\u{301}"), ("'", "'\u{308}"), (".", ".\u{307}"),
    ].map { TextPair(left: $0.0, right: $0.1) }

    /// A pair of texts of several parts, of which one to three differ; neither contains a control character or is
    /// empty.
    package static func random(using random: inout SeededRandom, prefix: String = "") -> TextPair {
        var (left, right) = (prefix, prefix)
        for _ in 0..<Int.random(in: 1...3, using: &random) {
            let pair = all[Int.random(in: 0..<all.count, using: &random)]
            let isSwapped = random.oneIn(2)
            left += isSwapped ? pair.right : pair.left
            right += isSwapped ? pair.left : pair.right
            let common = ["", "x", "-", "7", "\u{e5}"][Int.random(in: 0..<5, using: &random)]
            left += common
            right += common
        }
        return TextPair(left: left, right: right)
    }

    private static func escaped(_ text: String) -> String {
        "'" + text.unicodeScalars.map { $0.escaped(asASCII: true) }.joined() + "'"
    }
}
