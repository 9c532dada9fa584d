import HTTPTypes
import SyncMaintenance
import SyncModel
import SyncStore

/// `/admin/organizations/{id}/users/{user}`, for organizations whose users an operator provisions.
struct UserEndpoints: Sendable {
    let store: Store

    func add(_ exchange: Exchange) async throws -> Answer {
        _ = try Query(of: exchange)
        let (organization, user) = try (exchange.uuid(at: 0), exchange.uuid(at: 1))
        guard let created = try await store.administration.putUser(user, in: organization) else {
            throw Refusal.notFound
        }
        return Answer(created ? .created : .ok)
    }

    func remove(_ exchange: Exchange) async throws -> Answer {
        _ = try Query(of: exchange)
        let (organization, user) = try (exchange.uuid(at: 0), exchange.uuid(at: 1))
        guard try await store.administration.deleteUser(user, in: organization) else { throw Refusal.notFound }
        return Answer(.noContent)
    }
}
