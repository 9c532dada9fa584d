package import FoundationEssentials
import GroupCommit
import Postgres
import ServiceLifecycle
package import SyncModel

/// The lane workers' database operations.
///
/// Any number of replicas may use these operations at the same time, because a lease names its worker, and the lease's
/// token only grows.
package final class LaneStore: Service {
    private let committers: Committers<LaneWork>
    private let catalog: Catalog
    let pool: Pool
    private let cluster: Cluster
    let failure: StoreFailure
    /// Limits the requests to upstreams.
    package let rates: UpstreamRates

    /// The error that prevents the committers from writing; nil while they can write.
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

    /// Returns an organization, at most five seconds old; nil if it does not exist.
    package func organization(_ id: UUID) async throws(Problem) -> Organization? {
        try await catalog.entry(id).organization
    }

    /// Runs a step, and commits it together with steps of other lanes.
    ///
    /// A step that failed with `store_unavailable` may still have been committed. If the same worker repeats the step
    /// or claims the lane, the commit is detected. Another worker detects it after the lease has expired.
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
        let request = LaneRequest(
            lane: lane,
            step: step,
            worker: worker,
            heldUntil: heldUntil,
            releases: releases,
            progress: progress
        )
        let span = LaneSpan(step)
        do throws(Problem) {
            let action = try await committers.submit(at: catalog.entry(lane.organization).place) { reply in
                LaneJob(request: request, span: span.settling.first, reply: reply)
            }
            span.end(action)
            return action
        } catch {
            span.fail(error)
            throw error
        }
    }

    /// Runs the committers until graceful shutdown, and finishes steps that are already queued.
    package func run() async throws {
        try await committers.run()
    }

    // MARK: - Candidates

    /// Returns lanes that can be claimed, the longest due first. The query reads without locks.
    ///
    /// - Parameters:
    ///   - excluding: the organizations whose lanes are left out.
    ///   - limit: the maximum number of lanes.
    package func due(at now: Timestamp, excluding: [UUID], limit: Int) async throws(Problem) -> [LaneKey] {
        let silent = cluster.servers.silent
        if silent.isEmpty {
            do {
                return try await lanes(Self.dueStatement, Parameters(now, excluding, limit))
            } catch  where cluster.isThere && [.storeUnavailable, .overloaded].contains(error.code) {}
        }
        // a server of the Citus cluster is unavailable, so only the shards of the other servers are searched
        return try await lanes(Self.dueByShardStatement, Parameters(now, excluding, limit, silent))
    }

    /// Returns lanes of one organization that can be claimed, the longest due first.
    package func due(at now: Timestamp, in organization: UUID, limit: Int) async throws(Problem) -> [LaneKey] {
        let parameters = Parameters(now, organization, limit)
        return try await lanes(Self.dueOfOrganizationStatement, parameters)
    }

    /// Postpones due lanes while their upstream's circuit is open. Polls do not find these lanes before the given
    /// times.
    ///
    /// - Parameter moments: the lanes, each with the time from which it can be claimed again.
    package func postpone(_ moments: [(lane: LaneKey, until: Timestamp)], now: Timestamp) async throws(Problem) {
        guard !moments.isEmpty else { return }
        do {
            for part in cluster.parts(moments.sorted { $0.lane < $1.lane }, by: \.lane.organization) {
                _ = try await pool.run([Self.postpone(part, now: now)])
            }
        } catch {
            throw failure.problem(error, doing: "postpone lanes")
        }
    }

    /// - Parameter moments: sorted by lane.
    static func postpone(_ moments: [(lane: LaneKey, until: Timestamp)], now: Timestamp) -> Query {
        postponed.query(postponeStatement, moments, at: now)
    }

    private static let postponed = Columns<(lane: LaneKey, until: Timestamp)>(
        .lane { $0.lane },
        .value("until") { $0.until }
    )

    // MARK: - Census

    /// The number of lanes by state, over all organizations.
    package struct Stats: Sendable, Hashable {
        /// Lanes on which a worker holds a lease.
        package var running = 0
        /// Lanes that can be claimed now.
        package var due = 0
        /// Lanes whose head waits for a back-off or for the upstream.
        package var waiting = 0
        /// Lanes that are halted until a person decides.
        package var halted = 0
        /// The acceptance time of the oldest pending or in-flight mutation, over all organizations.
        package var oldest: Timestamp?
        /// Upstreams that operators have paused.
        package var pausedUpstreams = 0
    }

    /// Counts the lanes that are halted or have something to run, and the paused upstreams.
    package func stats(at now: Timestamp) async throws(Problem) -> Stats {
        do {
            let results = try await pool.run([Self.statsStatement(now: now), Self.pausedStatement(now: now)])
            var stats = Stats()
            for var row in results[1] { stats.pausedUpstreams = try row.read("paused") }
            for var row in results[0] {
                stats.running = try row.read("running")
                stats.due = try row.read("due")
                stats.waiting = try row.read("waiting")
                stats.halted = try row.read("halted")
                stats.oldest = try row.read("oldest")
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

    static let pausedStatement = Statement(
        "upstreams_paused",
        ["now"],
        """
        SELECT count(*) AS paused FROM upstreams u
        WHERE u.is_paused AND (u.paused_until IS NULL OR u.paused_until > :now)
        """
    )

    /// The state of one organization's lanes.
    package struct OrganizationStats: Sendable, Hashable {
        package var organization: UUID
        /// Lanes that wait for a person's decision.
        package var halted: Int
        /// The acceptance time of the organization's oldest pending or in-flight mutation.
        package var oldest: Timestamp?
    }

    /// Counts lanes by organization. Organizations without waiting mutations are left out.
    ///
    /// The organization with the oldest pending mutation is first. Among equals, the organization with the most halted
    /// lanes is first.
    ///
    /// - Parameter limit: the maximum number of organizations.
    package func stats(organizations limit: Int) async throws(Problem) -> [OrganizationStats] {
        do {
            let rows = try await pool.run([Self.organizationsStatement(limit: limit)])[0]
            return try rows.read { row in
                OrganizationStats(
                    organization: try row.read("organization_id"),
                    halted: try row.read("halted"),
                    oldest: try row.read("oldest")
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

    /// Finds due lanes without the shards of unavailable servers (by host and port).
    ///
    /// Servers that do not answer this statement are left out, too. The statement costs more than ``dueStatement``.
    /// Therefore it is used only if a server is known to be unavailable, or if ``dueStatement`` has failed. Each shard
    /// returns its lanes as lines of one text. On an unavailable server, the command fails.
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

    /// Postpones due lanes, except lanes that were claimed or released after they were read.
    ///
    /// A lane whose lease has expired is postponed, too. If such lanes were not postponed, many of them could come
    /// before the lanes of other users.
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
        statsStatement, pausedStatement, organizationsStatement, dueStatement, dueByShardStatement,
        dueOfOrganizationStatement, postponeStatement,
    ]
}

/// Whether an upstream has accepted other mutations.
///
/// The answer decides whether an error response is a problem of the upstream, for its operator, or of the mutation
/// itself (product rule 11). The successes are read from the table of mutations. Therefore they include the successes
/// of other replicas, and no extra write is needed for a success.
extension LaneStore {
    /// The maximum number of an organization's final mutations that are read, the latest first.
    ///
    /// If all of these mutations were written to the built-in store, older forwarded mutations are not found. A later
    /// poll can then find forwarded mutations.
    static let maximumSuccessesRead = 2_000

    /// Returns whether an organization's upstream has accepted a request that was sent after a given moment.
    ///
    /// - Parameter timeout: the maximum time of a request. A request may have been in flight at the moment. Therefore,
    ///   if the gateway accepted a mutation before the moment, the mutation's success counts only if the success was
    ///   stored more than `timeout` after the moment.
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
                try await connection.run([.beginReading, Query(Self.successShape), query, .rollback])[2].read(
                    0,
                    0,
                    as: Bool.self
                )
            }
        } catch {
            throw failure.problem(error, doing: "check whether other mutations succeed")
        }
    }

    /// A setting that prevents a plan that gathers and sorts all mutations of the organization.
    ///
    /// The planner would choose such a plan if it expected few mutations.
    static let successShape = Statement(
        "lane_success_shape",
        """
        SELECT set_config('enable_sort', 'off', true), set_config('enable_incremental_sort', 'off', true),
            set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'off', true)
        """
    )

    /// Reads whether the upstream accepted a request.
    ///
    /// Mutations of the built-in store are excluded, because they have no attempts. A delete that was answered with 404
    /// is excluded, too: the delete has succeeded, but the upstream has not accepted the request.
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
                LIMIT \(maximumSuccessesRead)
            ) m
            WHERE m.status = 'succeeded' AND m.attempt_count > 0 AND m.response_status BETWEEN 200 AND 299
                AND (m.accepted_at > :since OR m.synced_at > :now))
        """
    )

    static let successStatements = [successShape, successStatement]
}
