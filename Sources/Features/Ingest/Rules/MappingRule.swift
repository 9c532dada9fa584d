package import JSONText
package import SyncModel

/// How an item becomes an event.
package struct MappingRule: Sendable, Hashable {
    /// Conditions of a rule.
    package static let conditionLimit = 20
    /// Values that a condition, or an operation, may name.
    package static let valueLimit = 100
    /// The longest value that is compared with, in bytes.
    package static let maximumValueBytes = 200

    /// Something that must be so for the rule to be the item's.
    package struct Condition: Sendable, Hashable {
        package let at: MappedPointer
        /// The accepted values.
        package let values: [MappedScalar]
    }

    package enum OperationChoice: Sendable, Hashable {
        case always(IngestOperation)
        /// Determined by the value at a place, through its name.
        case at(MappedPointer, [ByteExactString: IngestOperation], otherwise: IngestOperation?)

        /// Whether a document may be needed.
        var mayHaveDocument: Bool {
            switch self {
            case .always(let operation): operation != .delete
            case .at(_, let values, let otherwise):
                values.values.contains { $0 != .delete } || (otherwise ?? .delete) != .delete
            }
        }
    }

    /// The unit of a whole number that is a time.
    package enum TimeUnit: String, Sendable, Hashable, CaseIterable {
        case seconds
        case milliseconds
    }

    package internal(set) var conditions: [Condition] = []
    @Exact package internal(set) var entityType: String
    package internal(set) var operation: OperationChoice
    package internal(set) var id: MappedPointer
    package internal(set) var eventID: MappedPointer?
    package internal(set) var version: MappedPointer?
    package internal(set) var occurredAt: MappedPointer?
    package internal(set) var timeUnit: TimeUnit?
    package internal(set) var document: MappedPointer?
    package internal(set) var owner: MappedPointer?
    package internal(set) var causingKey: MappedPointer?

    private static let names = """
        a rule: when, entity_type, operation, event_id, id, version, occurred_at, occurred_at_unit, document, owner, \
        causing_key
        """

    /// Reads a rule; nil if it has defects, which the report has then.
    init?(_ value: JSONValue, at pointer: String, _ report: inout SettingsReport) {
        var (conditions, type, operation): ([Condition], String?, OperationChoice?) = ([], nil, nil)
        var pointers: [ByteExactString: MappedPointer] = [:]
        var unit: TimeUnit?
        let before = report.problems.count
        let seen = report.members(of: value, at: pointer, Self.names) { report, member, place, value in
            switch member {
            case "when": conditions = Self.conditions(value, place, &report)
            case "entity_type":
                type = report.value(
                    value.string.flatMap { EntityType.isValidName($0) ? $0 : nil },
                    at: place,
                    rule: Rule.entityType,
                    "entity_type must match [a-z][a-z0-9_-]{0,63}"
                )
            case "operation": operation = OperationChoice(value, place, &report)
            case "event_id", "id", "version", "occurred_at", "document", "owner", "causing_key":
                pointers[member] = report.mappedPointer(value, at: place)
            case "occurred_at_unit":
                let choice = value.string.flatMap(TimeUnit.init(rawValue:))
                unit = report.value(choice, at: place, "occurred_at_unit must be seconds or milliseconds")
            default: return false
            }
            return true
        }
        guard let seen else { return nil }
        report.require(["entity_type", "operation", "id"], in: seen, at: pointer)
        if !seen.contains("version"), !seen.contains("occurred_at") {
            let detail = "version or occurred_at is required"
            report.refuse(pointer + "/version", Rule.required, detail)
        }
        if let operation, operation.mayHaveDocument, !seen.contains("document") {
            report.refuse(pointer + "/document", Rule.required, "document is required, except for a delete")
        }
        if seen.contains("occurred_at_unit"), !seen.contains("occurred_at") {
            report.refuse(pointer + "/occurred_at_unit", Rule.range, "this requires occurred_at, which is missing")
        }
        guard report.problems.count == before, let type, let operation, let id = pointers["id"] else { return nil }
        self.conditions = conditions
        entityType = type
        self.operation = operation
        self.id = id
        eventID = pointers["event_id"]
        version = pointers["version"]
        occurredAt = pointers["occurred_at"]
        timeUnit = unit
        document = pointers["document"]
        owner = pointers["owner"]
        causingKey = pointers["causing_key"]
    }

    private static func conditions(
        _ value: JSONValue,
        _ pointer: String,
        _ report: inout SettingsReport
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
                return true
            }
            guard let at = MappedPointer(member) else {
                report.refuse(place, Rule.range, SettingsReport.pointerForm)
                return true
            }
            let values = value.elements.map { Array($0.prefix(valueLimit + 1)) } ?? [value]
            let scalars = values.compactMap { Self.scalar($0) }
            if values.isEmpty || values.count > valueLimit || scalars.count != values.count {
                let form = "strings of at most \(maximumValueBytes) bytes, whole numbers, true, false or null"
                report.refuse(place, Rule.range, "a condition must have 1 to \(valueLimit) values: \(form)")
            } else {
                conditions.append(Condition(at: at, values: scalars))
            }
            return true
        }
        return conditions
    }

    private static func scalar(_ value: JSONValue) -> MappedScalar? {
        let scalar = MappedScalar(value)
        if case .text(let text)? = scalar, text.string.utf8.count > maximumValueBytes { return nil }
        return scalar
    }

    func write(to writer: inout JSONWriter) {
        writer.beginObject()
        if !conditions.isEmpty {
            writer.name("when")
            writer.beginObject()
            for condition in conditions {
                writer.name(condition.at.text)
                writer.beginArray()
                for value in condition.values { value.write(to: &writer) }
                writer.endArray()
            }
            writer.endObject()
        }
        writer.member("entity_type", entityType)
        writer.name("operation")
        operation.write(to: &writer)
        if let eventID { writer.member("event_id", eventID.text) }
        writer.member("id", id.text)
        if let version { writer.member("version", version.text) }
        if let occurredAt { writer.member("occurred_at", occurredAt.text) }
        if let timeUnit { writer.member("occurred_at_unit", timeUnit.rawValue) }
        if let document { writer.member("document", document.text) }
        if let owner { writer.member("owner", owner.text) }
        if let causingKey { writer.member("causing_key", causingKey.text) }
        writer.endObject()
    }
}

extension MappingRule.OperationChoice {
    private static let form = "upsert, patch or delete, or {\"at\": pointer, \"values\": {\"c\": \"upsert\", …}}"

    init?(_ value: JSONValue, _ pointer: String, _ report: inout SettingsReport) {
        if let text = value.string {
            guard let operation = IngestOperation(rawValue: text) else {
                report.refuse(pointer, Rule.operation, "operation must be " + Self.form)
                return nil
            }
            self = .always(operation)
            return
        }
        var (at, values, otherwise): (MappedPointer?, [ByteExactString: IngestOperation]?, IngestOperation?)
        let before = report.problems.count
        let seen = report.members(of: value, at: pointer, "an operation: at, values, otherwise; or its name") {
            report,
            member,
            place,
            value in
            switch member {
            case "at": at = report.mappedPointer(value, at: place)
            case "otherwise": otherwise = Self.operation(value, place, &report)
            case "values":
                var found: [ByteExactString: IngestOperation] = [:]
                report.members(of: value, at: place, "values: possible values, with operations") {
                    report,
                    name,
                    place,
                    value in
                    found[name] = Self.operation(value, place, &report)
                    return true
                }
                if found.isEmpty || found.count > MappingRule.valueLimit {
                    report.refuse(place, Rule.range, "values must contain 1 to \(MappingRule.valueLimit) operations")
                }
                values = found
            default: return false
            }
            return true
        }
        guard let seen else { return nil }
        report.require(["at", "values"], in: seen, at: pointer)
        guard report.problems.count == before, let at, let values else { return nil }
        self = .at(at, values, otherwise: otherwise)
    }

    private static func operation(
        _ value: JSONValue,
        _ pointer: String,
        _ report: inout SettingsReport
    ) -> IngestOperation? {
        report.value(
            value.string.flatMap(IngestOperation.init(rawValue:)),
            at: pointer,
            rule: Rule.operation,
            "an operation is upsert, patch or delete"
        )
    }

    func write(to writer: inout JSONWriter) {
        switch self {
        case .always(let operation): writer.string(operation.rawValue)
        case .at(let pointer, let values, let otherwise):
            writer.beginObject()
            writer.member("at", pointer.text)
            writer.name("values")
            writer.beginObject()
            for (name, operation) in values.sorted(by: { $0.key < $1.key }) {
                writer.name(name)
                writer.string(operation.rawValue)
            }
            writer.endObject()
            if let otherwise { writer.member("otherwise", otherwise.rawValue) }
            writer.endObject()
        }
    }
}

extension SettingsReport {
    static let pointerForm = """
        this must be a JSON Pointer (RFC 6901) of at most \(MappedPointer.maximumBytes) bytes, such as /data/id; with ^ \
        in front, it starts at the whole body
        """

    /// A pointer of a mapping.
    package mutating func mappedPointer(_ value: JSONValue, at pointer: String) -> MappedPointer? {
        self.value(value.string.flatMap { MappedPointer($0) }, at: pointer, Self.pointerForm)
    }
}
