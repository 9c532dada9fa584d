import Foundation
import Postgres
import SyncModel

// What a group of pushes asks for. Each row bears its push's place in the group, and so does each answer.

/// A push, and whose it is.
struct PushRow {
    let push: Int
    let lane: LaneKey

    static let columns = Columns<PushRow>(.int4("push") { Int32($0.push) }, .lane(\.lane))
}

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

/// An id that a device counts.
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

extension RowReader {
    /// Reads a push's place in the group.
    mutating func push() throws(PostgresError) -> Int { Int(try int32("push")) }
}

/// An entity that a push writes, named in one of three ways: by server id, by a client id of the user, by an id of the
/// device's own.
struct PushEntityRow: Hashable {
    let push: Int
    let device: DeviceKey
    let entity: EntityName

    /// Whether it has to be found by an id of the device's own.
    var needsNumber: Bool { entity.serverID == nil && entity.localID != nil }

    /// What its open mutations are found by.
    static let open = Columns<PushEntityRow>(
        .int4("push") { Int32($0.push) },
        .lane(\.device.lane),
        .text("entity_type", \.entity.type),
        .uuid("local_id", \.entity.clientID),
        .text("server_id", \.entity.serverID?.text)
    )

    /// The same where some are named by an id of a device's own.
    static let openOwn = Columns(open, .uuid("device_id", \.device.id), .int8("local_number", \.entity.client?.number))

    /// By a client id of the user.
    static let mapped = Columns<PushEntityRow>(
        .lane(\.device.lane),
        .uuid("client_id", \.entity.clientID),
        .text("entity_type", \.entity.type)
    )

    /// By an id of the device's own.
    static let own = Columns<PushEntityRow>(
        .device(\.device),
        .text("entity_type", \.entity.type),
        .int8("local_id", \.entity.client?.number)
    )
}
