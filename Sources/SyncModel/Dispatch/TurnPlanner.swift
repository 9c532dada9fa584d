/// Decides what is to be done about the mutation at the head of a lane: whether its turn has come, and what goes out
/// (product rules 2, 6 and 8). Pure.
public struct TurnPlanner: Sendable {
    /// What is to be done.
    public enum Decision: Sendable {
        /// Its turn has come.
        case run(Dispatch)
        /// It holds the lane until then.
        case hold(until: Timestamp)
        /// It can never run as it is.
        case fail(Outcome)
        /// It is in conflict with what is known here, and nothing is sent; the entity's version, where it gave way to that.
        case conflict(Outcome, version: Int64?)
    }

    /// How long a lane waits that has nowhere to send to, in seconds.
    static let pauseWithoutUpstream: Double = 30

    /// What lanes run under: requests time out well before its end.
    let lease: LaneLease

    /// Creates a planner.
    public init(leaseSeconds: Double) {
        lease = LaneLease(seconds: leaseSeconds)
    }

    /// Decides about a head.
    ///
    /// - Parameter heldUntil: set while the upstream's circuit is open.
    public func decide(
        _ mutation: QueuedMutation,
        _ surroundings: Surroundings,
        now: Timestamp,
        heldUntil: Timestamp?
    ) -> Decision {
        let turn = Turn(mutation, surroundings, lease)
        do throws(Problem) {
            return try turn.decision(now: now, heldUntil: heldUntil)
        } catch {
            return .fail(turn.failure(error))
        }
    }
}
