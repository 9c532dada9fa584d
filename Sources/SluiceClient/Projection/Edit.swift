import GRDB

/// A mutation on top of its entity's base: what it makes of the document. Its payload is in the phone's terms.
struct Edit: Sendable {
    let operation: RowOperation
    let payload: JSON?
}

extension Edit {
    /// The members that both write; nil if one of them writes the whole entity.
    func sharedMembers(with other: Edit) -> Set<String>? {
        guard operation == .update, other.operation == .update, let members = payload?.object,
            let others = other.payload?.object
        else { return nil }
        return Set(members.keys).intersection(others.keys)
    }
}

/// What a mutation does with its entity.
enum RowOperation: String, Sendable, CaseIterable {
    case create, update, replace, delete

    /// Whether a mutation is of a row and no request of the app's own, as a condition of SQL.
    static let isOfRow = "operation IN (\(allCases.map { "'\($0.rawValue)'" }.joined(separator: ", ")))"
}

extension Edit {
    /// The document that is shown: the base with its edits on top, in the order in which they were made. Nil for none.
    ///
    /// A patch may apply to an entity that was deleted since then: by the server, or by an edit that was made before a
    /// refused patch was sent again. It is shown on the last known document: the edit waits for its outcome, and is
    /// never skipped.
    static func shown(_ edits: [Edit], on base: ServerSnapshot?) -> JSON? {
        var document = base.flatMap { $0.isDeleted ? nil : $0.document }
        var last = base?.document
        for edit in edits {
            switch edit.operation {
            case .create, .replace: document = (edit.payload ?? [:]).withoutNulls
            case .update: document = (document ?? last ?? [:]).merged(with: edit.payload ?? [:])
            case .delete: document = nil
            }
            last = document ?? last
        }
        return document
    }

    /// Which edits are meant.
    enum Selection {
        case all
        /// Those with a lower number.
        case before(Int64)
        /// Those that took effect.
        case succeeded
    }

    /// Returns the edits on top of an entity's base, in the gateway's terms.
    static func shown(of name: EntityName, _ selection: Selection = .all, _ db: Database) throws -> [Edit] {
        let (sequence, status): (Int64, String?) =
            switch selection {
            case .all: (.max, nil)
            case .before(let sequence): (sequence, nil)
            case .succeeded: (.max, "succeeded")
            }
        let statement = try db.cachedStatement(
            sql: """
                SELECT operation, coalesce(edited_payload, payload) AS payload, overtaken FROM sluice_mutations
                WHERE entity_type = ?1 AND key = ?2 AND is_shown AND sequence_number < ?3
                    AND (?4 IS NULL OR status = ?4)
                ORDER BY sequence_number
                """
        )
        return try Row.fetchAll(statement, arguments: [name.entityType, name.key, sequence, status]).map { row in
            Edit(
                operation: RowOperation(rawValue: row["operation"]) ?? .update,
                payload: try row.json("payload")?.without(row.json("overtaken")?.array ?? [])
            )
        }
    }
}

extension JSON {
    fileprivate func without(_ members: [JSON]) -> JSON {
        guard !members.isEmpty, var rest = object else { return self }
        for member in members { rest[member.string ?? ""] = nil }
        return .object(rest)
    }
}
