/// Why a text is not JSON (RFC 8259), or exceeds the limits.
public struct JSONParseError: Error, Sendable, Equatable {
    /// The numbers are those of `csj_error`.
    public enum Kind: UInt32, Sendable, CaseIterable {
        /// Exceeds a limit of ``JSONLimits``.
        case tooLong = 1, tooDeep, tooManyNodes
        /// No value: nothing, or white space only.
        case empty
        case invalidUTF8
        /// A character below U+0020 in a string, unescaped.
        case controlCharacter
        case unterminatedString
        /// The text ends within an array or object.
        case unexpectedEnd
        /// Another character where a value belongs, for example a byte order mark.
        case expectedValue
        case expectedName, expectedColon, expectedCommaOrEnd
        /// A word that is none of `true`, `false` and `null`.
        case invalidLiteral
        /// A number that breaks the grammar: `01`, `1.`, `+1`, `1e`.
        case invalidNumber
        /// A backslash in a string that begins no escape of RFC 8259.
        case invalidEscape
        case trailingContent
        case outOfMemory
    }

    public let kind: Kind
    /// The offset of the invalid byte, counted from 0.
    public let offset: Int

    public init(kind: Kind, offset: Int) {
        self.kind = kind
        self.offset = offset
    }

    /// The error and its offset, as a sentence for the person who sent the text.
    public var explanation: String {
        switch kind {
        case .tooLong: "The JSON text is longer than \(offset) bytes."
        case .empty: "There is no JSON value."
        default: "\(complaint) at byte \(offset)."
        }
    }

    /// The error and its place, for the person who edits the text.
    ///
    /// The place is a line and a column, both counted from 1; a column is a character.
    ///
    /// - Parameter text: the parsed text.
    public func explanation(in text: [UInt8]) -> String {
        switch kind {
        case .tooLong, .empty: return explanation
        default:
            let before = text.prefix(max(0, offset))
            let line = before.count { $0 == UInt8(ascii: "\n") } + 1
            let start = before.lastIndex(of: UInt8(ascii: "\n")).map { $0 + 1 } ?? 0
            // continuation bytes are no characters
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

/// Bounds on a parsed text. They bound the memory too: a tree takes its text plus 16 bytes a node.
public struct JSONLimits: Sendable, Equatable {
    /// The longest text, in bytes. Values above 1 GiB count as that.
    public var maximumBytes: Int
    /// How deep arrays and objects may nest: `[]` is 1. Values above 1,024 count as that.
    public var maximumDepth: Int
    /// Values and member names together.
    public var maximumNodes: Int

    /// The defaults suit a request's body.
    public init(maximumBytes: Int = 4_194_304, maximumDepth: Int = 512, maximumNodes: Int = 1_000_000) {
        self.maximumBytes = maximumBytes
        self.maximumDepth = maximumDepth
        self.maximumNodes = maximumNodes
    }

    /// The widest bounds; for texts that were checked when they came in.
    public static let widest = JSONLimits(
        maximumBytes: 1_073_741_824,
        maximumDepth: 1_024,
        maximumNodes: Int(UInt32.max)
    )
}

extension [UInt8] {
    private static let byteOrderMark: [UInt8] = [0xef, 0xbb, 0xbf]

    /// The bytes without one UTF-8 byte order mark at their beginning.
    ///
    /// A reader of JSON may ignore it (RFC 8259, 8.1). Use it for texts of other servers, whose authors cannot be
    /// asked to correct them: ``JSONTree`` itself refuses the mark.
    public var withoutByteOrderMark: [UInt8] {
        starts(with: Self.byteOrderMark) ? Array(dropFirst(Self.byteOrderMark.count)) : self
    }
}
