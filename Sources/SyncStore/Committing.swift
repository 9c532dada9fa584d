import GroupCommit
import Postgres
import SyncModel

/// Creates the committers of pushes, lanes and events, which share a database and the signals between them.
struct Committing {
    let configuration: StoreConfiguration
    let database: CommitterDatabase
    let pool: Pool
    let catalog: Catalog
    let notifier: ChangeNotifier
    let now: TimeSource
    let failure: StoreFailure
    private let parkedSignal = ParkedEntitySignal()
    private let heavyLanes = HeavyLanes()

    init(
        configuration: StoreConfiguration,
        database: CommitterDatabase,
        pool: Pool,
        catalog: Catalog,
        notifier: ChangeNotifier,
        now: @escaping TimeSource,
        failure: StoreFailure
    ) {
        self.configuration = configuration
        self.database = database
        self.pool = pool
        self.catalog = catalog
        self.notifier = notifier
        self.now = now
        self.failure = failure
    }

    func pushes(_ stuckMutations: FailureSearcher) -> PushCommit {
        let work = PushWork(
            catalog: catalog,
            notifier: notifier,
            deviceLimit: configuration.devicesPerUser,
            participants: configuration.participants,
            now: now,
            failure: failure
        )
        return PushCommit(
            committers: Committers(
                configuration.committers,
                doing: work,
                hasHeavyWorker: true,
                database: database,
                metrics: CommitMetrics(prefix: "sluice_commit_group", jobs: "pushes"),
                timeout: configuration.timeouts.push
            ),
            catalog: catalog,
            stuckMutations: stuckMutations,
            holds: LaneBlockerReader(pool: pool, now: now)
        )
    }

    func lanes(_ cluster: Cluster) -> LaneStore {
        let work = LaneWork(
            catalog: catalog,
            notifier: notifier,
            leaseSeconds: configuration.leaseSeconds,
            parkedSignal: parkedSignal,
            participants: configuration.participants,
            now: now,
            failure: failure
        )
        return LaneStore(
            committers: Committers(
                configuration.committers,
                doing: work,
                limits: .lanes,
                database: database,
                metrics: CommitMetrics(prefix: "sluice_lane_group", jobs: "steps"),
                timeout: configuration.timeouts.laneStep
            ),
            catalog: catalog,
            pool: pool,
            cluster: cluster,
            rates: UpstreamRates(catalog: catalog, pool: pool, now: now, failure: failure),
            failure: failure
        )
    }

    func events() -> IngestCommit {
        let work = IngestWork(
            catalog: catalog,
            notifier: notifier,
            metrics: IngestMetrics(),
            heavyLanes: heavyLanes,
            now: now,
            failure: failure
        )
        return IngestCommit(
            committers: Committers(
                1,
                doing: work,
                hasHeavyWorker: true,
                database: database,
                metrics: CommitMetrics(prefix: "sluice_ingest_group", jobs: "batches"),
                timeout: configuration.timeouts.push
            ),
            catalog: catalog,
            pool: pool,
            signal: parkedSignal,
            pruning: IngestPruning(pool: pool, policy: configuration.retention, now: now, failure: failure),
            heavyLanes: heavyLanes,
            now: now,
            failure: failure
        )
    }
}
