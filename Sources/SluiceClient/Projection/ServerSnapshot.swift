import GRDB

/// The base of an entity: its state as last received from the server. The document contains the phone's keys.
struct ServerSnapshot: Sendable {
    var version: Int64?
    var etag: String?
    var isDeleted: Bool
    /// The last received document. A deleted entity keeps its last document.
    var document: JSON?
}

extension ServerSnapshot {
    /// An entity that the server does not have any more, and that no pull has returned.
    init(deleted document: JSON) {
        self.init(version: nil, etag: nil, isDeleted: true, document: document)
    }

    static func of(_ name: EntityName, _ db: Database) throws -> ServerSnapshot? {
        let statement = try db.cachedStatement(
            sql: "SELECT version, etag, is_deleted, document FROM sluice_base WHERE entity_type = ? AND key = ?"
        )
        return try Row.fetchOne(statement, arguments: [name.entityType, name.key]).map { row in
            ServerSnapshot(
                version: row["version"],
                etag: row["etag"],
                isDeleted: row["is_deleted"],
                document: try row.json("document")
            )
        }
    }

    /// - Parameter generation: the number of the pull from the beginning, if the entity is from such a pull. Nil keeps
    ///   the stored number.
    func save(_ name: EntityName, generation: Int64? = nil, _ db: Database) throws {
        let statement = try db.cachedStatement(
            sql: """
                INSERT INTO sluice_base (entity_type, key, version, etag, is_deleted, document, generation)
                VALUES (?1, ?2, ?3, ?4, ?5, ?6, coalesce(?7, (SELECT generation FROM sluice_device)))
                ON CONFLICT (entity_type, key) DO UPDATE
                SET version = excluded.version, etag = excluded.etag, is_deleted = excluded.is_deleted,
                    document = coalesce(excluded.document, document), generation = coalesce(?7, generation)
                """
        )
        try statement.execute(arguments: [
            name.entityType, name.key, version, etag, isDeleted, document?.text, generation,
        ])
    }

    static func delete(_ name: EntityName, _ db: Database) throws {
        let statement = try db.cachedStatement(sql: "DELETE FROM sluice_base WHERE entity_type = ? AND key = ?")
        try statement.execute(arguments: [name.entityType, name.key])
    }
}

extension Database {
    /// Notifies observers of changes in tables without row ids, which SQLite does not report.
    ///
    /// Call this method once in each transaction that changes such tables but no mutation. A changed mutation already
    /// notifies the observers.
    func noteChangeOfBase() throws {
        try notifyChanges(in: Table("sluice_base"))
        try notifyChanges(in: Table("sluice_id_mappings"))
    }
}
