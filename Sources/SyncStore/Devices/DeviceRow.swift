import Foundation
import JSONText
import Postgres
import SyncModel

/// A device as its user sees it.
struct DeviceRow {
    private let id: UUID
    private let acceptedSequence: Int64
    private let createdAt: Timestamp
    private let lastSeenAt: Timestamp

    /// Columns of `devices`, for a table that is called `d`.
    static let list = "d.accepted_sequence, d.created_at, d.last_seen_at"

    /// Reads what ``list`` names.
    init(_ id: UUID, _ row: inout RowReader) throws {
        self.id = id
        acceptedSequence = try row.int64("accepted_sequence")
        createdAt = try row.moment("created_at")
        lastSeenAt = try row.moment("last_seen_at")
    }

    /// - Parameter next: where the device counts on, by type.
    func json(_ next: [(type: String, next: Int64?)]) -> [UInt8] {
        var writer = JSONWriter()
        writer.beginObject()
        writer.member("device_id", id)
        writer.member("accepted_sequence", acceptedSequence)
        writer.member("created_at", createdAt.rfc3339)
        writer.member("last_seen_at", lastSeenAt.rfc3339)
        writer.nextLocalIDs(next)
        writer.endObject()
        return writer.bytes
    }
}
