/// The reason why a text is not JSON (RFC 8259), or exceeds the limits.
public struct JSONParseError: Error, Sendable, Equatable {
    /// The raw values are the numbers of `csj_error`.
    public enum Kind: UInt32, Sendable, CaseIterable {
        /// The text exceeds a limit of ``JSONLimits``.
        case tooLong = 1, tooDeep, tooManyNodes
        /// The text is empty, or contains only white space.
        case empty
        case invalidUTF8
        /// An unescaped character below U+0020 in a string.
        case controlCharacter
        case unterminatedString
        /// The text ends within an array or object.
        case unexpectedEnd
        /// A character that cannot begin a value, for example a byte order mark.
        case expectedValue
        case expectedName, expectedColon, expectedCommaOrEnd
        /// A word other than `true`, `false` and `null`.
        case invalidLiteral
        /// A number that breaks the grammar: `01`, `1.`, `+1`, `1e`.
        case invalidNumber
        /// A backslash in a string that does not begin an escape of RFC 8259.
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

    /// The error with its line and column, for the person who edits the text.
    ///
    /// - Parameter text: the parsed text.
    public func explanation(in text: [UInt8]) -> String {
        switch kind {
        case .tooLong, .empty: return explanation
        default: return "\(complaint) at \(TextPlace(offset, in: text))."
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

/// Limits on a parsed text. They also limit the memory of the tree, which is the size of the text and 16 bytes for each
/// node.
public struct JSONLimits: Sendable, Equatable {
    /// The maximum length of the text, in bytes. Values above 1 GiB are treated as 1 GiB.
    public var maximumBytes: Int
    /// The maximum nesting of arrays and objects; `[]` has the depth 1. Values above 1,024 are treated as 1,024.
    public var maximumDepth: Int
    /// The maximum number of nodes: values and member names together.
    public var maximumNodes: Int

    /// The defaults are suitable for the body of a request.
    public init(maximumBytes: Int = 4_194_304, maximumDepth: Int = 512, maximumNodes: Int = 1_000_000) {
        self.maximumBytes = maximumBytes
        self.maximumDepth = maximumDepth
        self.maximumNodes = maximumNodes
    }

    /// The highest limits, for texts that were already checked when they were received.
    public static let widest = JSONLimits(
        maximumBytes: 1_073_741_824,
        maximumDepth: 1_024,
        maximumNodes: Int(UInt32.max)
    )
}

extension [UInt8] {
    private static let byteOrderMark: [UInt8] = [0xef, 0xbb, 0xbf]

    /// The bytes without a UTF-8 byte order mark at their beginning.
    ///
    /// ``JSONTree`` refuses the mark, although RFC 8259, 8.1 allows parsers to ignore it. Use this property for texts
    /// from other servers, which may contain the mark.
    public var withoutByteOrderMark: [UInt8] {
        starts(with: Self.byteOrderMark) ? Array(dropFirst(Self.byteOrderMark.count)) : self
    }
}

/// The line and the column of a byte, for the person who edits the text.
///
/// Lines and columns are counted from 1. Each character is one column.
public struct TextPlace: Sendable, Hashable, CustomStringConvertible {
    public let line: Int
    public let column: Int

    /// - Parameter offset: the offset of the byte in the text.
    public init(_ offset: Int, in text: [UInt8]) {
        let before = text.prefix(max(0, offset))
        line = before.count { $0 == UInt8(ascii: "\n") } + 1
        let start = before.lastIndex(of: UInt8(ascii: "\n")).map { $0 + 1 } ?? 0
        // continuation bytes of UTF-8 are not counted
        column = before[start...].count { $0 & 0xc0 != 0x80 } + 1
    }

    public var description: String { "line \(line), column \(column)" }
}
