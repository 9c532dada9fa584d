import GroupCommit
import SyncModel

/// A lane step on its way through a committer.
struct LaneJob: GroupJob {
    let request: LaneRequest
    let enqueuedAt = ContinuousClock.now
    let reply: OnceReply<LaneTurn>

    var lane: LaneKey { request.lane }
    var weight: Int { 1 }
    var bytes: Int { 0 }
    var isAnswered: Bool { reply.isSent }

    func refuse(_ problem: Problem) {
        reply.send(.failure(problem))
    }
}
