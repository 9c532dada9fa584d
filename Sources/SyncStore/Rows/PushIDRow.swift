import Foundation
import Postgres
import SyncModel

/// Something of the push's user, by its id.
struct PushIDRow {
    let push: Int
    let lane: LaneKey
    let id: UUID

    /// The columns; the id's has a name for each kind of it.
    private static func columns(_ id: String) -> Columns<PushIDRow> {
        Columns(.int4("push") { Int32($0.push) }, .lane(\.lane), .uuid(id, \.id))
    }

    /// Of idempotency keys.
    static let keys = columns("key")
    /// Of mutations.
    static let ids = columns("id")
    /// Of client ids.
    static let clients = columns("client_id")
    /// Of devices.
    static let devices = columns("device_id")
}
