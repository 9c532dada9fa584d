/// Decides about the mutation at the head of a lane. Pure.
///
/// It decides whether the mutation's turn has come, and what the gateway sends (product rules 2, 6 and 8).
public struct DispatchPlanner: Sendable {
    public enum Decision: Sendable {
        /// Its turn has come.
        case run(Dispatch)
        /// It holds the lane until then.
        case hold(until: Timestamp)
        /// It can never run as it is.
        case fail(Outcome)
        /// It is in conflict with the feed, and no request is sent. `version` is the entity's, where the mutation gave
        /// way to it.
        case conflict(Outcome, version: Int64?)
    }

    /// How long a lane waits in an organization without an upstream, in seconds.
    static let pauseWithoutUpstream: Double = 30

    /// The lease of lanes: requests time out well before it expires.
    let lease: LaneLease

    public init(leaseSeconds: Double) {
        lease = LaneLease(seconds: leaseSeconds)
    }

    /// - Parameter heldUntil: set while the upstream's circuit is open.
    public func decide(
        _ mutation: QueuedMutation,
        _ surroundings: LaneContext,
        now: Timestamp,
        heldUntil: Timestamp?
    ) -> Decision {
        let turn = DispatchDecision(mutation, surroundings, lease)
        do throws(Problem) {
            return try turn.decision(now: now, heldUntil: heldUntil)
        } catch {
            return .fail(turn.failure(error))
        }
    }
}
