import Crypto
import FoundationEssentials
package import JSONText

/// Reads one event of a batch, and checks the rules that can be checked without stored data.
///
/// The decoder reports all errors up to the limit in ``ErrorBounds``, not only the first.
package struct IngestDecoder {
    /// The JSON Pointer to the event.
    private let place: String
    private let form: Form
    private let limits: IntakeLimits
    private var errors: EntryErrors
    private var seen: Set<ByteExactString> = []

    private var eventID: String?
    private var entityType: String?
    private var entityID: ServerID?
    private var mark = SourceMark()
    private var operation: IngestOperation?
    private var document: JSONValue?
    private var owner: UUID?
    private var causingKey: UUID?
    private var isDeleted: Bool?
    private var isPrivate = false

    /// The notation of an event.
    package enum Form {
        /// An event in the form that sources send.
        case event
        /// A line of a file of entities (``EntityLine``), which has fewer members than an event.
        case line

        package var names: String {
            let common = "entity_type, id, version, occurred_at, operation, document, owner, causing_key"
            return switch self {
            case .event: "event_id, \(common)"
            case .line: "\(common), deleted, private, event_id"
            }
        }

        package var required: [String] {
            switch self {
            case .event: ["event_id", "entity_type", "id", "operation"]
            case .line: ["entity_type", "id"]
            }
        }
    }

    private init(place: String, form: Form, limits: IntakeLimits, errorLimit: Int) {
        errors = EntryErrors(limit: errorLimit)
        self.place = place
        self.form = form
        self.limits = limits
    }

    /// - Parameter errorLimit: the maximum number of errors that the event's problem lists.
    package static func decode(
        _ value: JSONValue,
        index: Int,
        limits: IntakeLimits,
        hasDefects: Bool,
        errorLimit: Int = ErrorBounds.perEntry
    ) -> IngestRequest.Entry {
        decode(
            value,
            place: "/events/\(index)",
            form: .event,
            limits: limits,
            hasDefects: hasDefects,
            errorLimit: errorLimit
        )
    }

    package static func decode(
        _ value: JSONValue,
        place: String,
        form: Form,
        limits: IntakeLimits,
        hasDefects: Bool,
        errorLimit: Int = ErrorBounds.perEntry
    ) -> IngestRequest.Entry {
        var decoder = IngestDecoder(place: place, form: form, limits: limits, errorLimit: errorLimit)
        decoder.read(value)
        if hasDefects { decoder.reportDefects(in: value) }
        return IngestRequest.Entry(eventID: decoder.eventID, event: decoder.finish())
    }

    private mutating func read(_ value: JSONValue) {
        guard let members = value.members else {
            return report("", Rule.memberType, "an event must be an object")
        }
        var unknownCount = 0
        for (name, value) in members where !value.isNull {
            let member = name.string
            seen.insert(member)
            if !read(member, value) {
                let what = "\(form == .event ? "an event" : "a line"): \(form.names)"
                let isSuggesting = unknownCount < UnknownMember.suggestions
                unknownCount += 1
                report(
                    JSONPointer.member(member),
                    Rule.unknownMember,
                    UnknownMember.detail(member, of: what, isSuggesting: isSuggesting)
                )
            }
        }
        for member in form.required where !seen.contains(member) {
            report("/" + member, Rule.required, "\(member) is required")
        }
        if form == .line { readDeletion() }
        if form == .event, !seen.contains("version"), !seen.contains("occurred_at") {
            report("/version", Rule.required, "version or occurred_at is required")
        }
        switch operation {
        case .upsert?, .patch?:
            if !seen.contains("document") {
                report(
                    "/document",
                    Rule.required,
                    "document is required: the new document, or the changed members"
                )
            }
        case .delete?:
            if seen.contains("document") {
                report("/document", Rule.memberType, "a delete must not have a document")
            }
        case nil: break
        }
    }

    /// Derives the operation of a line from `deleted`, if the line has no `operation`.
    private mutating func readDeletion() {
        if seen.contains("operation") {
            if let isDeleted, let operation, isDeleted != (operation == .delete) {
                report("/deleted", Rule.operation, "deleted and operation contradict each other")
            }
        } else {
            operation = isDeleted == true ? .delete : .upsert
        }
    }

    private mutating func read(_ member: String, _ value: JSONValue) -> Bool {
        switch member {
        case "deleted" where form == .line:
            isDeleted = value.bool
            if isDeleted == nil { report("/deleted", Rule.memberType, "deleted must be true or false") }
        case "private" where form == .line:
            if let flag = value.bool {
                isPrivate = flag
            } else {
                report("/private", Rule.memberType, "private must be true or false")
            }
        // exports write the feed position, but imports do not use it
        case "cursor" where form == .line: break
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
                let maximum = ServerID.maximumBytes
                let form = "a string of 1 to \(maximum) bytes, or an integer of at most \(maximum) digits"
                report("/id", Rule.serverID, "id must be \(form), as the server gave it")
            }
        case "version":
            mark.version = value.int64.flatMap { $0 >= 0 ? $0 : nil }
            if mark.version == nil {
                report("/version", Rule.range, "version must be an integer from 0 to \(Int64.max)")
            }
        case "occurred_at":
            mark.occurredAt = value.timestamp
            if mark.occurredAt == nil {
                let detail = "occurred_at must be an RFC 3339 date-time such as 2026-11-20T07:00:00.000Z"
                report("/occurred_at", Rule.timestamp, detail)
            }
            mark.fraction = value.string.map { SourceMark.fraction(ofRFC3339: $0) } ?? 0
        case "operation":
            operation = value.string.flatMap(IngestOperation.init(rawValue:))
            if operation == nil { report("/operation", Rule.operation, "operation must be upsert, patch or delete") }
        case "document": readDocument(value)
        case "owner":
            owner = value.uuid.flatMap { Writer.isReserved($0) ? nil : $0 }
            if owner == nil { report("/owner", Rule.uuid, "owner must be the UUID of a user") }
        case "causing_key":
            let isText = value.string.map { Self.isText($0, IngestEvent.maximumKeyBytes) } ?? false
            if !isText {
                let form = "a string of 1 to \(IngestEvent.maximumKeyBytes) bytes without control characters"
                report("/causing_key", Rule.range, "causing_key must be \(form)")
            }
            // a key that is not a UUID comes from another program, and is ignored
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
            var limits = limits
            limits.payloadBytes = min(limits.payloadBytes, BuiltInStore.maximumDocumentBytes)
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

    private mutating func report(
        _ pointer: @autoclosure () -> String,
        _ rule: String,
        _ detail: @autoclosure () -> String
    ) {
        let place = place
        errors.append(ProblemDetail(pointer: place + pointer(), rule: rule, detail: detail()))
    }

    private func finish() -> Result<IngestEvent, Problem> {
        guard errors.isEmpty, let entityType, let entityID, let operation, eventID != nil || form == .line else {
            return .failure(errors.problem(or: "the event is incomplete"))
        }
        let document = document.map { Array($0.raw) }
        var event = IngestEvent(
            id: eventID
                ?? EntityLine.eventID(
                    EntityKey(type: entityType, id: entityID.text),
                    isInteger: entityID.isInteger,
                    mark,
                    operation,
                    document,
                    owner
                ),
            entityType: entityType,
            entityID: entityID,
            mark: mark,
            operation: operation,
            document: document,
            owner: owner,
            causingKey: causingKey
        )
        event.isPrivate = isPrivate
        return .success(event)
    }
}

// MARK: - EntityLine

/// A line of a file of entities, which exports write and imports read.
///
/// The line contains the current state of an entity, or an event that describes a change of an entity.
public enum EntityLine {
    /// The maximum length of a line, in bytes. Every stored document fits into a line of this length.
    public static let maximumBytes = 2 * BuiltInStore.maximumDocumentBytes

    /// The limits on documents.
    ///
    /// The limits allow every stored document to be exported and imported. This includes documents that patches have
    /// enlarged, and documents from an upstream's answer.
    public static let limits = {
        var limits = IntakeLimits()
        limits.bodyBytes = maximumBytes
        limits.payloadBytes = BuiltInStore.maximumDocumentBytes
        limits.payloadDepth = 512
        return limits
    }()

    /// Reads a line, which is given without its line break.
    ///
    /// An event without an `event_id` gets an id that is computed from its content. Therefore a repeated line is
    /// recognized as the same event. JSON Pointers in problems start at the line's object.
    public static func decode(_ line: [UInt8]) -> IngestRequest.Entry {
        let tree: JSONTree
        do throws(JSONParseError) {
            // the depth is one level more than for documents, because the line itself is an object
            tree = try JSONTree(parsing: line, limits: JSONLimits(maximumBytes: maximumBytes, maximumDepth: 513))
        } catch {
            return IngestRequest.Entry(
                eventID: nil,
                event: .failure(Problem(jsonError: error, limit: maximumBytes))
            )
        }
        return IngestDecoder.decode(
            tree.root,
            place: "",
            form: .line,
            limits: limits,
            hasDefects: tree.root.hasDefects
        )
    }

    /// The event id of a line, which is a hash of all parts that describe the event.
    ///
    /// The order of members and white space have no effect on the id.
    static func eventID(
        _ key: EntityKey,
        isInteger: Bool,
        _ mark: SourceMark,
        _ operation: IngestOperation,
        _ document: [UInt8]?,
        _ owner: UUID?
    ) -> String {
        let parts = [
            key.type, isInteger ? "i" : "s", key.id, mark.version.map { String($0) } ?? "-",
            mark.occurredAt.map { String($0.microseconds) + mark.fractionSuffix } ?? "-", operation.rawValue,
            owner?.lowercased ?? "-",
        ]
        // the character U+0000 can separate the parts, because no part contains it
        var hash = SHA256()
        hash.update(data: Array(parts.joined(separator: "\u{0}").utf8))
        hash.update(data: [0])
        if let document { hash.update(data: document) }
        let digits = Array("0123456789abcdef".utf8)
        let text = hash.finalize().prefix(16).flatMap { [digits[Int($0 >> 4)], digits[Int($0 & 15)]] }
        return "line-" + String(decoding: text, as: UTF8.self)
    }
}
