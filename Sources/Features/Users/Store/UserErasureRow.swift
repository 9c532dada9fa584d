package import FoundationEssentials
import Postgres
package import SyncModel
import SyncStore

/// The erasure of a user as operators see it.
package struct UserErasureRow: WorkItem, Hashable {
    package enum State: String, Sendable, Hashable {
        /// The user is not served. The rows are deleted as soon as no request of the lane is in flight.
        case closing
        /// The rows are deleted, and the documents are being deleted.
        case entities
        /// All data are deleted; the upstream is not notified yet.
        case telling
        case done
    }

    static let list = """
        e.organization_id, e.user_hash, e.user_ids, e.started_at, e.state, e.walked_position, e.attempts, e.last_error,
            e.finished_at
        """

    package let organization: UUID
    package let hash: UserHash
    /// The user, followed by the users who were joined into the user; empty once the erasure is complete.
    let users: [UUID]
    package let startedAt: Timestamp
    package let state: State
    /// The position up to which the feed was read.
    let scanned: Int64
    /// The number of failed attempts to notify the upstream, and the reason of the last failure.
    package let attempts: Int32
    package let lastError: String?
    package let finishedAt: Timestamp?

    /// Reads the columns of ``list``.
    init(_ row: inout RowReader) throws {
        organization = try row.read("organization_id")
        hash = UserHash(bytes: try row.read("user_hash"))
        users = try row.read("user_ids", as: [UUID]?.self) ?? []
        startedAt = try row.read("started_at")
        state = try row.choice("state")
        scanned = try row.read("walked_position")
        attempts = try row.read("attempts")
        lastError = try row.read("last_error")
        finishedAt = try row.read("finished_at")
    }

    /// The lane of the user; nil once the erasure is complete.
    var lane: LaneKey? { users.first.map { LaneKey(organization: organization, user: $0) } }
}

/// Searches for data that contain the id of a user who has never sent a request.
///
/// An event from a source may name the owner of a document before the owner's first request. In this case, only
/// documents or parked events contain the user's id.
enum UserReferences {
    /// Searches all of the organization's entities and parked events.
    static func exist(of user: LaneKey, _ pool: Pool) async throws -> Bool {
        let entities = EntityScan(pool: pool, organization: user.organization, user: user.user)
        if try await entities.findsAny(EntityScan.named) { return true }
        return try await NamingScan.parkedEvents.findsAny(pool, of: user.organization, naming: [user.user])
    }
}
