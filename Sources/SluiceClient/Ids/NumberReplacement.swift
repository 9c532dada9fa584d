import Foundation
import GRDB

/// Replaces local ids in mutations by server ids, if the gateway does not have these local ids for this device.
///
/// The gateway does not have a local id if a copied database got a new device id, or if another device has sent the
/// create. A server id that is an integer cannot replace a local id, because the gateway treats integers in relations
/// as local ids of the device.
struct NumberReplacement {
    /// A SQL condition on a mapping: its server id can replace a local id.
    static let isReplaceable = "server_id LIKE '\"%'"

    private let map: EntityMap
    private let db: Database

    init(_ map: EntityMap, _ db: Database) {
        self.map = map
        self.db = db
    }

    /// Replaces all local ids in mutations that were never sent.
    ///
    /// - Parameter name: if not nil, only mutations that contain this client id are changed.
    func replaceInQueued(naming name: ClientName? = nil) throws {
        let ids = try String.fetchAll(
            db,
            sql: """
                SELECT id FROM sluice_mutations
                WHERE status = 'queued'
                    AND (?1 IS NULL OR EXISTS (SELECT 1 FROM json_each(names) n WHERE n.value = ?1))
                """,
            arguments: [name?.text]
        )
        for id in ids {
            try replace(in: id) { type, number in try IDMapping.of(type, clientID: number, db) }
        }
    }

    /// Replaces local ids that the gateway does not have, in a mutation that the gateway rejected.
    ///
    /// - Returns: whether any local id was replaced.
    func replaceUnknown(in id: UUID) throws -> Bool {
        try replace(in: id.wire) { type, number in
            let mapping = try IDMapping.of(type, key: number.text, db)
            return mapping?.clientID?.id == number.id ? nil : mapping
        }
    }

    @discardableResult
    private func replace(in id: String, _ mapping: (String, JSON) throws -> IDMapping?) throws -> Bool {
        func serverID(_ type: String, _ id: JSON) throws -> JSON? {
            guard map[type]?.idSpace == .device, id.int64 != nil else { return nil }
            return try mapping(type, id)?.serverID.flatMap { $0.string == nil ? nil : $0 }
        }
        let row = try Row.fetchOne(
            db,
            sql: """
                SELECT entity_type, operation, local_id, payload, edited_payload FROM sluice_mutations WHERE id = ?
                """,
            arguments: [id]
        )
        guard let row, let entity = map[row["entity_type"]] else { return false }
        var isChanged = false
        if !["create", "POST"].contains(row["operation"] as String), let localID = try row.json("local_id"),
            let serverID = try serverID(entity.entityType, localID)
        {
            isChanged = true
            try db.execute(
                sql: "UPDATE sluice_mutations SET local_id = NULL, server_id = ? WHERE id = ?",
                arguments: [serverID.text, id]
            )
        }
        for column in ["payload", "edited_payload"] {
            guard let before = try row.json(column) else { continue }
            let after = try entity.replacingIDs(in: before) { try serverID($0, $1) ?? $1 }
            guard after.text != before.text else { continue }
            isChanged = true
            try db.execute(
                sql: "UPDATE sluice_mutations SET \(column) = ? WHERE id = ?",
                arguments: [after.text, id]
            )
        }
        return isChanged
    }
}
