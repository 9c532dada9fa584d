package import FoundationEssentials
import GroupCommit
import Spans
package import SyncModel
import Synchronization

/// Events in a committer's queue, with the reply to their sender.
struct IngestJob: GroupJob {
    enum Task {
        /// Ingests a batch.
        case take(IngestRequest, IngestBearer)
        /// Evaluates the parked events of some entities again, at most `limit` for each entity.
        case release([EntityKey], limit: Int)
    }

    let organization: UUID
    let task: Task
    /// Whether the job's work is known to exceed ``IngestBounds/light``.
    var isHeavy = false
    var span: GatewaySpan?
    let enqueuedAt = ContinuousClock.now
    let reply: JobCompletion<IngestAnswer>

    /// The lane of the source. A source's batches are processed one after another.
    var lane: LaneKey {
        switch task {
        case .take(_, let bearer):
            LaneKey(organization: organization, user: IngestSource.standInID(in: organization, for: bearer.source))
        case .release: LaneKey(organization: organization, user: Writer.elsewhere.user)
        }
    }

    var weight: Int {
        switch task {
        case .take(let request, _): max(1, request.entries.count)
        case .release(let entities, let limit): max(1, entities.count * limit)
        }
    }

    var bytes: Int {
        // a heavy job forms a separate group
        if isHeavy { return IngestBounds.light }
        return switch task {
        case .take(let request, _): request.bodyBytes
        case .release(let entities, let limit): entities.count * limit * 1_000
        }
    }

    var isAnswered: Bool { reply.isSent }

    func refuse(_ problem: Problem) { reply.send(.failure(problem)) }

    var source: String? {
        if case .take(_, let bearer) = task { bearer.source } else { nil }
    }

    /// The valid events of a batch.
    var events: [IngestEvent] {
        guard case .take(let request, _) = task else { return [] }
        return request.entries.compactMap { try? $0.event.get() }
    }

    /// The entities that the batch names, in the order of its events.
    var entities: [EntityKey] {
        switch task {
        case .take: events.flatMap { event in event.originKey.map { [event.key, $0] } ?? [event.key] }
        case .release(let entities, _): entities
        }
    }

    /// The keys of the gateway's requests that the batch's events name as their causes.
    var causingKeys: [UUID] { events.compactMap(\.causingKey) }
}

/// The name of an entity with parked events.
struct ParkedKey: Sendable, Hashable {
    let organization: UUID
    let entity: EntityKey
}

/// The authenticated sender of events.
package struct IngestBearer: Sendable, Hashable {
    package let organization: UUID
    package let tokenID: UUID
    @Exact package private(set) var source: String
    /// Whether the use of the token has to be recorded now.
    package let isFirstUse: Bool

    package init(organization: UUID, tokenID: UUID, source: String, isFirstUse: Bool) {
        self.organization = organization
        self.tokenID = tokenID
        self.source = source
        self.isFirstUse = isFirstUse
    }
}

/// The sources whose latest batches had too much work to share a group.
///
/// The next batch of such a source goes to the heavy worker immediately. This only saves work: the heavy worker also
/// accepts small batches, and then removes their source from this list.
final class HeavyLanes: Sendable {
    private static let capacity = 1_024
    private let lanes = Mutex<Set<LaneKey>>([])

    func contains(_ lane: LaneKey) -> Bool { lanes.withLock { $0.contains(lane) } }

    func insert(_ heavy: Set<LaneKey>) {
        lanes.withLock { lanes in
            if lanes.count + heavy.count > Self.capacity { lanes = [] }
            lanes.formUnion(heavy)
        }
    }

    func remove(_ light: Set<LaneKey>) {
        guard !light.isEmpty else { return }
        lanes.withLock { $0.subtract(light) }
    }
}
