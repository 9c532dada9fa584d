import Postgres
import SyncModel

/// Finds the reason why a user's lane is held, for answers to pushes.
///
/// One read of the lane's row and of its head, and only where something may hold it.
struct LaneBlockerReader: Sendable {
    /// How long an answer waits for this.
    private static let timeout: Duration = .seconds(1)

    let pool: Pool
    let now: TimeSource

    /// What keeps the head of a lane from running; nil if nothing does.
    ///
    /// Also nil where it cannot be determined now: the push is already committed, and is answered in any case.
    ///
    /// - Parameter state: the lane as a push found it, whose commit had it polled, or as the push halted it; nil for
    ///   the lane as it is.
    func blocker(of lane: LaneKey, as state: LaneState? = nil) async -> LaneBlocker? {
        if let state, !state.mayBeHeld { return nil }
        let query = BacklogReader.laneStatement(organization: lane.organization, user: lane.user)
        guard let rows = try? await pool.withConnection({ try await $0.run([query], timeout: Self.timeout)[0] }),
            let head = try? LaneHead(rows)
        else { return nil }
        return head.blocker(as: state, now: now())
    }
}
