package import FoundationEssentials
import Logging
package import Postgres
import ServiceLifecycle
import Synchronization

/// A cluster of PostgreSQL servers that shards by organization (Citus).
///
/// It stores whether the last connection detected a cluster, and the state of the cluster's servers. Each connection
/// detects the cluster when it opens, because the database can be moved to a cluster, or become reachable, after the
/// gateway has started.
package final class Cluster: Sendable {
    private let seen = Atomic(false)
    private let translations = RewriteCache()
    /// The state of the cluster's servers.
    package let servers = ClusterServers()

    package init() {}

    /// Whether the last connection that was opened detected a cluster.
    package var isThere: Bool { seen.load(ordering: .relaxed) }

    /// The dialect in which statements are sent to the cluster.
    package var dialect: Dialect {
        Dialect(
            detection: Self.detection,
            identity: ClusterServers.identity,
            settings: Self.settings,
            translation: { [translations, servers] query throws(PostgresError) in
                try servers.requireMembership(for: query.statement)
                try servers.requireAll(for: query.statement)
                return translations.of(query)
            },
            transactionGuard: Self.transactionGuard,
            onAnswer: { [weak self] in self?.seen.store($0, ordering: .relaxed) }
        )
    }

    /// Detects whether the tables are distributed, by the extension's trigger on each distributed table.
    ///
    /// An installed extension alone does not mean that the tables are distributed.
    static let detection = Statement(
        "cluster_is_there",
        """
        SELECT EXISTS (
            SELECT FROM pg_trigger t JOIN pg_proc p ON p.oid = t.tgfoid
            WHERE t.tgrelid = to_regclass('organizations') AND p.proname = 'citus_truncate_trigger')
        """
    )

    /// The settings of a session.
    ///
    /// PostgreSQL makes a plan for each execution, because a generic plan is for all organizations, and so cannot be
    /// sent to the server of one organization. By default, a server tries for 30 seconds to connect to another server
    /// that hangs, and the statement cannot be cancelled in that time. Therefore the connection timeout is shorter.
    static let settings = [("plan_cache_mode", "auto"), ("citus.node_connection_timeout", "2s")]

    /// Detects that a shard moved while a transaction ran.
    ///
    /// The first changing statement of a transaction may have to wait until a move has copied the shard. The statement
    /// then continues in the copy, but cannot read the copy's rows yet. Therefore the statement changes no row, and
    /// reports no error (Citus 13.2, if the copy is on the server that the session is connected to). For this reason, a
    /// transaction is repeated if any shard has moved since the transaction began.
    static let transactionGuard = Dialect.TransactionGuard(
        before: Statement("cluster_note_places", "SELECT set_config('sluice.places', \(places), true)"),
        verify: Statement(
            "cluster_same_places",
            "SELECT 1 / (coalesce(current_setting('sluice.places', true), '') IN ('', \(places)))::int AS is_same"
        )
    )

    /// SQL for the shards and their servers.
    ///
    /// A split creates shards, and a move changes a shard's server. The shards of all tables are on the same servers as
    /// the corresponding shards of `organizations`.
    private static let places = """
        (SELECT string_agg(p.placementid || ' ' || p.groupid, ',' ORDER BY p.placementid)
            FROM pg_dist_shard s JOIN pg_dist_placement p ON p.shardid = s.shardid
            WHERE s.logicalrelid = 'organizations'::regclass)
        """

    /// The text of a statement on a cluster.
    package static func text(of statement: Statement) -> String { CitusSQLRewriter(statement).ofRows }

    /// Divides rows of several organizations into parts, each for one statement. Committers' groups do not use this
    /// method.
    ///
    /// On plain PostgreSQL, all rows are one part. On a cluster, each organization has its own part, because
    /// organizations can be on different servers.
    package func parts<Row>(_ rows: [Row], by organization: (Row) -> UUID) -> [[Row]] {
        guard isThere else { return rows.isEmpty ? [] : [rows] }
        var places: [UUID: Int] = [:]
        var parts: [[Row]] = []
        for row in rows {
            if let place = places[organization(row)] {
                parts[place].append(row)
            } else {
                places[organization(row)] = parts.count
                parts.append([row])
            }
        }
        return parts
    }
}

/// Polls every few seconds which servers of a cluster answer, and which shards these servers have.
///
/// The service does nothing if the database is not a cluster.
package final class ClusterStatsCollector: Service {
    private static let interval: Duration = .seconds(5)

    /// The configuration of a separate connection. The pool is not used, because all its connections can be waiting for
    /// a server that hangs.
    private let configuration: ConnectionConfiguration
    private let cluster: Cluster
    private let logger: Logger
    private let connection = Mutex<Connection?>(nil)

    init(_ configuration: ConnectionConfiguration, cluster: Cluster, logger: Logger) {
        self.configuration = configuration
        self.cluster = cluster
        self.logger = logger
    }

    package func run() async throws {
        await cancelWhenGracefulShutdown {
            while !Task.isCancelled {
                await self.poll()
                try? await Task.sleep(for: self.cluster.servers.isInDoubt ? .seconds(1) : Self.interval)
            }
        }
        await connection.withLock { $0 }?.closeAndWait()
    }

    private func poll() async {
        guard cluster.isThere else { return }
        do {
            let connection = try await opened()
            let homes = try await ClusterServers.homes(on: connection)
            let wasDisowned = cluster.servers.isDisowned
            cluster.servers.learn(try await ClusterServers.servers(on: connection), homes: homes)
            if cluster.servers.isDisowned, !wasDisowned {
                logger.critical("\(ClusterServers.disowned): requests are rejected until it connects to another server")
            }
        } catch {
            cluster.servers.forget()
        }
    }

    private func opened() async throws -> Connection {
        if let connection = connection.withLock({ $0 }), connection.isUsable { return connection }
        let connection = try await Connection.open(configuration)
        self.connection.withLock { $0 = connection }
        return connection
    }
}
