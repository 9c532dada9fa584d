package import Metrics

/// Counts connections that are ended because their client is too slow.
package struct SlowClientMetrics: Sendable {
    /// The client did not read a response.
    package let unread = Self.counter("unread")
    /// The client did not send a body.
    package let lateBody = Self.counter("late_body")

    private static func counter(_ reason: String) -> Counter {
        Counter(label: HTTPMetrics.cutOff, dimensions: [("reason", reason)])
    }
}
