import Foundation
import SyncModel

/// One push on its way through a committer: what came in, and whom to tell.
struct PushJob: GroupJob {
    let push: PushRequest
    let organization: Organization
    let user: UUID
    let isStrict: Bool
    let traceparent: String?
    let enqueuedAt: ContinuousClock.Instant
    let reply: OnceReply<PushAnswer>

    var lane: LaneKey { LaneKey(organization: organization.id, user: user) }

    var weight: Int { max(1, push.entries.count) }
    var isAnswered: Bool { reply.isSent }

    func refuse(_ problem: Problem) {
        reply.send(.failure(problem))
    }
}
