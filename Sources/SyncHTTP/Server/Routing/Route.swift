package import HTTPTypes

/// One method of one path.
package struct Route: Sendable {
    package typealias Endpoint = @Sendable (Exchange) async throws -> Answer
    /// Begins to answer a request without waiting; returns false if it cannot, and then nothing has happened.
    package typealias DirectEndpoint = @Sendable (DirectExchange) -> Bool

    package let method: HTTPRequest.Method
    /// The media type of its responses, which `Accept` must allow; nil if `Accept` is not checked.
    package let mediaType: String?
    package let meters: RouteMeters
    package let endpoint: Endpoint
    /// Answers small requests without the connection's task; ``endpoint`` answers the others.
    package let directEndpoint: DirectEndpoint?

    package func mayAnswer(_ headers: HTTPFields) -> Bool {
        mediaType.map { Accept.allows($0, headers) } ?? true
    }
}
