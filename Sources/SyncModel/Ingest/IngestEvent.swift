public import Foundation

/// An edit that was made elsewhere, as a source reports it.
public struct IngestEvent: Sendable, Hashable {
    /// The longest `event_id`, in bytes.
    public static let maximumIDBytes = 200
    /// The longest `causing_key`, in bytes.
    public static let maximumKeyBytes = 255

    /// How an event's version relates to the versions of the entity before it.
    public enum Lineage: Int, Sendable, Hashable {
        /// The same row or resource: a version that is not greater is stale.
        case continues = 0
        /// A row was inserted. If the entity is deleted, its versions start again.
        case restartsIfDeleted
        /// Another row took the id over: its versions start again.
        case restarts
    }

    /// The source's own id of the event, once per source.
    @Exact public private(set) var id: String
    @Exact public private(set) var entityType: String
    /// The entity's permanent id.
    public let entityID: ServerID
    /// How new it is: at least one of the version and the moment of the edit is there.
    public let mark: SourceMark
    public let operation: IngestOperation
    /// A JSON object; nil for a deletion.
    public let document: [UInt8]?
    /// The user that the entity belongs to, where only that one sees it.
    public let owner: UUID?
    /// The `Idempotency-Key` of the request that caused the edit.
    ///
    /// Nil for one that cannot be the gateway's.
    public let causingKey: UUID?
    /// Of a patch: whether its members replace the entity's as a whole.
    ///
    /// Null is a value then. RFC 7396 would merge nested objects.
    public var isShallow = false
    /// Of a patch: the id that this entity had until now.
    ///
    /// The patch applies to the document under that id if the feed does not have this one.
    public var origin: ServerID?
    /// How its version relates to the versions of the entity before it.
    public var lineage = Lineage.continues
    /// Whether the event restricts the entity to its owner.
    ///
    /// Then the entity cannot be of a type that shows it to others.
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

    /// The entity that this one was until now.
    public var originKey: EntityKey? { origin.map { EntityKey(type: entityType, id: $0.text) } }
}

/// An event with the time it came: later than that it waits for a while at most.
public struct ReceivedEvent: Sendable, Hashable {
    public let event: IngestEvent
    public let receivedAt: Timestamp
    /// Its place among the waiting events about its entity.
    ///
    /// Nil for one that does not wait.
    public internal(set) var place: Int64?

    public init(_ event: IngestEvent, at receivedAt: Timestamp, place: Int64? = nil) {
        self.event = event
        self.receivedAt = receivedAt
        self.place = place
    }
}
