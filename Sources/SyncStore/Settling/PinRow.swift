import Foundation
import Postgres
import SyncModel

/// A local id named by a mutation that runs again.
struct PinRow {
    let device: UUID
    let id: LocalID

    static let columns = Columns<PinRow>(
        .uuid("device_id", \.device),
        .localID(\.id),
        .uuid("client_id") { $0.id.clientID(on: $0.device) }
    )
}
