import Foundation
import HTTPTypes
import JSONText
import SyncHTTP
import SyncModel
import SyncStore

/// `/admin/organizations` and `/admin/organizations/{id}`.
struct OrganizationEndpoints: Sendable {
    let store: Store
    let bodies: BodyReader

    func list(_ exchange: Exchange) async throws -> Answer {
        let query = try URLQuery(of: exchange, allowing: ["search", "counts", "limit", "cursor"])
        let limit = try query.limit(default: 100)
        let cursor = try query.text("cursor").map { text throws(Problem) in
            guard let id = UUID(parsing: text) else { throw .invalidParameter("cursor is invalid") }
            return id
        }
        let search = try query.plainText("search", atMost: Administration.longestSearch)
        let page =
            if let search {
                try await store.administration.organizations(like: search, limit: limit, after: cursor)
            } else {
                try await store.administration.organizations(limit: limit, after: cursor)
            }
        let counts =
            try query.flag("counts") ? try await store.stuckCounts.counts(of: page.organizations.map(\.id)) : nil
        return Answer(.ok) { writer in
            writer.member("organizations", page.organizations) { writer, organization in
                writer.object { writer in
                    organization.writeMembers(to: &writer)
                    if let counts { writer.member("counts", counts[organization.id]) }
                }
            }
            writer.member("next", page.next)
        }
    }

    func read(_ exchange: Exchange) async throws -> Answer {
        _ = try URLQuery(of: exchange)
        return try .found(await store.administration.organization(exchange.uuid(at: 0)))
    }

    func write(_ exchange: Exchange) async throws -> Answer {
        _ = try URLQuery(of: exchange)
        let id = try exchange.uuid(at: 0)
        return try await bodies.withBody(of: exchange) { body in
            try .written(await store.administration.put(id, OrganizationUpdate(body: body)))
        }
    }

    /// Deletes the organization with all its data.
    func purge(_ exchange: Exchange) async throws -> Answer {
        _ = try URLQuery(of: exchange)
        guard try await store.administration.purge(exchange.uuid(at: 0)) else { throw Refusal.notFound }
        return Answer(.noContent)
    }
}
