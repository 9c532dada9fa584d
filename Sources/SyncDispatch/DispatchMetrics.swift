import Metrics
import ServiceLifecycle
package import SyncModel
package import SyncStore
import Synchronization

/// The dispatcher's metrics. `PrometheusRegistry+Gateway.swift` registers their descriptions.
package struct DispatchMetrics: Sendable {
    /// Requests to upstreams, by `outcome`.
    package static let attempts = StoreMetrics.upstreamAttempts
    /// Duration of requests to upstreams.
    package static let requestDuration = "sluice_upstream_request_duration_seconds"
    /// Time from a mutation's acceptance to its final outcome.
    package static let completion = "sluice_mutation_completion_seconds"
    /// Outcomes that were discarded because another gateway had claimed the lane.
    package static let leasesLost = "sluice_lane_leases_lost_total"

    /// Steps of lanes (``LaneStep``) that waited because of an upstream's `requests_per_second`.
    package static let throttled = "sluice_upstream_throttled_total"
    /// Mutations that were sent to upstreams in batches.
    package static let batchParts = "sluice_upstream_batch_parts_total"
    /// Mutations that were sent in batches and did not succeed.
    package static let failedBatchParts = "sluice_upstream_batch_parts_failed_total"
    /// The number of mutations in a batch.
    package static let batchSize = "sluice_upstream_batch_size"
    /// Batches to upstreams, by `result`.
    package static let batches = "sluice_upstream_batches_total"

    private let attemptCounters: [Outcome.Kind: Counter]
    private let duration = Timer(label: Self.requestDuration)
    private let final = Timer(label: Self.completion)
    private let lost = Counter(label: Self.leasesLost)
    private let waits = Counter(label: Self.throttled)
    private let parts = Counter(label: Self.batchParts)
    private let failedParts = Counter(label: Self.failedBatchParts)
    private let sizes = Recorder(label: Self.batchSize)
    private let batchCounters: [BatchResult: Counter]

    init() {
        let counters = Outcome.Kind.allCases.map { kind in
            (kind, Counter(label: Self.attempts, dimensions: [("outcome", kind.rawValue)]))
        }
        attemptCounters = Dictionary(uniqueKeysWithValues: counters)
        let results = BatchResult.allCases.map { result in
            (result, Counter(label: Self.batches, dimensions: [("result", result.rawValue)]))
        }
        batchCounters = Dictionary(uniqueKeysWithValues: results)
    }

    func attempt(_ kind: Outcome.Kind, took elapsed: Duration) {
        attemptCounters[kind]?.increment()
        duration.recordNanoseconds(elapsed.nanoseconds)
    }

    func completed(after microseconds: Int64) {
        final.recordNanoseconds(max(0, microseconds) * 1_000)
    }

    func batch(of count: Int, _ result: BatchResult) {
        parts.increment(by: count)
        sizes.record(count)
        batchCounters[result]?.increment()
    }

    /// Records a batch whose mutations have separate outcomes.
    func batch(of count: Int, _ result: BatchResult, successes: Int) {
        batch(of: count, result)
        failedParts.increment(by: count - successes)
    }

    func throttle() { waits.increment() }

    func leaseLost() {
        lost.increment()
    }
}

/// The result of a batch as a whole, for metrics and spans.
package enum BatchResult: String, Sendable, CaseIterable {
    case succeeded
    /// Some parts did not succeed.
    case partial
    /// No part succeeded.
    case failed
    /// The batch was too large, and its halves were sent.
    case split
    /// The upstream accepts no batches.
    case refused

    /// Creates the result of a batch from the number of its mutations and the number of successes.
    init(of count: Int, successes: Int) {
        self = successes == count ? .succeeded : successes == 0 ? .failed : .partial
    }
}

package struct DispatchConfiguration: Sendable {
    /// The schedule of retries.
    package var policy = RetryPolicy()
    /// The maximum number of lanes that work concurrently on this replica, over all organizations, at least 1.
    package var maximumLanes = 1_024
    /// The maximum number of lanes that run concurrently, including lanes that await a response; nil for the default.
    package var maximumRequests: Int?
    /// The interval at which the database is searched for due lanes, in seconds, before jitter.
    package var pollInterval: Double = 1
    /// The number of mutations after which a lane releases its place (``HostPlaces``) to waiting lanes of its
    /// organization.
    package var burst = 64
    /// The time after which a running lane completes its current mutation and releases its place to waiting lanes.
    package var turn: Duration = .seconds(5)
    /// The time limit for requests in progress once the gateway shuts down, in seconds.
    package var grace: Double = 7
    /// The clock of leases and back-offs.
    package var now: TimeSource

    package init(now: @escaping TimeSource) {
        self.now = now
    }

    /// The default of ``maximumRequests``.
    package static func maximumRequests(lanes: Int) -> Int { HostPlaces<LaneKey>.Limits.requests(places: lanes) }
}

/// Counts lanes over all replicas at intervals, for metrics.
package final class LaneStatsCollector: Service {
    /// The last count.
    package struct Findings: Sendable {
        /// The counts of lanes; nil before the first count.
        package var lanes: LaneStore.Stats?
        /// The oldest waiting mutation of each organization, for up to the configured number of organizations; oldest
        /// first.
        ///
        /// If there are more organizations, one additional entry has the oldest waiting mutation of all organizations.
        package var organizations: [LaneStore.OrganizationStats] = []
    }

    private static let interval: Duration = .seconds(15)

    private let store: LaneStore
    private let organizations: Int
    private let now: TimeSource
    private let found = Mutex(Findings())

    /// - Parameter organizations: the number of organizations that are counted individually; 0 counts none.
    package init(store: LaneStore, organizations: Int, now: @escaping TimeSource) {
        self.store = store
        self.organizations = organizations
        self.now = now
    }

    package var findings: Findings { found.withLock { $0 } }

    package func run() async throws {
        await cancelWhenGracefulShutdown {
            while !Task.isCancelled {
                await self.count()
                try? await Task.sleep(for: Self.interval)
            }
        }
    }

    private func count() async {
        if let lanes = try? await store.stats(at: now()) { found.withLock { $0.lanes = lanes } }
        guard organizations > 0, let counted = try? await store.stats(organizations: organizations + 1) else { return }
        found.withLock { $0.organizations = counted }
    }
}
