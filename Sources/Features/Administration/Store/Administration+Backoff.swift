package import FoundationEssentials
import Postgres
package import SyncModel
package import SyncStore
import Synchronization

/// A pass over an organization's lanes that ends back-offs after an operator changed the upstream, because its old
/// settings may have caused them.
///
/// A pass proceeds page by page. It can be repeated, because it concerns only attempts that ended before the change.
package struct BackoffPass: Sendable {
    package let organization: UUID
    /// The time at which the upstream's settings were changed.
    package let changedAt: Timestamp
    package fileprivate(set) var isDone = false
    /// The last lane that was read; the nil UUID at the beginning.
    fileprivate var lastUser = UUID(uuid: (0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0))
    /// The lanes with mutations that were not read yet, each with the position of the last mutation that was read.
    fileprivate var unread: [(user: UUID, position: Int64)] = []

    package init(of organization: UUID, changedAt: Timestamp) {
        (self.organization, self.changedAt) = (organization, changedAt)
    }
}

/// The back-offs that this process has to end.
package final class BackoffRequests: Sendable {
    private let passes = Mutex([UUID: BackoffPass]())
    /// Sent when a pass is added.
    package let signal = CoalescedSignal()

    package var pending: [BackoffPass] { passes.withLock { Array($0.values) } }

    /// Adds a pass, unless a later change of the organization's upstream already has a pass.
    package func add(_ pass: BackoffPass) {
        passes.withLock { passes in
            if let other = passes[pass.organization], other.changedAt >= pass.changedAt { return }
            passes[pass.organization] = pass
        }
        signal.send()
    }

    /// Stores the progress of a pass, unless a later pass has replaced it.
    package func update(_ pass: BackoffPass) {
        passes.withLock { passes in
            guard passes[pass.organization]?.changedAt == pass.changedAt else { return }
            passes[pass.organization] = pass.isDone ? nil : pass
        }
    }
}

extension Administration {
    /// The number of lanes that one statement reads, and among which one transaction locks the lanes with pending
    /// mutations.
    package static let lanesAtOnce = 500
    /// The number of pending mutations that one transaction reads. It makes those that wait for a retry due.
    package static let mutationsAtOnce = 4_000
    /// The seconds after a change for which gateways search for it, because its pass may be unfinished.
    private static let searchedSeconds = 600.0
    /// The number of changes that one search returns.
    private static let changesAtOnce = 1_000

    /// The passes of this process' changes.
    package var backOffRequests: BackoffRequests { store.shared(BackoffRequests.init) }

    /// Ends all back-offs of an organization. Only commands call it; a gateway ends back-offs in the background.
    package func endBackOffs(of organization: UUID, changedAt: Timestamp) async throws(Problem) {
        var pass = BackoffPass(of: organization, changedAt: changedAt)
        while !pass.isDone { try await advance(&pass) }
    }

    /// Reschedules mutations that wait for a retry, as many as one transaction may change.
    ///
    /// They become due once all gateways have the new settings.
    package func advance(
        _ pass: inout BackoffPass,
        lanes: Int = lanesAtOnce,
        mutations: Int = mutationsAtOnce
    ) async throws(Problem) {
        do {
            if pass.unread.isEmpty { try await readLanes(&pass, limit: lanes) }
            guard !pass.unread.isEmpty else { return }
            pass.unread = try await endBackOffs(pass, limit: max(1, mutations / pass.unread.count))
        } catch {
            throw failure.problem(error, doing: "end back-offs")
        }
    }

    private func readLanes(_ pass: inout BackoffPass, limit: Int) async throws {
        let query = Self.queuedLanesStatement(organization: pass.organization, after: pass.lastUser, limit: limit)
        let lanes = try await pool.runByIndex(query).read { row in
            let user: UUID = try row.read("user_id")
            return (user: user, head: try row.read("head_position", as: Int64?.self))
        }
        pass.unread = lanes.compactMap { lane in lane.head.map { (user: lane.user, position: $0 - 1) } }
        pass.lastUser = lanes.last?.user ?? pass.lastUser
        pass.isDone = lanes.isEmpty
    }

    /// - Parameter limit: the number of mutations that are read of each lane.
    /// - Returns: the lanes that have more pending mutations than were read.
    private func endBackOffs(_ pass: BackoffPass, limit: Int) async throws -> [(user: UUID, position: Int64)] {
        let organization = pass.organization
        let due = max(pass.changedAt.adding(seconds: Catalog.lifetimeSeconds + 1), now())
        return try await pool.transaction { connection in
            let page = try await connection.runByIndex([
                LaneRows.lock(pass.unread.map { LaneKey(organization: organization, user: $0.user) }),
                Self.pendingStatement(
                    organization: organization,
                    users: pass.unread.map(\.user),
                    positions: pass.unread.map(\.position),
                    due: due,
                    changed: pass.changedAt,
                    limit: limit
                ),
            ])[1]
            var waiting: [(lane: LaneKey, id: UUID)] = []
            var read: [UUID: (count: Int, position: Int64)] = [:]
            for var row in page {
                let (user, id): (UUID, UUID) = (try row.read("user_id"), try row.read("id"))
                let position: Int64 = try row.read("position")
                read[user] = ((read[user]?.count ?? 0) + 1, max(read[user]?.position ?? 0, position))
                guard try row.read("is_waiting") else { continue }
                waiting.append((lane: LaneKey(organization: organization, user: user), id: id))
            }
            if !waiting.isEmpty {
                _ = try await connection.runByIndex([
                    Self.ended.query(Self.endBackOffStatement, waiting, at: due),
                    Self.wakeLanesStatement(organization: organization, users: waiting.map(\.lane.user), due: due),
                ])
            }
            return pass.unread.compactMap { lane in
                read[lane.user].flatMap { $0.count == limit ? (user: lane.user, position: $0.position) : nil }
            }
        }
    }

    /// Returns passes for the changes of the last minutes, because a gateway may have stopped before it completed them.
    package func recentBackoffPasses() async throws(Problem) -> [BackoffPass] {
        let query = Self.changedUpstreamsStatement(
            since: now().adding(seconds: -Self.searchedSeconds),
            now: now(),
            limit: Self.changesAtOnce
        )
        do {
            return try await pool.run([query])[0].read { row in
                BackoffPass(of: try row.read("organization_id"), changedAt: try row.read("updated_at"))
            }
        } catch {
            throw failure.problem(error, doing: "search for changed upstreams")
        }
    }

    // MARK: - Statements

    /// Reads lanes; the head of a lane without pending mutations is null.
    static let queuedLanesStatement = Statement(
        "upstreams_queued_lanes",
        ["organization", "after", "limit"],
        """
        SELECT l.user_id, CASE WHEN l.queued_count > 0 THEN l.head_position END AS head_position FROM lanes l
        WHERE l.organization_id = :organization AND l.user_id > :after
        ORDER BY l.user_id
        LIMIT :limit
        """
    )

    /// Reads pending mutations, and whether each waits for a retry after an attempt that ended before the change.
    static let pendingStatement = Statement(
        "upstreams_pending_mutations",
        ["organization", "users", "positions", "due", "changed", "limit"],
        """
        SELECT k.user_id, x.id, x.position, x.is_waiting
        FROM unnest(:users::uuid[], :positions::int8[]) AS k (user_id, position)
        CROSS JOIN LATERAL (
            SELECT m.id, m.position, coalesce(m.next_retry_at > :due AND m.changed_at < :changed, false) AS is_waiting
            FROM mutations m
            WHERE m.organization_id = :organization AND m.user_id = k.user_id AND m.position > k.position
                AND m.synced_at IS NULL AND m.status = 'pending'
            ORDER BY m.position
            LIMIT :limit
        ) x
        """
    )

    private static let ended = Columns<(lane: LaneKey, id: UUID)>(.lane { $0.lane }, .value("id") { $0.id })

    static let endBackOffStatement = Statement(
        "upstreams_end_back_off",
        ended.inputs + ["due"],
        """
        UPDATE mutations AS m
        SET next_retry_at = :due
        FROM \(ended.unnested(as: "k"))
        WHERE m.organization_id = k.organization_id AND m.user_id = k.user_id AND m.id = k.id AND m.status = 'pending'
        """
    )

    /// Wakes lanes, except for lanes under a worker's lease, because the worker finds their mutations.
    static let wakeLanesStatement = Statement(
        "upstreams_wake_lanes",
        ["organization", "users", "due"],
        """
        UPDATE lanes AS l
        SET ready_at = :due
        WHERE l.organization_id = :organization AND l.user_id = ANY (:users::uuid[]) AND l.lease_owner IS NULL
            AND l.ready_at > :due
        """
    )

    /// Finds upstreams that changed since a time. The table has at most one row for each organization, and is read
    /// once a minute by each gateway. Without an index on `updated_at`, this takes 14 ms for 50,000 rows (49 MB), so an
    /// index is not worth its writes.
    static let changedUpstreamsStatement = Statement(
        "upstreams_changed",
        ["since", "now", "limit"],
        """
        SELECT u.organization_id, u.updated_at FROM upstreams u
        WHERE u.updated_at > :since AND (NOT u.is_paused OR u.paused_until <= :now)
        ORDER BY u.updated_at DESC
        LIMIT :limit
        """
    )

    static let backOffStatements = [
        queuedLanesStatement, pendingStatement, endBackOffStatement, wakeLanesStatement, changedUpstreamsStatement,
    ]
}
