import HTTPTypes

/// One method of one path.
struct Route: Sendable {
    typealias Endpoint = @Sendable (Exchange) async throws -> Answer

    let method: HTTPRequest.Method
    /// The media type of its answers, which `Accept` must allow; nil where `Accept` is not checked.
    let mediaType: String?
    let meters: RouteMeters
    let endpoint: Endpoint
}
