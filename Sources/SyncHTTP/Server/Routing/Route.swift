import HTTPTypes

/// One method of one path.
struct Route: Sendable {
    typealias Endpoint = @Sendable (Exchange) async throws -> Answer

    let method: HTTPRequest.Method
    /// What its answers are, which `Accept` must allow; nil where nobody is asked.
    let mediaType: String?
    let meters: RouteMeters
    let endpoint: Endpoint
}
