package import Foundation
package import SyncModel
import SyncStore

/// How far retention has come among the rows of one kind in an organization; the next page begins behind it.
package enum RetentionPlace: Sendable, Hashable {
    /// Behind a row of a user that has this age.
    case aged(Timestamp, user: UUID, id: UUID)
    case tombstone(Timestamp, type: String, id: String)
    /// Behind all mappings of a client id.
    case mapping(user: UUID, client: UUID)
}

/// What an organization has of what retention does away with.
package struct RetentionDebt: Sendable {
    package let organization: UUID
    /// Where to begin, of kinds that remember; the others begin at their oldest row.
    package let places: [RetentionKind: RetentionPlace]
    /// For how long the oldest row of each kind should have been gone, in seconds; kinds without any are left out.
    package let overdue: [RetentionKind: Double]
}

/// What a step of retention came to.
package struct RetentionStep: Sendable, Hashable {
    package var looked = 0
    /// Rows that were changed or went, or would have.
    package var changed = 0
    /// Rows that were left to the next run, since something was in the way.
    package var left = 0
    /// Where the next step begins; nil at the end.
    package var next: RetentionPlace?
}

/// The right to be the one replica that works: it is renewed with every step, and void once another has claimed it.
package struct RetentionLease: Sendable, Hashable {
    let owner: UUID
    let token: Int64
}
