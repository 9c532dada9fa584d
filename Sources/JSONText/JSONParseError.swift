/// Why a text is not JSON (RFC 8259), or more of it than the limits allow.
public struct JSONParseError: Error, Sendable, Equatable {
    /// The numbers are those of `csj_error`.
    public enum Kind: UInt32, Sendable, CaseIterable {
        /// More than ``JSONLimits`` allow.
        case tooLong = 1, tooDeep, tooManyNodes
        /// No value: nothing, or white space only.
        case empty
        case invalidUTF8
        /// A character below U+0020 in a string, unescaped.
        case controlCharacter
        case unterminatedString
        /// The text ends within an array or object.
        case unexpectedEnd
        /// Something else where a value belongs. A byte order mark is such a thing.
        case expectedValue
        case expectedName, expectedColon, expectedCommaOrEnd
        /// A word that is none of `true`, `false` and `null`.
        case invalidLiteral
        /// A number that breaks the grammar: `01`, `1.`, `+1`, `1e`.
        case invalidNumber
        /// A backslash in a string with something else than RFC 8259 allows after it.
        case invalidEscape
        case trailingContent
        case outOfMemory
    }

    public let kind: Kind
    /// Where: the byte at fault, counted from 0.
    public let offset: Int

    public init(kind: Kind, offset: Int) {
        self.kind = kind
        self.offset = offset
    }

    /// What is wrong and where, as a sentence for the person who sent the text.
    public var explanation: String {
        switch kind {
        case .tooLong: "The JSON text is longer than \(offset) bytes."
        case .empty: "There is no JSON value."
        default: "\(complaint) at byte \(offset)."
        }
    }

    /// What is wrong and where, for the person who edits the text: by line and column, both counted from 1, a column a
    /// character.
    ///
    /// - Parameter text: what was parsed.
    public func explanation(in text: [UInt8]) -> String {
        switch kind {
        case .tooLong, .empty: return explanation
        default:
            let before = text.prefix(max(0, offset))
            let line = before.count { $0 == UInt8(ascii: "\n") } + 1
            let start = before.lastIndex(of: UInt8(ascii: "\n")).map { $0 + 1 } ?? 0
            // bytes that go on with a character are none
            let column = before[start...].count { $0 & 0xc0 != 0x80 } + 1
            return "\(complaint) at line \(line), column \(column)."
        }
    }

    private var complaint: String {
        switch kind {
        case .tooLong: "The text is too long"
        case .tooDeep: "Arrays and objects nest too deep"
        case .tooManyNodes: "There are too many values"
        case .empty: "There is no value"
        case .invalidUTF8: "The text is not UTF-8"
        case .controlCharacter: "A string has an unescaped control character"
        case .unterminatedString: "A string has no closing quote; it starts"
        case .unexpectedEnd: "The text ends too early,"
        case .expectedValue: "A value was expected"
        case .expectedName: "A member's name in double quotes was expected"
        case .expectedColon: "A colon was expected"
        case .expectedCommaOrEnd: "A comma or the end of the array or object was expected"
        case .invalidLiteral: "Neither true, false nor null"
        case .invalidNumber: "A number is malformed"
        case .invalidEscape: "A string has a malformed escape"
        case .trailingContent: "There is more text after the value,"
        case .outOfMemory: "There is no memory for the value"
        }
    }
}

extension JSONParseError: CustomStringConvertible {
    public var description: String { explanation }
}
