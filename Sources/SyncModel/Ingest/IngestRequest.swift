public import FoundationEssentials
public import JSONText

/// The body of `POST /v1/ingest`.
///
/// The envelope of the body is valid. Each entry has either a valid event, or the errors of an invalid event.
public struct IngestRequest: Sendable {
    /// One event of the batch.
    public struct Entry: Sendable {
        /// The event's id; nil if the id cannot be read.
        public let eventID: String?
        public let event: Result<IngestEvent, Problem>

        public init(eventID: String?, event: Result<IngestEvent, Problem>) {
            self.eventID = eventID
            self.event = event
        }

        /// The number of errors that the entry's problem lists; 0 for a valid event.
        package var listedErrors: Int {
            if case .failure(let problem) = event { problem.errors.count } else { 0 }
        }
    }

    /// The entries, in request order.
    public let entries: [Entry]
    /// The size of the body in bytes. Memory of this size is reserved while the batch waits.
    public let bodyBytes: Int
    /// The index, in the whole batch, of the first entry; 0 unless this request is a part of a batch.
    public let firstIndex: Int

    public init(entries: [Entry], bodyBytes: Int, firstIndex: Int = 0) {
        self.entries = entries
        self.bodyBytes = bodyBytes
        self.firstIndex = firstIndex
    }

    /// A part of the batch. JSON Pointers in the problems of this part refer to the whole batch.
    public func part(_ range: Range<Int>) -> IngestRequest {
        let bytes = entries.isEmpty ? 0 : bodyBytes * range.count / entries.count
        return IngestRequest(
            entries: Array(entries[range]),
            bodyBytes: bytes,
            firstIndex: firstIndex + range.lowerBound
        )
    }

    /// - Parameter limits: the limits of a push. The limits for mutations apply to events, and the limits for payloads
    ///   apply to documents.
    /// - Throws: `invalid_json` for invalid JSON, `invalid_request` for a wrong envelope, `payload_too_large` if a
    ///   limit is exceeded. Each error refuses the whole batch.
    public init(body: [UInt8], limits: IntakeLimits) throws(Problem) {
        let tree: JSONTree
        do throws(JSONParseError) {
            tree = try JSONTree(parsing: body, limits: JSONLimits(maximumBytes: limits.bodyBytes))
        } catch {
            throw Problem(jsonError: error, limit: limits.bodyBytes)
        }
        let events = try Self.events(in: tree.root)
        guard events.count <= limits.mutations else {
            let detail = "a batch may contain \(limits.mutations) events; this one has \(events.count)"
            throw Problem(.payloadTooLarge, detail + "; send them in several batches")
        }
        let hasDefects = tree.root.hasDefects
        var allowance = ErrorAllowance()
        entries = events.enumerated().map { index, value in
            let entry = IngestDecoder.decode(
                value,
                index: index,
                limits: limits,
                hasDefects: hasDefects,
                errorLimit: allowance.nextEntry
            )
            allowance.count(entry.listedErrors)
            return entry
        }
        bodyBytes = body.count
        firstIndex = 0
    }

    /// A copy of the request with a deletion in place of each patch.
    ///
    /// The copy can be evaluated even if the entities do not exist, because a deletion of a missing entity is valid.
    public var withoutPatches: IngestRequest {
        let entries = entries.map { entry in
            guard case .success(let event) = entry.event, event.operation == .patch else { return entry }
            var deletion = IngestEvent(
                id: event.id,
                entityType: event.entityType,
                entityID: event.entityID,
                mark: event.mark,
                operation: .delete,
                document: nil,
                owner: event.owner,
                causingKey: event.causingKey
            )
            deletion.isPrivate = event.isPrivate
            return Entry(eventID: entry.eventID, event: .success(deletion))
        }
        return IngestRequest(entries: entries, bodyBytes: bodyBytes, firstIndex: firstIndex)
    }

    private static func events(in root: JSONValue) throws(Problem) -> [JSONValue] {
        guard let members = root.members else {
            throw Problem(.invalidRequest, pointer: "", rule: Rule.memberType, "the body must be a JSON object")
        }
        var list: JSONValue?
        for (name, value) in members {
            guard name.equals("events") else {
                let pointer = JSONPointer.member(name.string)
                let detail = UnknownMember.detail(name.string, of: "a batch: events")
                throw Problem(.invalidRequest, pointer: pointer, rule: Rule.unknownMember, detail)
            }
            guard list == nil else {
                let detail = "'events' occurs twice"
                throw Problem(.invalidRequest, pointer: "/events", rule: Rule.duplicateMember, detail)
            }
            list = value
        }
        guard let list else {
            throw Problem(.invalidRequest, pointer: "/events", rule: Rule.required, "events is required")
        }
        guard let elements = list.elements else {
            throw Problem(.invalidRequest, pointer: "/events", rule: Rule.memberType, "events must be an array")
        }
        return Array(elements)
    }
}

// MARK: - IngestEvent

/// An edit that was made outside of Sluice, as a source reports it.
public struct IngestEvent: Sendable, Hashable {
    /// The maximum length of an `event_id`, in bytes.
    public static let maximumIDBytes = 200
    /// The maximum length of a `causing_key`, in bytes.
    public static let maximumKeyBytes = 255

    /// The relation between the version of an event and the entity's earlier versions.
    public enum Lineage: Int, Sendable, Hashable {
        /// The event is about the same row or resource as before. A version that is not greater is stale.
        case continues = 0
        /// The event is about an inserted row. If the entity is deleted, its versions start again: the event's version
        /// is not compared with earlier ones.
        case restartsIfDeleted
        /// Another row now has the id, and the entity's versions start again in any case.
        case restarts
    }

    /// The id that the source gave to the event. The id is unique within the source.
    @Exact public private(set) var id: String
    @Exact public private(set) var entityType: String
    /// The entity's permanent id.
    public let entityID: ServerID
    /// The version and the time of the edit. At least one of the two is set.
    public let mark: SourceMark
    public let operation: IngestOperation
    /// The document or patch, which is a JSON object; nil for a deletion.
    public let document: [UInt8]?
    /// The user who owns the entity, if only this user may see the entity; otherwise nil.
    public let owner: UUID?
    /// The `Idempotency-Key` of the request that caused the edit.
    ///
    /// Nil if the event has no key, or if its key cannot be one of the gateway's keys.
    public let causingKey: UUID?
    /// Whether the members of a patch replace the entity's members of the same names as a whole.
    ///
    /// If true, the patch differs from RFC 7396: null is a value like others, and nested objects are not merged.
    public var isShallow = false
    /// For a patch, the id that the entity had until now; nil if the id has not changed.
    ///
    /// If the feed does not have the entity under its new id, the patch is applied to the document under the earlier
    /// id.
    public var origin: ServerID?
    /// The relation between the event's version and the entity's earlier versions.
    public var lineage = Lineage.continues
    /// Whether the event restricts the entity to its owner.
    ///
    /// If true, the entity's type must not make its entities visible to other users.
    public var isPrivate = false

    public init(
        id: String,
        entityType: String,
        entityID: ServerID,
        mark: SourceMark,
        operation: IngestOperation,
        document: [UInt8]?,
        owner: UUID? = nil,
        causingKey: UUID? = nil
    ) {
        self.id = id
        self.entityType = entityType
        self.entityID = entityID
        self.mark = mark
        self.operation = operation
        self.document = document
        self.owner = owner
        self.causingKey = causingKey
    }

    public var key: EntityKey { EntityKey(type: entityType, id: entityID.text) }

    /// The key of the entity under its earlier id; nil if the id has not changed.
    public var originKey: EntityKey? { origin.map { EntityKey(type: entityType, id: $0.text) } }
}

/// An event with the time of its arrival. This time limits how long the event may wait.
public struct ReceivedEvent: Sendable, Hashable {
    public let event: IngestEvent
    public let receivedAt: Timestamp
    /// The event's position among the parked events about its entity.
    ///
    /// Nil for an event that is not parked.
    public internal(set) var place: Int64?

    public init(_ event: IngestEvent, at receivedAt: Timestamp, place: Int64? = nil) {
        self.event = event
        self.receivedAt = receivedAt
        self.place = place
    }
}

/// The kind of change that an event reports.
public enum IngestOperation: String, Sendable, Hashable, CaseIterable, JSONWritable {
    /// The document is the whole entity, which may be new.
    case upsert
    /// The document has the changes of a known entity (RFC 7396).
    case patch
    /// The entity was deleted.
    case delete
}

/// Bounds on the work of a batch of events.
///
/// A batch's work cannot be predicted from the size of its body, because a small event can change an entity of a
/// megabyte. Work is counted in bytes. The work includes the documents that are read, merged or compared, and the
/// documents in the events.
public enum IngestBounds {
    /// The maximum work of a batch that is committed together with other batches.
    ///
    /// A larger batch is committed alone, by a separate worker.
    public static let light = 524_288
    /// The maximum work of one transaction of a large batch.
    ///
    /// The rest of the batch is processed in later transactions, each at the organization's next turn.
    public static let part = 4_194_304
    /// The work that is counted for each grant that an event begins or ends.
    ///
    /// With this value, one transaction changes at most about 8,000 grants. A batch that is committed with other
    /// batches changes at most about 1,000.
    static let grant = 512
    /// The work that is counted for each stay that an event begins, moves to a new feed position, or ends. A stay is
    /// the time of an entity in a channel.
    ///
    /// With this value, one transaction changes at most about 32,000 stays. A batch that is committed with other
    /// batches changes at most about 4,000.
    static let stay = 128
    /// The number of events that each transaction of a large batch reads, except the first transaction.
    public static let partEvents = 64
    /// The maximum total size of the stored documents that a batch changes, in bytes.
    ///
    /// A batch that changes more is refused with `payload_too_large`, because it would take longer than clients wait.
    public static let most = 67_108_864
    /// The minimum size of a document that is patched in memory, in bytes.
    ///
    /// A document of at least this size is patched in memory if a batch contains several patches for the document.
    static let folded = 4_096

    /// The problem of a batch that is too large even if it is committed alone. The batch would fail again if it were
    /// sent again.
    public static func tooLarge(_ bytes: Int) -> Problem {
        Problem(
            .payloadTooLarge,
            "the documents that this batch changes have \(bytes) bytes; at most \(most) are allowed;"
                + " send its events in several batches"
        )
    }
}
