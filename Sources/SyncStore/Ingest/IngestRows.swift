import FoundationEssentials
import Postgres
import SyncModel

/// The identity of an event: its organization, source and id.
struct EventName: Hashable {
    let organization: UUID
    @Exact private(set) var source: String
    @Exact private(set) var eventID: String

    static let columns = Columns<EventName>(
        .value("organization_id", \.organization),
        .value("source", \.source),
        .value("event_id", \.eventID)
    )

    init(organization: UUID, source: String, eventID: String) {
        self.organization = organization
        self.source = source
        self.eventID = eventID
    }

    /// Reads the columns of ``columns``.
    init(_ row: inout RowReader) throws {
        organization = try row.read("organization_id")
        source = try row.read("source")
        eventID = try row.read("event_id")
    }
}

/// An event that was accepted, and its outcome.
struct TakenEventRow {
    let name: EventName
    let result: IngestResult
    let receivedAt: Timestamp

    static let columns = Columns<TakenEventRow>(
        .value("organization_id", \.name.organization),
        .value("source", \.name.source),
        .value("event_id", \.name.eventID),
        .choice("result", \.result),
        .value("received_at") { $0.receivedAt }
    )
}

/// A parked event to be written.
struct ParkedEventRow {
    let name: EventName
    let event: IngestEvent
    /// The document in stored form.
    let document: [UInt8]?
    let receivedAt: Timestamp
    let place: Int64
    let lookAt: Timestamp

    init(_ name: EventName, _ event: ReceivedEvent, _ seals: SealTable, lookAt: Timestamp) throws(SealError) {
        self.name = name
        self.event = event.event
        document = try seals[name.organization].seal(
            json: Self.stored(event.event),
            as: .parked(source: name.source, event: name.eventID),
            of: seals[name.organization].user(ofType: event.event.entityType, owner: event.event.owner)
        )
        receivedAt = event.receivedAt
        place = event.place ?? 0
        self.lookAt = lookAt
    }

    static let columns = Columns<ParkedEventRow>(
        .value("organization_id", \.name.organization),
        .value("source", \.name.source),
        .value("event_id", \.name.eventID),
        .value("entity_type", \.event.entityType),
        .value("id", \.event.entityID.text),
        .value("id_is_integer", \.event.entityID.isInteger),
        .value("version", \.event.mark.version),
        .value("occurred_at", \.event.mark.occurredAt),
        .value("occurred_at_fraction", \.event.mark.storedFraction),
        .choice("operation", \.event.operation),
        .json("document", \.document),
        .value("owner_id", \.event.owner),
        .value("causing_key", \.event.causingKey),
        .value("received_at") { $0.receivedAt },
        .value("place", \.place),
        .value("look_at") { $0.lookAt }
    )

    /// Reads the columns of ``columns``, and a column that is true if the document was left out.
    static func read(_ row: inout RowReader, _ seals: SealTable) throws -> ParkedEvent {
        let name = EventName(
            organization: try row.read("organization_id"),
            source: try row.read("source"),
            eventID: try row.read("event_id")
        )
        let type: String = try row.read("entity_type")
        let id = ServerID(text: try row.read("id"), isInteger: try row.read("id_is_integer"))
        let mark = SourceMark(
            version: try row.read("version"),
            occurredAt: try row.read("occurred_at"),
            fraction: try row.read("occurred_at_fraction", as: Int64?.self) ?? 0
        )
        let operation: IngestOperation = try row.choice("operation")
        var unreadable: [String] = []
        let document = try seals[name.organization].read(
            json: row.read("document"),
            as: .parked(source: name.source, event: name.eventID),
            &unreadable
        )
        let unwrapped = document.flatMap(Self.unwrapped)
        var event = IngestEvent(
            id: name.eventID,
            entityType: type,
            entityID: id,
            mark: mark,
            operation: operation,
            document: unwrapped?.document ?? document,
            owner: try row.read("owner_id"),
            causingKey: try row.read("causing_key")
        )
        event.isShallow = unwrapped?.isShallow ?? false
        event.lineage = unwrapped?.lineage ?? .continues
        let receivedAt: Timestamp = try row.read("received_at")
        let received = ReceivedEvent(event, at: receivedAt, place: try row.read("place"))
        row.skip("look_at")
        return ParkedEvent(
            name: name,
            event: received,
            isReadable: unreadable.isEmpty,
            isLeftOut: try row.read("is_left_out")
        )
    }

    /// The stored form of a document, including further properties of its event.
    ///
    /// An array around the document marks these properties: `[…]` is a shallow patch. `[…,1]` and `[…,2]` are events
    /// that can restart the versions of the entity (``IngestEvent/Lineage``). Every other document is stored without an
    /// array.
    private static func stored(_ event: IngestEvent) -> [UInt8]? {
        guard let document = event.document, event.isShallow || event.lineage != .continues else {
            return event.document
        }
        let lineage = event.isShallow ? "" : ",\(event.lineage.rawValue)"
        return [UInt8(ascii: "[")] + document + Array("\(lineage)]".utf8)
    }

    private static func unwrapped(
        _ document: [UInt8]
    ) -> (document: [UInt8], isShallow: Bool, lineage: IngestEvent.Lineage)? {
        guard document.first == UInt8(ascii: "["), document.count > 3 else { return nil }
        // the document is an object, so only a number can follow its closing brace before the end of the array
        let digit = document[document.count - 2]
        guard (48...57).contains(digit) else {
            return (Array(document.dropFirst().dropLast()), true, .continues)
        }
        return (
            Array(document.dropFirst().dropLast(3)), false, IngestEvent.Lineage(rawValue: Int(digit - 48)) ?? .continues
        )
    }
}

/// A parked event that was read to be evaluated.
struct ParkedEvent {
    let name: EventName
    let event: ReceivedEvent
    /// Whether the event's document can be decrypted.
    let isReadable: Bool
    /// Whether the event's document was not read, because the group's limit of bytes was reached.
    let isLeftOut: Bool
}

/// An entity to be locked and read.
struct EntityPlaceRow {
    let entity: EntityRows.Key
    /// The order in which the documents are read. Entities are locked in the order of their keys.
    let place: Int64

    static let columns = Columns<EntityPlaceRow>(
        .value("organization_id") { $0.entity.organization },
        .value("entity_type") { $0.entity.key.type },
        .value("id") { $0.entity.key.id },
        .value("place", \.place)
    )
}

/// A position among the parked events of an entity.
struct QueuePlaceRow {
    let organization: UUID
    let key: EntityKey
    let place: Int64

    static let columns = Columns<QueuePlaceRow>(
        .value("organization_id", \.organization),
        .value("entity_type", \.key.type),
        .value("id", \.key.id),
        .value("place", \.place)
    )
}

/// The mark of an entity's known state. Marks determine which of two states is older.
struct EntityMarkRow {
    let organization: UUID
    let key: EntityKey
    let mark: SourceMark

    static let columns = Columns<EntityMarkRow>(
        .value("organization_id", \.organization),
        .value("entity_type", \.key.type),
        .value("id", \.key.id),
        .value("source_version", \.mark.version),
        .value("source_at", \.mark.occurredAt),
        .value("source_at_fraction", \.mark.storedFraction)
    )
}

extension SourceMark {
    /// The part of the time below a microsecond; nil for zero, which is the usual value.
    fileprivate var storedFraction: Int64? { fraction == 0 ? nil : fraction }
}

/// An idempotency key of a request that the gateway sent for an organization.
struct RequestKeyRow: Hashable {
    let organization: UUID
    let key: UUID

    static let columns = Columns<RequestKeyRow>(
        .value("organization_id", \.organization),
        .value("idempotency_key", \.key)
    )
}

/// The name of an entity type in an organization.
struct TypeNameRow: Hashable {
    let organization: UUID
    @Exact private(set) var name: String

    static let columns = Columns<TypeNameRow>(
        .value("organization_id", \.organization),
        .value("entity_type", \.name)
    )
}

/// The columns of the users that events name as owners.
enum OwnerRow {
    static let columns = Columns<LaneKey>(.value("organization_id", \.organization), .value("user_id", \.user))

    /// The query that finds the users who were erased or are being erased.
    static func query(_ users: Set<LaneKey>) -> Query {
        columns.query(
            IngestStatements.erased,
            users.sorted { ($0.organization, $0.user) < ($1.organization, $1.user) }
        )
    }

    static func read(_ row: inout RowReader) throws -> LaneKey {
        LaneKey(organization: try row.read("organization_id"), user: try row.read("user_id"))
    }
}
