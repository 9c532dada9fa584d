import Postgres
import SyncModel

/// An entity that a push writes.
///
/// Named by server id, by a client id of the user, or by a local id of the device.
struct PushEntityRow: Hashable {
    let push: Int
    let device: DeviceKey
    let entity: EntityName

    /// Whether only a local id can find it.
    var needsNumber: Bool { entity.serverID == nil && entity.localID != nil }

    /// Finds its open mutations.
    static let open = Columns<PushEntityRow>(
        .int4("push") { Int32($0.push) },
        .lane(\.device.lane),
        .text("entity_type", \.entity.type),
        .uuid("local_id", \.entity.clientID),
        .text("server_id", \.entity.serverID?.text)
    )

    /// The same where some are named by a local id.
    static let openOwn = Columns(open, .uuid("device_id", \.device.id), .int8("local_number", \.entity.client?.number))

    /// By a client id of the user.
    static let mapped = Columns<PushEntityRow>(
        .lane(\.device.lane),
        .uuid("client_id", \.entity.clientID),
        .text("entity_type", \.entity.type)
    )

    /// By a local id of the device.
    static let own = Columns<PushEntityRow>(
        .device(\.device),
        .text("entity_type", \.entity.type),
        .int8("local_id", \.entity.client?.number)
    )
}
