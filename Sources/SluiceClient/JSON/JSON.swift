import GRDB

/// A JSON value (RFC 8259). Numbers keep their original digits.
///
/// Foundation's decoders turn numbers into binary floating point, which changes `0.10` or a 64-bit id. The library
/// contains this type, so that apps need no other package.
///
///     let body: JSON = ["title": "Visit", "amount": .number("129.90"), "tags": ["a", "b"], "note": .null]
public enum JSON: Sendable, Hashable {
    case null
    case bool(Bool)
    case number(JSONNumber)
    case string(String)
    case array([JSON])
    /// Members are written in the order of their names, so that equal values have equal text.
    ///
    /// Names that differ only in the composition of their characters are one name, because Swift treats them as equal.
    case object([String: JSON])

    /// A number by its text, as in `.number("129.90")`.
    public static func number(_ text: String) -> JSON? { JSONNumber(text).map(JSON.number) }

    /// A whole number.
    public static func integer(_ value: Int64) -> JSON { .number(JSONNumber(value)) }
}

extension JSON {
    /// The member of an object; nil if there is no such member or the value is not an object.
    ///
    /// Setting nil removes the member. If the value is not an object, setting a member turns the value into an object.
    public subscript(member: String) -> JSON? {
        get { object?[member] }
        set {
            var members = object ?? [:]
            members[member] = newValue
            self = .object(members)
        }
    }

    /// The members of an object; nil for any other value.
    public var object: [String: JSON]? {
        if case .object(let members) = self { members } else { nil }
    }

    /// The elements of an array; nil for any other value.
    public var array: [JSON]? {
        if case .array(let elements) = self { elements } else { nil }
    }

    /// The characters of a string; nil for any other value.
    public var string: String? {
        if case .string(let text) = self { text } else { nil }
    }

    /// `true` or `false`; nil for any other value.
    public var bool: Bool? {
        if case .bool(let value) = self { value } else { nil }
    }

    /// A whole number of 64 bits; nil for any other value, including `25.0` and `1e3`.
    public var int64: Int64? {
        if case .number(let number) = self { Int64(number.text) } else { nil }
    }

    /// The nearest binary floating-point number; nil if the value is not a number.
    public var double: Double? {
        if case .number(let number) = self { Double(number.text) } else { nil }
    }

    /// Whether the value is `null`.
    public var isNull: Bool { self == .null }
}

extension JSON {
    /// Compares strings scalar by scalar. Swift's own comparison treats differently composed forms of `é` as equal, so
    /// an edit that changes only the composition would be ignored.
    public static func == (left: JSON, right: JSON) -> Bool {
        switch (left, right) {
        case (.null, .null): true
        case (.bool(let left), .bool(let right)): left == right
        case (.number(let left), .number(let right)): left == right
        case (.string(let left), .string(let right)): left.utf8.elementsEqual(right.utf8)
        case (.array(let left), .array(let right)): left == right
        case (.object(let left), .object(let right)): left == right
        default: false
        }
    }
}

extension JSON {
    /// Returns whether the value is nested in more than this number of levels.
    func isDeeper(than levels: Int) -> Bool {
        switch self {
        case .array(let elements): levels == 0 || elements.contains { $0.isDeeper(than: levels - 1) }
        case .object(let members): levels == 0 || members.values.contains { $0.isDeeper(than: levels - 1) }
        default: false
        }
    }
}

extension JSON: ExpressibleByBooleanLiteral, ExpressibleByIntegerLiteral,
    ExpressibleByStringLiteral, ExpressibleByArrayLiteral, ExpressibleByDictionaryLiteral
{
    public init(booleanLiteral value: Bool) { self = .bool(value) }
    public init(integerLiteral value: Int64) { self = .integer(value) }
    public init(stringLiteral value: String) { self = .string(value) }
    public init(arrayLiteral elements: JSON...) { self = .array(elements) }

    /// If two members have the same name, the last value is used.
    public init(dictionaryLiteral members: (String, JSON)...) {
        self = .object(Dictionary(members) { $1 })
    }
}

extension JSON: CustomStringConvertible {
    public var description: String { text }
}

/// A number with the digits of its JSON text: `1.0` and `1` are different values.
public struct JSONNumber: Sendable, Hashable {
    /// The digits in the form of RFC 8259 (6): no plus sign, no leading zeros, digits on both sides of a point.
    public let text: String

    /// A whole number.
    public init(_ value: Int64) { text = String(value) }

    /// - Returns: nil for a text that is not a JSON number.
    public init?(_ text: String) {
        guard JSONParser.isNumber(Array(text.utf8)) else { return nil }
        self.text = text
    }

    /// - Returns: nil for infinities and NaN, which JSON cannot represent.
    public init?(_ value: Double) {
        guard value.isFinite else { return nil }
        text = value.description
    }

    init(checked text: String) { self.text = text }
}

extension Row {
    /// Returns the value of a column that contains JSON text; nil for NULL.
    func json(_ column: String) throws -> JSON? { try (self[column] as String?).map { try JSON(parsing: $0) } }
}
