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

    /// From the first three columns: watermark, when it was made, when it was seen last.
    init(_ id: UUID, _ rows: Rows, _ row: Int) throws {
        self.id = id
        acceptedSequence = try rows.int64(row, 0)
        createdAt = Timestamp(microseconds: try rows.timestamp(row, 1))
        lastSeenAt = Timestamp(microseconds: try rows.timestamp(row, 2))
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
