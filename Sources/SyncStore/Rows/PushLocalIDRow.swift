import Postgres
import SyncModel

/// A local id of a device.
struct PushLocalIDRow {
    let push: Int
    let device: DeviceKey
    let id: LocalID

    static let columns = Columns<PushLocalIDRow>(
        .int4("push") { Int32($0.push) },
        .device(\.device),
        .localID(\.id)
    )
}
