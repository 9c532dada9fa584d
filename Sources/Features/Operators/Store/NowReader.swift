package import FoundationEssentials
import Postgres
package import SyncModel
package import SyncStore

/// Reads the current state once for all operators, and caches it for two seconds.
package actor NowReader {
    /// The maximum value of a count.
    package static let cap: Int64 = 10_000
    /// The time in seconds for which a gateway counts as running after its last heartbeat.
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
            let (failed, conflict) = (
                try failing.read("failed", as: Int64.self), try failing.read("conflict", as: Int64.self)
            )
            // The number of examined pairs of an organization and a type or, on a Citus cluster, of examined stuck
            // mutations. If this number reaches the cap, the counts of failed and of conflicting mutations may be too
            // low.
            let looked: Int64 = try failing.read("looked")
            let oldest = try await waiting(results[2])
            return NowState(
                at: moment,
                failed: BoundedCount(found: failed, among: looked, limit: Self.cap),
                conflict: BoundedCount(found: conflict, among: looked, limit: Self.cap),
                haltedLanes: BoundedCount(found: try lanes.read("halted"), limit: Self.cap),
                waitingLanes: BoundedCount(found: try lanes.read("waiting"), limit: Self.cap),
                oldest: oldest,
                replicas: try results[3].read {
                    NowState.Replica(id: try $0.read("id"), lastSeenAt: try $0.read("seen_at"))
                },
                retention: status
            )
        } catch {
            throw failure.problem(error, doing: "read the current state")
        }
    }

    /// Returns the first waiting mutation of the lane in `found`; nil without a lane.
    private func waiting(_ found: Rows) async throws -> NowState.Waiting? {
        guard var row = found.first else { return nil }
        let lane = LaneKey(organization: try row.read("organization_id"), user: try row.read("user_id"))
        let mutations = try await pool.transaction { connection in
            try await connection.runByIndex(
                NowStatements.firstWaiting(organization: lane.organization, user: lane.user)
            )
        }
        return NowState.Waiting(
            organization: lane.organization,
            user: lane.user,
            mutation: try mutations.read { try $0.read("id", as: UUID.self) }.first,
            acceptedAt: try row.read("queued_since")
        )
    }
}

/// The current state of all organizations and gateways, from the database.
package struct NowState: Sendable {
    /// A running gateway.
    package struct Replica: Sendable {
        package let id: UUID
        package let lastSeenAt: Timestamp
    }

    /// The mutation that has waited longest.
    package struct Waiting: Sendable {
        package let organization: UUID
        package let user: UUID
        /// The mutation; nil if it no longer waits.
        package let mutation: UUID?
        package let acceptedAt: Timestamp
    }

    /// The time at which the state was read.
    package let at: Timestamp
    package let failed: BoundedCount
    package let conflict: BoundedCount
    package let haltedLanes: BoundedCount
    /// The number of lanes that wait for a back-off or for their upstream.
    package let waitingLanes: BoundedCount
    package let oldest: Waiting?
    /// The running gateways, up to 100.
    package let replicas: [Replica]
    package let retention: RetentionStatus
}

// MARK: - NowStatements

/// The statements of the operators' overview of all organizations. Each ends after a bounded number of rows.
enum NowStatements {
    /// Counts the failed and the conflicting mutations. Each count stops at `limit`. At most `limit` pairs of an
    /// organization and a type are examined.
    static let failing = Statement(
        "now_troubled",
        ["limit"],
        """
        WITH RECURSIVE t AS MATERIALIZED (
            SELECT o.id AS organization_id, z.entity_type
            FROM organizations o
            CROSS JOIN LATERAL (
                WITH RECURSIVE \(FailureCounts.types(of: "o.id"))
                SELECT * FROM w LIMIT :limit
            ) z
            LIMIT :limit
        )
        \(FailureCounts.counts(upTo: ":limit"))
        """,
        // on a Citus cluster, the statement does not read the list of organizations, but counts among the first `limit`
        // stuck mutations
        variant: """
            SELECT count(*) FILTER (WHERE x.status = 'failed') AS failed,
                count(*) FILTER (WHERE x.status = 'conflict') AS conflict, count(*) AS looked
            FROM (SELECT m.status FROM mutations m WHERE \(StuckRows.are("m")) LIMIT :limit) x
            """
    )

    /// Counts the halted lanes, and the lanes that wait for a time after `now`. Each count stops at `limit`.
    static let lanes = Statement(
        "now_lanes",
        ["limit", "now"],
        """
        SELECT (SELECT count(*) FROM (SELECT 1 FROM lanes l WHERE l.halted_by IS NOT NULL LIMIT :limit) x) AS halted,
            (SELECT count(*) FROM (
                SELECT 1 FROM lanes l WHERE l.ready_at > :now AND l.lease_owner IS NULL LIMIT :limit) y) AS waiting
        """
    )

    /// Among the `limit` lanes that are due next, selects the lane whose mutations have waited longest.
    static let oldest = Statement(
        "now_oldest",
        ["limit"],
        """
        SELECT x.organization_id, x.user_id, x.queued_since
        FROM (
            SELECT l.organization_id, l.user_id, l.queued_since FROM lanes l
            WHERE l.ready_at IS NOT NULL
            ORDER BY l.ready_at
            LIMIT :limit
        ) x
        WHERE x.queued_since IS NOT NULL
        ORDER BY x.queued_since
        LIMIT 1
        """
    )

    /// The first waiting mutation of a lane (`organization`, `user`).
    static let firstWaiting = Statement(
        "now_first_waiting",
        ["organization", "user"],
        """
        SELECT y.id
        FROM (
            SELECT z.id, z.status FROM mutations z
            WHERE z.organization_id = :organization AND z.user_id = :user AND z.synced_at IS NULL
            ORDER BY z.position
            LIMIT 1000
        ) y
        WHERE y.status IN ('pending', 'in_flight')
        LIMIT 1
        """
    )

    /// The gateways with a heartbeat in the last `seconds` seconds, beginning with the latest heartbeat.
    static let replicas = Statement(
        "now_replicas",
        ["seconds"],
        """
        SELECT g.id, g.seen_at FROM gateways g
        WHERE g.seen_at > clock_timestamp() - :seconds::int8 * interval '1 second'
        ORDER BY g.seen_at DESC, g.id
        LIMIT 100
        """
    )

    static let all = [failing, lanes, oldest, firstWaiting, replicas]
}

// MARK: - Throughput

/// Counts an organization's completed mutations in the last hour and the last day, over all gateways.
///
/// A mutation is completed when it succeeds or is discarded. A count reads only the index by completion time.
package struct Throughput: Sendable {
    /// A period that ends now, divided into steps.
    package struct Period: Sendable {
        package let step: Int64
        package let from: Timestamp
        /// The number of completed mutations in each step, oldest step first; at most ``cap``.
        package fileprivate(set) var completed: [Int64] = []
        /// Whether a step has more mutations than were counted.
        package fileprivate(set) var isMore = false

        fileprivate init(of count: Int64, steps step: Int64, until moment: Timestamp) {
            self.step = step
            from = moment.adding(seconds: -Double(count * step))
        }

        fileprivate func query(_ organization: UUID, count: Int64) -> Query {
            Throughput.completed(
                organization: organization,
                from: from,
                steps: count,
                step: step,
                limit: Throughput.cap + 1
            )
        }

        fileprivate mutating func read(_ rows: Rows) throws {
            let counts = try rows.read { try $0.read("count", as: Int64.self) }
            completed = counts.map { min($0, Throughput.cap) }
            isMore = counts.contains { $0 > Throughput.cap }
        }
    }

    /// The maximum number of mutations that are counted in a step.
    package static let cap: Int64 = 10_000

    let pool: Pool
    let now: TimeSource
    let failure: StoreFailure

    package func periods(of organization: UUID) async throws(Problem) -> (at: Timestamp, hour: Period, day: Period) {
        let moment = now()
        var hour = Period(of: 12, steps: 300, until: moment)
        var day = Period(of: 24, steps: 3_600, until: moment)
        do {
            let results = try await pool.readByIndex([
                hour.query(organization, count: 12), day.query(organization, count: 24),
            ])
            try hour.read(results[0])
            try day.read(results[1])
        } catch {
            throw failure.problem(error, doing: "count completed mutations")
        }
        return (moment, hour, day)
    }

    static let completed = Statement(
        "throughput_completed",
        ["organization", "from", "steps", "step", "limit"],
        """
        SELECT c.count
        FROM generate_series(0, :steps::int8 - 1) AS b (number)
        CROSS JOIN LATERAL (
            SELECT count(*) AS count
            FROM (
                SELECT x.synced_at FROM mutations x
                WHERE x.organization_id = :organization
                    AND x.synced_at > :from::timestamptz + b.number * :step::int8 * interval '1 second'
                    AND x.synced_at <= :from::timestamptz + (b.number + 1) * :step::int8 * interval '1 second'
                ORDER BY x.synced_at
                LIMIT :limit
            ) y
        ) c
        ORDER BY b.number
        """
    )
}
