import Foundation
import HTTPTypes
import JSONText
import SyncHTTP
import SyncModel
import SyncStore

/// `/admin/organizations/{id}/entity-types` and `/admin/organizations/{id}/entity-types/{name}`.
struct EntityTypeEndpoints: Sendable {
    let store: Store
    let bodies: BodyReader

    func list(_ exchange: Exchange) async throws -> Answer {
        let query = try URLQuery(of: exchange, allowing: ["limit", "cursor"])
        let limit = try query.limit(default: 100)
        let cursor = try query.text("cursor").map { text throws(Problem) in
            guard EntityType.isValidName(text) else { throw .invalidParameter("cursor is invalid") }
            return text
        }
        let page = try await store.administration.entityTypes(of: exchange.uuid(at: 0), limit: limit, after: cursor)
        guard let page else { throw Refusal.notFound }
        return Answer(.ok, capacity: 64 + 256 * page.types.count) { writer in
            writer.member("entity_types", page.types)
            writer.member("next", page.next)
        }
    }

    func read(_ exchange: Exchange) async throws -> Answer {
        let (organization, name) = try place(exchange)
        return try .found(await store.administration.entityType(name, in: organization))
    }

    func write(_ exchange: Exchange) async throws -> Answer {
        let (organization, name) = try place(exchange)
        return try await bodies.withBody(of: exchange) { body in
            let update = try EntityTypeUpdate(body: body)
            return try .written(await store.administration.putEntityType(name, in: organization, update))
        }
    }

    /// The organization and the type's name; not found for an invalid name.
    private func place(_ exchange: Exchange) throws -> (UUID, String) {
        _ = try URLQuery(of: exchange)
        let name = String(exchange.parameters[1])
        guard EntityType.isValidName(name) else { throw Refusal.notFound }
        return (try exchange.uuid(at: 0), name)
    }
}
