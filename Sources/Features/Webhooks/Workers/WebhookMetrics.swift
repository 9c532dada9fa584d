import Metrics
import SyncModel

/// The dispatcher's metrics. Their descriptions are where they are registered.
package struct WebhookMetrics: Sendable {
    /// Attempts to deliver a webhook, by `outcome`: delivered, waiting (to be attempted again), dead.
    package static let attempts = "sluice_webhook_attempts_total"
    /// Duration of requests to endpoints.
    package static let requestDuration = "sluice_webhook_request_duration_seconds"
    /// Results of attempts that were discarded because another gateway had claimed the endpoint.
    package static let leasesLost = "sluice_webhook_leases_lost_total"

    private let counters: [WebhookOutcome.Status: Counter]
    private let duration = Timer(label: Self.requestDuration)
    private let lost = Counter(label: Self.leasesLost)

    init() {
        let counters = WebhookOutcome.Status.allCases.map { status in
            (status, Counter(label: Self.attempts, dimensions: [("outcome", status.rawValue)]))
        }
        self.counters = Dictionary(uniqueKeysWithValues: counters)
    }

    /// Counts an attempt.
    ///
    /// - Parameter elapsed: the request's duration; nil if nothing was sent.
    func attempt(_ status: WebhookOutcome.Status, took elapsed: Duration?) {
        counters[status]?.increment()
        if let elapsed { duration.recordNanoseconds(elapsed.nanoseconds) }
    }

    func leaseLost() { lost.increment() }
}
