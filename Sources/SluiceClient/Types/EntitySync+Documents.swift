import GRDB

/// Rows as documents, and documents as rows. Such documents are in the phone's own terms: where the gateway's name
/// server ids, they name local keys.
extension EntitySync {
    /// The document of a row's values, by column.
    ///
    /// - Throws: ``SluiceError/invalid(_:)`` for values that are not of their column's kind, and for a record without
    ///   one of the columns: only NULL is an empty one.
    func document(of values: [String: DatabaseValue], _ map: EntityMap) throws -> JSON {
        let values = Dictionary(values.map { ($0.key.lowercased(), $0.value) }) { first, _ in first }
        var document: [String: JSON] = [:]
        for column in columns {
            guard let value = values[column.name.lowercased()] else {
                throw SluiceError.invalid(
                    "the record of '\(entityType)' has no column '\(column.name)', which is mapped"
                )
            }
            document[column.member] = try column.json(of: value, map)
        }
        return .object(document)
    }

    /// The text of the key among a row's values.
    func key(of values: [String: DatabaseValue]) throws -> String {
        let found = values.first { $0.key.lowercased() == key.column.lowercased() }?.value
        guard let value = found, !value.isNull, let text = key.text(of: value) else {
            throw SluiceError.invalid("the record of '\(entityType)' has no key in '\(key.column)'")
        }
        return text
    }

    /// A document's members that are columns.
    func mapped(_ document: JSON) -> JSON {
        let members = document.object ?? [:]
        return .object(
            columns.reduce(into: [:]) { mapped, column in mapped[column.member] = members[column.member] }
        )
    }

    /// A document, or a patch of one, with every declared id in it replaced.
    func replacingIDs(in document: JSON, _ id: (_ entityType: String, JSON) throws -> JSON) rethrows -> JSON {
        guard case .object(var members) = document else { return document }
        for column in columns {
            guard var value = members[column.member] else { continue }
            for path in column.references { value = try path.replacing(in: value) { try id(path.entityType, $0) } }
            members[column.member] = value
        }
        return .object(members)
    }
}
