import HTTPTypes

/// One method of one path.
struct Route: Sendable {
    typealias Endpoint = @Sendable (Exchange) async throws -> Answer

    let method: HTTPRequest.Method
    /// Whether its answers are JSON, and `Accept` must allow that.
    let answersJSON: Bool
    let meters: RouteMeters
    let endpoint: Endpoint
}
