package import Postgres

extension Distribution {
    /// The health of a cluster for operators; asked on any of its servers.
    package struct Health: Sendable {
        /// Servers that are registered as active.
        package var servers = 0
        /// Those of them that cannot be reached from where this was asked.
        package var silent: [String] = []
        /// Whether the asked server was removed from the cluster.
        package var isDisowned = false
        /// The roles that own distributed tables.
        ///
        /// With more than one, moving shards loses rows.
        package var owners: [String] = []
        /// Shards of organizations by server, the fewest and the most.
        package var fewestShards = 0
        package var mostShards = 0
        /// The least `max_prepared_transactions` of the servers that answer.
        package var preparedTransactions = 0
        /// The least `max_worker_processes` of the servers that answer.
        package var workerProcesses = 0
        /// The longest `wal_retrieve_retry_interval` of the servers, in milliseconds.
        ///
        /// Only of servers that answer.
        package var retryMilliseconds = 0
        /// Whether the role's settings limit how long to wait for locks.
        ///
        /// The settings of a session do not reach other servers.
        package var hasLockTimeout = false
        /// Whether this is the coordinator.
        package var isCoordinator = false
        /// Servers that gateways are connected to now.
        package var entrances = 0
        /// Those that have shards of organizations.
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
        // asks all servers for their sessions: an unavailable one would make it fail
        guard health.silent.isEmpty, var row = try await connection.run(Query(Self.health)).first else { return health }
        health.servers = Int(try row.int64("servers"))
        health.owners = try row.strings("owners")
        health.fewestShards = Int(try row.int64("fewest"))
        health.mostShards = Int(try row.int64("most"))
        health.hasLockTimeout = try row.bool("has_lock_timeout")
        health.isCoordinator = try row.bool("is_coordinator")
        health.entrances = Int(try row.int64("entrances"))
        let homes = Set(try await ClusterServers.homes(on: connection).values)
        health.homes = Set(servers.filter { homes.contains($0.name) }.compactMap(\.address))
        return health
    }
}
