import Metrics

/// Counts connections that are ended because their client is too slow.
struct CutOffs: Sendable {
    /// The client did not take an answer.
    let unread = Self.counter("unread")
    /// The client did not send a body.
    let lateBody = Self.counter("late_body")

    private static func counter(_ reason: String) -> Counter {
        Counter(label: HTTPMetrics.cutOff, dimensions: [("reason", reason)])
    }
}
