/// Sends requests to upstreams. One request, one answer: other types decide what it means and whether to retry.
public protocol Upstream: Sendable {
    /// Never throws: whatever happens is an answer. A cancelled task is answered `unknown` soon.
    func send(_ request: UpstreamRequest, to upstream: UpstreamSettings) async -> UpstreamAnswer
}
