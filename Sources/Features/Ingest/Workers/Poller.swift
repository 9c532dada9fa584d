import FoundationEssentials
package import Logging
package import SyncDispatch
package import SyncModel
package import SyncStore

/// Polls organizations' APIs for changes.
///
/// Organizations take turns, and no organization has more than its share of the places. Hosts that respond slowly
/// cannot take all places: see ``HostPlaces``.
///
/// Polling and the circuit breakers of forwarded requests are independent of each other.
package final class Poller: LeasedWorker {
    package struct Configuration: Sendable {
        /// The number of sources that this replica polls concurrently. Sources that wait for a slow host are not
        /// included.
        package var places = 16
        /// The maximum number of sources that this replica polls concurrently, including sources that wait for a slow
        /// host, divided by ``places``.
        package var requestsPerPlace = 4
        /// The maximum number of concurrent sources of one organization.
        package var maxConcurrentPerOrganization = 4
        /// The number of pages after which a source releases its place.
        package var pages = 20
        /// The time after which a source releases its place, in seconds. The source finishes its present page first.
        package var turn: Double = 60
        /// The interval at which the database is searched, in seconds, before jitter.
        package var pollInterval: Double = 1
        /// The interval at which a worker renews its lease, in seconds.
        package var renewInterval = SourceStore.renewSeconds
        /// The number of attempts to ingest a batch while the feed has no capacity. After these attempts, the source
        /// releases its place.
        package var attemptsWhileOverloaded = 5
        /// The pause before the second attempt, in seconds. Each later pause is twice as long.
        package var retryPause = 0.5
        /// The limits of a push. A page can have as many bytes as a push. It can have more items.
        package var limits = IntakeLimits()
        /// The poller's clock.
        package var now: TimeSource

        package init(now: @escaping TimeSource) {
            self.now = now
        }
    }

    private let store: Store
    private let upstream: any UpstreamReader
    private let configuration: Configuration
    private let logger: Logger
    private let metrics = SourceMetrics()
    package let loop: WorkerLoop<RunningHosts<SourceKey>>

    package init(store: Store, upstream: any UpstreamReader, configuration: Configuration, logger: Logger) {
        self.store = store
        self.upstream = upstream
        self.configuration = configuration
        self.logger = logger
        loop = WorkerLoop(
            RunningHosts(
                places: configuration.places,
                requestsPerPlace: configuration.requestsPerPlace,
                share: configuration.maxConcurrentPerOrganization
            ),
            pace: WorkerPace(
                interval: configuration.pollInterval,
                unfinished: "Due sources could not be queried",
                refills: true
            ),
            logger: logger
        )
    }

    // MARK: - Leases

    package var renewal: LeaseRenewal<ClaimedSource>? {
        LeaseRenewal(
            every: configuration.renewInterval,
            now: configuration.now,
            end: \.leasedUntil,
            renew: store.sources.renew
        )
    }

    package func due(from cursor: inout SourceStore.Place?) async throws(Problem) -> [SourceKey] {
        let found = try await store.sources.due(.poller, after: cursor)
        cursor = found.next
        return found.due
    }

    package func claim(_ source: SourceKey) async throws(Problem) -> ClaimedSource? {
        try await store.sources.claim(source, .poller)
    }

    package func report(_ problem: Problem, on source: SourceKey) {
        logger.debug("A source was not claimed", metadata: Self.metadata(source, ["reason": "\(problem.detail)"]))
    }

    // MARK: - A source

    /// Polls a source until the pass is complete or the source's turn is over.
    ///
    /// At shutdown, requests in progress are cancelled, which is safe because they change nothing. Events that were
    /// already read are ingested.
    package func work(on claim: ClaimedSource) async -> Bool {
        let run = PollRun(
            claim: claim,
            store: store,
            configuration: configuration,
            metrics: metrics,
            logger: logger,
            isEnding: { self.loop.drains },
            fetch: { request, settings in
                await self.loop.places.measuring(claim.key) {
                    await self.loop.send { await self.upstream.fetch(request, from: settings) }
                }
            }
        )
        let result = await run.result()
        guard let result, await written(result.outcome, claim) else {
            // the process is forced to stop; when the lease has expired, another worker continues
            if loop.drains { return false }
            metrics.run(.poller, .lost)
            logger.warning("A source's lease was lost", metadata: Self.metadata(claim.key))
            return false
        }
        record(result, claim)
        return result.hasMore
    }

    /// Writes the result of a source's run. Retries while the database is unavailable.
    private func written(_ outcome: SourceOutcome, _ claim: ClaimedSource) async -> Bool {
        let isWritten = try? await loop.write { () async throws(Problem) in
            try await store.sources.finish(claim, outcome)
        }
        return isWritten ?? false
    }

    // MARK: - Metrics and logs

    private func record(_ result: PollRun.Result, _ claim: ClaimedSource) {
        switch result.outcome {
        case .succeeded:
            metrics.run(.poller, .succeeded)
            if claim.failureCount > 0 {
                let count: Logger.Metadata = ["failures": "\(claim.failureCount)"]
                logger.notice("A source can be polled again", metadata: Self.metadata(claim.key, count))
            }
        case .failed(let error, let retryAt, _):
            metrics.run(.poller, .failed)
            logger.warning(
                "A source could not be polled",
                metadata: Self.metadata(claim.key, ["reason": "\(error)", "retry_at": "\(retryAt.rfc3339)"])
            )
        case .released: break
        }
        if let refusal = result.firstRefusal {
            logger.warning(
                "Items of a source were rejected",
                metadata: Self.metadata(claim.key, ["count": "\(result.refused)", "reason": "\(refusal)"])
            )
        }
        if let reason = result.postponement {
            logger.warning("A source waits", metadata: Self.metadata(claim.key, ["reason": "\(reason)"]))
        }
    }

    private static func metadata(_ source: SourceKey, _ more: Logger.Metadata = [:]) -> Logger.Metadata {
        var metadata = more
        metadata["organization"] = "\(source.organization.lowercasedText)"
        metadata["source"] = "\(source.name)"
        return metadata
    }
}
