import Postgres
import SyncModel

/// Tells what holds a user's lane, for answers to pushes: one read of the lane's row and of its head, and only where
/// something may hold it.
struct HoldReader: Sendable {
    /// How long an answer waits for this.
    private static let patience: Duration = .seconds(1)

    let pool: Pool
    let now: TimeSource

    /// What keeps the head of a lane from running; nil where nothing does, or where that cannot be determined now: the
    /// push is committed by then, and is answered in any case.
    ///
    /// - Parameter state: the lane as a push found it, which then had it looked at, or as the push halted it; nil for
    ///   the lane as it is.
    func hold(of lane: LaneKey, as state: LaneState? = nil) async -> LaneHold? {
        if let state, !state.mayBeHeld { return nil }
        let key = Parameters(of: lane)
        let query = Query(BacklogReader.laneStatement, key)
        guard let rows = try? await pool.withConnection({ try await $0.run([query], timeout: Self.patience)[0] }),
            let head = try? LaneHead(rows)
        else { return nil }
        return head.hold(as: state, now: now())
    }
}
