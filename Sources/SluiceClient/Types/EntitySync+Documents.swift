import GRDB

/// Converts rows to documents, and documents to rows.
///
/// These documents contain the phone's keys in place of the gateway's ids.
extension EntitySync {
    /// Returns the document for a row's values, which are given by column name.
    ///
    /// - Throws: ``SluiceError/invalid(_:)`` for a value that is not of its column's kind, and for a record without one
    ///   of the columns. Only NULL is treated as an empty value.
    func document(of values: [String: DatabaseValue], _ map: EntityMap) throws -> JSON {
        var document: [String: JSON] = [:]
        for column in columns {
            guard let value = values.value(ofColumn: column.name) else {
                throw SluiceError.invalid(
                    "the record of '\(entityType)' has no column '\(column.name)', which is mapped"
                )
            }
            document[column.member] = try column.json(of: value, map)
        }
        return .object(document)
    }

    /// Returns the text of the key among a row's values.
    func key(of values: [String: DatabaseValue]) throws -> String {
        guard let value = values.value(ofColumn: key.column), !value.isNull, let text = key.text(of: value) else {
            throw SluiceError.invalid("the record of '\(entityType)' has no key in '\(key.column)'")
        }
        return text
    }

    /// Returns the members of a document that have a mapped column.
    func mapped(_ document: JSON) -> JSON {
        let members = document.object ?? [:]
        return .object(
            columns.reduce(into: [:]) { mapped, column in mapped[column.member] = members[column.member] }
        )
    }

    /// Returns a document or a patch, in which every id at a declared place is replaced.
    ///
    /// - Parameter isMeant: returns whether to replace the ids at a declared path of a column.
    func replacingIDs(
        in document: JSON,
        where isMeant: (SyncedColumn, ReferencePath) -> Bool = { _, _ in true },
        _ id: (_ entityType: String, JSON) throws -> JSON
    ) rethrows -> JSON {
        guard case .object(var members) = document else { return document }
        for column in columns {
            guard var value = members[column.member] else { continue }
            for path in column.references where isMeant(column, path) {
                value = try path.replacing(in: value) { try id(path.entityType, $0) }
            }
            members[column.member] = value
        }
        return .object(members)
    }

    /// Returns the row for a document. Columns that are not synchronized have the table's values.
    ///
    /// - Throws: ``SluiceError/invalid(_:)`` if a member does not fit its column.
    func row(_ name: EntityName, _ document: JSON, _ map: EntityMap, _ db: Database) throws -> Row {
        guard let keyValue = key.databaseValue(of: name.key) else {
            throw SluiceError.invalid("the key column '\(key.column)' cannot hold '\(name.key)'")
        }
        let sql = """
            SELECT * FROM \(table.quotedDatabaseIdentifier) WHERE \(key.column.quotedDatabaseIdentifier) = ?
            """
        let known = try Row.fetchOne(db, sql: sql, arguments: [keyValue])
        var values: [String: (any DatabaseValueConvertible)?] = [:]
        for (column, value) in known ?? Row() { values[column.lowercased()] = value }
        values[key.column.lowercased()] = keyValue
        for column in columns {
            guard let value = column.databaseValue(of: document[column.member], map) else {
                throw SluiceError.invalid("member '\(column.member)' does not fit the column '\(column.name)'")
            }
            values[column.name.lowercased()] = value
        }
        return Row(values)
    }
}

extension [String: DatabaseValue] {
    /// SQLite ignores the case of column names. The exact name is tried first, because nearly all apps always write a
    /// name in the same case.
    fileprivate func value(ofColumn name: String) -> DatabaseValue? {
        if let value = self[name] { return value }
        let name = name.lowercased()
        return first { $0.key.lowercased() == name }?.value
    }
}
