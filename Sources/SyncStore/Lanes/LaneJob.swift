import GroupCommit
import SyncModel

/// A lane step on its way through a committer.
struct LaneJob: GroupJob {
    let request: LaneRequest
    let enqueuedAt = ContinuousClock.now
    let reply: JobCompletion<LaneAction>

    var lane: LaneKey { request.lane }
    var weight: Int { 1 }
    /// Bytes to be written that an upstream sent.
    var bytes: Int { if case .settle(_, let outcome) = request.step { outcome.responseBody?.count ?? 0 } else { 0 } }
    var isAnswered: Bool { reply.isSent }

    func refuse(_ problem: Problem) {
        reply.send(.failure(problem))
    }
}
