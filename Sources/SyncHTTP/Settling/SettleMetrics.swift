package import Metrics

/// Counts mutations that people settle.
package struct SettleMetrics: Sendable {
    package init() {}
    package let retried = Self.counter("retry")
    package let discarded = Self.counter("discard")
    package let resolved = Self.counter("resolve")

    private static func counter(_ action: String) -> Counter {
        Counter(label: HTTPMetrics.settled, dimensions: [("action", action)])
    }
}
