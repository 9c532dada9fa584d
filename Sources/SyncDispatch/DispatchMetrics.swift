import Metrics
import SyncModel
import SyncStore

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
