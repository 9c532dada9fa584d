import Foundation

/// A row as retention has read it.
protocol RetentionRow: Sendable {
    /// The user whose lane has to be locked.
    var user: UUID { get }
    /// The place of a page that ends with this row.
    var place: RetentionPosition { get }
    /// Whether the row was to be processed when it was read.
    var isDue: Bool { get }
}
