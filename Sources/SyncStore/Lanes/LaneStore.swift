package import Foundation
import GroupCommit
import Postgres
import ServiceLifecycle
package import SyncModel

/// The lane workers' database operations. Any number of replicas may use it at the same time: a lease names its
/// worker, and its token only grows.
package final class LaneStore: Service {
    private let committers: Committers<LaneWork>
    private let catalog: Catalog
    let pool: Pool
    private let cluster: Cluster
    let failure: StoreFailure
    /// Limits the requests to upstreams.
    package let rates: UpstreamRates

    /// Why its committers cannot write; nil while they can.
    var writeFailure: PostgresError? { committers.writeFailure }

    init(
        committers: Committers<LaneWork>,
        catalog: Catalog,
        pool: Pool,
        cluster: Cluster,
        rates: UpstreamRates,
        failure: StoreFailure
    ) {
        self.rates = rates
        self.committers = committers
        self.catalog = catalog
        self.pool = pool
        self.cluster = cluster
        self.failure = failure
    }

    /// Makes a step, committed together with those of other lanes.
    ///
    /// A step that was answered `store_unavailable` may have been committed all the same. Repeating the step finds
    /// that out, and so does a claim by the same worker; another worker finds it once the lease has run out.
    ///
    /// - Throws: `store_unavailable`, `overloaded`.
    package func step(
        _ step: LaneStep,
        of lane: LaneKey,
        worker: UUID,
        heldUntil: Timestamp? = nil,
        releases: Bool = false,
        progress: LaneProgress? = nil
    ) async throws(Problem) -> LaneAction {
        try await committers.submit(at: catalog.entry(lane.organization).place) { reply in
            let request = LaneRequest(
                lane: lane,
                step: step,
                worker: worker,
                heldUntil: heldUntil,
                releases: releases,
                progress: progress
            )
            return LaneJob(request: request, reply: reply)
        }
    }

    /// Runs the committers until graceful shutdown; steps queued before are finished.
    package func run() async throws {
        try await committers.run()
    }

    // MARK: - Candidates

    /// Lanes that may be claimed, longest due first: a plain read without locks.
    ///
    /// - Parameters:
    ///   - excluding: organizations whose lanes are processed already.
    ///   - limit: lanes at most.
    package func due(at now: Timestamp, excluding: [UUID], limit: Int) async throws(Problem) -> [LaneKey] {
        let silent = cluster.servers.silent
        if silent.isEmpty {
            do {
                return try await lanes(Self.dueStatement, Parameters(now, excluding, Int64(limit)))
            } catch  where cluster.isThere && [.storeUnavailable, .overloaded].contains(error.code) {}
        }
        // a server of the cluster is unavailable: the lanes of the others are found shard by shard
        return try await lanes(Self.dueByShardStatement, Parameters(now, excluding, Int64(limit), silent))
    }

    /// Lanes of one organization that may be claimed, the longest due first.
    package func due(at now: Timestamp, in organization: UUID, limit: Int) async throws(Problem) -> [LaneKey] {
        let parameters = Parameters(now, organization, Int64(limit))
        return try await lanes(Self.dueOfOrganizationStatement, parameters)
    }

    /// Postpones due lanes while their upstream's circuit is open.
    ///
    /// They are not polled before.
    ///
    /// - Parameter moments: by lane, when it may be claimed again.
    package func postpone(_ moments: [(lane: LaneKey, until: Timestamp)], now: Timestamp) async throws(Problem) {
        guard !moments.isEmpty else { return }
        do {
            for part in cluster.parts(moments.sorted { $0.lane < $1.lane }, by: \.lane.organization) {
                _ = try await pool.run([Self.postpone(part, now: now)])
            }
        } catch {
            throw failure.problem(error, doing: "put lanes off")
        }
    }

    /// - Parameter moments: sorted by lane.
    static func postpone(_ moments: [(lane: LaneKey, until: Timestamp)], now: Timestamp) -> Query {
        postponed.query(postponeStatement, moments, at: now)
    }

    private static let postponed = Columns<(lane: LaneKey, until: Timestamp)>(
        .lane { $0.lane },
        .moment("until") { $0.until }
    )

    // MARK: - Census

    /// The number of lanes by state, over all organizations.
    package struct Stats: Sendable, Hashable {
        /// A worker holds a lease on it.
        package var running = 0
        /// It may be claimed now.
        package var due = 0
        /// Its head waits for a back-off, or for the upstream.
        package var waiting = 0
        /// It waits for a person's decision.
        package var halted = 0
        /// When the first pending or in-flight mutation was accepted, in all organizations.
        package var oldest: Timestamp?
    }

    /// Counts lanes that have something to run, or are halted.
    package func stats(at now: Timestamp) async throws(Problem) -> Stats {
        do {
            let rows = try await pool.run([Self.statsStatement(now: now)])[0]
            var stats = Stats()
            for var row in rows {
                stats.running = Int(try row.int64("running"))
                stats.due = Int(try row.int64("due"))
                stats.waiting = Int(try row.int64("waiting"))
                stats.halted = Int(try row.int64("halted"))
                stats.oldest = try row.optionalMoment("oldest")
            }
            return stats
        } catch {
            throw failure.problem(error, doing: "count lanes")
        }
    }

    static let statsStatement = Statement(
        "lanes_census",
        ["now"],
        """
        SELECT count(*) FILTER (WHERE l.lease_owner IS NOT NULL AND l.ready_at > :now) AS running,
            count(*) FILTER (WHERE l.ready_at <= :now) AS due,
            count(*) FILTER (WHERE l.lease_owner IS NULL AND l.ready_at > :now) AS waiting,
            count(*) FILTER (WHERE l.halted_by IS NOT NULL) AS halted,
            min(l.queued_since) AS oldest
        FROM lanes l
        WHERE l.ready_at IS NOT NULL OR l.halted_by IS NOT NULL
        """
    )

    /// The state of one organization's lanes.
    package struct OrganizationStats: Sendable, Hashable {
        package var organization: UUID
        /// Lanes that wait for a person's decision.
        package var halted: Int
        /// When the first of its mutations was accepted that are pending or in flight.
        package var oldest: Timestamp?
    }

    /// Counts by organization; organizations where nothing waits are left out.
    ///
    /// Those come first whose oldest pending mutation has waited longest, then those with the most halted lanes.
    ///
    /// - Parameter limit: organizations at most.
    package func stats(organizations limit: Int) async throws(Problem) -> [OrganizationStats] {
        do {
            let rows = try await pool.run([Self.organizationsStatement(limit: Int64(limit))])[0]
            return try rows.read { row in
                OrganizationStats(
                    organization: try row.uuid("organization_id"),
                    halted: Int(try row.int64("halted")),
                    oldest: try row.optionalMoment("oldest")
                )
            }
        } catch {
            throw failure.problem(error, doing: "count lanes")
        }
    }

    static let organizationsStatement = Statement(
        "lanes_census_organizations",
        ["limit"],
        """
        SELECT l.organization_id, count(*) FILTER (WHERE l.halted_by IS NOT NULL) AS halted,
            min(l.queued_since) AS oldest
        FROM lanes l
        WHERE l.ready_at IS NOT NULL OR l.halted_by IS NOT NULL
        GROUP BY l.organization_id
        ORDER BY oldest NULLS LAST, halted DESC, l.organization_id
        LIMIT :limit
        """
    )

    private func lanes(_ statement: Statement, _ parameters: Parameters) async throws(Problem) -> [LaneKey] {
        do {
            let rows = try await pool.run([Query(statement, parameters)])[0]
            return try rows.read { try $0.lane() }
        } catch {
            throw failure.problem(error, doing: "look for lanes to run")
        }
    }

    static let dueStatement = Statement(
        "lanes_due",
        ["now", "except", "limit"],
        """
        SELECT l.organization_id, l.user_id FROM lanes l
        WHERE l.ready_at <= :now AND l.organization_id <> ALL (:except::uuid[])
        ORDER BY l.ready_at
        LIMIT :limit
        """
    )

    /// The same without the shards of unavailable servers (by host and port).
    ///
    /// Also without those of servers that do not answer. It costs more, and is only used where the other fails. Each
    /// shard's answer is a text of lines, and that of an unavailable server is no success.
    static let dueByShardStatement = Statement(
        "lanes_due_by_shard",
        ["now", "except", "limit", "servers"],
        """
        SELECT l.organization_id, l.user_id FROM lanes l
        WHERE l.ready_at <= :now AND l.organization_id <> ALL (:except::uuid[])
        ORDER BY l.ready_at
        LIMIT :limit OFFSET cardinality(:servers::text[]) * 0
        """,
        variant: """
            SELECT split_part(line.text, ' ', 1)::uuid AS organization_id, split_part(line.text, ' ', 2)::uuid AS user_id
            FROM (
                SELECT array_agg(n.nodename) AS hosts, array_agg(n.nodeport) AS ports, array_agg(format($command$
                    SELECT string_agg(x.line, E'\\n') FROM (
                        SELECT l.organization_id || ' ' || l.user_id || ' ' || extract(epoch FROM l.ready_at) AS line
                        FROM %s l
                        WHERE l.ready_at <= %L AND l.organization_id <> ALL (%L::uuid[])
                        ORDER BY l.ready_at
                        LIMIT %s
                    ) x
                    $command$, shard_name(s.logicalrelid, s.shardid), :now::timestamptz, :except::uuid[], :limit::int8)) AS commands
                FROM pg_dist_shard s
                JOIN pg_dist_placement p ON p.shardid = s.shardid
                JOIN pg_dist_node n ON n.groupid = p.groupid AND n.isactive AND n.noderole = 'primary'
                WHERE s.logicalrelid = 'lanes'::regclass AND n.nodename || ':' || n.nodeport <> ALL (:servers::text[])
            ) k
            CROSS JOIN LATERAL master_run_on_worker(k.hosts, k.ports, k.commands, true) s
            CROSS JOIN LATERAL string_to_table(s.result, E'\\n') AS line (text)
            WHERE s.success AND s.result <> ''
            ORDER BY split_part(line.text, ' ', 3)::numeric
            LIMIT :limit
            """
    )

    static let dueOfOrganizationStatement = Statement(
        "lanes_due_of_organization",
        ["now", "organization", "limit"],
        """
        SELECT l.organization_id, l.user_id FROM lanes l
        WHERE l.organization_id = :organization AND l.ready_at <= :now
        ORDER BY l.ready_at
        LIMIT :limit
        """
    )

    /// Postpones lanes, except those claimed or given back since the read.
    ///
    /// A lane whose lease has run out is postponed like any other; otherwise many of them would come before the lanes
    /// of other users.
    static let postponeStatement = Statement(
        "lanes_postpone",
        postponed.inputs + ["now"],
        """
        UPDATE lanes AS l
        SET ready_at = k.until
        FROM \(postponed.unnested(as: "k"))
        WHERE l.organization_id = k.organization_id AND l.user_id = k.user_id AND l.ready_at <= :now
        """
    )

    static let statements = [
        statsStatement, organizationsStatement, dueStatement, dueByShardStatement, dueOfOrganizationStatement,
        postponeStatement,
    ]
}

/// Whether an upstream has accepted other mutations.
///
/// This decides whether an answer is the operator's problem or the mutation's own (product rule 11). It is read from
/// the mutations themselves, independent of which replica sent them, and costs successful ones nothing.
extension LaneStore {
    /// Final mutations of the organization that are read, the last first.
    ///
    /// More mutations of the built-in store than this may hide forwarded ones, which then count at a later poll.
    static let successesLookedAt = 2_000

    /// Whether an organization's upstream has accepted a request sent after a moment.
    ///
    /// - Parameter timeout: how long a request may take: the success of a mutation accepted before the moment counts
    ///   only from this long after it, since its request may have been in flight at that moment.
    /// - Throws: `store_unavailable`.
    package func hasSucceeded(
        in organization: UUID,
        since moment: Timestamp,
        timeout: Duration
    ) async throws(Problem) -> Bool {
        do {
            let query = Self.successStatement(
                organization: organization,
                since: moment,
                now: moment.adding(seconds: timeout / .seconds(1))
            )
            return try await pool.withConnection { connection in
                try await connection.run([.beginReading, Query(Self.successShape), query, .rollback])[2].bool(0, 0)
            }
        } catch {
            throw failure.problem(error, doing: "look whether others' mutations succeed")
        }
    }

    /// Prevents a plan that gathers and sorts all mutations of the organization.
    ///
    /// The planner would choose it if it expected few.
    static let successShape = Statement(
        "lane_success_shape",
        """
        SELECT set_config('enable_sort', 'off', true), set_config('enable_incremental_sort', 'off', true),
            set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'off', true)
        """
    )

    /// The built-in store makes no attempts. A delete that was answered 404 is done, but the upstream accepted
    /// nothing.
    static let successStatement = Statement(
        "lane_successes",
        ["organization", "since", "now"],
        """
        SELECT EXISTS (
            SELECT 1
            FROM (
                SELECT x.status, x.attempt_count, x.response_status, x.accepted_at, x.synced_at
                FROM mutations x
                WHERE x.organization_id = :organization AND x.synced_at > :since
                ORDER BY x.synced_at DESC
                LIMIT \(successesLookedAt)
            ) m
            WHERE m.status = 'succeeded' AND m.attempt_count > 0 AND m.response_status BETWEEN 200 AND 299
                AND (m.accepted_at > :since OR m.synced_at > :now))
        """
    )

    static let successStatements = [successShape, successStatement]
}
