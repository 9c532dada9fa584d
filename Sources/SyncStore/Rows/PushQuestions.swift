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
    /// An id of a device's own.
    struct Own: Hashable {
        let device: UUID
        let number: Int64
    }

    let push: Int
    let lane: LaneKey
    let type: String
    let localID: UUID?
    let own: Own?
    let serverID: String?

    /// What its open mutations are found by.
    static let open = Columns<PushEntityRow>(
        .int4("push") { Int32($0.push) },
        .lane(\.lane),
        .text("entity_type", \.type),
        .uuid("local_id", \.localID),
        .text("server_id", \.serverID)
    )

    /// The same where some are named by an id of a device's own.
    static let openOwn = Columns(open, .uuid("device_id", \.own?.device), .int8("local_number", \.own?.number))

    /// By a client id of the user.
    static let mapped = Columns<PushEntityRow>(
        .lane(\.lane),
        .uuid("client_id", \.localID),
        .text("entity_type", \.type)
    )

    /// By an id of the device's own.
    static let own = Columns<PushEntityRow>(
        .lane(\.lane),
        .uuid("device_id", \.own?.device),
        .text("entity_type", \.type),
        .int8("local_id", \.own?.number)
    )
}
