import GroupCommit
package import Logging
package import Postgres
package import SyncModel
import Synchronization

/// All database services of the gateway, wired once.
package final class Store: Sendable {
    package let catalog: Catalog
    /// Resolves issuers' names of users and organizations.
    package let identities: Identities
    /// Which listeners are served no more.
    package let lastingCallers: LastingCallers
    /// Accepts pushes; a service to run.
    package let pushes: PushCommit
    /// Admits requests of organizations that have a quota; a service to run.
    package let quotas: RequestQuotas
    /// Wakes tasks that wait for a change; a service to run.
    package let notifier: ChangeNotifier
    /// Computes the results of pushes without committing them.
    package let previews: PushPreviewer
    /// Runs lanes step by step; a service to run.
    package let lanes: LaneStore
    /// Takes edits that were made elsewhere; a service to run.
    package let ingest: IngestCommit
    package let mutations: MutationReader
    package let mappings: MappingReader
    /// Reads mutations that are not final.
    package let backlog: BacklogReader
    package let devices: DeviceRegistry
    /// Reads the feed in permanent ids.
    package let changes: ChangeReader
    /// Reads the feed in a device's local ids.
    package let pulls: DevicePuller
    /// Reads the changes of a user's mutations and ids.
    package let events: EventReader
    /// Settles failed and conflicting mutations as people decide.
    package let settling: Settlement
    /// Connections for everything but group commit.
    package let pool: Pool
    /// Connections to the server by which gateways notify each other of changes.
    ///
    /// Nil where that is the same.
    private let hintsPool: Pool?
    /// The cluster that the database is, if it is one.
    package let cluster: Cluster
    /// Run by processes that serve for long.
    package let clusterCensus: ClusterCensus
    package let now: TimeSource
    package let failure: StoreFailure
    package let logger: Logger
    /// Features that add rows to the engine's transactions.
    package let participants: [any CommitParticipant]
    /// The schema's tables.
    package let tables: [StoredTable]
    /// Wraps the organizations' data keys; nil where nothing is sealed.
    package let masterKeys: MasterKeys?
    private let keyCheck: MasterKeyCheck
    /// The time limit of ``readiness()``, less than the five seconds of a health check.
    private static let readinessPatience: Duration = .seconds(2)
    /// How recently a cluster's server must have been seen to count as available.
    ///
    /// Twice what a poll takes without its pause, while one server hangs.
    private static let clusterPatience: Duration = .seconds(15)
    private let lastReadiness = Mutex<[String]>([])
    private let parts = Mutex<[ObjectIdentifier: any Sendable]>([:])

    /// Opens nothing yet: connections are made at first use and again after they broke.
    package init(_ configuration: StoreConfiguration, now: @escaping TimeSource, logger: Logger) {
        let failure = StoreFailure(logger: logger)
        let cluster = Cluster()
        let pooled = Self.connection(
            configuration,
            settings: Self.pooledSettings(with: configuration.patience),
            cluster
        )
        let pool = Pool(
            configuration: pooled,
            maximum: configuration.poolSize,
            acquireTimeout: configuration.patience.connection
        )
        let catalog = Catalog(
            pool: pool,
            cluster: cluster,
            masterKeys: configuration.masterKeys,
            now: now,
            failure: failure
        )
        let stuckMutations = StuckMutations(pool: pool, failure: failure)
        var hinting = pooled
        hinting.uri = configuration.hintsURL ?? configuration.databaseURL
        hintsPool = configuration.hintsURL.map { _ in
            Pool(configuration: hinting, maximum: 2, acquireTimeout: configuration.patience.connection)
        }
        let hints = ReplicaHints(pool: hintsPool ?? pool) { [hinting] onHint in
            var listening = hinting
            listening.onNotification = { onHint($0.payload) }
            return listening
        }
        let notifier = ChangeNotifier(pool: pool, hints: hints, calmInterval: configuration.lookInterval)
        let hot = Self.connection(configuration, settings: Self.hotSettings(with: configuration.patience), cluster)
        let routes = configuration.commitsDirectly ? cluster.servers.routes(logger) : nil
        clusterCensus = ClusterCensus(pooled, cluster: cluster, logger: logger)
        let parkedBell = ParkedBell()
        let heavyLanes = HeavyLanes()
        let events = Committers(
            1,
            doing: IngestWork(
                catalog: catalog,
                notifier: notifier,
                metrics: IngestMetrics(),
                heavyLanes: heavyLanes,
                now: now,
                failure: failure
            ),
            hasHeavyDesk: true,
            connection: hot,
            metrics: CommitMetrics(prefix: "sluice_ingest_group", jobs: "batches"),
            patience: configuration.patience.push,
            routes: routes,
            probe: [hints.probe]
        )
        let pushes = Committers(
            configuration.committers,
            doing: PushWork(
                catalog: catalog,
                notifier: notifier,
                deviceLimit: configuration.devicesPerUser,
                participants: configuration.participants,
                now: now,
                failure: failure
            ),
            hasHeavyDesk: true,
            connection: hot,
            metrics: CommitMetrics(prefix: "sluice_commit_group", jobs: "pushes"),
            patience: configuration.patience.push,
            routes: routes,
            probe: [hints.probe]
        )
        let lanes = Committers(
            configuration.committers,
            doing: LaneWork(
                catalog: catalog,
                notifier: notifier,
                leaseSeconds: configuration.leaseSeconds,
                parkedBell: parkedBell,
                participants: configuration.participants,
                now: now,
                failure: failure
            ),
            limits: .lanes,
            connection: hot,
            metrics: CommitMetrics(prefix: "sluice_lane_group", jobs: "steps"),
            patience: configuration.patience.laneStep,
            routes: routes,
            probe: [hints.probe]
        )
        self.pool = pool
        self.cluster = cluster
        self.now = now
        self.failure = failure
        masterKeys = configuration.masterKeys
        keyCheck = MasterKeyCheck(pool: pool, cluster: cluster, masterKeys: configuration.masterKeys)
        self.catalog = catalog
        let identities = Identities(pool: pool, now: now, failure: failure)
        catalog.whenReborn { identities.invalidate() }
        self.identities = identities
        lastingCallers = LastingCallers(pool: pool, cluster: cluster, failure: failure)
        self.logger = logger
        participants = configuration.participants
        tables = configuration.tables
        self.notifier = notifier
        self.pushes = PushCommit(
            committers: pushes,
            catalog: catalog,
            stuckMutations: stuckMutations,
            holds: HoldReader(pool: pool, now: now)
        )
        ingest = IngestCommit(
            committers: events,
            catalog: catalog,
            pool: pool,
            bell: parkedBell,
            pruning: IngestPruning(pool: pool, policy: configuration.retention, now: now, failure: failure),
            heavyLanes: heavyLanes,
            now: now,
            failure: failure
        )
        quotas = RequestQuotas(pool: pool, cluster: cluster, now: now, failure: failure)
        previews = PushPreviewer(
            pool: pool,
            catalog: catalog,
            now: now,
            failure: failure,
            deviceLimit: configuration.devicesPerUser
        )
        self.lanes = LaneStore(
            committers: lanes,
            catalog: catalog,
            pool: pool,
            cluster: cluster,
            failure: failure
        )
        mutations = MutationReader(
            pool: pool,
            catalog: catalog,
            now: now,
            stuckMutations: stuckMutations,
            notifier: notifier,
            failure: failure
        )
        mappings = MappingReader(pool: pool, failure: failure)
        backlog = BacklogReader(pool: pool, now: now, failure: failure)
        devices = DeviceRegistry(
            pool: pool,
            catalog: catalog,
            now: now,
            failure: failure,
            limit: configuration.devicesPerUser
        )
        let feed = FeedReader(pool: pool, notifier: notifier, failure: failure)
        changes = ChangeReader(feed: feed, catalog: catalog, failure: failure)
        pulls = DevicePuller(feed: feed, devices: devices, pool: pool, catalog: catalog, now: now, failure: failure)
        self.events = EventReader(pool: pool, catalog: catalog, failure: failure)
        settling = Settlement(
            pool: pool,
            catalog: catalog,
            notifier: notifier,
            now: now,
            failure: failure,
            writeTimeout: configuration.patience.settlement
        )
    }

    /// An object of a feature that lives as long as the store, one of each type.
    ///
    /// For caches and signals that several of the feature's parts share.
    package func shared<Part: Sendable>(_ make: () -> Part) -> Part {
        parts.withLock { parts in
            if let part = parts[ObjectIdentifier(Part.self)] as? Part { return part }
            let part = make()
            parts[ObjectIdentifier(Part.self)] = part
            return part
        }
    }

    /// Counts failed and conflicting mutations of organizations.
    package var stuckCounts: StuckCounts { StuckCounts(pool: pool, cluster: cluster, failure: failure) }

    /// Why requests cannot be served; empty when they can.
    package func readiness() async -> [String] {
        do {
            // the prober (an orchestrator, `sluice healthcheck`) has its own time limit, independent of that of
            // statements
            let reasons = try await within(Self.readinessPatience) { try await self.unreadiness() }
            lastReadiness.withLock { $0 = reasons }
            return reasons
        } catch let error as PostgresError {
            // connections that all wait for one server of a cluster do not block the others; if there is no cluster, or
            // it was ended, none waits
            let waited = [.timedOut, .unresponsive, .poolExhausted].contains(error.kind) && pool.statistics.open > 0
            if waited, cluster.servers.wasSeen(within: Self.clusterPatience) { return lastReadiness.withLock { $0 } }
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
        // a gateway that can serve some organizations stays ready
        if !anyKnown { return missing }
        return writeTrouble.map { [$0] } ?? []
    }

    private static let readOnly = "the database is read-only: a standby, or default_transaction_read_only is on"

    /// Why writes are not possible although the database can be read; nil if they are.
    ///
    /// A cluster's servers fail one by one, and the organizations of the others are served.
    private var writeTrouble: String? {
        guard !cluster.isThere else { return nil }
        let trouble = pushes.trouble ?? lanes.trouble ?? ingest.trouble ?? notifier.hints.trouble
        guard let error = trouble else { return nil }
        logger.debug("not ready", metadata: ["error": "\(error.message)"])
        return error.isOfReadOnlyServer ? Self.readOnly : "the database does not accept writes"
    }

    /// Which master keys wrap the stored data keys, read again.
    package func masterKeysInUse() async throws -> MasterKeysInUse { try await keyCheck.look() }

    /// Notices for operators while requests can be served, as of the last check.
    package var notices: [String] { keyCheck.notices }

    /// Logs the organizations whose data the configured master keys cannot open.
    ///
    /// Logs nothing while the database is unavailable.
    package func warnOfUnknownMasterKeys() async {
        for (label, count) in (try? await keyCheck.look().unknown) ?? [] {
            logger.warning(
                "Data keys are wrapped by a master key that is not configured; their organizations are not served",
                metadata: ["master_key": "\(label)", "count": "\(count)"]
            )
        }
    }

    package var poolStatistics: Pool.Statistics { pool.statistics }

    /// Closes the pool; committers close theirs when they end.
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
            connectTimeout: configuration.patience.lock,
            statementTimeout: configuration.patience.statement
        )
        connection.dialect = cluster.dialect
        return connection
    }

    /// For every connection.
    ///
    /// No statement waits long for a lock, and no transaction stays open.
    static func pooledSettings(with patience: DatabasePatience) -> [(String, String)] {
        func milliseconds(_ duration: Duration) -> String { "\(Int(duration / .milliseconds(1)))ms" }
        return [
            ("lock_timeout", milliseconds(patience.lock)),
            ("idle_in_transaction_session_timeout", milliseconds(patience.idleTransaction)), ("jit", "off"),
        ]
    }

    /// For committers: statements are planned once, with index look-ups row by row.
    ///
    /// That is so independent of the tables' size at that moment. A plan that was made on small tables and kept would
    /// always hash-join all partitions.
    static func hotSettings(with patience: DatabasePatience) -> [(String, String)] {
        pooledSettings(with: patience) + [
            ("plan_cache_mode", "force_generic_plan"), ("enable_hashjoin", "off"), ("enable_mergejoin", "off"),
            ("enable_seqscan", "off"),
        ]
    }

    /// Both with the default patience.
    static let pooledSettings = pooledSettings(with: DatabasePatience())
    static let hotSettings = hotSettings(with: DatabasePatience())
}
