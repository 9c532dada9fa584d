import Foundation
import HTTPTypes
import SyncHTTP
import SyncModel
import SyncStore

/// An operator's decisions about one mutation of a user, with the bodies, rules and responses of the user's own.
///
/// `POST /admin/organizations/{id}/users/{user}/mutations/{mutation}/retry`, `…/discard`, `…/resolve`.
struct OperatorSettleEndpoints: Sendable {
    let store: Store
    let settling: SettleEndpoints

    func retry(_ exchange: Exchange) async throws -> Answer {
        let query = try URLQuery(of: exchange, allowing: ["validate"])
        let isDryRun = try query.flag("validate")
        // by its status and action alone the audit log could not distinguish it from a retry
        if isDryRun {
            exchange.act?.record("validated", true)
            exchange.act?.markDryRun()
        }
        let owner = try await owner(exchange)
        return isDryRun
            ? try await settling.validate(exchange, of: owner, exchange.uuid(at: 2))
            : try await settling.retry(exchange, of: owner, exchange.uuid(at: 2))
    }

    func discard(_ exchange: Exchange) async throws -> Answer {
        _ = try URLQuery(of: exchange)
        return try await settling.discard(exchange, of: owner(exchange), exchange.uuid(at: 2))
    }

    func resolve(_ exchange: Exchange) async throws -> Answer {
        _ = try URLQuery(of: exchange)
        return try await settling.resolve(exchange, of: owner(exchange), exchange.uuid(at: 2))
    }

    private func owner(_ exchange: Exchange) async throws -> SettleEndpoints.Owner {
        let (organization, user) = try await store.catalog.owner(of: exchange)
        return SettleEndpoints.Owner(organization: organization, user: user)
    }
}

extension Catalog {
    /// Returns the organization and the user in the first two parameters of an operator's path; for a joined user, the
    /// target.
    func owner(of exchange: Exchange) async throws -> (organization: Organization, user: UUID) {
        let (id, user) = try (exchange.uuid(at: 0), exchange.uuid(at: 1))
        guard let organization = try await organization(id) else { throw Refusal.notFound }
        return (organization, try await owner(of: user, in: id))
    }
}
