import Foundation
import Postgres
package import SyncModel
import SyncStore

/// Reads the current state once for any number of operators, and caches it for two seconds.
package actor NowReader {
    /// The limit of one count.
    package static let cap: Int64 = 10_000
    /// Seconds for which a silent gateway counts as there.
    private static let memory: Int64 = 60
    private static let freshness: Duration = .seconds(2)

    private let pool: Pool
    private let store: Store
    private let now: TimeSource
    private let failure: StoreFailure
    private var last: (state: NowState, at: ContinuousClock.Instant)?
    private var reading: Task<Result<NowState, Problem>, Never>?

    init(store: Store) {
        pool = store.pool
        self.store = store
        now = store.now
        failure = store.failure
    }

    /// Returns the current state, at most two seconds old. Callers that arrive during a read wait for its result.
    package func state() async throws(Problem) -> NowState {
        if let last, .now - last.at < Self.freshness { return last.state }
        let task = reading ?? Task { await read() }
        reading = task
        let result = await task.value
        if reading == task {
            reading = nil
            if case .success(let state) = result { last = (state, .now) }
        }
        return try result.get()
    }

    private func read() async -> Result<NowState, Problem> {
        do throws(Problem) {
            return .success(try await load())
        } catch {
            return .failure(error)
        }
    }

    private func load() async throws(Problem) -> NowState {
        let moment = now()
        let status = try await store.retentionStatus()
        do {
            let results = try await pool.transaction { connection in
                try await connection.runByIndex([
                    NowStatements.failing(limit: Self.cap + 1),
                    NowStatements.lanes(limit: Self.cap + 1, now: moment),
                    NowStatements.oldest(limit: Self.cap),
                    NowStatements.replicas(seconds: Self.memory),
                ])
            }
            guard var failing = results[0].first, var lanes = results[1].first else {
                throw PostgresError(.decoding, "a count has no row")
            }
            let (failed, conflict) = (try failing.int64("failed"), try failing.int64("conflict"))
            // types of organizations; beyond the cap there may be more of both
            let looked = try failing.int64("looked")
            let oldest = try await waiting(results[2])
            return NowState(
                at: moment,
                failed: CappedCount(failed, among: looked, cap: Self.cap),
                conflict: CappedCount(conflict, among: looked, cap: Self.cap),
                haltedLanes: CappedCount(looked: try lanes.int64("halted"), cap: Self.cap),
                waitingLanes: CappedCount(looked: try lanes.int64("waiting"), cap: Self.cap),
                oldest: oldest,
                replicas: try results[3].read {
                    NowState.Replica(id: try $0.uuid("id"), lastSeenAt: try $0.moment("seen_at"))
                },
                retention: status
            )
        } catch {
            throw failure.problem(error, doing: "read the current state")
        }
    }

    /// The lane that was found, with the first of its mutations that waits.
    private func waiting(_ found: Rows) async throws -> NowState.Waiting? {
        guard var row = found.first else { return nil }
        let lane = LaneKey(organization: try row.uuid("organization_id"), user: try row.uuid("user_id"))
        let mutations = try await pool.transaction { connection in
            try await connection.runByIndex(
                NowStatements.firstWaiting(organization: lane.organization, user: lane.user)
            )
        }
        return NowState.Waiting(
            organization: lane.organization,
            user: lane.user,
            mutation: try mutations.read { try $0.uuid("id") }.first,
            acceptedAt: try row.moment("queued_since")
        )
    }
}
