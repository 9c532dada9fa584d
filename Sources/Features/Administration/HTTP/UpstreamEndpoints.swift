import HTTPTypes
import SyncHTTP
import SyncModel
import SyncStore

/// `/admin/organizations/{id}/upstream`. Responses never contain a secret.
struct UpstreamEndpoints: Sendable {
    let store: Store
    let bodies: BodyReader
    let rules: UpstreamRules

    func read(_ exchange: Exchange) async throws -> Answer {
        _ = try URLQuery(of: exchange)
        return try .found(await store.administration.upstream(of: exchange.uuid(at: 0)))
    }

    func write(_ exchange: Exchange) async throws -> Answer {
        _ = try URLQuery(of: exchange)
        let organization = try exchange.uuid(at: 0)
        return try await bodies.withBody(of: exchange) { body in
            let update = try UpstreamUpdate(body: body, rules: rules)
            return try .written(await store.administration.putUpstream(of: organization, update))
        }
    }

    func remove(_ exchange: Exchange) async throws -> Answer {
        _ = try URLQuery(of: exchange)
        guard try await store.administration.deleteUpstream(of: exchange.uuid(at: 0)) else { throw Refusal.notFound }
        return Answer(.noContent)
    }
}
