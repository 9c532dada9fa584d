package import Postgres

/// Distributes the tables of a database over the servers of a Citus cluster, by `sql/citus.sql`.
package enum Distribution {
    /// The reason why a database is not distributed.
    package enum Refusal: Error, Sendable, Equatable {
        /// The server is not a coordinator of a cluster.
        case noCluster
        /// The server belongs to a cluster, but is not the coordinator.
        case worker
        /// No server of the cluster accepts shards.
        case noServer
        /// The database already has rows in this table.
        case inUse(String)
        /// Another server has its own table with the same name. The value is the database's message.
        case tableElsewhere(String)
    }

    /// The kind of a database, from the view of the connected server.
    package struct Facts: Sendable, Equatable {
        /// The version of the extension; nil if it is not installed.
        package var version: String?
        /// Whether the tables are distributed.
        package var isSpread = false
        /// Whether all tables are distributed, including tables that migrations added later.
        package var isWhole = false
        /// Whether this server is the coordinator, or does not belong to a cluster.
        package var isCoordinator = true
        /// The number of servers in addition to the coordinator.
        package var workers = 0
        /// The number of servers that accept shards.
        package var servers = 0
        /// The number of shards of each table.
        package var shards = 0
    }

    /// Returns the default number of shards of each table for a number of servers.
    ///
    /// Each statement is planned once for each shard. Therefore fewer shards cost less. If an organization grows, it
    /// can be moved to its own shard.
    package static func defaultShards(servers: Int) -> Int { max(2, 2 * servers) }

    /// The highest number of shards that a caller can request.
    package static let mostShards = 256

    static let isInstalledStatement = Statement(
        "cluster_version",
        "SELECT e.extversion FROM pg_extension e WHERE e.extname = 'citus'"
    )

    /// Used only if the extension is installed, because plain PostgreSQL lacks the catalog tables that this statement
    /// reads.
    private static let serversStatement = Statement(
        "cluster_servers",
        """
        SELECT (SELECT l.groupid = 0 FROM pg_dist_local_group l LIMIT 1) AS is_coordinator,
            (SELECT count(*) FROM pg_dist_node n WHERE n.isactive AND n.groupid <> 0 AND n.noderole = 'primary') AS workers,
            (SELECT count(*) FROM pg_dist_node n WHERE n.isactive AND n.shouldhaveshards AND n.noderole = 'primary')
                AS servers,
            NOT EXISTS (
                SELECT FROM pg_class c
                WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition
                    AND c.relname <> 'schema_migrations_lock'
                    AND NOT EXISTS (SELECT FROM pg_dist_partition d WHERE d.logicalrelid = c.oid)
            ) AND to_regproc('is_erased') IS NOT NULL AS is_whole,
            (SELECT count(*) FROM pg_dist_shard s WHERE s.logicalrelid = to_regclass('organizations')) AS shards
        """
    )

    package static func facts(on connection: Connection) async throws -> Facts {
        var facts = Facts()
        guard var installed = try await connection.run(Query(isInstalledStatement)).first else { return facts }
        facts.version = try installed.read("extversion")
        facts.isSpread = try await connection.run(Query(Cluster.detection)).read(0, 0, as: Bool.self)
        guard var counts = try await connection.run(Query(serversStatement)).first else { return facts }
        facts.isCoordinator = try counts.read("is_coordinator")
        facts.workers = try counts.read("workers")
        facts.servers = try counts.read("servers")
        facts.isWhole = try counts.read("is_whole")
        facts.shards = try counts.read("shards")
        return facts
    }

    /// Distributes the tables that are not distributed yet.
    ///
    /// The first call distributes all tables. Later calls distribute tables that a migration has added.
    ///
    /// - Parameter shards: the number of shards of each table. It is used only when the first table is distributed.
    /// - Throws: ``Refusal``, and the errors of the database. Nothing has changed in either case.
    package static func spread(shards: Int, on connection: Connection) async throws {
        do {
            try await connection.execute(
                script: """
                    BEGIN; SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = 0;
                    SET LOCAL idle_in_transaction_session_timeout = 0; SET LOCAL client_min_messages = warning;
                    SET LOCAL citus.multi_shard_modify_mode = 'sequential';
                    SELECT FROM schema_migrations_lock FOR UPDATE;
                    \(script.replacing(":shards", with: String(shards)))
                    COMMIT;
                    """
            )
        } catch {
            if connection.isUsable, connection.isInTransaction { _ = try? await connection.run(.rollback) }
            if error.sqlState == "55000", let table = error.message.firstMatch(of: /table (\w+) has rows/) {
                throw Refusal.inUse(String(table.output.1))
            }
            if error.sqlState == "42P07" { throw Refusal.tableElsewhere(error.message) }
            throw error
        }
    }

    static let script = String(decoding: PackageResources.citus_sql, as: UTF8.self)
}

extension Distribution {
    /// The health of a cluster for operators, from the view of any of its servers.
    package struct Health: Sendable {
        /// The number of servers that are registered as active.
        package var servers = 0
        /// The registered servers that the connected server cannot reach.
        package var silent: [String] = []
        /// Whether the connected server was removed from the cluster.
        package var isDisowned = false
        /// The roles that own distributed tables.
        ///
        /// If there are several owners, a move of shards loses rows.
        package var owners: [String] = []
        /// The lowest and the highest number of shards of `organizations` on one server.
        package var fewestShards = 0
        package var mostShards = 0
        /// The lowest `max_prepared_transactions` among the servers that answer.
        package var preparedTransactions = 0
        /// The lowest `max_worker_processes` among the servers that answer.
        package var workerProcesses = 0
        /// The longest `wal_retrieve_retry_interval` among the servers that answer, in milliseconds.
        package var retryMilliseconds = 0
        /// Whether the role's settings limit the time to wait for locks.
        ///
        /// The role's settings are required because a session's settings do not apply on other servers.
        package var hasLockTimeout = false
        /// Whether the connected server is the coordinator.
        package var isCoordinator = false
        /// The number of servers to which gateways are currently connected.
        package var entrances = 0
        /// The servers that have shards of `organizations`.
        package var homes: Set<ServerAddress> = []
    }

    private static let health = Statement(
        "cluster_health",
        """
        SELECT (SELECT count(*) FROM pg_dist_node n WHERE n.isactive AND n.noderole = 'primary') AS servers,
            ARRAY(SELECT DISTINCT r.rolname::text FROM pg_dist_partition d JOIN pg_class c ON c.oid = d.logicalrelid
                JOIN pg_roles r ON r.oid = c.relowner ORDER BY 1) AS owners,
            coalesce((SELECT min(x.count) FROM (\(shardsByServer)) x), 0) AS fewest,
            coalesce((SELECT max(x.count) FROM (\(shardsByServer)) x), 0) AS most,
            EXISTS (
                SELECT FROM pg_db_role_setting s, unnest(s.setconfig) c (word)
                WHERE s.setrole IN (0, (SELECT r.oid FROM pg_roles r WHERE r.rolname = current_user))
                    AND c.word LIKE 'lock_timeout=%') AS has_lock_timeout,
            (SELECT l.groupid = 0 FROM pg_dist_local_group l LIMIT 1) AS is_coordinator,
            (SELECT count(DISTINCT a.nodeid) FROM citus_stat_activity a
                WHERE a.datname = current_database() AND a.application_name = 'sluice' AND NOT a.is_worker_query)
                AS entrances
        """
    )

    private static let shardsByServer = """
        SELECT count(s.shardid) AS count FROM pg_dist_node n
                LEFT JOIN pg_dist_placement p ON p.groupid = n.groupid
                LEFT JOIN pg_dist_shard s ON s.shardid = p.shardid AND s.logicalrelid = 'organizations'::regclass
                WHERE n.isactive AND n.shouldhaveshards AND n.noderole = 'primary'
                GROUP BY n.groupid
        """

    package static func health(on connection: Connection) async throws -> Health {
        var health = Health()
        let servers = try await ClusterServers.servers(on: connection)
        health.silent = servers.filter { !$0.isThere }.map(\.name)
        health.isDisowned = !servers.allSatisfy(\.isConnectedServer)
        health.preparedTransactions = servers.compactMap(\.preparedTransactions).min() ?? 0
        health.workerProcesses = servers.compactMap(\.workerProcesses).min() ?? 0
        health.retryMilliseconds = servers.compactMap(\.retryMilliseconds).max() ?? 0
        // this statement reads the sessions of all servers, so it would fail while any server is unavailable
        guard health.silent.isEmpty, var row = try await connection.run(Query(Self.health)).first else { return health }
        health.servers = try row.read("servers")
        health.owners = try row.read("owners")
        health.fewestShards = try row.read("fewest")
        health.mostShards = try row.read("most")
        health.hasLockTimeout = try row.read("has_lock_timeout")
        health.isCoordinator = try row.read("is_coordinator")
        health.entrances = try row.read("entrances")
        let homes = Set(try await ClusterServers.homes(on: connection).values)
        health.homes = Set(servers.filter { homes.contains($0.name) }.compactMap(\.address))
        return health
    }
}
