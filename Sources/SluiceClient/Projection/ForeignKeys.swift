import GRDB

/// The effects of the app's foreign keys on a table that the library writes. The effects are errors that SQLite would
/// report only at the end of the transaction, and changes that SQLite makes automatically.
final class ForeignKeys {
    private struct Key {
        let table: String
        let column: String
        let target: String
        let targetColumn: String?
        let onDelete: String
        /// Whether the foreign key is checked only when the transaction ends. A page of changes that fails at that
        /// moment would fail at each attempt.
        let isDeferred: Bool
    }

    private let entity: EntitySync
    private let map: EntityMap
    private let db: Database
    private lazy var own = Result { try Self.keys(of: entity.table, db) }
    /// The foreign keys of all tables that reference this table.
    private lazy var naming = Result {
        try String.fetchAll(
            db,
            sql: "SELECT name FROM sqlite_schema WHERE type = 'table' AND sql LIKE '%REFERENCES%'"
        ).flatMap { try Self.keys(of: $0, db) }.filter { key in
            key.target.lowercased() == entity.table.lowercased()
                && (key.targetColumn ?? entity.key.column).lowercased() == entity.key.column.lowercased()
        }
    }

    init(_ entity: EntitySync, _ map: EntityMap, _ db: Database) {
        self.entity = entity
        self.map = map
        self.db = db
    }

    private static func keys(of table: String, _ db: Database) throws -> [Key] {
        let statement = try db.cachedStatement(
            sql: """
                SELECT k."from", k."table", k."to", k.on_delete, s.sql LIKE '%INITIALLY DEFERRED%'
                FROM sqlite_schema s, pragma_foreign_key_list(s.name) k
                WHERE s.type = 'table' AND lower(s.name) = lower(?)
                """
        )
        return try Row.fetchAll(statement, arguments: [table]).map {
            Key(table: table, column: $0[0], target: $0[1], targetColumn: $0[2], onDelete: $0[3], isDeferred: $0[4])
        }
    }

    /// Returns a missing row that a document references by a foreign key with a deferred check.
    func missingLater(in document: JSON, of key: String) throws -> EntityName? {
        try own.get().contains(where: \.isDeferred) ? missing(in: document, of: key, where: \.isDeferred) : nil
    }

    /// Returns the first missing row that a document references by a foreign key. A row may reference itself.
    func missing(in document: JSON?, of ownKey: String) throws -> EntityName? {
        try missing(in: document, of: ownKey) { _ in true }
    }

    private func missing(in document: JSON?, of ownKey: String, where isAsked: (Key) -> Bool) throws -> EntityName? {
        let columns = Set(try own.get().filter(isAsked).map { $0.column.lowercased() })
        for column in entity.columns where columns.contains(column.name.lowercased()) {
            guard case .reference(let type) = column.kind, let id = document?[column.member], let target = map[type],
                let key = target.key.text(of: id), let value = target.key.databaseValue(of: key),
                type != entity.entityType || key != ownKey
            else { continue }
            if try !exists(target.table, target.key.column, value) { return EntityName(type, key) }
        }
        return nil
    }

    /// Returns a table with rows that reference the given row, if SQLite would report the violation only at the end of
    /// the transaction.
    func tableNamingLater(_ key: DatabaseValue) throws -> String? {
        try naming.get().first { name in
            try name.isDeferred && name.onDelete == "NO ACTION" && exists(name.table, name.column, key)
        }?.table
    }

    /// Returns the rows of synchronized tables that SQLite deletes together with the given row.
    func cascade(of key: DatabaseValue) throws -> [EntityName] {
        let cascading = try naming.get().filter { $0.onDelete == "CASCADE" }
        if cascading.isEmpty { return [] }
        return try map.entities.flatMap { child in
            try cascading.filter { $0.table.lowercased() == child.table.lowercased() }.flatMap { name in
                let (table, column) = (child.table.quotedDatabaseIdentifier, name.column.quotedDatabaseIdentifier)
                return try DatabaseValue.fetchAll(
                    db,
                    sql: "SELECT \(child.key.column.quotedDatabaseIdentifier) FROM \(table) WHERE \(column) = ?",
                    arguments: [key]
                ).compactMap { child.key.text(of: $0) }.map { EntityName(child.entityType, $0) }
            }
        }
    }

    private func exists(_ table: String, _ column: String, _ value: DatabaseValue) throws -> Bool {
        let statement = try db.cachedStatement(
            sql: """
                SELECT EXISTS (SELECT 1 FROM \(table.quotedDatabaseIdentifier)
                WHERE \(column.quotedDatabaseIdentifier) = ?)
                """
        )
        return try Bool.fetchOne(statement, arguments: [value]) ?? false
    }
}
