package import SyncModel

/// Endpoints for which this process could not write the outcomes of deliveries, with a pause for each endpoint.
///
/// Without a pause, the gateway would send the same messages to the endpoint again and again.
package struct UnwrittenOutcomes: Sendable {
    /// The first and the longest pause, in seconds.
    package static let firstPause: Double = 60
    package static let longestPause: Double = 3_600
    /// The maximum number of stored endpoints.
    private static let capacity = 10_000

    private var endpoints: [WebhookKey: (failures: Int, until: Timestamp)] = [:]

    package init() {}

    /// Returns the endpoints that must not be claimed now.
    package func resting(at now: Timestamp) -> Set<WebhookKey> {
        Set(endpoints.lazy.filter { $0.value.until > now }.map(\.key))
    }

    /// Records a failed write, and returns the end of the pause.
    package mutating func add(_ endpoint: WebhookKey, at now: Timestamp) -> Timestamp {
        if endpoints.count >= Self.capacity { endpoints.removeAll() }
        let failures = endpoints[endpoint]?.failures ?? 0
        let until = now.adding(seconds: min(Self.longestPause, Self.firstPause * Double(1 << min(failures, 10))))
        endpoints[endpoint] = (failures + 1, until)
        return until
    }

    /// Removes an endpoint after a successful write.
    package mutating func remove(_ endpoint: WebhookKey) { endpoints[endpoint] = nil }
}
