import Foundation
import GroupCommit
import SyncModel

/// Events on their way through a committer, with the reply to who brought them.
struct IngestJob: GroupJob {
    enum Task {
        /// A batch that has come.
        case take(IngestRequest, ServiceTokens.Bearer)
        /// Events that wait, to be judged anew.
        case release([ParkedKey])
    }

    let organization: UUID
    let task: Task
    let enqueuedAt = ContinuousClock.now
    let reply: OnceReply<IngestAnswer>

    /// A source's batches are taken one after the other.
    var lane: LaneKey {
        switch task {
        case .take(_, let bearer):
            LaneKey(organization: organization, user: IngestSource.stand(in: organization, for: bearer.source))
        case .release: LaneKey(organization: organization, user: Writer.elsewhere.user)
        }
    }

    var weight: Int {
        switch task {
        case .take(let request, _): max(1, request.entries.count)
        case .release(let events): max(1, events.count)
        }
    }

    var bytes: Int {
        switch task {
        case .take(let request, _): request.bodyBytes
        case .release(let events): events.count * 1_000
        }
    }

    var isAnswered: Bool { reply.isSent }

    func refuse(_ problem: Problem) { reply.send(.failure(problem)) }

    var source: String? {
        if case .take(_, let bearer) = task { bearer.source } else { nil }
    }

    /// The events of a batch that are valid.
    var events: [IngestEvent] {
        guard case .take(let request, _) = task else { return [] }
        return request.entries.compactMap { try? $0.event.get() }
    }

    /// The entities that it names.
    var entities: [EntityKey] {
        switch task {
        case .take: events.map(\.key)
        case .release(let events): events.map(\.entity)
        }
    }

    var causingKeys: [UUID] {
        switch task {
        case .take: events.compactMap(\.causingKey)
        case .release(let events): events.compactMap(\.causingKey)
        }
    }
}

/// Names an event that waits.
struct ParkedKey: Sendable, Hashable {
    let organization: UUID
    let source: String
    let eventID: String
    let entity: EntityKey
    let causingKey: UUID?

    var name: EventName { EventName(organization: organization, source: source, eventID: eventID) }
}
