import Foundation
import Postgres
import SyncModel

/// A device's own id that a mutation names which runs again.
struct PinRow {
    let device: UUID
    let id: LocalID

    static let columns = Columns<PinRow>(
        .uuid("device_id", \.device),
        .localID(\.id),
        .uuid("client_id") { $0.id.clientID(on: $0.device) }
    )
}
