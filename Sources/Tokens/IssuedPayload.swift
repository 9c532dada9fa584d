import JSONText

/// Claims under the names that the settings give them.
struct IssuedPayload: Encodable {
    /// A claim's value.
    enum Value: Encodable {
        case text(String)
        case number(Int64)
        case object([String: Value])

        func encode(to encoder: any Encoder) throws {
            var container = encoder.singleValueContainer()
            switch self {
            case .text(let text): try container.encode(text)
            case .number(let number): try container.encode(number)
            case .object(let members): try container.encode(members)
            }
        }
    }

    private var members: [String: Value]

    init(texts: [String: String], numbers: [String: Int64]) {
        members = texts.mapValues(Value.text).merging(numbers.mapValues(Value.number)) { text, _ in text }
    }

    func encode(to encoder: any Encoder) throws { try members.encode(to: encoder) }

    /// Puts a value at a path, and makes the objects on the way.
    ///
    /// - Throws: ``TokenConfigurationError`` for a path through a list, and if another claim is in the way.
    mutating func set(_ value: Value, at place: ClaimPlace) throws(TokenConfigurationError) {
        var names: [String] = []
        for step in place.query.steps {
            guard case .member(let name) = step else {
                throw TokenConfigurationError("No token can be made with a claim at \(place): it leads into a list.")
            }
            names.append(name)
        }
        guard let set = Self.setting(value, at: names[...], in: members) else {
            throw TokenConfigurationError("No token can be made with a claim at \(place): another claim is in the way.")
        }
        members = set
    }

    private static func setting(
        _ value: Value,
        at names: ArraySlice<String>,
        in members: [String: Value]
    ) -> [String: Value]? {
        guard let name = names.first else { return nil }
        var members = members
        if names.count == 1 {
            guard members[name] == nil else { return nil }
            members[name] = value
            return members
        }
        guard case .object(let inner) = members[name] ?? .object([:]),
            let set = setting(value, at: names.dropFirst(), in: inner)
        else { return nil }
        members[name] = .object(set)
        return members
    }
}
