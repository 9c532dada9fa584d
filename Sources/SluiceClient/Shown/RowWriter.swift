import GRDB

/// Writes rows of one of the app's tables.
struct RowWriter {
    enum Result {
        case unchanged
        /// The row is new, or has changed.
        case inserted
        /// The row could not be written: why, and the entity that it waits for.
        case kept(String, EntityName?)
    }

    private let entity: EntitySync
    private let map: EntityMap
    private let db: Database
    private let upsert: Statement
    private let deletion: Statement

    init(_ entity: EntitySync, _ map: EntityMap, _ db: Database) throws {
        self.entity = entity
        self.map = map
        self.db = db
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
            // a row that is as it should be is left alone, so that nobody who observes it is told of nothing
            sql += """
                 UPDATE SET \(columns.map { "\($0) = excluded.\($0)" }.joined(separator: ", "))
                WHERE \(columns.map { "\(table).\($0) IS NOT excluded.\($0)" }.joined(separator: " OR "))
                """
        }
        upsert = try db.cachedStatement(sql: sql)
        deletion = try db.cachedStatement(sql: "DELETE FROM \(table) WHERE \(key) = ?")
    }

    /// - Parameter document: nil to delete the row.
    func write(_ key: String, _ document: JSON?) throws -> Result {
        guard let keyValue = entity.key.databaseValue(of: key) else {
            return .kept("the key column '\(entity.key.column)' cannot hold '\(key)'", nil)
        }
        guard let document else { return try run(deletion, [keyValue], nil) }
        var values = [keyValue]
        for column in entity.columns {
            guard let value = column.databaseValue(of: document[column.member], map) else {
                return .kept("member '\(column.member)' does not fit the column '\(column.name)'", nil)
            }
            values.append(value)
        }
        return try run(upsert, values, document)
    }

    private func run(_ statement: Statement, _ values: [DatabaseValue], _ document: JSON?) throws -> Result {
        do {
            let before = db.totalChangesCount
            try statement.execute(arguments: StatementArguments(values))
            return db.totalChangesCount == before ? .unchanged : .inserted
        } catch let error as DatabaseError where error.resultCode == .SQLITE_CONSTRAINT {
            let target = try error.extendedResultCode == .SQLITE_CONSTRAINT_FOREIGNKEY ? missing(in: document) : nil
            return .kept(error.message ?? "a constraint of the table '\(entity.table)'", target)
        }
    }

    /// The first row that a document names and that is not there.
    private func missing(in document: JSON?) throws -> EntityName? {
        for column in entity.columns {
            guard case .reference(let type) = column.kind, let id = document?[column.member], let target = map[type],
                let key = target.key.text(of: id), let value = target.key.databaseValue(of: key)
            else { continue }
            let sql = """
                SELECT EXISTS (SELECT 1 FROM \(target.table.quotedDatabaseIdentifier)
                WHERE \(target.key.column.quotedDatabaseIdentifier) = ?)
                """
            if try Bool.fetchOne(db, sql: sql, arguments: [value]) == false { return EntityName(type, key) }
        }
        return nil
    }
}
