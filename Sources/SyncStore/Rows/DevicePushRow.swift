import Foundation
import Postgres
import SyncModel

/// A device that has pushed.
struct DevicePushRow {
    let lane: LaneKey
    let id: UUID
    let acceptedSequence: Int64
    /// In stored form; nil where they stay unchanged.
    let unresolvedIDs: [UInt8]?

    static let columns = Columns<DevicePushRow>(
        .lane(\.lane),
        .uuid("device_id", \.id),
        .int8("accepted_sequence", \.acceptedSequence),
        .bytes("stray_ids", \.unresolvedIDs)
    )
}
