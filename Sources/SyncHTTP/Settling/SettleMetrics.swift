import Metrics

/// Counts mutations that people settle.
struct SettleMetrics: Sendable {
    let retried = Self.counter("retry")
    let discarded = Self.counter("discard")
    let resolved = Self.counter("resolve")

    private static func counter(_ action: String) -> Counter {
        Counter(label: HTTPMetrics.settled, dimensions: [("action", action)])
    }
}
