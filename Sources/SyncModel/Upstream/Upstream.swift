/// Sends requests to upstreams.
///
/// One request, one answer: other types decide its meaning and whether to retry.
public protocol Upstream: Sendable {
    /// Sends a request.
    ///
    /// Never throws: each result is an answer. A cancelled task gets `unknown` soon.
    func send(_ request: UpstreamRequest, to upstream: UpstreamSettings) async -> UpstreamAnswer
}
