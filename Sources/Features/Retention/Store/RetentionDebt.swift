package import Foundation
package import SyncModel

/// An organization's rows that retention has to delete.
package struct RetentionDebt: Sendable {
    package let organization: UUID
    /// Where to begin, for kinds that remember their place; the others begin at their oldest row.
    package let places: [RetentionKind: RetentionPlace]
    /// How long the oldest row of each kind has been overdue, in seconds; kinds without overdue rows are left out.
    package let overdue: [RetentionKind: Double]
}
