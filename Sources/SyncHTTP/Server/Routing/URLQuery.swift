package import FoundationEssentials
import HTTPTypes
import HummingbirdCore
import JSONText
package import SyncModel

/// The decoded parameters of a request's query. An unknown parameter is an error.
package struct URLQuery: Sendable {
    private var values: [(name: String, value: String)] = []

    /// Reads `name=value&…` with percent-encoding (RFC 3986). A plus sign is not a space. A parameter with an empty
    /// value is treated as absent.
    package init(_ text: String?, allowing names: Set<String>) throws(Problem) {
        guard let text, !text.isEmpty else { return }
        for pair in text.utf8.split(separator: UInt8(ascii: "&")) {
            let parts = pair.split(separator: UInt8(ascii: "="), maxSplits: 1, omittingEmptySubsequences: false)
            guard let name = Self.decode(parts[0]), names.contains(name) else {
                throw Self.unknown(Self.decode(parts[0]) ?? "", names)
            }
            guard let value = Self.decode(parts.count > 1 ? parts[1] : parts[0].suffix(0)) else {
                throw Self.invalid(name, "is not percent-encoded UTF-8 text")
            }
            if !value.isEmpty { values.append((name, value)) }
        }
    }

    package init(of exchange: Exchange, allowing names: Set<String> = []) throws(Problem) {
        let path = exchange.request.head.path ?? ""
        guard let mark = path.utf8.firstIndex(of: UInt8(ascii: "?")) else {
            try self.init(nil, allowing: names)
            return
        }
        try self.init(String(path[path.utf8.index(after: mark)...]), allowing: names)
    }

    // MARK: - Values

    /// The value of a parameter that may occur only once; nil if it is absent.
    package func text(_ name: String) throws(Problem) -> String? {
        let found = values.filter { $0.name == name }
        guard found.count <= 1 else { throw Self.invalid(name, "is given more than once") }
        return found.first?.value
    }

    /// The values of a parameter that may occur several times, and may contain several values separated by commas.
    package func list(_ name: String) -> [String] {
        values.lazy.filter { $0.name == name }
            .flatMap { $0.value.split(separator: ",") }
            .map { String($0) }
    }

    /// A text without control characters, such as a name, with a maximum number of characters (counted as in OpenAPI's
    /// `maxLength`).
    package func plainText(_ name: String, atMost limit: Int) throws(Problem) -> String? {
        guard let text = try text(name) else { return nil }
        guard text.unicodeScalars.count <= limit else {
            throw Self.invalid(name, "has more than \(limit) characters")
        }
        guard !ExternalName.hasControls(text) else { throw Self.invalid(name, "has control characters") }
        return text
    }

    package func uuid(_ name: String) throws(Problem) -> UUID? {
        guard let text = try text(name) else { return nil }
        guard let uuid = UUID(parsing: text) else { throw Self.invalid(name, "must be a UUID") }
        return uuid
    }

    /// `true` or `false`; false if it is absent.
    package func flag(_ name: String) throws(Problem) -> Bool {
        switch try text(name) {
        case "true": return true
        case nil, "false": return false
        default: throw Self.invalid(name, "must be true or false")
        }
    }

    /// Returns a parameter that must be one of some fixed words; nil if it is absent.
    package func choice<Word: RawRepresentable<String> & CaseIterable>(_ name: String) throws(Problem) -> Word? {
        guard let text = try text(name) else { return nil }
        guard let word = Word(rawValue: text) else {
            let words = Word.allCases.map(\.rawValue).joined(separator: ", ")
            throw Self.invalid(name, "must be one of: \(words)")
        }
        return word
    }

    /// A time in the form of RFC 3339.
    package func moment(_ name: String) throws(Problem) -> Timestamp? {
        guard let text = try text(name) else { return nil }
        guard let moment = Timestamp(rfc3339: text) else {
            throw Self.invalid(name, "must be a time such as 2026-11-20T07:00:00Z")
        }
        return moment
    }

    package func integer(_ name: String, in range: ClosedRange<Int>, default absent: Int) throws(Problem) -> Int {
        guard let text = try text(name) else { return absent }
        guard let number = Self.number(text), range.contains(number) else {
            throw Self.invalid(name, "must be an integer from \(range.lowerBound) to \(range.upperBound)")
        }
        return number
    }

    /// `limit`: 1 to 1,000.
    package func limit(default absent: Int) throws(Problem) -> Int {
        try integer("limit", in: 1...1_000, default: absent)
    }

    /// `wait` in whole seconds. A longer wait than `longest` is shortened to it.
    package func wait(upTo longest: Duration) throws(Problem) -> Duration {
        guard let text = try text("wait") else { return .zero }
        guard let seconds = Self.number(text) else { throw Self.invalid("wait", "must be a number of seconds") }
        return min(.seconds(seconds), longest)
    }

    /// The name of one entity type.
    package func entityType(_ name: String) throws(Problem) -> String? {
        guard let type = try text(name) else { return nil }
        guard EntityType.isValidName(type) else { throw Self.invalid(name, "must be an entity type's name") }
        return type
    }

    /// The names of entity types. The parameter may be repeated, or contain several names separated by commas.
    package func entityTypes(_ name: String) throws(Problem) -> [String] {
        let names = list(name)
        guard names.allSatisfy(EntityType.isValidName) else { throw Self.invalid(name, "must be entity types' names") }
        return names
    }

    /// The names of channels; nil if the parameter is absent. Each occurrence of the parameter contains one name,
    /// because a name may contain commas.
    package func channels(_ name: String) throws(Problem) -> [String]? {
        let names = values.filter { $0.name == name }.map(\.value)
        let limit = ChannelName.limitOfRequest
        guard names.allSatisfy(ChannelName.isValid), names.count <= limit else {
            throw Self.invalid(name, "must be at most \(limit) names of channels, each in a separate parameter")
        }
        return names.isEmpty ? nil : names
    }

    // MARK: - Errors

    package static func invalid(_ name: String, _ complaint: String) -> Problem {
        .invalidParameter("the query parameter '\(name)' \(complaint)")
    }

    private static func unknown(_ name: String, _ known: Set<String>) -> Problem {
        let hint = known.isEmpty ? "this path has no parameters" : "known: " + known.sorted().joined(separator: ", ")
        // a long name is truncated in the error
        let meant = UnknownMember.hint(name, known: known.sorted())
        let detail = "the query parameter '\(UnknownMember.shown(name))' is unknown; \(hint)\(meant)"
        return Problem(.invalidRequest, pointer: "", rule: "parameter_unknown", detail)
    }

    // MARK: - Decoding

    /// Reads a number of up to nine digits.
    private static func number(_ text: String) -> Int? {
        guard text.utf8.count <= 9, text.utf8.allSatisfy({ (48...57).contains($0) }) else { return nil }
        return Int(text)
    }

    /// Decodes percent-encoded UTF-8 text; returns nil for invalid text.
    package static func decode(_ text: some Collection<UInt8>) -> String? {
        guard text.contains(UInt8(ascii: "%")) else { return valid(Array(text)) }
        var bytes: [UInt8] = []
        bytes.reserveCapacity(text.count)
        var rest = text.makeIterator()
        while let byte = rest.next() {
            guard byte == UInt8(ascii: "%") else {
                bytes.append(byte)
                continue
            }
            guard let high = rest.next().flatMap(hexadecimal), let low = rest.next().flatMap(hexadecimal) else {
                return nil
            }
            bytes.append(high << 4 | low)
        }
        return valid(bytes)
    }

    /// Returns the text; nil if it contains U+0000, which PostgreSQL cannot store.
    private static func valid(_ bytes: [UInt8]) -> String? {
        bytes.contains(0) ? nil : String(validating: bytes, as: UTF8.self)
    }

    private static func hexadecimal(_ digit: UInt8) -> UInt8? {
        switch digit {
        case UInt8(ascii: "0")...UInt8(ascii: "9"): digit - UInt8(ascii: "0")
        case UInt8(ascii: "a")...UInt8(ascii: "f"): digit - UInt8(ascii: "a") + 10
        case UInt8(ascii: "A")...UInt8(ascii: "F"): digit - UInt8(ascii: "A") + 10
        default: nil
        }
    }
}
