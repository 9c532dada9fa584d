package import Foundation
package import SyncModel

/// The place that retention has reached among the rows of one kind in an organization; the next page begins behind it.
package enum RetentionPosition: Sendable, Hashable {
    /// Behind a row of a user that has this age.
    case aged(Timestamp, user: UUID, id: UUID)
    case tombstone(Timestamp, EntityKey)
    /// Behind all mappings of a client id.
    case mapping(user: UUID, client: UUID)
}
