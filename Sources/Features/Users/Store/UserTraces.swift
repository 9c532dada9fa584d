import Postgres
import SyncModel
import SyncStore

/// Events from elsewhere may say whose a document is before that user ever comes: then the user is named by documents, or
/// by events that still wait, and by nothing else.
enum UserTraces {
    /// Looks through all of the organization's entities and waiting events.
    static func areThere(of user: LaneKey, _ pool: Pool) async throws -> Bool {
        let entities = EntityWalk(pool: pool, organization: user.organization, user: user.user)
        if try await entities.findsAny(EntityWalk.named) { return true }
        return try await NamingWalk.parkedEvents.findsAny(pool, of: user.organization, naming: [user.user])
    }
}
