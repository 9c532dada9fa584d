import Foundation
import Postgres
import SyncModel

/// What ``LocalIDStatements/find`` says of an id of a device.
struct FoundLocalID {
    /// The place in the group of the push that asks.
    let push: Int
    let id: LocalID
    /// What stands for it.
    let clientID: UUID
    /// Where it leads, or will; nil where the device has given no such id.
    let mapping: IDMapping?
    /// Whether mutations that wait can be sent with it.
    let isPinned: Bool
    /// Whether a pull that is not confirmed may have assigned it.
    let mayBeAssigned: Bool

    init(_ row: inout RowReader) throws {
        push = try row.push()
        let device = try row.uuid("device_id")
        id = try row.localID()
        let isKnown = try row.bool("is_known")
        let mapping = IDMapping(
            id,
            on: device,
            serverID: try row.serverID(),
            createdBy: try row.optionalUUID("mutation_id"),
            isAbandoned: try row.bool("is_abandoned")
        )
        clientID = mapping.clientID
        self.mapping = isKnown ? mapping : nil
        isPinned = try row.bool("is_pinned")
        mayBeAssigned = try row.bool("may_be_assigned")
    }
}
