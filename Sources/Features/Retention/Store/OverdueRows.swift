package import Foundation

/// An organization's rows that retention has to delete.
package struct OverdueRows: Sendable {
    package let organization: UUID
    /// Where to begin, for tasks that remember their place; the others begin at their oldest row.
    package let places: [RetentionTask: RetentionPosition]
    /// How long the oldest row of each task has been overdue, in seconds; tasks without overdue rows are left out.
    package let overdue: [RetentionTask: Double]
}
