/// A singular query of JSONPath (RFC 9535, 2.3.5.1).
///
/// It has names and indices only, so it leads to one value at most.
///
/// Settings use queries to locate a value in JSON of another origin: `$.sub`, `$['https://acme.example/org']`.
public struct SingularQuery: Sendable, Hashable {
    /// One way down.
    public enum Step: Sendable, Hashable {
        /// The member with that unescaped name.
        case member(String)
        /// The element at that index; a negative one counts from the end.
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

    /// A query of one step; the name may have any characters.
    public init(member name: String) { steps = [.member(name)] }

    /// Reads a query, which must follow the RFC's grammar exactly.
    ///
    /// No space before or behind.
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
    /// Indices from the end are not changed.
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

/// Why a text is no singular query.
public struct SingularQueryError: Error, Sendable, Equatable, CustomStringConvertible {
    /// The number of Unicode characters before the error.
    public let place: Int
    /// Text to follow the query's text: "leads to more than one value".
    public let reason: String

    public init(place: Int, reason: String) {
        self.place = place
        self.reason = reason
    }

    public var description: String { place == 0 ? reason : "\(reason), at character \(place + 1)" }
}

extension JSONValue {
    /// The value that a query leads to from here; nil if it leads nowhere.
    ///
    /// Names are compared unescaped, byte by byte; of several members with one name it is the first.
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
