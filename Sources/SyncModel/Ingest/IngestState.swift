public import FoundationEssentials
import JSONText

/// The known state of one organization when events from elsewhere are evaluated.
///
/// It is read under the locks of the entities that the events name. Each event sees the effects of the events before
/// it.
public struct IngestState: Sendable {
    public var entities = EntityTable()
    /// The marks of the known states of entities, which show how recent the states are.
    ///
    /// The marks are versions and times of the system that owns the entity.
    public var marks: [EntityKey: SourceMark] = [:]
    /// The entities whose marks must be written.
    public internal(set) var changedMarks: Set<EntityKey> = []
    /// The requests whose echo was found among the events.
    public private(set) var usedRequests: Set<UUID> = []
    /// The gateway's own requests about the entities, and requests whose keys are in events.
    public private(set) var requests: [UUID: SentRecord] = [:]
    private var requestsByEntity: [EntityKey: [UUID]] = [:]
    /// When the first create that is in flight was sent, by entity type.
    public var firstCreates: [ByteExactString: Timestamp] = [:]
    /// The number of events that are already parked.
    public var parkedCount = 0
    /// The position of the last parked event of each entity that has parked events.
    public var lastPlaces: [EntityKey: Int64] = [:]
    /// Sizes in bytes of stored documents, whether or not they were read.
    public var sizes: [EntityKey: Int] = [:]
    /// Entities whose documents were not read, because of the limit on reads.
    public var unread: Set<EntityKey> = []
    /// Work done so far, in bytes (``IngestBounds``).
    public var work: Int {
        let changes = entities.channelChanges
        return bytes + changes.grants * IngestBounds.grant + changes.stays * IngestBounds.stay
    }
    /// The bytes of documents that events so far have used.
    private var bytes = 0
    /// Entities whose documents were read for an event.
    private var touched: Set<EntityKey> = []
    /// Documents that several patches change. ``entities`` has an earlier text of these documents until ``settle(_:)``.
    private var folds: [EntityKey: JSONFold] = [:]
    /// Hashes of the entities' present contents.
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
        // an entity with a new id takes the document that it had under its earlier id
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
    /// If so, the whole document is hashed for each event.
    private func comparesContents(_ key: EntityKey) -> Bool {
        requestsByEntity[key]?.contains { requests[$0]?.content != nil && requests[$0]?.isUsed == false } ?? false
    }

    // MARK: - Documents in memory

    /// Records a patch of an entity.
    ///
    /// - Returns: whether the entity was patched before, so that it is cheaper to apply this patch in memory.
    ///   An entity that grants channels is always written, so that its grants are counted.
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
        // removed from the dictionary, so that the change does not copy it
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
    /// - Parameter key: writes only this entity; nil writes all entities.
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
    /// - Parameter content: the hash of the new content, if it is known.
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

    /// Records that an event was found to be a request's echo.
    mutating func use(_ request: SentRecord) {
        guard requests[request.key]?.isUsed == false else { return }
        requests[request.key]?.isUsed = true
        usedRequests.insert(request.key)
    }
}
