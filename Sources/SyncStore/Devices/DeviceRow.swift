package import Foundation
import Postgres
package import SyncModel

/// A device as its user sees it.
package struct DeviceRow: Sendable {
    package let id: UUID
    package let acceptedSequence: Int64
    package let createdAt: Timestamp
    package let lastSeenAt: Timestamp
    /// By entity type, the next number that the device assigns; nil where none is left.
    package let nextLocalIDs: [(type: String, next: Int64?)]

    /// Columns of `devices`, for a table that is called `d`.
    static let list = "d.accepted_sequence, d.created_at, d.last_seen_at"

    /// Reads the columns of ``list``.
    init(_ id: UUID, _ nextLocalIDs: [(type: String, next: Int64?)], _ row: inout RowReader) throws {
        self.id = id
        self.nextLocalIDs = nextLocalIDs
        acceptedSequence = try row.int64("accepted_sequence")
        createdAt = try row.moment("created_at")
        lastSeenAt = try row.moment("last_seen_at")
    }
}
