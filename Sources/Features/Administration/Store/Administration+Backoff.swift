package import FoundationEssentials
import Postgres
package import SyncModel
package import SyncStore
import Synchronization

/// A pass over an organization's lanes that ends back-offs after an operator changed the upstream.
///
/// The upstream's old settings may have caused these back-offs. A pass proceeds page by page. It can be repeated,
/// because it affects only mutations whose last attempt ended before the change.
package struct BackoffPass: Sendable {
    package let organization: UUID
    /// The time at which the upstream's settings were changed.
    package let changedAt: Timestamp
    package fileprivate(set) var isDone = false
    /// The last lane that was read; the nil UUID at the beginning.
    fileprivate var lastUser = UUID(uuid: (0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0))
    /// The lanes of the present page with mutations that were not read yet, each with the position of the last mutation
    /// that was read.
    fileprivate var unread: [(user: UUID, position: Int64)] = []

    package init(of organization: UUID, changedAt: Timestamp) {
        (self.organization, self.changedAt) = (organization, changedAt)
    }
}

/// The passes that this process has to complete.
package final class BackoffRequests: Sendable {
    private let passes = Mutex([UUID: BackoffPass]())
    /// Sent when a pass is added.
    package let signal = CoalescedSignal()

    package var pending: [BackoffPass] { passes.withLock { Array($0.values) } }

    /// Adds a pass. If the organization already has a pass for the same change or a later change, nothing is added.
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
    /// The number of lanes that one statement reads. One transaction locks at most these lanes.
    package static let lanesAtOnce = 500
    /// The number of pending mutations that one transaction reads. If such a mutation waits for a retry, it becomes
    /// due.
    package static let mutationsAtOnce = 4_000
    /// The period in seconds of a search: gateways search for upstreams that were changed within this period, because
    /// the passes for these changes may be unfinished.
    private static let searchedSeconds = 600.0
    /// The maximum number of changes that one search returns.
    private static let changesAtOnce = 1_000

    /// The passes for changes that this process made or found.
    package var backOffRequests: BackoffRequests { store.shared(BackoffRequests.init) }

    /// Ends all back-offs of an organization. Only commands call this method, because a gateway ends back-offs in the
    /// background.
    package func endBackOffs(of organization: UUID, changedAt: Timestamp) async throws(Problem) {
        var pass = BackoffPass(of: organization, changedAt: changedAt)
        while !pass.isDone { try await advance(&pass) }
    }

    /// Advances a pass by one transaction, which reschedules mutations that wait for a retry.
    ///
    /// These mutations become due once all gateways have the upstream's new settings.
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

    /// - Parameter limit: the maximum number of mutations that are read of each lane.
    /// - Returns: the lanes that may have more pending mutations than were read.
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

    /// Returns passes for the changes of the last minutes. A gateway may have stopped before it completed these passes.
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

    /// Reads lanes. The head of a lane is null if the lane has no pending mutations.
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

    /// Reads pending mutations. `is_waiting` is true for a mutation that waits for a retry, and whose last attempt
    /// ended before the change.
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
                AND \(LaneRows.isRunnable("m")) AND m.status = 'pending'
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

    /// Wakes lanes that no worker has leased. A worker that has leased a lane finds the due mutations without a
    /// wake-up.
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

    /// Finds the upstreams that were changed after a time.
    ///
    /// The table has at most one row for each organization, and each gateway reads it once a minute. Without an index
    /// on `updated_at`, the statement takes 14 ms for 50,000 rows (49 MB). An index would cost more at each write than
    /// it saves.
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
