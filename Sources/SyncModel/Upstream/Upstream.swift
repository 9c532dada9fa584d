/// Sends requests to upstreams. One request, one answer: what it means and whether to try again is decided elsewhere.
public protocol Upstream: Sendable {
    /// Sends a request. Never throws: whatever happens is an answer. A cancelled task is answered `unknown` soon.
    func send(_ request: UpstreamRequest, to upstream: UpstreamSettings) async -> UpstreamAnswer
}
