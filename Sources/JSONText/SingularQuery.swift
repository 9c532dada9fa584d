/// A singular query of JSONPath (RFC 9535, 2.3.5.1).
///
/// A singular query selects at most one value, because it contains only names and indices.
///
/// Settings contain queries such as `$.sub` or `$['https://acme.example/org']`, to locate a value in JSON from another
/// system.
public struct SingularQuery: Sendable, Hashable {
    /// One step from a value to a value that it contains.
    public enum Step: Sendable, Hashable {
        /// The member with this unescaped name.
        case member(String)
        /// The element with this index. A negative index counts from the end.
        case element(Int)

        /// Names are compared byte by byte.
        public static func == (left: Step, right: Step) -> Bool {
            switch (left, right) {
            case (.member(let left), .member(let right)): left.utf8.elementsEqual(right.utf8)
            case (.element(let left), .element(let right)): left == right
            default: false
            }
        }

        public func hash(into hasher: inout Hasher) {
            switch self {
            case .member(let name): for byte in name.utf8 { hasher.combine(byte) }
            case .element(let index): hasher.combine(index)
            }
        }
    }

    public static let maximumBytes = 256
    public static let maximumSteps = 16

    public let steps: [Step]

    /// Creates a query of one step. The name may contain any characters.
    public init(member name: String) { steps = [.member(name)] }

    /// Reads a query, which must follow the RFC's grammar exactly.
    ///
    /// White space before or after the query is not allowed.
    public init(_ text: String) throws(SingularQueryError) {
        guard text.utf8.count <= Self.maximumBytes else {
            throw SingularQueryError(place: 0, reason: "has more than \(Self.maximumBytes) bytes")
        }
        var parser = SingularQueryParser(text)
        steps = try parser.steps()
    }
}

extension SingularQuery: CustomStringConvertible {
    /// The normalized path (RFC 9535, 2.7), such as `$['o']['id']`.
    ///
    /// Negative indices are not changed.
    public var description: String {
        steps.reduce(into: "$") { text, step in
            switch step {
            case .member(let name): text += "['" + name.unicodeScalars.map(Self.normalized).joined() + "']"
            case .element(let index): text += "[\(index)]"
            }
        }
    }

    private static func normalized(_ character: Unicode.Scalar) -> String {
        switch character {
        case "\u{8}": return #"\b"#
        case "\t": return #"\t"#
        case "\n": return #"\n"#
        case "\u{c}": return #"\f"#
        case "\r": return #"\r"#
        case "'": return #"\'"#
        case "\\": return #"\\"#
        case "\0"..<" ":
            let digits = String(character.value, radix: 16)
            return #"\u"# + String(repeating: "0", count: 4 - digits.count) + digits
        default: return String(character)
        }
    }
}

/// The reason why a text is not a singular query.
public struct SingularQueryError: Error, Sendable, Equatable, CustomStringConvertible {
    /// The number of Unicode characters before the error.
    public let place: Int
    /// The reason, as a predicate whose subject is the query, such as "leads to more than one value".
    public let reason: String

    public init(place: Int, reason: String) {
        self.place = place
        self.reason = reason
    }

    public var description: String { place == 0 ? reason : "\(reason), at character \(place + 1)" }
}

extension JSONValue {
    /// Returns the value that a query selects, starting at this value; nil if there is no such value.
    ///
    /// Unescaped names are compared byte by byte. If several members have the same name, the first member is used.
    public func value(at query: SingularQuery) -> JSONValue? {
        var value = self
        for step in query.steps {
            guard let next = value.child(at: step) else { return nil }
            value = next
        }
        return value
    }

    private func child(at step: SingularQuery.Step) -> JSONValue? {
        switch step {
        case .member(let name):
            return members?.first { $0.name.equals(name) }?.value
        case .element(let index):
            guard let elements else { return nil }
            let place = index < 0 ? elements.count + index : index
            return place < 0 ? nil : elements.dropFirst(place).first { _ in true }
        }
    }
}

// MARK: - SingularQueryParser

/// Reads a singular query from left to right.
///
/// The grammar is in RFC 9535, appendix A.
struct SingularQueryParser {
    private static let largestIndex = 9_007_199_254_740_991
    private static let severalValues = "leads to more than one value: only names and indices are allowed"

    private let text: [Unicode.Scalar]
    private var place = 0

    init(_ text: String) { self.text = Array(text.unicodeScalars) }

    mutating func steps() throws(SingularQueryError) -> [SingularQuery.Step] {
        guard take("$") else { throw wrong("does not begin with $") }
        var steps: [SingularQuery.Step] = []
        while place < text.count {
            skipSpace()
            guard place < text.count else { throw wrong("ends with a space") }
            guard steps.count < SingularQuery.maximumSteps else {
                throw wrong("has more than \(SingularQuery.maximumSteps) steps")
            }
            steps.append(try step())
        }
        return steps
    }

    private mutating func step() throws(SingularQueryError) -> SingularQuery.Step {
        if take(".") {
            if next == "." || next == "*" { throw wrong(Self.severalValues) }
            return .member(try shorthand())
        }
        guard take("[") else { throw wrong("continues with neither . nor [") }
        skipSpace()
        let step = try selector()
        skipSpace()
        if next == "," || next == ":" { throw wrong(Self.severalValues) }
        guard take("]") else { throw wrong("lacks a ]") }
        return step
    }

    private mutating func selector() throws(SingularQueryError) -> SingularQuery.Step {
        switch next {
        case "'", "\"": return .member(try quoted())
        case "*", "?", ":": throw wrong(Self.severalValues)
        case let character? where character == "-" || Self.isDigit(character): return .element(try index())
        default: throw wrong("has neither a quoted name nor an index between [ and ]")
        }
    }

    // MARK: - Names

    /// Reads a `member-name-shorthand`.
    private mutating func shorthand() throws(SingularQueryError) -> String {
        guard let first = next, Self.isNameFirst(first) else {
            throw wrong("has no name after the point; write names other than letters, digits and _ as ['…']")
        }
        var name = String.UnicodeScalarView()
        while let character = next, Self.isNameFirst(character) || Self.isDigit(character) {
            name.append(character)
            place += 1
        }
        return String(name)
    }

    private static func isNameFirst(_ character: Unicode.Scalar) -> Bool {
        switch character {
        case "a"..."z", "A"..."Z", "_": true
        default: character.value >= 0x80
        }
    }

    /// Reads a `string-literal`. Within it, only quotes of the enclosing kind may be escaped.
    private mutating func quoted() throws(SingularQueryError) -> String {
        let quote = text[place]
        place += 1
        var name = String.UnicodeScalarView()
        while let character = next {
            if character.value < 0x20 { throw wrong("has a control character, which must be escaped") }
            place += 1
            if character == quote { return String(name) }
            name.append(character == "\\" ? try escaped(in: quote) : character)
        }
        throw wrong("has no closing quote")
    }

    /// Reads the characters after a backslash.
    private mutating func escaped(in quote: Unicode.Scalar) throws(SingularQueryError) -> Unicode.Scalar {
        guard let character = next else { throw wrong("has no closing quote") }
        let start = place - 1
        place += 1
        switch character {
        case "b": return "\u{8}"
        case "f": return "\u{c}"
        case "n": return "\n"
        case "r": return "\r"
        case "t": return "\t"
        case "/", "\\", quote: return character
        case "u":
            if let character = hexadecimal() { return character }
        default: break
        }
        throw SingularQueryError(place: start, reason: "has an unknown escape")
    }

    /// Reads a `hexchar`: four digits, or two groups of four digits for a surrogate pair.
    private mutating func hexadecimal() -> Unicode.Scalar? {
        guard let first = unit() else { return nil }
        guard (0xd800..<0xdc00).contains(first) else { return Unicode.Scalar(first) }
        guard take("\\"), take("u"), let second = unit(), (0xdc00..<0xe000).contains(second) else { return nil }
        return Unicode.Scalar(0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00))
    }

    private mutating func unit() -> UInt32? {
        guard place + 4 <= text.count else { return nil }
        var unit: UInt32 = 0
        for character in text[place..<(place + 4)] {
            guard let digit = Self.digit(character) else { return nil }
            unit = unit * 16 + digit
        }
        place += 4
        return unit
    }

    private static func isDigit(_ character: Unicode.Scalar) -> Bool { (0x30...0x39).contains(character.value) }

    private static func digit(_ character: Unicode.Scalar) -> UInt32? {
        switch character {
        case "0"..."9": character.value - 0x30
        case "a"..."f": character.value - 0x61 + 10
        case "A"..."F": character.value - 0x41 + 10
        default: nil
        }
    }

    // MARK: - Indices

    /// Reads an `int`, which must not be `-0`, must not have leading zeros, and must be in the range that every JSON
    /// parser represents exactly.
    private mutating func index() throws(SingularQueryError) -> Int {
        let start = place
        let isNegative = take("-")
        var index = 0
        let first = place
        while let digit = next, Self.isDigit(digit), index <= Self.largestIndex {
            index = index * 10 + Int(digit.value - 0x30)
            place += 1
        }
        let hasLeadingZero = place > first && text[first] == "0" && (place - first > 1 || isNegative)
        guard place > first, !hasLeadingZero, index <= Self.largestIndex else {
            throw SingularQueryError(place: start, reason: "has an invalid index")
        }
        return isNegative ? -index : index
    }

    // MARK: - Characters

    private var next: Unicode.Scalar? { place < text.count ? text[place] : nil }

    private mutating func take(_ character: Unicode.Scalar) -> Bool {
        guard next == character else { return false }
        place += 1
        return true
    }

    private mutating func skipSpace() {
        while let character = next, [" ", "\t", "\n", "\r"].contains(character) { place += 1 }
    }

    private func wrong(_ reason: String) -> SingularQueryError { SingularQueryError(place: place, reason: reason) }
}
