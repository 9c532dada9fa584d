import Foundation
import GRDB

/// Changes the key of a row together with all references to the row. These are the declared references in the app's
/// tables, and the references in the outbox and in the library's other tables.
struct KeyRewriter {
    let map: EntityMap
    let db: Database

    init(_ map: EntityMap, _ db: Database) {
        self.map = map
        self.db = db
    }

    /// Replaces the row's key by the server id (``EntitySync/Keys/rewritten``).
    ///
    /// - Returns: the row's key after the call: the new key, or the old key if the column cannot hold the server id or
    ///   if one of the app's constraints prevents the change.
    func rewrite(_ mapping: IDMapping, _ entity: EntitySync, to serverID: JSON) throws -> String {
        let text = serverID.string ?? serverID.text
        let key = UUID(text: text)?.wire ?? text
        guard key != mapping.key, let new = entity.key.databaseValue(of: key),
            let old = entity.key.databaseValue(of: mapping.key)
        else { return mapping.key }
        let (table, column) = (entity.table.quotedDatabaseIdentifier, entity.key.column.quotedDatabaseIdentifier)
        let isRewritten = try ifTaken {
            try deferringForeignKeys {
                try db.execute(sql: "UPDATE \(table) SET \(column) = ? WHERE \(column) = ?", arguments: [new, old])
                try rename(entity, from: mapping.key, to: key)
            }
        }
        guard isRewritten else { return mapping.key }
        try db.execute(
            sql: "UPDATE sluice_id_mappings SET key = ? WHERE entity_type = ? AND key = ?",
            arguments: [key, entity.entityType, mapping.key]
        )
        if let clientID = mapping.clientID { try rewriteQueued(entity, clientID, to: serverID) }
        return key
    }

    /// Replaces the local id of a row with another local id of the device. The row was never sent.
    func rename(_ mapping: IDMapping, _ entity: EntitySync, to number: Int64) throws {
        guard let clientID = mapping.clientID, let old = entity.key.databaseValue(of: mapping.key) else { return }
        let (table, column) = (entity.table.quotedDatabaseIdentifier, entity.key.column.quotedDatabaseIdentifier)
        try deferringForeignKeys {
            try db.execute(sql: "UPDATE \(table) SET \(column) = ? WHERE \(column) = ?", arguments: [number, old])
            try rename(entity, from: mapping.key, to: String(number))
        }
        try db.execute(
            sql: "UPDATE sluice_id_mappings SET key = ?1, client_id = ?1 WHERE entity_type = ?2 AND key = ?3",
            arguments: [String(number), entity.entityType, mapping.key]
        )
        try renameQueued(entity, clientID, to: .integer(number))
    }

    /// Deletes a row, and changes all references to this row into references to another row. At the server, the two
    /// rows are one entity.
    ///
    /// - Returns: the key of the remaining row. If one of the app's constraints prevents the change, both rows remain,
    ///   and the result is the key of `mapping`.
    func merge(_ mapping: IDMapping, into other: IDMapping, _ entity: EntitySync) throws -> String {
        if let old = entity.key.databaseValue(of: mapping.key) {
            let (table, column) = (entity.table.quotedDatabaseIdentifier, entity.key.column.quotedDatabaseIdentifier)
            let isMerged = try ifTaken {
                try deferringForeignKeys {
                    try rename(entity, from: mapping.key, to: other.key)
                    try db.execute(sql: "DELETE FROM \(table) WHERE \(column) = ?", arguments: [old])
                }
            }
            guard isMerged else { return mapping.key }
        }
        try ServerSnapshot.delete(EntityName(entity.entityType, mapping.key), db)
        // the row of `other` exists, or is itself held. Therefore no held row has to wait for the row of `other` any
        // longer. The next pull tries to write the rows that waited.
        try db.execute(
            sql: """
                UPDATE sluice_held SET waits_for_type = NULL, waits_for_key = NULL
                WHERE waits_for_type = ? AND waits_for_key = ?
                """,
            arguments: [entity.entityType, other.key]
        )
        try db.execute(
            sql: "DELETE FROM sluice_id_mappings WHERE entity_type = ? AND key = ?",
            arguments: [entity.entityType, mapping.key]
        )
        // if the remaining row has no client id, it gets this client id. References to the client id may remain,
        // because the gateway now accepts the client id for the entity
        try db.execute(
            sql: """
                UPDATE sluice_id_mappings SET client_id = coalesce(client_id, ?) WHERE entity_type = ? AND key = ?
                """,
            arguments: [mapping.clientID?.id, entity.entityType, other.key]
        )
        return other.key
    }

    /// - Returns: false if the app's tables do not accept the change. In that case, nothing of the change is written,
    ///   but the rest of the gateway's response still takes effect.
    private func ifTaken(_ body: () throws -> Void) throws -> Bool {
        do {
            try db.inSavepoint {
                try body()
                return .commit
            }
            return true
        } catch let error as DatabaseError where error.isAboutRow {
            return false
        }
    }

    /// Defers the check of foreign keys while `body` runs, because a parent and its children change in sequence. Later
    /// writes in the transaction are checked immediately again.
    private func deferringForeignKeys(_ body: () throws -> Void) throws {
        try db.execute(sql: "PRAGMA defer_foreign_keys = ON")
        let result = Result { try body() }
        try db.execute(sql: "PRAGMA defer_foreign_keys = OFF")
        try result.get()
    }

    // MARK: - References to the row

    private func rename(_ entity: EntitySync, from old: String, to new: String) throws {
        let type = entity.entityType
        for referrer in map.referrers[type] ?? [] {
            switch referrer.column.kind {
            case .reference: try renameReferences(referrer, entity.key, old, new)
            default: try renameInJSON(referrer, entity, old, new)
            }
            try renameInBases(referrer.entity, entity, old, new)
        }
        try renameForeignKeys(entity, old, new)
        for table in ["sluice_mutations", "sluice_base", "sluice_held"] {
            try db.execute(
                sql: "UPDATE OR REPLACE \(table) SET key = ? WHERE entity_type = ? AND key = ?",
                arguments: [new, type, old]
            )
        }
        try db.execute(
            sql: "UPDATE sluice_held SET waits_for_key = ? WHERE waits_for_type = ? AND waits_for_key = ?",
            arguments: [new, type, old]
        )
    }

    /// Replaces a key in the foreign keys of all the app's tables, including tables that are not synchronized.
    private func renameForeignKeys(_ entity: EntitySync, _ old: String, _ new: String) throws {
        let tables = try String.fetchAll(
            db,
            sql: "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
        )
        for table in tables {
            for key in try db.foreignKeys(on: table) {
                guard key.destinationTable.lowercased() == entity.table.lowercased(), key.mapping.count == 1,
                    key.mapping[0].destination.lowercased() == entity.key.column.lowercased()
                else { continue }
                let column = key.mapping[0].origin.quotedDatabaseIdentifier
                try db.execute(
                    sql: "UPDATE \(table.quotedDatabaseIdentifier) SET \(column) = ? WHERE \(column) = ?",
                    arguments: [entity.key.databaseValue(of: new), entity.key.databaseValue(of: old)]
                )
            }
        }
    }

    private typealias Referrer = (entity: EntitySync, column: SyncedColumn)

    private func renameReferences(_ referrer: Referrer, _ key: EntityKey, _ old: String, _ new: String) throws {
        let column = referrer.column.name.quotedDatabaseIdentifier
        try db.execute(
            sql: "UPDATE \(referrer.entity.table.quotedDatabaseIdentifier) SET \(column) = ? WHERE \(column) = ?",
            arguments: [key.databaseValue(of: new), key.databaseValue(of: old)]
        )
    }

    private func renameInJSON(_ referrer: Referrer, _ target: EntitySync, _ old: String, _ new: String) throws {
        let (table, column) = (
            referrer.entity.table.quotedDatabaseIdentifier, referrer.column.name.quotedDatabaseIdentifier
        )
        let key = referrer.entity.key.column.quotedDatabaseIdentifier
        let rows = try Row.fetchAll(
            db,
            sql: "SELECT \(key), \(column) FROM \(table) WHERE instr(lower(\(column)), lower(?))",
            arguments: [old]
        )
        for row in rows {
            // if the app's value is not JSON, it contains no references
            guard let text: String = row[1], var json = try? JSON(parsing: text) else { continue }
            for path in referrer.column.references where path.entityType == target.entityType {
                json = path.replacing(in: json) { target.key.text(of: $0) == old ? target.key.json(of: new) : $0 }
            }
            try db.execute(
                sql: "UPDATE \(table) SET \(column) = ? WHERE \(key) = ?",
                arguments: [json.text, row[0] as DatabaseValue]
            )
        }
    }

    private func renameInBases(_ entity: EntitySync, _ target: EntitySync, _ old: String, _ new: String) throws {
        let rows = try Row.fetchAll(
            db,
            sql: "SELECT key, document FROM sluice_base WHERE entity_type = ? AND instr(document, ?)",
            arguments: [entity.entityType, old]
        )
        for row in rows {
            let document = entity.replacingIDs(in: try JSON(parsing: row[1] as String)) { type, id in
                type == target.entityType && target.key.text(of: id) == old ? target.key.json(of: new) : id
            }
            try db.execute(
                sql: "UPDATE sluice_base SET document = ? WHERE entity_type = ? AND key = ?",
                arguments: [document.text, entity.entityType, row[0] as String]
            )
        }
    }

    // MARK: - The outbox

    /// Replaces the client id by the server id in mutations that were never sent.
    ///
    /// Mutations that were already sent must be repeated byte for byte, so they are not changed. The gateway accepts
    /// both ids.
    private func rewriteQueued(_ entity: EntitySync, _ clientID: JSON, to serverID: JSON) throws {
        try db.execute(
            sql: """
                UPDATE sluice_mutations SET local_id = NULL, server_id = ?3
                WHERE status = 'queued' AND entity_type = ?1 AND local_id = ?2 AND operation NOT IN ('create', 'POST')
                """,
            arguments: [entity.entityType, clientID.id, serverID.text]
        )
        let rows = try Row.fetchAll(
            db,
            sql: """
                SELECT m.sequence_number, m.payload, m.operation, m.entity_type FROM sluice_mutations m
                WHERE m.status = 'queued' AND m.payload IS NOT NULL
                    AND EXISTS (SELECT 1 FROM json_each(m.names) n WHERE n.value = ?)
                """,
            arguments: [ClientName(entity.entityType, clientID).text]
        )
        for row in rows {
            let before = try JSON(parsing: row[1] as String)
            // a request of the app may contain ids in any place, but a row's document contains ids only in declared
            // references
            let isRequest = RowOperation(rawValue: row[2]) == nil
            let payload =
                isRequest
                ? before.replacing(clientID, with: serverID)
                : map[row[3]]?.replacingIDs(in: before) { type, id in
                    type == entity.entityType && id.id == clientID.id ? serverID : id
                } ?? before
            try db.execute(
                sql: "UPDATE sluice_mutations SET payload = ? WHERE sequence_number = ?",
                arguments: [payload.text, row[0] as Int64]
            )
        }
    }
}

extension KeyRewriter {
    /// Replaces a local id of the device by another local id in mutations that were never sent.
    func renameQueued(_ entity: EntitySync, _ old: JSON, to new: JSON) throws {
        try db.execute(
            sql: """
                UPDATE sluice_mutations SET local_id = ?3
                WHERE status = 'queued' AND entity_type = ?1 AND local_id = ?2
                """,
            arguments: [entity.entityType, old.id, new.id]
        )
        let rows = try Row.fetchAll(
            db,
            sql: """
                SELECT sequence_number, entity_type, payload, names FROM sluice_mutations
                WHERE status = 'queued' AND payload IS NOT NULL
                """
        )
        for row in rows {
            guard let owner = map[row["entity_type"]] else { continue }
            let before = try JSON(parsing: row["payload"] as String)
            let after = owner.replacingIDs(in: before) { type, id in
                type == entity.entityType && id.id == old.id ? new : id
            }
            let names = try JSON(parsing: row["names"] as String).replacing(
                .string(ClientName(entity.entityType, old).text),
                with: .string(ClientName(entity.entityType, new).text)
            )
            try db.execute(
                sql: "UPDATE sluice_mutations SET payload = ?, names = ? WHERE sequence_number = ?",
                arguments: [after.text, names.text, row["sequence_number"] as Int64]
            )
        }
    }
}

extension JSON {
    /// Returns the value, with each occurrence of an id replaced by another id.
    func replacing(_ id: JSON, with other: JSON) -> JSON {
        switch self {
        case .array(let elements): .array(elements.map { $0.replacing(id, with: other) })
        case .object(let members): .object(members.mapValues { $0.replacing(id, with: other) })
        case .string, .number: self.id == id.id ? other : self
        default: self
        }
    }
}
