import GRDB

/// Writes rows of one of the app's tables.
final class RowWriter {
    enum Result {
        case unchanged
        /// The row was inserted, updated or deleted.
        case written
        /// The row could not be written. The values are the reason, and the row for which this row waits, if there is
        /// one.
        case notWritten(String, EntityName?)
    }

    private let entity: EntitySync
    private let map: EntityMap
    private let db: Database
    private let upsert: String
    private let deletion: String
    private let foreignKeys: ForeignKeys
    /// The defaults of the columns that must not be NULL, for documents without the column's member.
    private lazy var defaults = Swift.Result { () -> [String: DatabaseValue] in
        try db.columns(in: entity.table).reduce(into: [:]) { defaults, column in
            guard column.isNotNull, let sql = column.defaultValueSQL else { return }
            defaults[column.name.lowercased()] = try DatabaseValue.fetchOne(db, sql: "SELECT \(sql)")
        }
    }

    init(_ entity: EntitySync, _ map: EntityMap, _ db: Database) {
        self.entity = entity
        self.map = map
        self.db = db
        foreignKeys = ForeignKeys(entity, map, db)
        let names = ([entity.key.column] + entity.columns.map(\.name)).map(\.quotedDatabaseIdentifier)
        let (table, key, columns) = (entity.table.quotedDatabaseIdentifier, names[0], names.dropFirst())
        var sql = """
            INSERT INTO \(table) (\(names.joined(separator: ", ")))
            VALUES (\(names.map { _ in "?" }.joined(separator: ", ")))
            ON CONFLICT (\(key)) DO
            """
        if columns.isEmpty {
            sql += " NOTHING"
        } else {
            // an unchanged row is not written, because observers of the row would be notified; values that are equal
            // only by their collation count as changed
            sql += """
                 UPDATE SET \(columns.map { "\($0) = excluded.\($0)" }.joined(separator: ", "))
                WHERE \(columns.map { "\(table).\($0) IS NOT excluded.\($0) COLLATE BINARY" }.joined(separator: " OR "))
                """
        }
        upsert = sql
        deletion = "DELETE FROM \(table) WHERE \(key) = ?"
    }

    /// Returns the value that a column gets if the document has no such member; nil for NULL.
    func standard(of column: SyncedColumn) throws -> DatabaseValue? { try defaults.get()[column.name.lowercased()] }

    /// - Parameter document: the document to write; nil deletes the row.
    func write(_ key: String, _ document: JSON?) throws -> Result {
        guard let keyValue = entity.key.databaseValue(of: key) else {
            return .notWritten("the key column '\(entity.key.column)' cannot hold '\(key)'", nil)
        }
        guard let document else {
            if let table = try foreignKeys.tableNamingLater(keyValue) {
                return .notWritten("rows of the table '\(table)' refer to it", nil)
            }
            let result = try run(deletion, [keyValue], key, nil)
            guard case .unchanged = result, try hasRow(key) else { return result }
            return .notWritten("a trigger of the table '\(entity.table)' prevents its deletion", nil)
        }
        if let target = try foreignKeys.missingLater(in: document, of: key) {
            return .notWritten("there is no row of the '\(target.entityType)' to which it refers", target)
        }
        var values = [keyValue]
        for column in entity.columns {
            guard let value = column.databaseValue(of: document[column.member], map) else {
                return .notWritten("member '\(column.member)' does not fit the column '\(column.name)'", nil)
            }
            values.append(try value.isNull ? standard(of: column) ?? value : value)
        }
        let result = try run(upsert, values, key, document)
        guard case .unchanged = result, try !hasRow(of: values) else { return result }
        return .notWritten("a trigger or a constraint of the table '\(entity.table)' prevents the write", nil)
    }

    private func run(_ sql: String, _ values: [DatabaseValue], _ key: String, _ document: JSON?) throws -> Result {
        do {
            let before = db.totalChangesCount
            // The statement is fetched from the cache each time, because a failed statement cannot be used again. It
            // would refuse the next row because of the previous row's error (https://www.sqlite.org/c3ref/reset.html).
            // If one of the app's triggers is invalid, the statement cannot be prepared at all.
            try db.cachedStatement(sql: sql).execute(arguments: StatementArguments(values))
            return db.totalChangesCount == before ? .unchanged : .written
        } catch let error as DatabaseError where error.isAboutRow && db.isInsideTransaction {
            let isForeignKey = error.extendedResultCode == .SQLITE_CONSTRAINT_FOREIGNKEY
            return .notWritten(
                error.message ?? "a constraint of the table '\(entity.table)'",
                isForeignKey ? try foreignKeys.missing(in: document, of: key) : nil
            )
        }
    }

    /// Returns the values of some of a row's columns, by column name.
    func values(of key: String, _ columns: [SyncedColumn]) throws -> [String: DatabaseValue] {
        guard let keyValue = entity.key.databaseValue(of: key) else { return [:] }
        let names = columns.map(\.name.quotedDatabaseIdentifier).joined(separator: ", ")
        let sql = """
            SELECT \(names) FROM \(entity.table.quotedDatabaseIdentifier)
            WHERE \(entity.key.column.quotedDatabaseIdentifier) = ?
            """
        guard let row = try Row.fetchOne(db, sql: sql, arguments: [keyValue]) else { return [:] }
        return Dictionary(zip(columns.map(\.name), row.databaseValues)) { first, _ in first }
    }

    /// Writes back values that ``values(of:_:)`` returned.
    func restore(_ values: [String: DatabaseValue], _ key: String) throws {
        guard !values.isEmpty, let keyValue = entity.key.databaseValue(of: key) else { return }
        let columns = values.sorted { $0.key < $1.key }
        let sql = """
            UPDATE \(entity.table.quotedDatabaseIdentifier)
            SET \(columns.map { "\($0.key.quotedDatabaseIdentifier) = ?" }.joined(separator: ", "))
            WHERE \(entity.key.column.quotedDatabaseIdentifier) = ?
            """
        try db.execute(sql: sql, arguments: StatementArguments(columns.map(\.value) + [keyValue]))
    }

    /// Returns the rows of synchronized tables that SQLite would delete together with a row.
    func cascade(of key: String) throws -> [EntityName] {
        guard let value = entity.key.databaseValue(of: key) else { return [] }
        return try foreignKeys.cascade(of: value)
    }

    /// Returns whether the table has a row with these values: the key, and then the columns in their order.
    private func hasRow(of values: [DatabaseValue]) throws -> Bool {
        let names = ([entity.key.column] + entity.columns.map(\.name)).map(\.quotedDatabaseIdentifier)
        let conditions = ["\(names[0]) = ?"] + names.dropFirst().map { "\($0) IS ? COLLATE BINARY" }
        let table = entity.table.quotedDatabaseIdentifier
        let statement = try db.cachedStatement(
            sql: "SELECT EXISTS (SELECT 1 FROM \(table) WHERE \(conditions.joined(separator: " AND ")))"
        )
        return try Bool.fetchOne(statement, arguments: StatementArguments(values)) ?? false
    }

    /// Returns whether the table has the row.
    func hasRow(_ key: String) throws -> Bool {
        guard let value = entity.key.databaseValue(of: key) else { return false }
        let (table, column) = (entity.table.quotedDatabaseIdentifier, entity.key.column.quotedDatabaseIdentifier)
        let statement = try db.cachedStatement(sql: "SELECT EXISTS (SELECT 1 FROM \(table) WHERE \(column) = ?)")
        return try Bool.fetchOne(statement, arguments: [value]) ?? false
    }
}

extension DatabaseError {
    /// Whether the error concerns only this row, so that other rows can still be written. Errors of the app's triggers
    /// are included. All other errors mean that the database cannot be written at present.
    var isAboutRow: Bool {
        [.SQLITE_CONSTRAINT, .SQLITE_ERROR, .SQLITE_MISMATCH, .SQLITE_TOOBIG].contains(resultCode)
    }
}
