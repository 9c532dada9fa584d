import Foundation

/// A row as retention has read it.
protocol RetentionRow: Sendable {
    /// Whose lane has to be locked.
    var user: UUID { get }
    /// Where a page that ends with the row ends.
    var place: RetentionPlace { get }
    /// Whether there is something to do about it, as it was when it was read.
    var isDue: Bool { get }
}
