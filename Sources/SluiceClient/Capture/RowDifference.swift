import GRDB

/// The difference between a row of the app and the library's document for the row.
enum RowDifference: Sendable {
    /// The library has no record of the row.
    case created([String: DatabaseValue])
    /// The row and the document differ in these columns.
    case changed([String: DatabaseValue], columns: [String])
    /// The row no longer exists, but the document still exists.
    case deleted
}

/// Finds differences, within one transaction.
struct RowComparison {
    private let map: EntityMap
    private let db: Database
    private let rows: Projection

    init(_ map: EntityMap, _ rows: Projection, _ db: Database) {
        (self.map, self.rows, self.db) = (map, rows, db)
    }

    /// - Parameter key: the key column's value.
    /// - Returns: the difference; nil if the row and the document are equal.
    /// - Throws: ``SluiceError/invalid(_:)`` for a row that cannot be written as a document.
    func difference(_ entity: EntitySync, _ key: DatabaseValue) throws -> RowDifference? {
        guard let text = entity.key.text(of: key) else { throw SluiceError.invalid("\(key) is not a valid key") }
        let (table, column) = (entity.table.quotedDatabaseIdentifier, entity.key.column.quotedDatabaseIdentifier)
        let statement = try db.cachedStatement(sql: "SELECT * FROM \(table) WHERE \(column) = ?")
        let row = try Row.fetchOne(statement, arguments: [key])
        let shown = try rows.document(entity, text)
        switch (row, shown) {
        case (nil, nil): return nil
        case (nil, _?): return .deleted
        case (let row?, nil): return .created(Self.values(row))
        case (let row?, let shown?):
            let values = Self.values(row)
            let edit = try UpdateEdit(
                entity,
                map,
                shown: shown,
                original: nil,
                edited: entity.document(of: values, map),
                standard: { try rows.standard(of: $0, in: entity) }
            )
            guard let members = edit.patch?.object else { return nil }
            return .changed(values, columns: entity.columns.filter { members[$0.member] != nil }.map(\.name))
        }
    }

    private static func values(_ row: Row) -> [String: DatabaseValue] {
        Dictionary(row.map { ($0, $1) }) { first, _ in first }
    }

    // MARK: - All rows

    /// Returns the differences of all rows of a type, except for held rows, which the library could not write.
    func missed(of entity: EntitySync) throws -> [MissedChange] {
        try keys(of: entity).compactMap { try missed(entity, $0) }
    }

    /// Returns the difference in the form that the app receives; nil if there is no difference.
    func missed(_ entity: EntitySync, _ key: DatabaseValue) throws -> MissedChange? {
        let text = entity.key.text(of: key) ?? "\(key)"
        do {
            return try difference(entity, key).map { MissedChange(entity.entityType, text, $0) }
        } catch let error as SluiceError {
            return MissedChange(entity.entityType, text, .invalid(error.description))
        }
    }

    /// Returns the keys of all rows in the table, and of all rows that have a document or an edit, except for held
    /// rows.
    private func keys(of entity: EntitySync) throws -> [DatabaseValue] {
        let (table, column) = (entity.table.quotedDatabaseIdentifier, entity.key.column.quotedDatabaseIdentifier)
        let held = try String.fetchSet(
            db,
            sql: "SELECT key FROM sluice_held WHERE entity_type = ?",
            arguments: [entity.entityType]
        )
        let own = try DatabaseValue.fetchAll(db, sql: "SELECT \(column) FROM \(table) ORDER BY \(column)")
        let known = Set(own.compactMap(entity.key.text(of:)))
        let documents = try String.fetchAll(
            db,
            sql: """
                SELECT key FROM sluice_base WHERE entity_type = ?1 AND NOT is_deleted
                UNION SELECT key FROM sluice_mutations WHERE entity_type = ?1 AND is_shown ORDER BY 1
                """,
            arguments: [entity.entityType]
        )
        return own.filter { value in entity.key.text(of: value).map { !held.contains($0) } ?? true }
            + documents.filter { !known.contains($0) && !held.contains($0) }.compactMap(entity.key.databaseValue(of:))
    }
}
