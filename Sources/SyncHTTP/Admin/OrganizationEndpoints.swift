import HTTPTypes
import SyncModel
import SyncStore

/// `/admin/organizations` and `/admin/organizations/{id}`.
struct OrganizationEndpoints: Sendable {
    let store: Store
    let bodies: BodyReader

    func list(_ exchange: Exchange) async throws -> Answer {
        let query = try Query(of: exchange, allowing: ["limit", "cursor"])
        let page = try await store.administration.organizations(
            limit: try query.limit(default: 100),
            cursor: try query.text("cursor")
        )
        return Answer(.ok, json: page)
    }

    func read(_ exchange: Exchange) async throws -> Answer {
        _ = try Query(of: exchange)
        let json = try await store.administration.organization(exchange.uuid(at: 0))
        guard let json else { throw Refusal.notFound }
        return Answer(.ok, json: json)
    }

    /// Creates or changes.
    func write(_ exchange: Exchange) async throws -> Answer {
        _ = try Query(of: exchange)
        let id = try exchange.uuid(at: 0)
        return try await bodies.withBody(of: exchange) { body in
            let (created, json) = try await store.administration.put(id, body: body)
            return Answer(created ? .created : .ok, json: json)
        }
    }

    /// Deletes the organization and all of its data.
    func purge(_ exchange: Exchange) async throws -> Answer {
        _ = try Query(of: exchange)
        guard try await store.administration.purge(exchange.uuid(at: 0)) else { throw Refusal.notFound }
        return Answer(.noContent)
    }
}
