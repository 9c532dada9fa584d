package import Foundation
package import SyncModel

/// What an organization has of what retention does away with.
package struct RetentionDebt: Sendable {
    package let organization: UUID
    /// Where to begin, of kinds that remember; the others begin at their oldest row.
    package let places: [RetentionKind: RetentionPlace]
    /// For how long the oldest row of each kind should have been gone, in seconds; kinds without any are left out.
    package let overdue: [RetentionKind: Double]
}
