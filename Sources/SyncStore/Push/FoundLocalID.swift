import Foundation
import Postgres
import SyncModel

/// A row of ``LocalIDStatements/find`` about one local id.
struct FoundLocalID {
    /// The place of the asking push in the group.
    let push: Int
    let id: LocalID
    /// The UUID that represents it.
    let clientID: UUID
    /// Where it leads, or will; nil where the device has assigned no such id.
    let mapping: IDMapping?
    /// Whether waiting mutations that name it can be sent.
    let isPinned: Bool
    /// Whether an unconfirmed pull may have assigned it.
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
