import FoundationEssentials
package import Logging
import Postgres
import SyncDispatch
package import SyncModel
package import SyncStore
import Synchronization

/// Follows the logs of organizations' own databases.
///
/// A run renews its own lease when it writes its progress. ``ReplicationPlaces`` decides which sources are followed.
package final class ReplicationWorker: LeasedWorker {
    package struct Configuration: Sendable {
        /// The number of sources that this replica follows concurrently. Each source needs two threads and two
        /// connections to its database.
        package var places = 32
        /// The maximum number of concurrent sources of one organization.
        package var maxConcurrentPerOrganization = 4
        /// The time in seconds after which a source releases its place if other sources wait.
        package var turn: Double = 60
        /// The time in seconds for which a source can still be listed as due after it got a place. If the source is
        /// listed as due later, an operator has changed the source.
        package var settling: Double = 5
        /// The interval at which the database is searched, in seconds, before jitter.
        package var pollInterval: Double = 1
        /// The interval at which a run writes its progress and confirms it to the server.
        package var tick: Duration = .seconds(1)
        /// The time that a stream must last until the source counts as working.
        package var proof: Duration = .seconds(3)
        /// The interval at which a worker checks its lease. After an operator disables a source, the worker ingests
        /// events for at most five more seconds.
        package var heldInterval: Duration = .seconds(2)
        /// The number of attempts to submit the same event. After these attempts, the source stops with an error, and
        /// pauses.
        package var attempts = 8
        /// The pause before the second attempt, in seconds. Each later pause is twice as long, up to ten seconds.
        package var retryPause = 0.25
        /// The interval at which the slot is checked.
        package var watchInterval: Duration = .seconds(20)
        /// The number of events that are submitted together.
        package var batch = 500
        /// The limits of documents.
        package var limits = IntakeLimits()
        package var now: TimeSource

        package init(now: @escaping TimeSource) {
            self.now = now
        }
    }

    private let store: Store
    private let connector: ReplicationConnector
    private let configuration: Configuration
    private let logger: Logger
    private let metrics = SourceMetrics()
    private let slots = Mutex([SourceKey: SlotReport]())
    package let loop: WorkerLoop<ReplicationPlaces>

    package init(store: Store, connector: ReplicationConnector, configuration: Configuration, logger: Logger) {
        self.store = store
        self.connector = connector
        self.configuration = configuration
        self.logger = logger
        let pace = WorkerPace(
            interval: configuration.pollInterval,
            unfinished: "Due sources could not be queried",
            resumes: true
        )
        loop = WorkerLoop(ReplicationPlaces(configuration), pace: pace, logger: logger)
    }

    /// The states of the slots that this replica checked in the last ten minutes.
    package var reports: [SlotReport] {
        let since = configuration.now().adding(seconds: -600)
        return slots.withLock { slots in
            slots = slots.filter { $0.value.checkedAt >= since }
            return Array(slots.values)
        }
    }

    package func due(from cursor: inout SourceStore.Place?) async throws(Problem) -> [SourceKey] {
        let found = try await store.sources.due(.postgres, after: cursor)
        cursor = found.next
        return found.due
    }

    package func claim(_ source: SourceKey) async throws(Problem) -> ClaimedSource? {
        try await store.sources.claim(source, .postgres)
    }

    package func report(_ problem: Problem, on source: SourceKey) {
        let metadata = Self.metadata(source, ["reason": "\(problem.detail)"])
        logger.warning("The end of a source's run was not written", metadata: metadata)
    }

    /// Follows a source until the gateway stops, or until other sources wait for the place. At the end, the position of
    /// the last durable events is confirmed.
    package func work(on claim: ClaimedSource) async throws(Problem) -> Bool {
        guard case .postgres(let settings) = claim.settings else { return false }
        let run = ReplicationRun(
            claim,
            settings,
            ReplicationRun.Parts(
                sources: store.sources,
                ingest: store.ingest,
                connector: connector,
                configuration: configuration,
                metrics: metrics,
                logger: logger,
                watched: { report in self.slots.withLock { $0[claim.key] = report } },
                ends: { self.loop.ends || self.loop.places.yields(claim.key) }
            )
        )
        try await finish(claim, await run.run(), failures: run.isProven ? 0 : Int(claim.failureCount))
        return false
    }

    private func finish(
        _ claim: ClaimedSource,
        _ end: ReplicationRun.End,
        failures: Int
    ) async throws(Problem) {
        let now = configuration.now()
        let hasFailed = if case .failed = end { true } else { false }
        loop.places.record(claim.key, hasFailed: hasFailed)
        switch end {
        case .released:
            metrics.run(.postgres, .succeeded)
            try await write(.released(nextRunAt: now), claim)
        case .lost:
            metrics.run(.postgres, .lost)
            logger.info("A source was left to another worker", metadata: Self.metadata(claim.key))
        case .failed(let failure):
            metrics.run(.postgres, .failed)
            let pause = Self.pause(failures: failures, isFatal: failure.isFatal) * Double.random(in: 0.8...1.2)
            let retry = now.adding(seconds: pause)
            logger.warning(
                "Replication of a database failed",
                metadata: Self.metadata(
                    claim.key,
                    ["reason": "\(failure.userMessage)", "retry_at": "\(retry.rfc3339)"]
                )
            )
            try await write(.failed(error: failure.userMessage, retryAt: retry), claim)
        }
    }

    /// Writes an outcome. Retries while the gateway's database is unavailable, because an operator must see why a
    /// source stopped.
    private func write(_ outcome: SourceOutcome, _ claim: ClaimedSource) async throws(Problem) {
        let retry = Retry(60, milliseconds: 500...1_000)
        _ = try await loop.write(retry, drainAttempts: 1) { () async throws(Problem) in
            try await store.sources.finish(claim, outcome)
        }
    }

    /// Returns the seconds until the next attempt.
    ///
    /// The pause doubles with each failure, up to one minute. If an operator must act first, it doubles up to five
    /// minutes.
    static func pause(failures: Int, isFatal: Bool) -> Double {
        min(isFatal ? 300 : 60, Double(1 << min(failures, 10)))
    }

    static func metadata(_ source: SourceKey, _ more: Logger.Metadata = [:]) -> Logger.Metadata {
        let names: Logger.Metadata = [
            "organization": "\(source.organization.lowercasedText)", "source": "\(source.name)",
        ]
        return names.merging(more) { $1 }
    }
}
