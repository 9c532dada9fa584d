public import Logging
public import Postgres
public import SyncModel

/// Settings of the store.
public struct StoreConfiguration: Sendable {
    /// A libpq URI.
    public var databaseURL: String
    /// Connections for everything but group commit.
    public var poolSize: Int
    /// Committers of pushes, and as many of what lanes come to; each has a connection of its own.
    public var committers: Int
    /// How long a worker may hold a lane without a sign of life, in seconds.
    public var leaseSeconds: Double
    /// What wraps the organizations' data keys; nil where nothing is sealed.
    public var masterKeys: MasterKeys?
    /// How long a statement may take. With the margin and the grace of a cancellation a push is then answered within
    /// five seconds, as the contract says.
    public var statementTimeout: Duration = .milliseconds(2_500)
    /// How long a push may wait, queued or for the database, before it is answered that the store is unavailable.
    public var patience: Duration = .milliseconds(4_500)

    /// Creates the settings.
    public init(databaseURL: String, poolSize: Int = 8, committers: Int = 3, leaseSeconds: Double = 120) {
        self.databaseURL = databaseURL
        self.poolSize = poolSize
        self.committers = committers
        self.leaseSeconds = leaseSeconds
    }
}

/// Everything that the gateway keeps in Postgres, wired once.
public final class Store: Sendable {
    /// Organizations and entity types, cached.
    public let catalog: Catalog
    /// Takes pushes in; a service to run.
    public let pushes: PushCommit
    /// Admits requests of organizations that have a quota; a service to run.
    public let quotas: RequestQuotas
    /// Wakes those who wait for a change; a service to run.
    public let wakeUps: WakeUps
    /// Tells what a push would come to.
    public let previews: PushPreviewer
    /// Runs lanes step by step; a service to run.
    public let lanes: LaneStore
    /// Reads mutations back.
    public let mutations: MutationReader
    /// Looks up and lists id mappings.
    public let mappings: MappingReader
    /// Reads what is not final.
    public let backlog: BacklogReader
    /// Registers devices.
    public let devices: DeviceRegistry
    /// Reads the feed.
    public let changes: ChangeReader
    /// Reads the feed in the ids of a device.
    public let pulls: DevicePuller
    /// Reads what happens to a user's mutations and ids.
    public let events: EventReader
    /// What operators do.
    public let administration: Administration
    /// How people settle what failed or is in conflict.
    public let settling: Settlement
    /// Does away with what is old.
    public let retention: RetentionStore
    /// Data keys, and rows that are to be sealed anew.
    public let sealing: Sealing
    private let pool: Pool
    private let logger: Logger

    /// Opens nothing yet: connections are made at first use and again after they broke.
    public init(_ configuration: StoreConfiguration, now: @escaping TimeSource, logger: Logger) {
        let failure = StoreFailure(logger: logger)
        let pool = Pool(
            configuration: Self.connection(configuration, settings: Self.pooledSettings),
            maximum: configuration.poolSize
        )
        let catalog = Catalog(pool: pool, masterKeys: configuration.masterKeys, now: now, failure: failure)
        let settledness = Settledness(pool: pool, failure: failure)
        let hints = ReplicaHints(pool: pool) { onHint in
            var listening = Self.connection(configuration, settings: Self.pooledSettings)
            listening.onNotification = { onHint($0.payload) }
            return listening
        }
        let wakeUps = WakeUps(pool: pool, hints: hints)
        let pushes = Self.committers(
            of: PushWork(catalog: catalog, wakeUps: wakeUps, now: now),
            configuration,
            failure: failure,
            metrics: CommitMetrics(prefix: "sluice_commit_group", jobs: "pushes")
        )
        let lanes = Self.committers(
            of: LaneWork(
                catalog: catalog,
                wakeUps: wakeUps,
                leaseSeconds: configuration.leaseSeconds,
                now: now,
                logger: logger
            ),
            configuration,
            failure: failure,
            metrics: CommitMetrics(prefix: "sluice_lane_group", jobs: "steps")
        )
        self.pool = pool
        self.catalog = catalog
        self.logger = logger
        self.wakeUps = wakeUps
        self.pushes = PushCommit(
            committers: Committers(pushes, catalog: catalog, patience: configuration.patience),
            settledness: settledness
        )
        quotas = RequestQuotas(pool: pool, now: now, failure: failure)
        previews = PushPreviewer(pool: pool, catalog: catalog, now: now, failure: failure)
        self.lanes = LaneStore(
            committers: Committers(lanes, catalog: catalog, patience: LaneStore.patience),
            pool: pool,
            failure: failure
        )
        mutations = MutationReader(
            pool: pool,
            catalog: catalog,
            now: now,
            settledness: settledness,
            wakeUps: wakeUps,
            failure: failure
        )
        mappings = MappingReader(pool: pool, failure: failure)
        backlog = BacklogReader(pool: pool, now: now, failure: failure)
        devices = DeviceRegistry(pool: pool, catalog: catalog, now: now, failure: failure)
        let feed = FeedReader(pool: pool, wakeUps: wakeUps, failure: failure)
        changes = ChangeReader(feed: feed, catalog: catalog, failure: failure)
        pulls = DevicePuller(feed: feed, devices: devices, pool: pool, catalog: catalog, now: now, failure: failure)
        events = EventReader(pool: pool, catalog: catalog, failure: failure)
        settling = Settlement(
            pool: pool,
            catalog: catalog,
            mutations: mutations,
            wakeUps: wakeUps,
            now: now,
            failure: failure
        )
        retention = RetentionStore(pool: pool, settling: settling, now: now, failure: failure)
        sealing = Sealing(
            pool: pool,
            catalog: catalog,
            masterKeys: configuration.masterKeys,
            now: now,
            failure: failure
        )
        administration = Administration(pool: pool, catalog: catalog, now: now, failure: failure, logger: logger)
    }

    /// Why requests cannot be served; empty when they can.
    public func readiness() async -> [String] {
        do {
            let status = try await pool.withConnection { try await Schema.migrator().status(on: $0) }
            if !status.pending.isEmpty { return ["the schema lacks \(status.pending.joined(separator: ", "))"] }
            return try await sealing.unknownMasterKeys().map { label, count in
                "\(count) data keys are wrapped by master key \(label), which is not configured"
            }
        } catch let error as PostgresError {
            logger.debug("not ready", metadata: ["error": "\(error.message)"])
            return ["the database cannot be reached"]
        } catch {
            logger.debug("not ready", metadata: ["error": "\(error)"])
            return ["the schema cannot be read"]
        }
    }

    /// Says in the log which organizations' data cannot be opened with the master keys that are configured. Says nothing
    /// where the database is away.
    public func warnOfUnknownMasterKeys() async {
        for (label, count) in (try? await sealing.unknownMasterKeys()) ?? [] {
            logger.warning(
                "Data keys are wrapped by a master key that is not configured; their organizations are not served",
                metadata: ["master_key": "\(label)", "count": "\(count)"]
            )
        }
    }

    /// Connections of the pool as they are now.
    public var poolStatistics: Pool.Statistics { pool.statistics }

    /// Closes the pool; committers close theirs when they end.
    public func close() async {
        await pool.close()
    }

    private static func committers<Work: GroupWork>(
        of work: Work,
        _ configuration: StoreConfiguration,
        failure: StoreFailure,
        metrics: CommitMetrics
    ) -> [Committer<Work>] {
        (0..<max(1, configuration.committers)).map { _ in
            Committer(
                work: work,
                limits: GroupLimits(),
                connection: CommitterConnection(connection(configuration, settings: hotSettings)),
                failure: failure,
                metrics: metrics
            )
        }
    }

    private static func connection(
        _ configuration: StoreConfiguration,
        settings: [(String, String)]
    ) -> ConnectionConfiguration {
        ConnectionConfiguration(
            uri: configuration.databaseURL,
            settings: settings,
            connectTimeout: .seconds(2),
            statementTimeout: configuration.statementTimeout
        )
    }

    /// For every connection: nobody waits long for a lock, nobody leaves a transaction open.
    static let pooledSettings = [
        ("lock_timeout", "2s"), ("idle_in_transaction_session_timeout", "5s"), ("jit", "off"),
    ]

    /// For committers: statements are planned once, and in the one shape that is right for them whatever the tables'
    /// size was at that moment, index look-ups row by row. A plan that was made on small tables and kept would hash-join
    /// all partitions for ever.
    static let hotSettings =
        pooledSettings + [
            ("plan_cache_mode", "force_generic_plan"), ("enable_hashjoin", "off"), ("enable_mergejoin", "off"),
            ("enable_seqscan", "off"),
        ]
}
