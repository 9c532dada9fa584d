import Crypto
import JSONText
package import SyncModel

extension MappingRule {
    func matches(_ values: inout MappedValues) -> Bool {
        for condition in conditions {
            guard let scalar = MappedScalar(values.value(at: condition.at)), condition.values.contains(scalar) else {
                return false
            }
        }
        return true
    }
}

/// Makes an item's event by a rule.
///
/// The event is first written in the form that a program would send. Then it is read like an event of a program, so
/// that the same conditions apply to all events.
struct EventMaker {
    let rule: MappingRule
    /// The place of the item in the body.
    let place: String
    let limits: IntakeLimits
    /// The maximum number of errors that the problem of a refused event lists.
    let errorLimit: Int
    /// The errors of members, at most one for each member of a rule.
    private var problems: [ProblemDetail] = []

    init(rule: MappingRule, place: String, limits: IntakeLimits, errorLimit: Int) {
        self.rule = rule
        self.place = place
        self.limits = limits
        self.errorLimit = errorLimit
    }

    /// The maximum length of an id or a time, in bytes. A longer value is refused without being copied. Valid values
    /// are shorter.
    private static let maximumScalarBytes = 4_096

    /// Makes the item's event.
    ///
    /// - Returns: the event, and the number of bytes of its document. For a refused event, the number includes all
    ///   bytes that were written.
    func entry(_ values: inout MappedValues, id: MappedID) -> (entry: IngestRequest.Entry, bytes: Int) {
        var maker = self
        let (bytes, name) = maker.write(&values, id: id)
        let entry = maker.problems.isEmpty ? maker.entry(reading: bytes, name) : maker.refusal(name)
        return (entry, (try? entry.event.get()).map { $0.document?.count ?? 0 } ?? bytes.count)
    }

    private func entry(reading bytes: [UInt8], _ name: String?) -> IngestRequest.Entry {
        var maker = self
        let tree: JSONTree
        do throws(JSONParseError) {
            // the depth is not limited here: the body was already checked, and the event is at most one level deeper
            tree = try JSONTree(parsing: bytes, limits: .widest)
        } catch {
            maker.report("document", Rule.payload, "the event cannot be read: \(error)")
            return maker.refusal(name)
        }
        let entry = IngestDecoder.decode(
            tree.root,
            index: 0,
            limits: limits,
            hasDefects: tree.root.hasDefects,
            errorLimit: errorLimit
        )
        switch entry.event {
        case .success(let event):
            guard name == nil else { return entry }
            let id = Self.contentID(of: event)
            return IngestRequest.Entry(eventID: id, event: .success(event.named(id)))
        case .failure(var problem):
            problem.errors = problem.errors.map { error in
                var error = error
                let pointer = String(error.pointer.dropFirst("/events/0".count))
                error.pointer = rule.place(ofMember: pointer, in: place)
                return error
            }
            return IngestRequest.Entry(eventID: name == nil ? nil : entry.eventID, event: .failure(problem))
        }
    }

    private func refusal(_ name: String?) -> IngestRequest.Entry {
        let first = problems.first?.detail ?? "the event is incomplete"
        let more = problems.count > 1 ? " (and \(problems.count - 1) more)" : ""
        let listed = Array(problems.prefix(errorLimit))
        var problem = Problem(.validationFailed, first + more, errors: listed)
        problem.omittedErrors = problems.count - listed.count
        return IngestRequest.Entry(eventID: name, event: .failure(problem))
    }

    private mutating func report(_ member: String, _ rule: String, _ detail: String) {
        let place = self.rule.pointer(of: member)?.place(in: place) ?? place
        problems.append(ProblemDetail(pointer: place, rule: rule, detail: detail))
    }

    // MARK: - Writing

    /// Writes the event in the form that a program would send.
    ///
    /// - Returns: the bytes, and the event's id. The id is nil if it is derived from the content.
    private mutating func write(_ values: inout MappedValues, id: MappedID) -> (bytes: [UInt8], name: String?) {
        let operation = operation(&values)
        let name = name(&values, id)
        var writer = JSONWriter(capacity: 512)
        writer.beginObject()
        // the placeholder `-` is written if the id is derived from the content
        writer.member("event_id", name ?? "-")
        writer.member("entity_type", rule.entityType)
        if let operation { writer.member("operation", operation.rawValue) }
        if let value = needed("id", rule.id, &values) {
            writer.name("id")
            writer.value(value)
        }
        if let value = scalar("version", rule.version, &values) {
            writer.name("version")
            writer.value(value)
        }
        writeTime(&writer, &values)
        if operation != .delete, let pointer = rule.document, let value = needed("document", pointer, &values) {
            writer.name("document")
            writer.value(value)
        }
        if let value = scalar("owner", rule.owner, &values) {
            writer.name("owner")
            writer.value(value)
        }
        if let value = scalar("causing_key", rule.causingKey, &values) {
            writer.name("causing_key")
            writer.value(value)
        }
        writer.endObject()
        return (writer.bytes, name)
    }

    /// Returns the value of a required member. If there is no value, reports an error and returns nil.
    private mutating func needed(
        _ member: String,
        _ pointer: MappedPointer,
        _ values: inout MappedValues
    ) -> JSONValue? {
        guard let value = values.value(at: pointer) else {
            let place = pointer.place(in: place)
            report(member, Rule.required, "no value at '\(place)', which is mapped to the event's \(member)")
            return nil
        }
        return member == "document" ? value : short(member, value)
    }

    /// Returns the value of an optional member; nil if there is no value.
    private mutating func scalar(
        _ member: String,
        _ pointer: MappedPointer?,
        _ values: inout MappedValues
    ) -> JSONValue? {
        guard let pointer, let value = values.value(at: pointer) else { return nil }
        return short(member, value)
    }

    private mutating func short(_ member: String, _ value: JSONValue) -> JSONValue? {
        guard value.rawCount <= Self.maximumScalarBytes else {
            report(member, Rule.range, "this is mapped to the event's \(member), but is too long")
            return nil
        }
        return value
    }

    private mutating func name(_ values: inout MappedValues, _ id: MappedID) -> String? {
        if let pointer = rule.eventID {
            guard let value = needed("event_id", pointer, &values) else { return nil }
            if let number = value.int64 { return String(number) }
            guard let text = value.string ?? value.integerText else {
                report("event_id", Rule.memberType, "event_id must be a string or a whole number")
                return nil
            }
            return text
        }
        guard case .message(let text) = id else { return nil }
        return text.string.utf8.count <= IngestEvent.maximumIDBytes ? text.string : Self.digest(Array(text.string.utf8))
    }

    private mutating func operation(_ values: inout MappedValues) -> IngestOperation? {
        switch rule.operation {
        case .always(let operation): return operation
        case .at(let pointer, let operations, let otherwise):
            let value = values.value(at: pointer)
            if let name = MappedScalar(value)?.name, let operation = operations[name] { return operation }
            if let otherwise { return otherwise }
            let known = operations.keys.map(\.string).sorted().joined(separator: ", ")
            report("operation", Rule.operation, "this is mapped to the event's operation, and must be one of: \(known)")
            return nil
        }
    }

    private mutating func writeTime(_ writer: inout JSONWriter, _ values: inout MappedValues) {
        guard let value = scalar("occurred_at", rule.occurredAt, &values) else { return }
        guard value.kind == .number else {
            writer.name("occurred_at")
            writer.value(value)
            return
        }
        guard let unit = rule.timeUnit else {
            let detail = "this is a number; set the rule's occurred_at_unit to seconds or milliseconds"
            return report("occurred_at", Rule.timestamp, detail)
        }
        let (scale, limit): (Int64, Int64) =
            switch unit {
            case .seconds: (1_000_000, Self.lastSecond)
            case .milliseconds: (1_000, Self.lastSecond * 1_000)
            }
        guard let number = value.int64, (0...limit).contains(number) else {
            let detail = "occurred_at must be whole \(unit.rawValue) since 1970, before the year 10000"
            return report("occurred_at", Rule.timestamp, detail)
        }
        writer.member("occurred_at", Timestamp(microseconds: number * scale).rfc3339)
    }

    /// The last second of the year 9999.
    private static let lastSecond: Int64 = 253_402_300_799

    // MARK: - Names

    /// Returns an id that is derived from the event. Equal events have equal ids, and different events have different
    /// ids.
    static func contentID(of event: IngestEvent) -> String {
        var text: [UInt8] = []
        for part in [
            event.entityType, event.entityID.isInteger ? "i" : "s", event.entityID.text, event.operation.rawValue,
            event.mark.version.map(String.init) ?? "",
        ] {
            text += part.utf8
            text.append(0)
        }
        if event.mark.version == nil {
            // the document is included, because two changes may have the same time
            text += (event.mark.occurredAt.map { String($0.microseconds) + event.mark.fractionSuffix } ?? "").utf8
            text.append(0)
            if let document = event.document { text += ContentHash(of: document)?.bytes ?? document }
        }
        return digest(text)
    }

    private static func digest(_ bytes: [UInt8]) -> String {
        var text = "sha256:"
        for byte in SHA256.hash(data: bytes) {
            if byte < 16 { text += "0" }
            text += String(byte, radix: 16)
        }
        return text
    }
}

extension IngestEvent {
    fileprivate func named(_ id: String) -> IngestEvent {
        IngestEvent(
            id: id,
            entityType: entityType,
            entityID: entityID,
            mark: mark,
            operation: operation,
            document: document,
            owner: owner,
            causingKey: causingKey
        )
    }
}

// MARK: - MappedEvents

/// The result of converting a body by a mapping.
package struct MappedEvents: Sendable {
    /// The item and the rule from which an event was made.
    package struct Origin: Sendable, Hashable {
        /// The place of the item in the body, as a JSON Pointer.
        @Exact package private(set) var place: String
        /// The index of the rule that made the event, from 0.
        package let rule: Int
    }

    /// The events or their errors, in the order of the items. The errors' pointers refer to the body.
    package private(set) var entries: [IngestRequest.Entry] = []
    /// The origin of each entry.
    package private(set) var origins: [Origin] = []
    private var rules: [MappingRule] = []
    /// The number of items that no rule matches.
    package internal(set) var ignored = 0

    init() {}

    mutating func add(_ entry: IngestRequest.Entry, _ origin: Origin, _ rule: MappingRule) {
        entries.append(entry)
        origins.append(origin)
        rules.append(rule)
    }

    /// Converts the pointers of an event's problem, so that they point into the body that was mapped.
    ///
    /// - Parameters:
    ///   - problem: the problem as the feed reported it. Its pointers begin with `/events/` and the event's index.
    ///   - index: the index of the event in ``entries``. The pointers must contain the same index.
    /// - Returns: the problem with pointers into the body.
    package func placed(_ problem: Problem, of index: Int) -> Problem {
        guard entries.indices.contains(index) else { return problem }
        var problem = problem
        let prefix = "/events/\(index)"
        problem.errors = problem.errors.map { error in
            guard error.pointer.hasPrefix(prefix) else { return error }
            var error = error
            error.pointer = rules[index].place(
                ofMember: String(error.pointer.dropFirst(prefix.count)),
                in: origins[index].place
            )
            return error
        }
        return problem
    }
}

/// How events get their ids if the rule does not define an id.
package enum MappedID: Sendable, Hashable {
    /// The id is the id of the message. If a message has several items, the id also includes the item's index.
    case message(ByteExactString)
    /// The id is derived from the entity, the operation and the version. Without a version, it is derived from the
    /// entity, the operation, the time and the document.
    case content

    func ofItem(_ index: Int) -> MappedID {
        if case .message(let id) = self { .message(ByteExactString("\(id)#\(index)")) } else { self }
    }
}

extension MappingRule {
    func pointer(of member: some StringProtocol) -> MappedPointer? {
        switch member {
        case "event_id": eventID
        case "id": id
        case "version": version
        case "occurred_at": occurredAt
        case "document": document
        case "owner": owner
        case "causing_key": causingKey
        case "operation": if case .at(let pointer, _, _) = operation { pointer } else { nil }
        default: nil
        }
    }

    /// Returns the place in the body from which an event's member gets its value.
    ///
    /// If the rule itself contains the value, returns the place of the item.
    ///
    /// - Parameters:
    ///   - pointer: a pointer that begins at the event.
    ///   - place: the place of the item in the body.
    func place(ofMember pointer: String, in place: String) -> String {
        let steps = pointer.dropFirst().split(separator: "/", maxSplits: 1, omittingEmptySubsequences: false)
        guard let member = steps.first, let found = self.pointer(of: member) else { return place }
        return found.place(in: place) + (steps.count > 1 ? "/" + steps[1] : "")
    }
}
