/// How long a worker holds a lane, unless it renews the lease.
///
/// Requests time out well before it expires.
struct LaneLease: Sendable, Hashable {
    /// The length of a lease, in seconds.
    let seconds: Double

    /// The least time that is left of the lease when a request times out, in seconds.
    var margin: Double { min(10, seconds / 4) }

    /// When a lease taken at `now` expires.
    func end(from now: Timestamp) -> Timestamp { now.adding(seconds: seconds) }

    /// How long a request to an upstream may take, in seconds.
    func timeout(of upstream: UpstreamSettings) -> Double {
        min(Double(upstream.timeoutSeconds), max(1, seconds - margin))
    }

    /// Whether the lease expires too early for a whole request. A lease that expires later than any can was taken
    /// before the clock was set back.
    func mustRenew(_ end: Timestamp?, upstream: UpstreamSettings?, now: Timestamp) -> Bool {
        guard let end, end <= self.end(from: now) else { return true }
        let request = Double(upstream?.timeoutSeconds ?? 0)
        let needed = max(seconds / 2, min(request, seconds - margin) + margin / 2)
        return end < now.adding(seconds: needed)
    }
}
