package import FoundationEssentials
package import Postgres
package import SyncModel

/// Reads a user's mutations that are not final, and the reason why the lane's head does not run.
package struct BacklogReader: Sendable {
    /// The maximum number of devices in a backlog.
    package static let deviceLimit: Int64 = 1_000
    /// The maximum number of open mutations that are counted, in lane order.
    package static let countLimit: Int64 = 100_000

    package let pool: Pool
    package let now: TimeSource
    package let failure: StoreFailure

    /// Returns a user's backlog at one moment. The backlog is empty for a user who never pushed.
    package func backlog(organization: UUID, user: UUID) async throws(Problem) -> Backlog {
        let moment = now()
        let lane = LaneKey(organization: organization, user: user)
        do {
            return try await pool.withConnection { connection in
                var reading = try Reading(await connection.run(Self.queries(lane)))
                let wanted = reading.wantedPositions
                let rest = wanted.isEmpty ? [] : [Self.query(wanted, lane, head: reading.missingHead)]
                let found = try await connection.run(rest + [.commit])
                if !rest.isEmpty { try reading.add(found[0]) }
                return reading.backlog(now: moment)
            }
        } catch {
            throw failure.problem(error, doing: "read a backlog")
        }
    }

    private static func queries(_ lane: LaneKey) -> [Query] {
        let key = Parameters(of: lane)
        var devices = key
        devices.add(deviceLimit)
        var counts = key
        counts.add(countLimit)
        return [
            snapshot, Query(laneStatement, key), Query(devicesStatement, devices), Query(countsStatement, counts),
        ]
    }

    private static func query(_ positions: [Int64], _ lane: LaneKey, head: Int64?) -> Query {
        return positionsStatement(organization: lane.organization, user: lane.user, positions: positions, head: head)
    }

    // MARK: - Statements

    /// Gives the following statements one snapshot of the database.
    private static let snapshot = Query(
        Statement("backlog_begin", "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
    )

    /// Reads the lane, and its head.
    ///
    /// The head is the mutation that halts the lane. In a running lane, it is the first mutation that is pending or in
    /// flight.
    package static let laneStatement = Statement(
        "backlog_lane",
        ["organization", "user"],
        """
        SELECT \(LaneRows.list),
            EXISTS (SELECT 1 FROM upstreams u WHERE u.organization_id = :organization) AS has_upstream,
            coalesce((
                SELECT u.is_paused FROM upstreams u WHERE u.organization_id = :organization), false) AS is_paused,
            coalesce((
                SELECT u.requests_per_second IS NOT NULL FROM upstreams u
                WHERE u.organization_id = :organization), false) AS is_rate_limited,
            (SELECT u.paused_until FROM upstreams u WHERE u.organization_id = :organization) AS paused_until,
            coalesce((
                SELECT t.is_forwarded FROM entity_types t
                WHERE t.organization_id = :organization AND t.name = m.entity_type), false) AS is_forwarded,
            \(BacklogColumns.list), \(Dependencies.first(WorkBounds.heldBy)) AS depends_on
        FROM lanes x
        LEFT JOIN LATERAL (
            SELECT * FROM (
                (SELECT * FROM mutations a
                 WHERE a.organization_id = :organization AND a.user_id = :user AND a.id = x.halted_by)
                UNION ALL
                (SELECT * FROM mutations b
                 WHERE b.organization_id = :organization AND b.user_id = :user AND b.position >= x.head_position
                    AND \(LaneRows.isRunnable("b")) AND b.status IN ('pending', 'in_flight')
                    AND x.halted_by IS NULL AND x.queued_count > 0
                 ORDER BY b.position
                 LIMIT 1)
            ) y
            LIMIT 1
        ) m ON true
        WHERE x.organization_id = :organization AND x.user_id = :user
        """
    )

    package static let devicesStatement = Statement(
        "backlog_devices",
        ["organization", "user", "limit"],
        """
        SELECT d.device_id, d.accepted_sequence, d.last_seen_at
        FROM devices d
        WHERE d.organization_id = :organization AND d.user_id = :user
        ORDER BY d.last_seen_at DESC, d.device_id
        LIMIT :limit
        """
    )

    /// Counts the mutations by device and status, and returns the first mutation of each device and status.
    ///
    /// The statement also returns whether there are further mutations that were not counted.
    package static let countsStatement = Statement(
        "backlog_counts",
        ["organization", "user", "limit"],
        """
        WITH o AS MATERIALIZED (
            SELECT x.device_id, x.status, x.position
            FROM mutations x
            WHERE x.organization_id = :organization AND x.user_id = :user AND x.synced_at IS NULL
            ORDER BY x.position
            LIMIT :limit
        )
        SELECT o.device_id, o.status, count(*) AS count, min(o.position) AS first, (
            SELECT EXISTS (
                SELECT 1 FROM mutations y
                WHERE y.organization_id = :organization AND y.user_id = :user AND y.synced_at IS NULL
                    AND y.position > (SELECT max(z.position) FROM o z))) AS is_truncated
        FROM o
        GROUP BY o.device_id, o.status
        """
    )

    /// Reads mutations by their positions, and the dependencies of the mutation at `head`.
    package static let positionsStatement = Statement(
        "backlog_positions",
        ["organization", "user", "positions", "head"],
        """
        SELECT \(BacklogColumns.list), CASE WHEN m.position = :head THEN \(Dependencies.first(WorkBounds.heldBy)) ELSE '{}' END
            AS depends_on
        FROM unnest(:positions::int8[]) AS k (position)
        CROSS JOIN LATERAL (
            SELECT * FROM mutations x
            WHERE x.organization_id = :organization AND x.user_id = :user AND x.position = k.position
            OFFSET 0
        ) m
        """
    )

    package static let statements = [laneStatement, devicesStatement, countsStatement, positionsStatement]
}

/// The columns of `mutations` that make a ``Backlog/Mutation``.
private enum BacklogColumns {
    /// The columns, for a table `m`. The mutation's unmet dependencies must follow, as `depends_on`.
    package static let list = """
        m.id, m.device_id, m.sequence_number, m.position, m.status, m.operation, m.entity_type, m.accepted_at,
            m.created_at, m.attempt_count, m.next_retry_at
        """

    package static func mutation(_ row: inout RowReader) throws -> Backlog.Mutation {
        var mutation = Backlog.Mutation(
            id: try row.read("id"),
            deviceID: try row.read("device_id"),
            sequenceNumber: try row.read("sequence_number"),
            position: try row.read("position"),
            status: try row.choice("status"),
            operation: try row.choice("operation"),
            entityType: try row.read("entity_type"),
            acceptedAt: try row.read("accepted_at")
        )
        mutation.createdAt = try row.read("created_at")
        mutation.attemptCount = try row.read("attempt_count")
        mutation.nextRetryAt = try row.read("next_retry_at")
        mutation.dependsOn = try row.read("depends_on")
        return mutation
    }
}

/// A lane and its head, from the result of ``BacklogReader/laneStatement``.
package struct LaneHead {
    private(set) var lane: LaneState?
    private(set) var head: Backlog.Mutation?
    private var hasUpstream = false
    private var pause: UpstreamPause?
    private var isRateLimited = false
    private var isForwarded = false

    package init(_ rows: Rows) throws {
        guard var row = rows.first else { return }
        lane = try LaneRows.read(&row).state
        hasUpstream = try row.read("has_upstream")
        let isPaused: Bool = try row.read("is_paused")
        isRateLimited = try row.read("is_rate_limited")
        let pausedUntil: Timestamp? = try row.read("paused_until")
        if isPaused { pause = UpstreamPause(until: pausedUntil) }
        isForwarded = try row.read("is_forwarded")
        if !row.isNextNull { head = try BacklogColumns.mutation(&row) }
    }

    /// The mutation that halts the lane.
    package var haltedBy: UUID? { lane?.haltedBy }

    /// Returns the reason why the lane's head does not run; nil if the head runs or can run now, or if there is no head.
    ///
    /// - Parameters:
    ///   - state: the lane at another time; nil for the lane as it was read.
    ///   - other: the head to use if no mutation halts the lane and no mutation can run next.
    package func blocker(as state: LaneState? = nil, orOf other: Backlog.Mutation? = nil, now: Timestamp)
        -> LaneBlocker?
    {
        guard let lane = state ?? lane, let head = head ?? other else { return nil }
        return LaneBlocker(
            of: head,
            in: lane,
            isForwarded: isForwarded,
            hasUpstream: hasUpstream,
            pause: pause,
            isRateLimited: isRateLimited,
            now: now
        )
    }
}

/// The rows read so far.
private struct Reading {
    private let lane: LaneHead
    private var backlog = Backlog()
    private var counts: [UUID: Backlog.Counts] = [:]
    /// The position of the first mutation that runs or waits, by device.
    private var oldest: [UUID: Int64] = [:]
    private var firstBlocked: Int64?
    private var mutations: [Int64: Backlog.Mutation] = [:]

    package init(_ results: [Rows]) throws {
        lane = try LaneHead(results[1])
        backlog.devices = try results[2].read { row in
            Backlog.Device(
                id: try row.read("device_id"),
                acceptedSequence: try row.read("accepted_sequence"),
                lastSeenAt: try row.read("last_seen_at")
            )
        }
        try readCounts(results[3])
    }

    private mutating func readCounts(_ rows: Rows) throws {
        for var row in rows {
            let device: UUID = try row.read("device_id")
            let status: MutationStatus = try row.choice("status")
            let number: Int64 = try row.read("count")
            let position: Int64 = try row.read("first")
            backlog.counts.add(number, of: status)
            counts[device, default: Backlog.Counts()].add(number, of: status)
            if !status.isSettled { oldest[device] = min(oldest[device] ?? position, position) }
            if status == .blocked { firstBlocked = min(firstBlocked ?? position, position) }
            backlog.isTruncated = try row.read("is_truncated")
        }
    }

    /// The position of the first blocked mutation, if the lane has no head; otherwise nil.
    ///
    /// The backlog shows this mutation as the head.
    package var missingHead: Int64? { lane.head == nil ? firstBlocked : nil }

    /// The positions of mutations that the backlog shows and that were not read yet.
    package var wantedPositions: [Int64] {
        let shown = backlog.devices.compactMap { oldest[$0.id] }
        return Set(shown + [missingHead].compactMap { $0 }).sorted()
    }

    package mutating func add(_ rows: Rows) throws {
        for var row in rows {
            let mutation = try BacklogColumns.mutation(&row)
            mutations[mutation.position] = mutation
        }
    }

    package func backlog(now: Timestamp) -> Backlog {
        var backlog = backlog
        for index in backlog.devices.indices {
            let id = backlog.devices[index].id
            backlog.devices[index].counts = counts[id] ?? Backlog.Counts()
            backlog.devices[index].oldestPending = oldest[id].flatMap { mutations[$0] }
        }
        let blocked = missingHead.flatMap { mutations[$0] }
        backlog.head = lane.head ?? blocked
        backlog.blocker = lane.blocker(orOf: blocked, now: now)
        return backlog
    }
}

/// Finds the reason why the head of a user's lane does not run, for responses to pushes.
///
/// This reader reads the lane's row and head once, and only if the lane may have a head that is not running.
struct LaneBlockerReader: Sendable {
    /// The time for which a response waits for the reason.
    private static let timeout: Duration = .seconds(1)

    let pool: Pool
    let now: TimeSource

    /// Returns the reason why the head of a lane does not run.
    ///
    /// The result is nil if the head runs, if the lane has no head, or if the reason cannot be determined in time. The
    /// push is already committed, and is answered in all cases.
    ///
    /// - Parameter state: the lane before the push or, if the push halted the lane, after the push; nil for the lane's
    ///   present state.
    func blocker(of lane: LaneKey, as state: LaneState? = nil) async -> LaneBlocker? {
        if let state, !state.mayBeHeld { return nil }
        let query = BacklogReader.laneStatement(organization: lane.organization, user: lane.user)
        guard let rows = try? await pool.withConnection({ try await $0.run([query], timeout: Self.timeout)[0] }),
            let head = try? LaneHead(rows)
        else { return nil }
        return head.blocker(as: state, now: now())
    }
}
