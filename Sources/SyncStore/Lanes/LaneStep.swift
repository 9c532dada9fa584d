package import Foundation
import GroupCommit
package import SyncModel

/// One step of a lane's worker: what it wants written before it goes on.
package enum LaneStep: Sendable {
    /// Take the lane, if it is ready and nobody has it but the worker itself.
    case claim
    /// Write what came of a request to the upstream.
    case settle(Dispatch, Outcome)
    /// Apply a mutation to the built-in store.
    case apply(Dispatch)
    /// Go on under a lease; first release more of those that wait for these mutations.
    case goOn(token: Int64, unblocking: [UUID])

    /// The lease that the step is made under; nil for a claim.
    var token: Int64? {
        switch self {
        case .claim: nil
        case .settle(let dispatch, _), .apply(let dispatch): dispatch.token
        case .goOn(let token, _): token
        }
    }

    var dispatch: Dispatch? {
        switch self {
        case .settle(let dispatch, _), .apply(let dispatch): dispatch
        case .claim, .goOn: nil
        }
    }
}

/// What a lane's worker is to do next.
package enum LaneTurn: Sendable {
    /// Run this: it is committed as in flight.
    case run(Dispatch)
    /// Make another step at once.
    case goOn(token: Int64, unblocking: [UUID])
    /// Nothing: the lane was given back, and may be claimed again at that time; nil until something is pushed or a
    /// person settles something.
    case released(readyAt: Timestamp?)
    /// Nothing: the lane is somebody else's, or was not ready. An outcome that was to be written is thrown away.
    case lost
}

/// A step on its way through a committer.
struct LaneJob: GroupJob {
    let lane: LaneKey
    let step: LaneStep
    /// The worker process.
    let worker: UUID
    /// Set while the upstream's circuit is open: nothing is sent before.
    let heldUntil: Timestamp?
    /// Whether the lane is to be given back after this step.
    let releases: Bool
    let enqueuedAt: ContinuousClock.Instant
    let reply: OnceReply<LaneTurn>

    var weight: Int { 1 }
    var bytes: Int { 0 }
    var isAnswered: Bool { reply.isSent }

    func refuse(_ problem: Problem) {
        reply.send(.failure(problem))
    }
}
