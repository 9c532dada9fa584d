@testable import SluiceClient

/// The `$name` placeholders of a vector: values that the client generates, the same for every occurrence of the name.
struct Placeholders: Sendable {
    private var values: [String: JSON] = [:]

    /// - Returns: the error if the name is bound to another value, or the value to another name.
    mutating func bind(_ name: String, to value: JSON) -> String? {
        if name == "$any" { return nil }
        if let known = values[name] {
            return known == value ? nil : "expected \(name), which is \(known), got \(value)"
        }
        if let other = values.first(where: { $0.value == value }) {
            return "\(name) and \(other.key) should differ, and are both \(value)"
        }
        values[name] = value
        return nil
    }

    /// The value with every placeholder in it replaced.
    func filled(_ json: JSON) throws -> JSON {
        switch json {
        case .string(let text) where text.hasPrefix("$"):
            guard let value = values[text] else { throw Vector.Failure("\(text) has no value yet") }
            return value
        case .array(let elements): return .array(try elements.map(filled))
        case .object(let members): return .object(try members.mapValues(filled))
        default: return json
        }
    }

    func text(_ name: String) throws -> String {
        guard let text = try filled(.string(name)).string else { throw Vector.Failure("\(name) is not a text") }
        return text
    }

    // MARK: - Comparing

    /// The members that must be expected.
    enum Extent { case all, listedMembers }

    /// Compares two values, and binds new placeholders.
    ///
    /// - Returns: the first difference, or nil.
    mutating func difference(_ expected: JSON, _ actual: JSON, _ extent: Extent, at place: String) -> String? {
        switch (expected, actual) {
        case (.string(let text), _) where text.hasPrefix("$"):
            return bind(text, to: actual).map { "\(place): \($0)" }
        case (.array(let left), .array(let right)):
            guard left.count == right.count else {
                return "\(place): expected \(left.count) elements, got \(right.count): \(actual)"
            }
            for (index, pair) in zip(left, right).enumerated() {
                if let found = difference(pair.0, pair.1, extent, at: "\(place)/\(index)") { return found }
            }
            return nil
        case (.object(let left), .object(let right)):
            let names = extent == .all ? Set(left.keys).union(right.keys) : Set(left.keys)
            for name in names.sorted() {
                // in documents and payloads every member counts
                let inner = ["document", "payload"].contains(name) ? .all : extent
                switch (left[name], right[name]) {
                case (let expected?, let actual?):
                    if let found = difference(expected, actual, inner, at: "\(place)/\(name)") { return found }
                case (let expected?, nil):
                    if extent == .all || !expected.isNull { return "\(place)/\(name): expected \(expected), is absent" }
                case (nil, let actual?): return "\(place)/\(name): \(actual) was not expected"
                case (nil, nil): break
                }
            }
            return nil
        default: return expected == actual ? nil : "\(place): expected \(expected), got \(actual)"
        }
    }
}
