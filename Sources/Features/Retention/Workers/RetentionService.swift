import FoundationEssentials
package import Logging
import Metrics
import ServiceLifecycle
package import SyncModel
package import SyncStore
import Synchronization

/// Runs retention when it is due or requested.
///
/// Only one replica at a time runs retention, in small steps, with pauses that grow under load.
package final class RetentionService: LeasedWorker {
    /// The interval at which a run logs its progress, in seconds.
    static let reportInterval: Double = 10
    /// The time after which an interrupted run is tried again, in seconds.
    static let secondTry = RetentionStatus.secondTry

    /// Retention's state, for metrics.
    package struct State: Sendable {
        /// Whether this replica holds the lease.
        package var isRunning = false
        /// The end of the last finished run of any replica.
        package var finishedAt: Timestamp?
        /// The seconds for which the oldest row had been overdue at this replica's last check.
        package var overdue: Double = 0
    }

    private let store: Store
    private let policy: RetentionPolicy
    private let interval: Double
    private let now: TimeSource
    private let logger: Logger
    private let metrics = RetentionMetrics()
    private let shared = Mutex(State())
    private let owner = UUID()
    package let loop: WorkerLoop<ClaimedPlaces<RetentionLease>>

    /// Creates the service without opening connections.
    ///
    /// - Parameters:
    ///   - interval: seconds from the end of a run to the next run.
    ///   - pollInterval: the interval at which a replica checks whether a run is due, in seconds.
    package init(
        store: Store,
        policy: RetentionPolicy,
        interval: Double,
        pollInterval: Double = 15,
        now: @escaping TimeSource,
        logger: Logger
    ) {
        self.store = store
        self.policy = policy
        self.interval = interval
        self.now = now
        self.logger = logger
        let pace = WorkerPace(interval: pollInterval, unfinished: "Retention was interrupted")
        loop = WorkerLoop(ClaimedPlaces(1), pace: pace, logger: logger)
    }

    package var state: State { shared.withLock { $0 } }

    /// Runs retention when it is due or requested, until graceful shutdown.
    package func run() async throws {
        await withTaskGroup(of: Void.self) { group in
            group.addTask {
                for await _ in self.store.retention.requests { self.loop.wake() }
            }
            group.addTask { await self.runUntilShutdown() }
            await group.next()
            group.cancelAll()
        }
    }

    /// Claims the lease if a run is due. One lease covers all organizations.
    package func due(from cursor: inout Void?) async throws(Problem) -> [RetentionLease] {
        let status = try await store.retentionStatus()
        shared.withLock { state in
            // another replica has finished the work that this replica's run left
            if status.finishedAt != state.finishedAt { state.overdue = 0 }
            state.finishedAt = status.finishedAt
        }
        guard loop.places.hasRoom, status.runningSince == nil, status.isDue(at: now(), interval: interval),
            let lease = try await store.retention.claim(owner: owner, interval: interval)
        else { return [] }
        return [lease]
    }

    package func work(on lease: RetentionLease) async throws(Problem) -> Bool {
        shared.withLock { $0.isRunning = true }
        defer { shared.withLock { $0.isRunning = false } }
        let cutoffs = policy.cutoffs(at: now())
        let pace = Mutex(RetentionPace())
        let progress = Mutex(Progress())
        let run = RetentionRun(
            store: store.retention,
            cutoffs: cutoffs,
            lease: lease,
            logger: logger,
            shouldStop: { Task.isCancelled || Task.isShuttingDownGracefully }
        ) { [store, metrics, logger] kind, step, elapsed in
            metrics.step(kind, step, took: elapsed)
            if let line = progress.withLock({ $0.add(kind, step.changed) }) {
                logger.info("Retention in progress", metadata: line)
            }
            let seconds = Double(elapsed.nanoseconds) / 1e9
            let waiting = store.pushes.waiting
            let pause = pace.withLock { $0.pause(after: seconds, rows: step.scanned, waiting: waiting) }
            try await Task.sleep(for: .seconds(pause))
        }
        let result = await run.run { pace.withLock { $0.limit } }
        var line = Progress.metadata(of: result.report)
        line["duration_ms"] = "\(progress.withLock { $0.elapsed })"
        // rows stay overdue until a run of any replica has processed all of them
        shared.withLock { $0.overdue = result.overdue }
        switch result.ending {
        case .finished:
            let due = now().adding(seconds: interval)
            let finishedAt = try await store.retention.release(lease, report: result.report, due: due)
            shared.withLock { state in
                state.finishedAt = finishedAt
                if result.isComplete { state.overdue = 0 }
            }
            logger.log(level: result.report.total > 0 ? .info : .debug, "Retention completed", metadata: line)
        case .stopped:
            // another replica continues immediately
            try await store.retention.release(lease, report: nil, due: now())
            logger.info("Retention stopped and will be resumed", metadata: line)
        case .lost:
            logger.warning("Retention was taken over by another replica", metadata: line)
        case .failed(let problem):
            line["code"] = "\(problem.code.rawValue)"
            logger.warning("Retention was interrupted and will be retried in a minute", metadata: line)
            try await store.retention.release(lease, report: nil, due: now().adding(seconds: Self.secondTry))
        }
        // another run may have been requested in the meantime
        return true
    }

    /// Counts processed rows, and determines when the next progress line is logged.
    private struct Progress {
        private let began = ContinuousClock.now
        private var reportedAt = ContinuousClock.now
        private var report = RetentionReport()

        var elapsed: Int64 { (ContinuousClock.now - began).nanoseconds / 1_000_000 }

        mutating func add(_ kind: RetentionKind, _ count: Int) -> Logger.Metadata? {
            report[kind] += count
            guard ContinuousClock.now - reportedAt >= .seconds(RetentionService.reportInterval) else { return nil }
            reportedAt = .now
            return Self.metadata(of: report)
        }

        static func metadata(of report: RetentionReport) -> Logger.Metadata {
            var metadata: Logger.Metadata = [:]
            for kind in RetentionKind.allCases where report[kind] > 0 {
                metadata[kind.rawValue] = "\(report[kind])"
            }
            return metadata
        }
    }
}

/// Retention's metrics. Their help texts are in the code that registers them.
package struct RetentionMetrics: Sendable {
    /// The number of rows changed or deleted, by `what`.
    package static let rows = "sluice_retention_rows_total"
    /// The duration of steps.
    package static let stepDuration = "sluice_retention_step_duration_seconds"

    private let rowCounters: [RetentionKind: Counter]
    private let duration = Timer(label: Self.stepDuration)

    init() {
        let counters = RetentionKind.allCases.map { kind in
            (kind, Counter(label: Self.rows, dimensions: [("what", kind.rawValue)]))
        }
        rowCounters = Dictionary(uniqueKeysWithValues: counters)
    }

    func step(_ kind: RetentionKind, _ step: RetentionStep, took elapsed: Duration) {
        rowCounters[kind]?.increment(by: step.changed)
        duration.recordNanoseconds(elapsed.nanoseconds)
    }
}
