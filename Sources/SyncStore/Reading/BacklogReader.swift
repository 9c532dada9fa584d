package import Foundation
package import Postgres
package import SyncModel

/// Reads a user's mutations that are not final, and why the lane is held.
package struct BacklogReader: Sendable {
    /// Devices that are shown at most.
    package static let deviceLimit: Int64 = 1_000
    /// Open mutations that are counted at most, the first in lane order.
    package static let countLimit: Int64 = 100_000

    package let pool: Pool
    package let now: TimeSource
    package let failure: StoreFailure

    /// A user's backlog at one moment; empty for a user who never pushed.
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

    /// Makes the statements that follow see one state of the database.
    private static let snapshot = Query(
        Statement("backlog_begin", "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
    )

    /// The lane, and its head.
    ///
    /// The head halts the lane or, in a running lane, is the first that is pending or in flight.
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
                    AND b.synced_at IS NULL AND b.status IN ('pending', 'in_flight')
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

    /// Counts by device and status, and the first mutation of each.
    ///
    /// It also returns whether there are more than were counted.
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

    /// Mutations by their places; for the one at `head` also its dependencies.
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
    /// For a table `m`; followed by the mutation's unmet dependencies, as `depends_on`.
    package static let list = """
        m.id, m.device_id, m.sequence_number, m.position, m.status, m.operation, m.entity_type, m.attempt_count,
            m.next_retry_at, m.created_at, m.accepted_at
        """

    package static func mutation(_ row: inout RowReader) throws -> Backlog.Mutation {
        Backlog.Mutation(
            id: try row.uuid("id"),
            deviceID: try row.uuid("device_id"),
            sequenceNumber: try row.int64("sequence_number"),
            position: try row.int64("position"),
            status: try row.choice("status"),
            operation: try row.choice("operation"),
            entityType: try row.string("entity_type"),
            attemptCount: try row.int16("attempt_count"),
            nextRetryAt: try row.optionalMoment("next_retry_at"),
            createdAt: try row.moment("created_at"),
            acceptedAt: try row.moment("accepted_at"),
            dependsOn: try row.uuids("depends_on")
        )
    }
}

/// A lane and its head, as ``BacklogReader/laneStatement`` found them.
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
        hasUpstream = try row.bool("has_upstream")
        let isPaused = try row.bool("is_paused")
        isRateLimited = try row.bool("is_rate_limited")
        let pausedUntil = try row.optionalMoment("paused_until")
        if isPaused { pause = UpstreamPause(until: pausedUntil) }
        isForwarded = try row.bool("is_forwarded")
        if !row.isNextNull { head = try BacklogColumns.mutation(&row) }
    }

    /// The mutation that halts the lane.
    package var haltedBy: UUID? { lane?.haltedBy }

    /// Why the lane is held.
    ///
    /// - Parameters:
    ///   - state: the lane at another time; nil for the lane as it was read.
    ///   - other: the head, where no mutation halts the lane or runs next.
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
    /// By device, the place of the first mutation that runs or waits.
    private var oldest: [UUID: Int64] = [:]
    private var firstBlocked: Int64?
    private var mutations: [Int64: Backlog.Mutation] = [:]

    package init(_ results: [Rows]) throws {
        lane = try LaneHead(results[1])
        backlog.devices = try results[2].read { row in
            Backlog.Device(
                id: try row.uuid("device_id"),
                acceptedSequence: try row.int64("accepted_sequence"),
                lastSeenAt: try row.moment("last_seen_at")
            )
        }
        try readCounts(results[3])
    }

    private mutating func readCounts(_ rows: Rows) throws {
        for var row in rows {
            let device = try row.uuid("device_id")
            let status: MutationStatus = try row.choice("status")
            let number = try row.int64("count")
            let position = try row.int64("first")
            backlog.counts.add(number, of: status)
            counts[device, default: Backlog.Counts()].add(number, of: status)
            if !status.isSettled { oldest[device] = min(oldest[device] ?? position, position) }
            if status == .blocked { firstBlocked = min(firstBlocked ?? position, position) }
            backlog.isTruncated = try row.bool("is_truncated")
        }
    }

    /// The head's place, if the head is blocked.
    package var missingHead: Int64? { lane.head == nil ? firstBlocked : nil }

    /// The places of mutations to be shown that were not read yet.
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
