import Foundation
import JSONText

/// Reads one event of a batch and checks everything that needs nothing but the event itself. Reports all errors, not
/// just the first.
struct IngestDecoder {
    private let index: Int
    private let limits: IntakeLimits
    private var problems: [ProblemDetail] = []
    private var seen: Set<String> = []

    private var eventID: String?
    private var entityType: String?
    private var entityID: ServerID?
    private var mark = SourceMark()
    private var operation: IngestOperation?
    private var document: JSONValue?
    private var owner: UUID?
    private var causingKey: UUID?

    private static let names =
        "event_id, entity_type, id, version, occurred_at, operation, document, owner, causing_key"

    private init(index: Int, limits: IntakeLimits) {
        self.index = index
        self.limits = limits
    }

    static func decode(_ value: JSONValue, index: Int, limits: IntakeLimits, hasDefects: Bool) -> IngestRequest.Entry {
        var decoder = IngestDecoder(index: index, limits: limits)
        decoder.read(value)
        if hasDefects { decoder.reportDefects(in: value) }
        return IngestRequest.Entry(eventID: decoder.eventID, event: decoder.finish())
    }

    private mutating func read(_ value: JSONValue) {
        guard let members = value.members else {
            return report("", Rule.memberType, "an event must be an object")
        }
        for (name, value) in members where !value.isNull {
            let member = name.string
            seen.insert(member)
            if !read(member, value) {
                let detail = "'\(member)' is not a member of an event: \(Self.names)"
                report(JSONPointer.member(member), Rule.unknownMember, detail)
            }
        }
        for member in ["event_id", "entity_type", "id", "operation"] where !seen.contains(member) {
            report("/" + member, Rule.required, "\(member) is required")
        }
        if !seen.contains("version"), !seen.contains("occurred_at") {
            report("/version", Rule.required, "version or occurred_at is required: how new is it?")
        }
        switch operation {
        case .upsert?, .patch?:
            if !seen.contains("document") {
                report(
                    "/document",
                    Rule.required,
                    "document is required: it is what the entity became, or what changed"
                )
            }
        case .delete?:
            if seen.contains("document") {
                report("/document", Rule.memberType, "a delete has no document")
            }
        case nil: break
        }
    }

    private mutating func read(_ member: String, _ value: JSONValue) -> Bool {
        switch member {
        case "event_id":
            eventID = value.string.flatMap { Self.isText($0, IngestEvent.maximumIDBytes) ? $0 : nil }
            if eventID == nil {
                let form = "a string of 1 to \(IngestEvent.maximumIDBytes) bytes without control characters"
                report("/event_id", Rule.range, "event_id must be \(form)")
            }
        case "entity_type":
            entityType = value.string.flatMap { EntityType.isValidName($0) ? $0 : nil }
            if entityType == nil {
                report("/entity_type", Rule.entityType, "entity_type must match [a-z][a-z0-9_-]{0,63}")
            }
        case "id":
            entityID = ServerID(json: value)
            if entityID == nil {
                let form = "a string of 1 to \(ServerID.maximumBytes) bytes or a 64-bit integer"
                report("/id", Rule.serverID, "id must be \(form), as the server gave it")
            }
        case "version":
            mark.version = value.int64.flatMap { $0 >= 0 ? $0 : nil }
            if mark.version == nil { report("/version", Rule.range, "version must be an integer, 0 or more") }
        case "occurred_at":
            mark.occurredAt = value.string.flatMap(Timestamp.init(rfc3339:))
            if mark.occurredAt == nil {
                let detail = "occurred_at must be an RFC 3339 date-time such as 2026-11-20T07:00:00.000Z"
                report("/occurred_at", Rule.timestamp, detail)
            }
        case "operation":
            operation = value.string.flatMap(IngestOperation.init(rawValue:))
            if operation == nil { report("/operation", Rule.operation, "operation must be upsert, patch or delete") }
        case "document": readDocument(value)
        case "owner":
            owner = value.uuid
            if owner == nil { report("/owner", Rule.uuid, "owner must be the UUID of a user") }
        case "causing_key":
            let isText = value.string.map { Self.isText($0, IngestEvent.maximumKeyBytes) } ?? false
            if !isText {
                let form = "a string of 1 to \(IngestEvent.maximumKeyBytes) bytes without control characters"
                report("/causing_key", Rule.range, "causing_key must be \(form)")
            }
            // keys of others are what they like
            causingKey = value.uuid
        default: return false
        }
        return true
    }

    private mutating func readDocument(_ value: JSONValue) {
        guard value.kind == .object else {
            return report("/document", Rule.payload, "document must be an object")
        }
        do throws(ContentRules.Violation) {
            document = try ContentRules.payload(value, limits: limits)
        } catch {
            report("/document", error.rule, error.detail.replacing("payload", with: "document"))
        }
    }

    private static func isText(_ text: String, _ limit: Int) -> Bool {
        let bytes = text.utf8
        return !bytes.isEmpty && bytes.count <= limit && bytes.allSatisfy { $0 >= 0x20 && $0 != 0x7f }
    }

    private mutating func reportDefects(in value: JSONValue) {
        for defect in value.defects {
            let isDocument = defect.pointer.hasPrefix("/document")
            let rule =
                isDocument ? Rule.payload : defect.kind == .duplicateMember ? Rule.duplicateMember : Rule.memberType
            report(defect.pointer, rule, defect.explanation)
        }
    }

    private mutating func report(_ pointer: String, _ rule: String, _ detail: String) {
        problems.append(ProblemDetail(pointer: "/events/\(index)" + pointer, rule: rule, detail: detail))
    }

    private func finish() -> Result<IngestEvent, Problem> {
        guard problems.isEmpty, let eventID, let entityType, let entityID, let operation else {
            let first = problems.first?.detail ?? "the event is incomplete"
            let more = problems.count > 1 ? " (and \(problems.count - 1) more)" : ""
            return .failure(Problem(.validationFailed, first + more, errors: problems))
        }
        return .success(
            IngestEvent(
                id: eventID,
                entityType: entityType,
                entityID: entityID,
                mark: mark,
                operation: operation,
                document: document.map { Array($0.raw) },
                owner: owner,
                causingKey: causingKey
            )
        )
    }
}
