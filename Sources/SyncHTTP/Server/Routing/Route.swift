package import HTTPTypes

/// One method of one path.
package struct Route: Sendable {
    package typealias Endpoint = @Sendable (Exchange) async throws -> Answer
    /// Begins to answer a request without waiting for anything; false where it cannot, and nothing has happened.
    package typealias DirectEndpoint = @Sendable (DirectExchange) -> Bool

    package let method: HTTPRequest.Method
    /// The media type of its answers, which `Accept` must allow; nil where `Accept` is not checked.
    package let mediaType: String?
    package let meters: RouteMeters
    package let endpoint: Endpoint
    /// Spares small requests the connection's task; ``endpoint`` answers what it leaves.
    package let directEndpoint: DirectEndpoint?

    package func mayAnswer(_ headers: HTTPFields) -> Bool {
        mediaType.map { Accept.allows($0, headers) } ?? true
    }
}
