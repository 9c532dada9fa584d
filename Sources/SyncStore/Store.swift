import GroupCommit
package import Logging
package import Postgres
package import SyncModel
import Synchronization

/// The database services of the gateway, and their connections.
package final class Store: Sendable {
    package let catalog: Catalog
    /// Resolves the names that issuers use for users and organizations.
    package let identities: Identities
    package let channelMetrics = ChannelMetrics()
    /// Grants users the channels that their tokens name.
    package let tokenGrants: TokenGrants
    /// Accepts pushes; a service to run.
    package let pushes: PushCommit
    /// Admits requests of organizations that have a quota; a service to run.
    package let quotas: RequestQuotas
    /// Wakes tasks that wait for a change; a service to run.
    package let notifier: ChangeNotifier
    /// Runs lanes step by step; a service to run.
    package let lanes: LaneStore
    /// Accepts events; a service to run.
    package let ingest: IngestCommit
    /// The connections for everything except group commit.
    package let pool: Pool
    /// The connections to the server through which gateways notify each other of changes.
    ///
    /// Nil if `pool` connects to that server.
    private let hintsPool: Pool?
    /// The properties of the Citus cluster, if the database is a cluster.
    package let cluster: Cluster
    /// Polls the cluster's servers. Long-running processes run it.
    package let clusterStats: ClusterStatsCollector
    package let now: TimeSource
    package let failure: StoreFailure
    package let logger: Logger
    let configuration: StoreConfiguration
    let stuckMutations: FailureSearcher
    private let keyCheck: MasterKeyCheck
    /// The time limit of ``readiness()``, less than the five seconds of a health check.
    private static let readinessTimeout: Duration = .seconds(2)
    /// The maximum age of the connected server's last answer to a poll, in a cluster. If the answer is older, and no
    /// connection of the pool becomes available, the gateway is not ready.
    ///
    /// While one server hangs, a poll takes half of this time, and the pause between polls follows in addition.
    private static let clusterTimeout: Duration = .seconds(15)
    private let lastReadiness = Mutex<[String]>([])
    private let parts = Mutex<[ObjectIdentifier: any Sendable]>([:])

    /// Opens no connection. Connections are opened when they are first used, and after failures.
    package init(_ configuration: StoreConfiguration, now: @escaping TimeSource, logger: Logger) {
        self.configuration = configuration
        self.now = now
        self.logger = logger
        failure = StoreFailure(logger: logger)
        cluster = Cluster()
        let timeouts = configuration.timeouts
        let pooled = Self.connection(configuration, settings: Self.pooledSettings(with: timeouts), cluster)
        pool = Pool(configuration: pooled, maximum: configuration.poolSize, acquireTimeout: timeouts.connection)
        let masterKeys = configuration.masterKeys
        catalog = Catalog(pool: pool, cluster: cluster, masterKeys: masterKeys, now: now, failure: failure)
        keyCheck = MasterKeyCheck(pool: pool, cluster: cluster, masterKeys: masterKeys)
        identities = Identities(pool: pool, now: now, failure: failure)
        stuckMutations = FailureSearcher(pool: pool, failure: failure)
        quotas = RequestQuotas(pool: pool, cluster: cluster, now: now, failure: failure)
        clusterStats = ClusterStatsCollector(pooled, cluster: cluster, logger: logger)
        var hinting = pooled
        hinting.uri = configuration.hintsURL ?? configuration.databaseURL
        hintsPool = configuration.hintsURL.map { _ in
            Pool(configuration: hinting, maximum: 2, acquireTimeout: timeouts.connection)
        }
        let hints = ReplicaHints(pool: hintsPool ?? pool) { [hinting] onHint in
            var listening = hinting
            listening.onNotification = { onHint($0.payload) }
            return listening
        }
        notifier = ChangeNotifier(pool: pool, hints: hints, intervalWithHints: configuration.pollInterval)
        tokenGrants = TokenGrants(pool: pool, notifier: notifier, metrics: channelMetrics, failure: failure)
        catalog.onRecreated { [identities, tokenGrants] in
            identities.invalidate()
            tokenGrants.invalidate()
        }
        let committing = Committing(
            configuration: configuration,
            database: CommitterDatabase(
                Self.connection(configuration, settings: Self.hotSettings(with: timeouts), cluster),
                routes: configuration.commitsDirectly ? cluster.servers.routes(logger) : nil,
                probe: [hints.probe]
            ),
            pool: pool,
            catalog: catalog,
            notifier: notifier,
            now: now,
            failure: failure
        )
        pushes = committing.pushes(stuckMutations)
        lanes = committing.lanes(cluster)
        ingest = committing.events()
    }

    /// Returns a feature's object that lives as long as the store. There is one object of each type.
    ///
    /// Use it for caches and signals that several parts of the feature share.
    package func shared<Part: Sendable>(_ make: () -> Part) -> Part {
        parts.withLock { parts in
            if let part = parts[ObjectIdentifier(Part.self)] as? Part { return part }
            let part = make()
            parts[ObjectIdentifier(Part.self)] = part
            return part
        }
    }

    /// The reasons why requests cannot be served; empty if they can be served.
    package func readiness() async -> [String] {
        do {
            // the prober (an orchestrator, `sluice healthcheck`) has its own time limit, which differs from the time
            // limit of statements
            let reasons = try await within(Self.readinessTimeout) { try await self.unreadiness() }
            lastReadiness.withLock { $0 = reasons }
            return reasons
        } catch let error as PostgresError {
            // in a Citus cluster, all connections of this pool may wait for one server that hangs; the committers have
            // their own connections, and still serve the organizations of the other servers
            let waited = [.timedOut, .unresponsive, .poolExhausted].contains(error.kind) && pool.statistics.open > 0
            if waited, cluster.servers.wasSeen(within: Self.clusterTimeout) { return lastReadiness.withLock { $0 } }
            logger.debug("not ready", metadata: ["error": "\(error.message)"])
            return [error.isOfReadOnlyServer ? Self.readOnly : "the database cannot be reached"]
        } catch {
            logger.debug("not ready", metadata: ["error": "\(error)"])
            return ["the schema cannot be read"]
        }
    }

    private func unreadiness() async throws -> [String] {
        if cluster.servers.isDisowned { return [ClusterServers.disowned] }
        let (status, isReadOnly) = try await pool.withConnection { connection in
            (try await Schema.migrator().status(on: connection), connection.isReadOnly)
        }
        if isReadOnly { return [Self.readOnly] }
        if !status.pending.isEmpty { return ["the schema is missing \(status.pending.joined(separator: ", "))"] }
        let (missing, anyKnown) = try await keyCheck.missing()
        // a gateway that can serve some organizations is ready
        if !anyKnown { return missing }
        return writeTrouble.map { [$0] } ?? []
    }

    private static let readOnly = "the database is read-only: a standby, or default_transaction_read_only is on"

    /// Whether the first write, the registration of this replica, has succeeded or failed.
    package var hasTriedToWrite: Bool { notifier.hints.hasWritten || notifier.hints.writeFailure != nil }

    /// The reason why writes are not possible although the database can be read; nil if writes are possible.
    ///
    /// The value is always nil in a Citus cluster, because the servers of a cluster fail independently and the gateway
    /// serves the organizations of the available servers.
    private var writeTrouble: String? {
        guard !cluster.isThere else { return nil }
        let writeFailure =
            pushes.writeFailure ?? lanes.writeFailure ?? ingest.writeFailure ?? notifier.hints.writeFailure
        guard let error = writeFailure else {
            return notifier.hints.hasWritten ? nil : "no write to the database has succeeded since the start"
        }
        logger.debug("not ready", metadata: ["error": "\(error.message)"])
        if error.isOfReadOnlyServer { return Self.readOnly }
        return error.connectFailure == .noRoom
            ? "the database allows the gateway too few connections" : "the database does not accept writes"
    }

    /// Reads which master keys wrap the stored data keys.
    package func masterKeysInUse() async throws -> MasterKeysInUse { try await keyCheck.inspect() }

    /// Notices for operators from the last check of the master keys; empty if the gateway cannot serve requests.
    package var notices: [String] { keyCheck.notices }

    /// Logs the master keys that are missing, and the number of data keys that they wrap.
    ///
    /// Logs nothing while the database is unavailable.
    package func warnOfUnknownMasterKeys() async {
        for (label, count) in (try? await keyCheck.inspect().unknown) ?? [] {
            logger.warning(
                "Data keys are wrapped by a master key that is not configured; their organizations are not served",
                metadata: ["master_key": "\(label)", "count": "\(count)"]
            )
        }
    }

    package var poolStatistics: Pool.Statistics { pool.statistics }

    /// Closes the pool; committers close their connections when they end.
    package func close() async {
        await pool.close()
        await hintsPool?.close()
    }

    private static func connection(
        _ configuration: StoreConfiguration,
        settings: [(String, String)],
        _ cluster: Cluster
    ) -> ConnectionConfiguration {
        var connection = ConnectionConfiguration(
            uri: configuration.databaseURL,
            settings: settings,
            connectTimeout: configuration.timeouts.lock,
            statementTimeout: configuration.timeouts.statement
        )
        connection.dialect = cluster.dialect
        return connection
    }

    /// The settings of every connection.
    ///
    /// The settings limit the time for which a statement waits for a lock, and the time for which a transaction stays
    /// idle.
    static func pooledSettings(with timeouts: DatabaseTimeouts) -> [(String, String)] {
        func milliseconds(_ duration: Duration) -> String { "\(Int(duration / .milliseconds(1)))ms" }
        return [
            ("lock_timeout", milliseconds(timeouts.lock)),
            ("idle_in_transaction_session_timeout", milliseconds(timeouts.idleTransaction)), ("jit", "off"),
            // statements contain literals with backslashes
            ("standard_conforming_strings", "on"),
        ]
    }

    /// The settings of committers. Each statement is planned once, with index look-ups for each row.
    ///
    /// Such a plan does not depend on the size of the tables. Without these settings, PostgreSQL could make a plan on
    /// small tables that hash-joins all partitions, and reuse it when the tables are large.
    static func hotSettings(with timeouts: DatabaseTimeouts) -> [(String, String)] {
        pooledSettings(with: timeouts) + [
            ("plan_cache_mode", "force_generic_plan"), ("enable_hashjoin", "off"), ("enable_mergejoin", "off"),
            ("enable_seqscan", "off"),
        ]
    }

    /// The settings with the default timeouts.
    static let pooledSettings = pooledSettings(with: DatabaseTimeouts())
    static let hotSettings = hotSettings(with: DatabaseTimeouts())
}
