public import FoundationEssentials
public import JSONText

/// A permanent id from the server, which is a string of up to 200 bytes or an integer.
///
/// The JSON kind of the id is kept: a string is always written as a string, and a number as a number.
public struct ServerID: Sendable, Hashable {
    public static let maximumBytes = 200

    /// The text of the id: a UUID in lower case, the digits of an integer, or another string.
    @Exact public private(set) var text: String
    /// Whether the id is a number in JSON.
    public let isInteger: Bool

    /// Creates an id from its stored form.
    public init(text: String, isInteger: Bool) {
        self.text = text
        self.isInteger = isInteger
    }

    /// Creates an id from a UUID that the gateway generated.
    public init(_ uuid: UUID) {
        self.init(text: uuid.lowercased, isInteger: false)
    }

    public init(_ number: Int64) {
        self.init(text: String(number), isInteger: true)
    }

    /// Reads an id from JSON; nil if the value is not a valid id.
    ///
    /// A valid id is an integer or a string, with 1 to 200 bytes and no control characters. UUIDs are converted to
    /// lower case.
    ///
    /// Integers of more than 64 bits keep their digits. These integers must be written without a fraction and an
    /// exponent, because a program that writes such a large number with a fraction or an exponent may have rounded it.
    public init?(json value: JSONValue) {
        if let integer = value.int64 {
            self.init(integer)
        } else if let uuid = value.uuid {
            self.init(uuid)
        } else if let string = value.string, ServerID.isAcceptable(string) {
            self.init(text: string, isInteger: false)
        } else if let digits = value.integerText, digits.utf8.count <= ServerID.maximumBytes {
            self.init(text: digits, isInteger: true)
        } else {
            return nil
        }
    }

    /// Whether a text is an integer in the form that JSON writes.
    ///
    /// The form is digits without leading zeros, optionally after a minus sign.
    static func isInteger(_ text: String) -> Bool {
        let digits = text.utf8.first == UInt8(ascii: "-") ? text.utf8.dropFirst() : text.utf8[...]
        guard let first = digits.first, digits.allSatisfy({ (48...57).contains($0) }) else { return false }
        return first != UInt8(ascii: "0") || text == "0"
    }

    /// The UUID; nil for any other id.
    public var uuid: UUID? {
        isInteger ? nil : UUID(parsing: text)
    }

    /// The JSON value that replaces a client id in a document.
    public var replacement: JSONReplacement {
        if isInteger, let integer = Int64(text) { return .integer(integer) }
        return isInteger && ServerID.isInteger(text) ? .digits(text) : .string(text)
    }

    private static func isAcceptable(_ text: String) -> Bool {
        let bytes = text.utf8
        return !bytes.isEmpty && bytes.count <= maximumBytes && bytes.allSatisfy { $0 >= 0x20 && $0 != 0x7f }
    }
}

extension JSONWriter {
    /// Writes a member with a server id in the id's JSON kind, or with null.
    public mutating func member(_ name: StaticString, _ id: ServerID?) {
        self.name(name)
        value(id)
    }

    /// Writes a server id in the id's JSON kind, or null.
    public mutating func value(_ id: ServerID?) {
        guard let id else { return null() }
        if id.isInteger, let integer = Int64(id.text) {
            int(integer)
        } else if id.isInteger, ServerID.isInteger(id.text) {
            raw(id.text.utf8)
        } else {
            string(id.text)
        }
    }
}
