package import FoundationEssentials
package import JSONText

/// The form of a member's value. The kind determines how the value is read, and the error if the value does not have
/// this form.
package struct MemberKind<Value>: Sendable {
    private let reader: @Sendable (JSONValue, MemberPlace, inout MemberReport) -> Value?

    /// A kind with several possible errors, or with errors in parts of the value.
    package init(read: @escaping @Sendable (JSONValue, MemberPlace, inout MemberReport) -> Value?) {
        reader = read
    }

    /// A kind with one possible error.
    ///
    /// - Parameters:
    ///   - form: the requirement, which follows the member's name in the error, such as `must be a UUID`.
    ///   - subject: a text that replaces the member's name in the error; nil to use the member's name.
    ///   - parse: returns the value; nil if the JSON value does not meet the requirement.
    package init(
        _ form: String,
        rule: String = Rule.range,
        subject: String? = nil,
        _ parse: @escaping @Sendable (JSONValue) -> Value?
    ) {
        reader = { value, place, report in
            report.value(parse(value), at: place.pointer, rule: rule, "\(subject ?? place.name) \(form)")
        }
    }

    /// Reads a value; nil if the value is refused. In this case, the report contains the error.
    package func read(_ value: JSONValue, at place: MemberPlace, _ report: inout MemberReport) -> Value? {
        reader(value, place, &report)
    }

    /// Reads a part of a member's value.
    package func read(_ value: JSONValue, at pointer: String, _ report: inout MemberReport) -> Value? {
        reader(value, MemberPlace(name: "this", pointer: pointer), &report)
    }
}

/// The name of a member, and the JSON Pointer to the member in the body (RFC 6901).
package struct MemberPlace: Sendable {
    package let name: String
    package let pointer: String

    package init(name: String, pointer: String) {
        self.name = name
        self.pointer = pointer
    }
}

extension MemberKind<Bool> {
    package static func bool(
        _ form: String = "must be true or false",
        rule: String = Rule.memberType,
        subject: String? = nil
    ) -> Self {
        Self(form, rule: rule, subject: subject) { $0.bool }
    }

    /// A switch, with the value `"enabled"` or `"disabled"`.
    package static var status: Self {
        Self("must be enabled or disabled") { $0.string.flatMap { ["enabled": true, "disabled": false][$0] } }
    }
}

extension MemberKind<String> {
    /// A string that fulfils a condition.
    package static func text(
        _ form: String,
        rule: String = Rule.range,
        subject: String? = nil,
        _ isValid: @escaping @Sendable (String) -> Bool
    ) -> Self {
        Self(form, rule: rule, subject: subject) { $0.string.flatMap { isValid($0) ? $0 : nil } }
    }

    package static var entityType: Self {
        text("must match [a-z][a-z0-9_-]{0,63}", rule: Rule.entityType) { EntityType.isValidName($0) }
    }
}

extension MemberKind where Value: FixedWidthInteger & Sendable {
    package static func integer(_ range: ClosedRange<Value>, subject: String? = nil) -> Self {
        Self("must be an integer, \(range.lowerBound) to \(range.upperBound)", subject: subject) { value in
            value.int64.flatMap { Value(exactly: $0) }.flatMap { range.contains($0) ? $0 : nil }
        }
    }
}

extension MemberKind where Value: RawRepresentable<String> & CaseIterable & Sendable {
    /// One of the names of an enumeration. The error lists them as `a, b or c`.
    package static func choice(rule: String = Rule.range) -> Self {
        let names = Value.allCases.map(\.rawValue)
        let list = names.dropLast().joined(separator: ", ") + " or " + (names.last ?? "")
        return Self("must be \(list)", rule: rule) { $0.string.flatMap(Value.init(rawValue:)) }
    }

    /// One of the names of an enumeration. The error lists them as `one of a, b, c`.
    package static var oneOf: Self {
        Self("must be one of " + Value.allCases.map(\.rawValue).joined(separator: ", ")) {
            $0.string.flatMap(Value.init(rawValue:))
        }
    }
}

extension MemberKind<UUID> {
    package static var uuid: MemberKind<UUID> { Self("must be a UUID", rule: Rule.uuid) { $0.uuid } }
}

extension MemberKind<[MutationStatus]> {
    /// One status, or an array of several statuses.
    package static func statuses(_ allowed: [MutationStatus]) -> Self {
        let words = allowed.map(\.rawValue).joined(separator: ", ")
        return Self("must be one or an array of: \(words)", rule: Rule.memberType) { value in
            let names = value.elements.map { $0.map(\.string) } ?? [value.string]
            let statuses = names.compactMap { name in allowed.first { $0.rawValue == name } }
            return statuses.count == names.count && !statuses.isEmpty ? statuses : nil
        }
    }
}

extension MemberKind where Value: TableObject {
    package static var object: Self { Self { value, place, report in Value(value, at: place.pointer, &report) } }
}
