public import FoundationEssentials
import JSONText

/// The known state of one organization during the evaluation of events.
///
/// The state is read while the entities of the events are locked. Each evaluated event changes the state, and thereby
/// later events are evaluated with the effects of earlier events.
public struct IngestState: Sendable {
    public var entities = EntityTable()
    /// The marks of the entities' known states. A mark shows how recent a state is.
    ///
    /// A mark consists of a version and a time from the system that owns the entity.
    public var marks: [EntityKey: SourceMark] = [:]
    /// The entities whose marks have changed and must be written.
    public internal(set) var changedMarks: Set<EntityKey> = []
    /// The requests for which an echo was found among the events.
    public private(set) var usedRequests: Set<UUID> = []
    /// The gateway's own requests about the events' entities, and its requests whose idempotency keys the events
    /// contain.
    public private(set) var requests: [UUID: SentRecord] = [:]
    private var requestsByEntity: [EntityKey: [UUID]] = [:]
    /// For each entity type, when the earliest of the creates in flight was sent.
    public var firstCreates: [ByteExactString: Timestamp] = [:]
    /// The number of events that are already parked.
    public var parkedCount = 0
    /// For each entity with parked events, the position of the last parked event.
    public var lastPlaces: [EntityKey: Int64] = [:]
    /// The sizes of stored documents in bytes, including documents that were not read.
    public var sizes: [EntityKey: Int] = [:]
    /// The entities whose documents were not read because of the read limit.
    public var unread: Set<EntityKey> = []
    /// The work so far, in bytes (``IngestBounds``).
    public var work: Int {
        let changes = entities.channelChanges
        return bytes + changes.grants * IngestBounds.grant + changes.stays * IngestBounds.stay
    }
    /// The total size, in bytes, of the documents that the events so far have used.
    private var bytes = 0
    /// The entities whose documents earlier events have used.
    private var touched: Set<EntityKey> = []
    /// The documents that several patches change.
    ///
    /// Until ``settle(_:)``, the table ``entities`` has an earlier text of these documents.
    private var folds: [EntityKey: JSONFold] = [:]
    /// The hashes of the entities' present contents.
    private var hashes: [EntityKey: ContentHash] = [:]
    private var patched: Set<EntityKey> = []

    public init() {}

    public mutating func add(_ request: SentRecord) {
        guard requests.updateValue(request, forKey: request.key) == nil, let id = request.entityID else { return }
        requestsByEntity[EntityKey(type: request.entityType, id: id), default: []].append(request.key)
    }

    /// The gateway's own requests about an entity.
    func requests(about key: EntityKey) -> [SentRecord] {
        (requestsByEntity[key] ?? []).compactMap { requests[$0] }
    }

    /// Adds a parked event about an entity, and returns the event's position.
    mutating func park(_ key: EntityKey) -> Int64 {
        let place = (lastPlaces[key] ?? 0) + 1
        lastPlaces[key] = place
        parkedCount += 1
        return place
    }

    // MARK: - Work

    /// The work to evaluate an event; nil if a document that the event needs was not read.
    func estimate(_ event: IngestEvent) -> Int? {
        var work = event.document?.count ?? 0
        if unread.contains(event.key) { return nil }
        if !touched.contains(event.key) || comparesContents(event.key) { work += size(of: event.key) }
        // an entity with a new id keeps the document that it had under its earlier id
        if let origin = event.originKey, entities[event.key].map(\.isDeleted) ?? true {
            if unread.contains(origin) { return nil }
            work += size(of: origin)
        }
        return work
    }

    mutating func count(_ estimate: Int, for event: IngestEvent) {
        bytes += estimate
        touched.insert(event.key)
    }

    private func size(of key: EntityKey) -> Int { folds[key]?.count ?? entities[key]?.document?.count ?? 0 }

    /// Whether events about an entity are compared with the results of requests.
    ///
    /// If true, the whole document is hashed for each event.
    private func comparesContents(_ key: EntityKey) -> Bool {
        requestsByEntity[key]?.contains { requests[$0]?.content != nil && requests[$0]?.isUsed == false } ?? false
    }

    // MARK: - Documents in memory

    /// Records a patch of an entity.
    ///
    /// - Returns: whether to apply this patch in memory, which is cheaper if the entity was already patched. The result
    ///   is false for an entity that grants channels, because each of its states must be written to count the grants.
    mutating func patches(_ key: EntityKey) -> Bool {
        !patched.insert(key).inserted && !entities.makesGrants(key.type)
    }

    /// Changes an entity's document in memory.
    mutating func fold(
        _ key: EntityKey,
        _ document: [UInt8],
        _ patch: JSONValue,
        isShallow: Bool
    ) -> JSONFold.Effect {
        // the value is removed from the dictionary, because the change would otherwise copy the value
        guard var fold = folds.removeValue(forKey: key) ?? JSONFold(document) else { return .unsupported }
        defer { folds[key] = fold }
        let effect = fold.merge(
            patch,
            isShallow: isShallow,
            maximumBytes: BuiltInStore.maximumDocumentBytes
        ) { old, new in
            if old == new { return true }
            guard let content = ContentHash(of: old) else { return false }
            return content == ContentHash(of: new)
        }
        if effect == .changed { hashes[key] = nil }
        return effect
    }

    /// Writes the text of documents that were changed in memory.
    ///
    /// - Parameter key: the entity to write; nil to write all entities.
    mutating func settle(_ key: EntityKey? = nil) {
        if let key {
            guard let fold = folds.removeValue(forKey: key) else { return }
            entities.setDocument(fold.text, of: key)
        } else {
            for (key, fold) in folds { entities.setDocument(fold.text, of: key) }
            folds = [:]
        }
    }

    /// Writes an entity's next state.
    ///
    /// - Parameter content: the hash of the new content; nil if the hash is not computed yet.
    mutating func write(_ key: EntityKey, _ next: EntityState, _ content: ContentHash?) {
        entities.write(key, next)
        hashes[key] = content
    }

    /// The hash of an entity's present content.
    ///
    /// Nil if the document cannot be decrypted.
    mutating func content(of key: EntityKey) -> ContentHash? {
        settle(key)
        if let known = hashes[key] { return known }
        let content = entities[key].flatMap { ContentHash(of: $0) }
        hashes[key] = content
        return content
    }

    /// Records that an event is the echo of a request.
    mutating func use(_ request: SentRecord) {
        guard requests[request.key]?.isUsed == false else { return }
        requests[request.key]?.isUsed = true
        usedRequests.insert(request.key)
    }
}
