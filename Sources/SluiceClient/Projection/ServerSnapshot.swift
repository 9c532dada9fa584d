import GRDB

/// An entity as last received from the server. Its document has the phone's ids.
struct ServerSnapshot: Sendable {
    var version: Int64?
    var etag: String?
    var isDeleted: Bool
    /// The last document received, also of a deleted entity.
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

    /// - Parameter generation: the generation of the pull from the beginning that contains the entity; nil keeps the
    ///   stored generation.
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
    /// Notifies observers of the tables without row ids, whose changes SQLite does not report.
    ///
    /// Call it once in a transaction that changes such tables and no mutation: observers also observe mutations.
    func noteChangeOfBase() throws {
        try notifyChanges(in: Table("sluice_base"))
        try notifyChanges(in: Table("sluice_id_mappings"))
    }
}
