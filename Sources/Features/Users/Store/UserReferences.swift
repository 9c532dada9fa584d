import Postgres
import SyncModel
import SyncStore

/// Searches for data that name a user who has never sent a request.
///
/// An event from a source may name the owner of a document before that user's first request. Then only documents, or
/// parked events, name the user.
enum UserReferences {
    /// Searches all of the organization's entities and parked events.
    static func exist(of user: LaneKey, _ pool: Pool) async throws -> Bool {
        let entities = EntityScan(pool: pool, organization: user.organization, user: user.user)
        if try await entities.findsAny(EntityScan.named) { return true }
        return try await NamingScan.parkedEvents.findsAny(pool, of: user.organization, naming: [user.user])
    }
}
