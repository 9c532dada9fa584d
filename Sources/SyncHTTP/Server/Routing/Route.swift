import HTTPTypes

/// One method of one path.
struct Route: Sendable {
    typealias Endpoint = @Sendable (Exchange) async throws -> Answer
    /// Begins to answer a request without waiting for anything; false where it cannot, and nothing has happened.
    typealias DirectEndpoint = @Sendable (DirectExchange) -> Bool

    let method: HTTPRequest.Method
    /// The media type of its answers, which `Accept` must allow; nil where `Accept` is not checked.
    let mediaType: String?
    let meters: RouteMeters
    let endpoint: Endpoint
    /// Spares small requests the connection's task; ``endpoint`` answers what it leaves.
    let directEndpoint: DirectEndpoint?

    func mayAnswer(_ headers: HTTPFields) -> Bool {
        mediaType.map { Accept.allows($0, headers) } ?? true
    }
}
