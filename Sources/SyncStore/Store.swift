public import Logging
public import Postgres
public import SyncModel

/// Settings of the store.
public struct StoreConfiguration: Sendable {
    /// A libpq URI.
    public var databaseURL: String
    /// Connections for everything but group commit.
    public var poolSize: Int
    /// Committers, each with a connection of its own.
    public var committers: Int

    /// Creates the settings.
    public init(databaseURL: String, poolSize: Int = 8, committers: Int = 3) {
        self.databaseURL = databaseURL
        self.poolSize = poolSize
        self.committers = committers
    }
}

/// Everything that the gateway keeps in Postgres, wired once.
public final class Store: Sendable {
    /// Organizations and entity types, cached.
    public let catalog: Catalog
    /// Takes pushes in; a service to run.
    public let pushes: GroupCommit
    /// Reads mutations back.
    public let mutations: MutationReader
    /// Looks up id mappings.
    public let mappings: MappingReader
    /// Reads the feed.
    public let changes: ChangeReader
    /// What operators do.
    public let administration: Administration
    /// How people settle what failed or is in conflict.
    public let settling: Settlement
    /// Tells who has an interest in a lane that it was changed.
    public let signals = LaneSignals()
    private let pool: Pool
    private let logger: Logger

    /// Opens nothing yet: connections are made at first use and again after they broke.
    public init(_ configuration: StoreConfiguration, now: @escaping TimeSource, logger: Logger) {
        let failure = StoreFailure(logger: logger)
        let pool = Pool(
            configuration: Self.connection(configuration, settings: Self.pooledSettings),
            maximum: configuration.poolSize
        )
        let catalog = Catalog(pool: pool, now: now, failure: failure)
        let settledness = Settledness(pool: pool, failure: failure)
        let metrics = CommitMetrics()
        let committers = (0..<max(1, configuration.committers)).map { _ in
            Committer(
                queue: PushQueue(limits: PushQueue.GroupLimits()),
                connection: CommitterConnection(Self.connection(configuration, settings: Self.hotSettings)),
                catalog: catalog,
                now: now,
                failure: failure,
                metrics: metrics,
                logger: logger
            )
        }
        self.pool = pool
        self.catalog = catalog
        self.logger = logger
        pushes = GroupCommit(committers: committers, catalog: catalog, settledness: settledness, failure: failure)
        mutations = MutationReader(pool: pool, now: now, settledness: settledness, failure: failure)
        mappings = MappingReader(pool: pool, failure: failure)
        changes = ChangeReader(pool: pool, failure: failure)
        settling = Settlement(
            pool: pool,
            catalog: catalog,
            mutations: mutations,
            signals: signals,
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
            return []
        } catch let error as PostgresError {
            logger.debug("not ready", metadata: ["error": "\(error.message)"])
            return ["the database cannot be reached"]
        } catch {
            logger.debug("not ready", metadata: ["error": "\(error)"])
            return ["the schema cannot be read"]
        }
    }

    /// Connections of the pool as they are now.
    public var poolStatistics: Pool.Statistics { pool.statistics }

    /// Closes the pool; committers close theirs when they end.
    public func close() async {
        await pool.close()
    }

    private static func connection(
        _ configuration: StoreConfiguration,
        settings: [(String, String)]
    ) -> ConnectionConfiguration {
        ConnectionConfiguration(
            uri: configuration.databaseURL,
            settings: settings,
            connectTimeout: .seconds(2),
            // with the margin and the grace of a cancellation an answer comes within five seconds
            statementTimeout: .milliseconds(2_500)
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
