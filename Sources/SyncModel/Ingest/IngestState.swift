public import Foundation

/// What is known of one organization when events from elsewhere are judged, read under the locks of the entities that
/// they name. Each event sees what those before it did.
public struct IngestState: Sendable {
    public var entities = EntityTable()
    /// How new the known state of an entity is, in the words of the place where it is kept.
    public var marks: [EntityKey: SourceMark] = [:]
    /// The entities whose marks are to be written.
    public internal(set) var changedMarks: Set<EntityKey> = []
    /// The requests that an event was taken for an echo of.
    public private(set) var usedRequests: Set<UUID> = []
    /// The gateway's own requests about the entities, and those whose keys events name.
    public private(set) var requests: [UUID: SentRecord] = [:]
    private var requestsByEntity: [EntityKey: [UUID]] = [:]
    /// When the first create that is under way was sent, by entity type.
    public var firstCreates: [ExactText: Timestamp] = [:]
    /// Events that wait already.
    public var parkedCount = 0
    /// The entities that events wait about, with the place of the last of them.
    public var lastPlaces: [EntityKey: Int64] = [:]

    public init() {}

    public mutating func add(_ request: SentRecord) {
        guard requests.updateValue(request, forKey: request.key) == nil, let id = request.entityID else { return }
        requestsByEntity[EntityKey(type: request.entityType, id: id), default: []].append(request.key)
    }

    /// The gateway's own requests about an entity.
    func requests(about key: EntityKey) -> [SentRecord] {
        (requestsByEntity[key] ?? []).compactMap { requests[$0] }
    }

    /// The place of one more event that waits.
    mutating func park(_ key: EntityKey) -> Int64 {
        let place = (lastPlaces[key] ?? 0) + 1
        lastPlaces[key] = place
        parkedCount += 1
        return place
    }

    /// Notes that an event was taken for a request's echo.
    mutating func use(_ request: SentRecord) {
        guard requests[request.key]?.isUsed == false else { return }
        requests[request.key]?.isUsed = true
        usedRequests.insert(request.key)
    }
}
