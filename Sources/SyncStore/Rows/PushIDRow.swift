import Foundation
import Postgres
import SyncModel

/// An id that a push asks for.
struct PushIDRow {
    let push: Int
    let lane: LaneKey
    let id: UUID

    /// The id's column is named by its kind.
    private static func columns(_ id: String) -> Columns<PushIDRow> {
        Columns(.int4("push") { Int32($0.push) }, .lane(\.lane), .uuid(id, \.id))
    }

    static let keys = columns("key")
    static let ids = columns("id")
    static let clients = columns("client_id")
    static let devices = columns("device_id")
}
