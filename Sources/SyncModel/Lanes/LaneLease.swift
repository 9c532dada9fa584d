/// How long a worker has a lane, unless it renews that: requests time out well before the end.
struct LaneLease: Sendable, Hashable {
    /// The lease's length, in seconds.
    let seconds: Double

    /// What is left of the lease when a request has timed out, in seconds at least.
    var margin: Double { min(10, seconds / 4) }

    /// When one ends that is taken now.
    func end(from now: Timestamp) -> Timestamp { now.adding(seconds: seconds) }

    /// How long a request to an upstream may take, in seconds.
    func timeout(of upstream: UpstreamSettings) -> Double {
        min(Double(upstream.timeoutSeconds), max(1, seconds - margin))
    }

    /// Whether there is no room for a whole request before the end. A lease that ends later than any does was taken before
    /// the clock was set back.
    func mustRenew(_ end: Timestamp?, upstream: UpstreamSettings?, now: Timestamp) -> Bool {
        guard let end, end <= self.end(from: now) else { return true }
        let request = Double(upstream?.timeoutSeconds ?? 0)
        let needed = max(seconds / 2, min(request, seconds - margin) + margin / 2)
        return end < now.adding(seconds: needed)
    }
}
