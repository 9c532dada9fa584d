import Foundation
import GRDB

/// The ids of an entity on the phone and at the server (`docs/spec`, specification 000).
struct IDMapping: Sendable {
    enum Status: String, Sendable { case pending, resolved, failed }

    let entityType: String
    /// The key of the app's row.
    let key: String
    /// The id that the phone generated; nil if another user or the server created the entity.
    let clientID: JSON?
    let serverID: JSON?
    let status: Status

    /// Returns the id of the entity in a push. It is the client id or, if another device has created the entity, the
    /// server id.
    ///
    /// After a restore from a backup, the gateway may have lost the client id together with the entity. Until the other
    /// device has sent the create again, the gateway would treat the client id as ordinary data. The server id
    /// identifies the entity before and after the restore.
    func wireID(_ db: Database) throws -> JSON? {
        try isNamedByServer(db) ? serverID : clientID ?? serverID
    }

    func isNamedByServer(_ db: Database) throws -> Bool {
        guard status == .resolved, serverID != nil else { return false }
        // the client id is a local id of the device, or the UUID of a mapped type
        guard let clientID else { return true }
        if case .number = clientID { return false }
        let statement = try db.cachedStatement(
            sql: """
                SELECT EXISTS (
                    SELECT 1 FROM sluice_mutations
                    WHERE entity_type = ? AND key = ? AND operation IN ('create', 'POST'))
                """
        )
        return try Bool.fetchOne(statement, arguments: [entityType, key]) == false
    }

    init(entityType: String, key: String, clientID: JSON?, serverID: JSON?, status: Status) {
        self.entityType = entityType
        self.key = key
        self.clientID = clientID
        self.serverID = serverID
        self.status = status
    }

    /// Returns this mapping with another local id of the device, for a type with local ids.
    ///
    /// - Parameter number: the local id; nil if the gateway may have no local id of this device for the row.
    func numbered(_ number: JSON?) -> IDMapping {
        IDMapping(entityType: entityType, key: key, clientID: number, serverID: serverID, status: status)
    }

    fileprivate init(_ row: Row) throws {
        entityType = row["entity_type"]
        key = row["key"]
        clientID = try row.json("client_id")
        serverID = try row.json("server_id")
        status = Status(rawValue: row["status"]) ?? .pending
    }
}

/// The table of mappings. Every look-up is by a unique index.
extension IDMapping {
    static func of(_ entityType: String, key: String, _ db: Database) throws -> IDMapping? {
        try fetch(db, "entity_type = ? AND key = ?", [entityType, key])
    }

    static func of(_ entityType: String, serverID: JSON, _ db: Database) throws -> IDMapping? {
        try fetch(db, "entity_type = ? AND server_id = ?", [entityType, serverID.id])
    }

    static func of(_ entityType: String, clientID: JSON, _ db: Database) throws -> IDMapping? {
        try fetch(db, entityType, clientID: clientID.id)
    }

    static func of(_ name: ClientName, _ db: Database) throws -> IDMapping? {
        let (entityType, id) = name.parts
        return try fetch(db, entityType, clientID: id)
    }

    /// Most client ids equal the row's key, which already has an index. A second index contains only the other client
    /// ids.
    private static func fetch(_ db: Database, _ entityType: String, clientID: String) throws -> IDMapping? {
        let key = clientID.hasPrefix("\"") ? String(clientID.dropFirst().dropLast()) : clientID
        return try fetch(db, "entity_type = ? AND key = ? AND client_id = ?", [entityType, key, clientID])
            ?? fetch(
                db,
                "entity_type = ? AND client_id = ? AND client_id <> key AND client_id <> '\"' || key || '\"'",
                [entityType, clientID]
            )
    }

    /// Returns those of the given ids that no mapping of the type has as a key, a client id or a server id.
    ///
    /// - Parameter rows: a JSON array of arrays with three elements: the id in the format of the tables, its text, and
    ///   the key that the entity would have.
    static func unmapped(_ entityType: String, _ rows: String, _ db: Database) throws -> [String] {
        let statement = try db.cachedStatement(
            sql: """
                WITH ids (id, text, key) AS (
                    SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]'), json_extract(value, '$[2]')
                    FROM json_each(?2))
                SELECT id FROM ids
                WHERE NOT EXISTS (
                        SELECT 1 FROM sluice_id_mappings m WHERE m.entity_type = ?1 AND m.server_id = ids.id)
                    AND NOT EXISTS (SELECT 1 FROM sluice_id_mappings m WHERE m.entity_type = ?1 AND m.key = ids.text)
                    AND NOT EXISTS (SELECT 1 FROM sluice_id_mappings m WHERE m.entity_type = ?1 AND m.key = ids.key)
                    AND NOT EXISTS (
                        SELECT 1 FROM sluice_id_mappings m
                        WHERE m.entity_type = ?1 AND m.client_id = ids.id AND m.client_id <> m.key
                            AND m.client_id <> '"' || m.key || '"')
                """
        )
        return try String.fetchAll(statement, arguments: [entityType, rows])
    }

    private static func fetch(
        _ db: Database,
        _ condition: String,
        _ arguments: StatementArguments
    ) throws -> IDMapping? {
        let statement = try db.cachedStatement(
            sql: """
                SELECT entity_type, key, client_id, server_id, status FROM sluice_id_mappings WHERE \(condition)
                """
        )
        return try Row.fetchOne(statement, arguments: arguments).map(IDMapping.init)
    }

    /// Returns whether the library has only references to the entity, but no data of the entity.
    func isNameOnly(_ db: Database) throws -> Bool { try clientID == nil && isWithoutData(db) }

    func isWithoutData(_ db: Database) throws -> Bool {
        let statement = try db.cachedStatement(
            sql: """
                SELECT EXISTS (SELECT 1 FROM sluice_base WHERE entity_type = ?1 AND key = ?2)
                    OR EXISTS (SELECT 1 FROM sluice_mutations WHERE entity_type = ?1 AND key = ?2)
                """
        )
        return try Bool.fetchOne(statement, arguments: [entityType, key]) == false
    }

    /// Returns whether the create of the entity was never sent.
    func isUnsent(_ db: Database) throws -> Bool {
        guard status == .pending else { return false }
        let statement = try db.cachedStatement(
            sql: """
                SELECT EXISTS (
                    SELECT 1 FROM sluice_mutations
                    WHERE entity_type = ? AND key = ? AND operation = 'create' AND status = 'queued')
                """
        )
        return try Bool.fetchOne(statement, arguments: [entityType, key]) ?? false
    }

    /// Writes the mapping, which replaces an older mapping of the same key.
    func save(_ db: Database, at now: String) throws {
        try insert(
            db,
            at: now,
            """
            UPDATE SET client_id = excluded.client_id, server_id = excluded.server_id, status = excluded.status,
                resolved_at = excluded.resolved_at
            """
        )
    }

    /// - Returns: false if there is already a mapping of the same key. In that case, nothing is written.
    func insert(_ db: Database, at now: String) throws -> Bool {
        try insert(db, at: now, "NOTHING")
        return db.changesCount > 0
    }

    private func insert(_ db: Database, at now: String, _ onConflict: String) throws {
        let statement = try db.cachedStatement(
            sql: """
                INSERT INTO sluice_id_mappings (entity_type, key, client_id, server_id, status, created_at, resolved_at)
                VALUES (?, ?, ?, ?, ?, ?, ?)
                ON CONFLICT (entity_type, key) DO \(onConflict)
                """
        )
        try statement.execute(arguments: [
            entityType, key, clientID?.id, serverID?.id, status.rawValue, now, status == .resolved ? now : nil,
        ])
    }
}

extension JSON {
    /// The id in the format of the library's tables: JSON, with UUIDs in lower case (RFC 9562, 4).
    var id: String {
        if case .string(let text) = self, text.utf8.count == 36, UUID(text: text) != nil {
            return JSON.string(text.lowercased()).text
        }
        return text
    }
}
