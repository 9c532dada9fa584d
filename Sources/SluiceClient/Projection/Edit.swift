import GRDB

/// A mutation that the app's row shows, on top of the entity's base (``ServerSnapshot``).
struct Edit: Sendable {
    let operation: RowOperation
    /// The payload with the phone's keys. Only the edits from ``shown(of:_:_:)`` still contain the gateway's ids.
    let payload: JSON?
}

extension Edit {
    /// Returns the members that both edits write; nil if one of the edits writes the whole entity.
    func sharedMembers(with other: Edit) -> Set<String>? {
        guard operation == .update, other.operation == .update, let members = payload?.object,
            let others = other.payload?.object
        else { return nil }
        return Set(members.keys).intersection(others.keys)
    }
}

/// The operation of a mutation on an entity.
enum RowOperation: String, Sendable, CaseIterable {
    case create, update, replace, delete

    /// A SQL condition: the mutation changes a row, and is not a request
    /// (``Write/request(_:_:payload:of:key:options:)``).
    static let isOfRow = "operation IN (\(allCases.map { "'\($0.rawValue)'" }.joined(separator: ", ")))"
}

extension Edit {
    /// Returns the document to show: the base, to which the edits are applied in the order in which they were made. Nil
    /// if there is no document.
    ///
    /// If the server or an earlier edit has deleted the entity of a patch, the patch is nevertheless applied, to the
    /// last known document, because the outcome of the patch is still unknown. (A patch can follow a deletion, because
    /// a refused patch gets a new number when it is sent again.)
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

    /// The edits to select.
    enum Selection {
        case all
        /// Edits with a lower number.
        case before(Int64)
        /// Edits that took effect.
        case succeeded
    }

    /// Returns the stored edits on top of an entity's base. Their payloads contain the gateway's ids, which the caller
    /// must translate to the phone's keys.
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
