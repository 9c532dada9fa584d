package import JSONText
package import SyncModel

/// A rule that converts an item of a message or a response to an event.
package struct MappingRule: TableObject, Hashable {
    /// The maximum number of conditions in a rule.
    package static let conditionLimit = 20
    /// The maximum number of values in a condition or an operation.
    package static let valueLimit = 100
    /// The longest value in a condition, in bytes.
    package static let maximumValueBytes = 200

    /// A condition that an item must meet for the rule to apply.
    package struct Condition: Sendable, Hashable {
        package let at: MappedPointer
        /// The accepted values.
        package let values: [MappedScalar]
    }

    package enum OperationChoice: Sendable, Hashable {
        case always(IngestOperation)
        /// The item's value at the pointer selects the operation. `otherwise` applies to values without an operation.
        case at(MappedPointer, [ByteExactString: IngestOperation], otherwise: IngestOperation?)

        /// Whether some event of the rule may have a document.
        var mayHaveDocument: Bool {
            switch self {
            case .always(let operation): operation != .delete
            case .at(_, let values, let otherwise):
                values.values.contains { $0 != .delete } || (otherwise ?? .delete) != .delete
            }
        }
    }

    /// The unit of a time that is a whole number.
    package enum TimeUnit: String, Sendable, Hashable, CaseIterable, JSONWritable {
        case seconds
        case milliseconds
    }

    package internal(set) var conditions: [Condition] = []
    @Exact package internal(set) var entityType: String = ""
    package internal(set) var operation = OperationChoice.always(.delete)
    package internal(set) var id = MappedPointer()
    package internal(set) var eventID: MappedPointer?
    package internal(set) var version: MappedPointer?
    package internal(set) var occurredAt: MappedPointer?
    package internal(set) var timeUnit: TimeUnit?
    package internal(set) var document: MappedPointer?
    package internal(set) var owner: MappedPointer?
    package internal(set) var causingKey: MappedPointer?

    package init() {}

    package static let table = MemberTable<Self, Self>("a rule") {
        BodyMember("when", MemberKind { conditions($0, $1.pointer, &$2) }, into: \.conditions)
            .written { $0.write(conditionsTo: &$1) }
            .omitted { $0.conditions.isEmpty }
        BodyMember("entity_type", .entityType, as: \.entityType).required()
        BodyMember("operation", MemberKind { OperationChoice($0, $1.pointer, &$2) }, as: \.operation).required()
        BodyMember("event_id", .mappedPointer, as: \.eventID)
        BodyMember("id", .mappedPointer, as: \.id).required()
        BodyMember("version", .mappedPointer, as: \.version)
        BodyMember("occurred_at", .mappedPointer, as: \.occurredAt)
        BodyMember("occurred_at_unit", .choice(), as: \.timeUnit)
        BodyMember("document", .mappedPointer, as: \.document)
        BodyMember("owner", .mappedPointer, as: \.owner)
        BodyMember("causing_key", .mappedPointer, as: \.causingKey)
    } check: { rule, object, report in
        if !object.has("version"), !object.has("occurred_at") {
            report.refuse(object.pointer + "/version", Rule.required, "version or occurred_at is required")
        }
        if rule.operation.mayHaveDocument, !object.has("document") {
            report.refuse(object.pointer + "/document", Rule.required, "document is required, except for a delete")
        }
        if object.has("occurred_at_unit"), !object.has("occurred_at") {
            let detail = "this requires occurred_at, which is missing"
            report.refuse(object.pointer + "/occurred_at_unit", Rule.range, detail)
        }
    }

    private static func conditions(
        _ value: JSONValue,
        _ pointer: String,
        _ report: inout MemberReport
    ) -> [Condition] {
        var conditions: [Condition] = []
        var count = 0
        report.members(of: value, at: pointer, "when: pointers, with the required values", hasNulls: true) {
            report,
            member,
            place,
            value in
            count += 1
            guard count <= conditionLimit else {
                if count == conditionLimit + 1 {
                    report.refuse(pointer, Rule.range, "a rule has at most \(conditionLimit) conditions")
                }
                return
            }
            guard let at = MappedPointer(member) else {
                return report.refuse(place, Rule.range, "this " + MemberKind<MappedPointer>.pointerForm)
            }
            let values = value.elements.map { Array($0.prefix(valueLimit + 1)) } ?? [value]
            let scalars = values.compactMap { Self.scalar($0) }
            if values.isEmpty || values.count > valueLimit || scalars.count != values.count {
                let form = "strings of at most \(maximumValueBytes) bytes, whole numbers, true, false or null"
                report.refuse(place, Rule.range, "a condition must have 1 to \(valueLimit) values: \(form)")
            } else {
                conditions.append(Condition(at: at, values: scalars))
            }
        }
        return conditions
    }

    private static func scalar(_ value: JSONValue) -> MappedScalar? {
        let scalar = MappedScalar(value)
        if case .text(let text)? = scalar, text.string.utf8.count > maximumValueBytes { return nil }
        return scalar
    }

    private func write(conditionsTo writer: inout JSONWriter) {
        writer.object { writer in
            for condition in conditions {
                writer.name(condition.at.text)
                condition.values.write(to: &writer)
            }
        }
    }
}

extension MappingRule.OperationChoice: JSONWritable {
    private static let form = "upsert, patch or delete, or {\"at\": pointer, \"values\": {\"c\": \"upsert\", …}}"

    /// The members of ``at(_:_:otherwise:)``.
    private struct Lookup: TableObject {
        var at = MappedPointer()
        var values: [ByteExactString: IngestOperation] = [:]
        var otherwise: IngestOperation?

        static let table = MemberTable<Self, Self>("an operation: at, values, otherwise; or its name") {
            BodyMember("at", .mappedPointer, as: \.at).required()
            BodyMember("values", .operations, into: \.values).required().written { lookup, writer in
                writer.object { writer in
                    for (name, operation) in lookup.values.sorted(by: { $0.key < $1.key }) {
                        writer.name(name)
                        writer.string(operation.rawValue)
                    }
                }
            }
            BodyMember("otherwise", .operation, as: \.otherwise)
        }
    }

    init?(_ value: JSONValue, _ pointer: String, _ report: inout MemberReport) {
        if let text = value.string {
            let operation = IngestOperation(rawValue: text)
            let detail = "operation must be " + Self.form
            guard let operation = report.value(operation, at: pointer, rule: Rule.operation, detail) else { return nil }
            self = .always(operation)
        } else {
            guard let lookup = Lookup(value, at: pointer, &report) else { return nil }
            self = .at(lookup.at, lookup.values, otherwise: lookup.otherwise)
        }
    }

    package func write(to writer: inout JSONWriter) {
        switch self {
        case .always(let operation): writer.string(operation.rawValue)
        case .at(let pointer, let values, let otherwise):
            var lookup = Lookup()
            (lookup.at, lookup.values, lookup.otherwise) = (pointer, values, otherwise)
            lookup.write(to: &writer)
        }
    }
}

extension MemberKind<IngestOperation> {
    fileprivate static var operation: Self {
        Self("is upsert, patch or delete", rule: Rule.operation, subject: "an operation") {
            $0.string.flatMap(IngestOperation.init(rawValue:))
        }
    }
}

extension MemberKind<[ByteExactString: IngestOperation]> {
    fileprivate static var operations: Self {
        Self { value, place, report in
            var found: [ByteExactString: IngestOperation] = [:]
            report.members(of: value, at: place.pointer, "values: possible values, with operations") {
                report,
                name,
                place,
                value in
                found[name] = MemberKind<IngestOperation>.operation.read(value, at: place, &report)
            }
            if found.isEmpty || found.count > MappingRule.valueLimit {
                let detail = "values must contain 1 to \(MappingRule.valueLimit) operations"
                report.refuse(place.pointer, Rule.range, detail)
            }
            return found
        }
    }
}
