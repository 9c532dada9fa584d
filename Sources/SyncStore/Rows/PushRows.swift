package import FoundationEssentials
package import Postgres
package import SyncModel

// The rows that a group of pushes writes in addition to mutations.

extension MappingName {
    package static let columns = Columns<MappingName>(
        .lane(\.lane),
        .value("client_id", \.clientID),
        .value("entity_type", \.entityType)
    )
}

struct PushRow {
    let push: Int
    let lane: LaneKey

    static let columns = Columns<PushRow>(.value("push") { Int32($0.push) }, .lane(\.lane))
}

/// An id that a push looks up.
struct PushIDRow {
    let push: Int
    let lane: LaneKey
    let id: UUID

    /// The columns. The column of the id is named after the kind of the id.
    private static func columns(_ id: String) -> Columns<PushIDRow> {
        Columns(.value("push") { Int32($0.push) }, .lane(\.lane), .value(id, \.id))
    }

    static let keys = columns("key")
    static let ids = columns("id")
    static let clients = columns("client_id")
    static let devices = columns("device_id")
}

/// A local id of a device.
struct PushLocalIDRow {
    let push: Int
    let device: DeviceKey
    let id: LocalID

    static let columns = Columns<PushLocalIDRow>(
        .value("push") { Int32($0.push) },
        .device(\.device),
        .localID(\.id)
    )

    /// The same columns, and the id of the mapping that replaces the local id once the entity's tombstone is deleted.
    static let compared = Columns<PushLocalIDRow>(columns, .value("retired_id") { $0.id.retiredID(on: $0.device.id) })
}

/// An entity that a push writes.
///
/// The entity is named by a server id, a client id of the user, or a local id of the device.
struct PushEntityRow: Hashable {
    let push: Int
    let device: DeviceKey
    let entity: EntityName

    /// Whether the entity can be found only by a local id.
    var needsNumber: Bool { entity.serverID == nil && entity.localID != nil }

    /// The columns by which the entity's open mutations are found.
    static let open = Columns<PushEntityRow>(
        .value("push") { Int32($0.push) },
        .lane(\.device.lane),
        .value("entity_type", \.entity.type),
        .value("local_id", \.entity.clientID),
        .value("server_id", \.entity.serverID?.text)
    )

    /// The columns for a group that names some entities by a local id.
    static let openOwn = Columns(
        open,
        .value("device_id", \.device.id),
        .value("local_number", \.entity.client?.number)
    )

    /// The columns of entities that are named by a client id of the user.
    static let mapped = Columns<PushEntityRow>(
        .lane(\.device.lane),
        .value("client_id", \.entity.clientID),
        .value("entity_type", \.entity.type)
    )

    /// The columns of entities that are named by a local id of the device.
    static let own = Columns<PushEntityRow>(
        .device(\.device),
        .value("entity_type", \.entity.type),
        .value("local_id", \.entity.client?.number)
    )
}

/// An order key of a push.
struct PushOrderKeyRow: Hashable {
    let push: Int
    let lane: LaneKey
    let key: ByteExactString

    static let columns = Columns<PushOrderKeyRow>(
        .value("push") { Int32($0.push) },
        .lane(\.lane),
        .value("order_key", \.key.string)
    )
}

/// A device that has pushed.
struct DevicePushRow {
    let lane: LaneKey
    let id: UUID
    let acceptedSequence: Int64
    /// The device's history of UUIDs that matched no client id, in stored form; nil if the history remains unchanged.
    let unresolvedIDs: [UInt8]?

    static let columns = Columns<DevicePushRow>(
        .lane(\.lane),
        .value("device_id", \.id),
        .value("accepted_sequence", \.acceptedSequence),
        .bytes("stray_ids", \.unresolvedIDs)
    )
}

// Inputs of the look-ups for a group of pushes. Each row and each result contains the push's index in the group.

extension RowReader {
    /// Reads a push's index in the group.
    package mutating func push() throws(PostgresError) -> Int { try read("push") }
}

package struct DeviceKey: Hashable, Comparable {
    package let lane: LaneKey
    package let id: UUID

    package static func < (left: DeviceKey, right: DeviceKey) -> Bool {
        left.lane != right.lane ? left.lane < right.lane : left.id < right.id
    }
}

extension Columns {
    /// `organization_id`, `user_id` and `device_id`.
    package static func device(_ value: @escaping @Sendable (Row) -> DeviceKey) -> Self {
        Self(.lane { value($0).lane }, .value("device_id") { value($0).id })
    }

    /// `entity_type` and `local_id`.
    package static func localID(_ value: @escaping @Sendable (Row) -> LocalID) -> Self {
        Self(.value("entity_type") { value($0).entityType }, .value("local_id") { value($0).number })
    }
}

extension Columns<LocalID> {
    /// The local ids of one device.
    package static let localIDs = Columns.localID { $0 }
}

extension RowReader {
    /// Reads `entity_type` and `local_id`.
    package mutating func localID() throws(PostgresError) -> LocalID {
        LocalID(entityType: try read("entity_type"), number: try read("local_id"))
    }
}
