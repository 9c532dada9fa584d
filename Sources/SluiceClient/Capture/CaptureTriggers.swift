import GRDB

/// Triggers that record the keys of rows in which the app changes a mapped column.
///
/// The triggers are temporary and belong to the writing connection. Permanent triggers would be part of the schema:
/// GRDB's `eraseDatabaseOnSchemaChange` would then erase the file, and rebuilding a table would drop its triggers.
struct CaptureTriggers {
    private let map: EntityMap
    private let db: Database

    init(_ map: EntityMap, _ db: Database) { (self.map, self.db) = (map, db) }

    /// - Parameter isDurable: whether the recorded keys outlive the process. If not, they are stored in a temporary
    ///   table, which hides the library's table of the same name.
    func install(isDurable: Bool) throws {
        try remove()
        try db.execute(sql: "CREATE TEMP TABLE sluice_applying (id INTEGER PRIMARY KEY)")
        if !isDurable { try db.execute(sql: "CREATE TEMP TABLE sluice_captured (\(Self.columns))") }
        for entity in map.entities { try install(entity) }
    }

    /// Removes the triggers of an earlier client on the same connection.
    func remove() throws {
        for entity in map.entities {
            for event in ["insert", "update", "delete"] {
                try db.execute(sql: "DROP TRIGGER IF EXISTS temp.\(Self.name(event, entity))")
            }
        }
        for table in ["sluice_applying", "sluice_captured"] {
            try db.execute(sql: "DROP TABLE IF EXISTS temp.\(table)")
        }
    }

    static let columns = """
        sequence INTEGER PRIMARY KEY, entity_type TEXT NOT NULL, key BLOB, problem TEXT
        """

    private static func name(_ event: String, _ entity: EntitySync) -> String {
        "sluice_capture_\(event)_\(entity.table)".quotedDatabaseIdentifier
    }

    private func install(_ entity: EntitySync) throws {
        let (table, key) = (entity.table.quotedDatabaseIdentifier, entity.key.column.quotedDatabaseIdentifier)
        let columns = ([entity.key.column] + entity.columns.map(\.name)).map(\.quotedDatabaseIdentifier)
        // the statement has no ON CONFLICT clause, because the conflict clause of the app's statement would override it
        func note(_ row: String) -> String {
            """
            INSERT INTO sluice_captured (entity_type, key) SELECT '\(entity.entityType)', \(row).\(key)
            WHERE NOT EXISTS (
                SELECT 1 FROM sluice_captured c WHERE c.entity_type = '\(entity.entityType)' AND c.key IS \(row).\(key));
            """
        }
        let events = [
            ("insert", "INSERT", note("new")), ("delete", "DELETE", note("old")),
            ("update", "UPDATE OF \(columns.joined(separator: ", "))", note("new") + note("old")),
        ]
        for (name, event, body) in events {
            try db.execute(
                sql: """
                    CREATE TEMP TRIGGER \(Self.name(name, entity)) AFTER \(event) ON \(table)
                    WHEN NOT EXISTS (SELECT 1 FROM sluice_applying) BEGIN \(body) END
                    """
            )
        }
    }
}
