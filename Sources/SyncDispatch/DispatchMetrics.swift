import Metrics
import ServiceLifecycle
package import SyncModel
package import SyncStore
import Synchronization

/// The dispatcher's metrics, described where they are wired.
package struct DispatchMetrics: Sendable {
    /// Requests to upstreams, by `outcome`.
    package static let attempts = StoreMetrics.upstreamAttempts
    /// Duration of requests to upstreams.
    package static let requestDuration = "sluice_upstream_request_duration_seconds"
    /// Time from a mutation's acceptance to its final outcome.
    package static let completion = "sluice_mutation_completion_seconds"
    /// Outcomes that were thrown away since another gateway had taken the lane.
    package static let leasesLost = "sluice_lane_leases_lost_total"

    private let attemptCounters: [Outcome.Kind: Counter]
    private let duration = Timer(label: Self.requestDuration)
    private let final = Timer(label: Self.completion)
    private let lost = Counter(label: Self.leasesLost)

    init() {
        let counters = Outcome.Kind.allCases.map { kind in
            (kind, Counter(label: Self.attempts, dimensions: [("outcome", kind.rawValue)]))
        }
        attemptCounters = Dictionary(uniqueKeysWithValues: counters)
    }

    func attempt(_ kind: Outcome.Kind, took elapsed: Duration) {
        attemptCounters[kind]?.increment()
        duration.recordNanoseconds(elapsed.nanoseconds)
    }

    func completed(after microseconds: Int64) {
        final.recordNanoseconds(max(0, microseconds) * 1_000)
    }

    func leaseLost() {
        lost.increment()
    }
}

package struct DispatchConfiguration: Sendable {
    /// When failed attempts are tried again.
    package var policy = RetryPolicy()
    /// Lanes that work at the same time on this replica, over all organizations. 1 or more.
    package var maximumLanes = 1_024
    /// Lanes that run at the same time, with those that await their upstream's answer; nil for the default.
    package var maximumRequests: Int?
    /// How often the database is searched for due lanes, in seconds, before jitter.
    package var pollInterval: Double = 1
    /// Mutations after which a lane gives its place to waiting lanes of its organization.
    package var burst = 64
    /// How long a lane runs before it gives its place to waiting ones, after its current mutation.
    package var turn: Duration = .seconds(5)
    /// How long requests in progress may take once the gateway shuts down, in seconds.
    package var grace: Double = 7
    /// The clock of leases and back-offs.
    package var now: TimeSource

    package init(now: @escaping TimeSource) {
        self.now = now
    }

    /// The default of ``maximumRequests``.
    package static func maximumRequests(lanes: Int) -> Int { HostPlaces<LaneKey>.Limits.requests(places: lanes) }
}

/// Counts lanes now and then, over all replicas, for metrics.
package final class LaneStatsCollector: Service {
    /// The last count.
    package struct Findings: Sendable {
        /// Nil before the first count.
        package var lanes: LaneStore.Stats?
        /// The configured number of organizations, those first whose mutations have waited longest.
        ///
        /// If there are others, one more: the one of those whose mutations have waited longest.
        package var organizations: [LaneStore.OrganizationStats] = []
    }

    private static let interval: Duration = .seconds(15)

    private let store: LaneStore
    private let organizations: Int
    private let now: TimeSource
    private let found = Mutex(Findings())

    /// - Parameter organizations: how many are counted one by one; 0 for none, which costs nothing.
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
