import Foundation
import GRDB

/// What becomes of the writes that depend on one that is discarded.
public enum Dependents: String, Sendable {
    /// They are discarded as well.
    case discard
    /// They go on without it; what needs the id that it would have made fails.
    case keep
}

/// Who wins a conflict.
public enum Winner: String, Sendable {
    /// The write goes, and the server's entity is shown.
    case server = "server_wins"
    /// The write has its way.
    case client = "client_wins"
}

/// Carries out what a person decides about a write, in one transaction and offline: what the gateway knows of becomes
/// an intent that the worker sends, and everything else happens here.
struct Settling {
    private let map: EntityMap
    private let db: Database
    private let now: Date
    private let identities: Identities
    private let rows: ShownRows

    init(_ map: EntityMap, _ db: Database, now: Date) {
        self.map = map
        self.db = db
        self.now = now
        identities = Identities(map, db, now: now)
        rows = ShownRows(map, identities, db)
    }

    // MARK: - Retry

    /// - Parameter payload: in place of the write's own, in the gateway's terms; nil to retry it as it is.
    func retry(_ id: UUID, payload: JSON?) throws {
        let (row, status) = try mutation(id)
        switch status {
        case "failed", "conflict":
            try edit(row, payload)
            try Intent.save(id, .retry, payload.map { ["payload": $0] } ?? [:], db, now: now)
        case "rejected":
            try edit(row, payload)
            // what was refused because of it comes behind it, in order
            for sequence in try [row.sequence] + rejected(becauseOf: row) { try resubmit(sequence) }
        default: throw SluiceError.stateForbids("a write that is \(status) cannot be retried")
        }
        try refresh(row)
    }

    private func edit(_ row: OutboxRow, _ payload: JSON?) throws {
        guard let payload else { return }
        try db.execute(
            sql: "UPDATE sluice_mutations SET edited_payload = ? WHERE id = ?",
            arguments: [payload.text, row.id.wire]
        )
    }

    /// A new number under the same key: only what was taken ties its key to its content (`docs/clients.md`,
    /// resubmitting a rejected entry).
    private func resubmit(_ sequence: Int64) throws {
        try db.execute(
            sql: """
                UPDATE sluice_mutations
                SET status = 'queued', payload = coalesce(edited_payload, payload), edited_payload = NULL, error = NULL,
                    settled_at = NULL
                WHERE sequence_number = ?
                """,
            arguments: [sequence]
        )
        try Outbox.renumber(sequence, db)
    }

    private func rejected(becauseOf row: OutboxRow) throws -> [Int64] {
        let dependents = try Set(dependents(of: row))
        return try Row.fetchAll(
            db,
            sql: "SELECT sequence_number, id FROM sluice_mutations WHERE status = 'rejected' ORDER BY sequence_number"
        ).filter { dependents.contains($0[1]) }.map { $0[0] }
    }

    // MARK: - Discard

    /// - Throws: ``SluiceError/hasDependents(_:)`` where something depends on it and `dependents` is nil.
    func discard(_ id: UUID, dependents choice: Dependents?) throws {
        let (row, status) = try mutation(id)
        let dependents = try dependents(of: row)
        if choice == nil, !dependents.isEmpty { throw SluiceError.hasDependents(dependents.count) }
        try discard(row, status, choice)
        guard choice == .discard else { return }
        for id in dependents {
            let (row, status) = try mutation(UUID(wire: id))
            // the gateway discards what it knows of with the first one
            try Self.isLocal(status) ? discard(row, status, nil) : hide(row)
        }
    }

    private static func isLocal(_ status: String) -> Bool { status == "queued" || status == "rejected" }

    private func discard(_ row: OutboxRow, _ status: String, _ choice: Dependents?) throws {
        switch status {
        case "queued", "rejected":
            try db.execute(
                sql: "UPDATE sluice_mutations SET status = 'discarded', settled_at = ? WHERE id = ?",
                arguments: [now.rfc3339, row.id.wire]
            )
            if row.operation == "create", let key = row.key,
                let mapping = try identities.mapping(EntityName(row.entityType, key)), mapping.status == .pending
            {
                try identities.save(
                    IDMapping(
                        entityType: row.entityType,
                        key: key,
                        clientID: mapping.clientID,
                        serverID: nil,
                        status: .failed
                    )
                )
            }
        case "sent", "pending", "blocked", "failed", "conflict":
            let body: JSON = choice.map { ["dependents": .string($0.rawValue)] } ?? [:]
            try Intent.save(row.id, .discard, body, db, now: now)
        default: throw SluiceError.stateForbids("a write that is \(status) cannot be discarded")
        }
        try hide(row)
    }

    private func hide(_ row: OutboxRow) throws {
        try db.execute(sql: "UPDATE sluice_mutations SET is_shown = 0 WHERE id = ?", arguments: [row.id.wire])
        try refresh(row)
    }

    /// The ids of open writes that need this one, directly or through others: they name what it creates, or it, or
    /// write the same entity later.
    func dependents(of row: OutboxRow) throws -> [String] {
        try String.fetchAll(
            db,
            sql: """
                WITH RECURSIVE needing (id) AS (
                    SELECT ?1
                    UNION
                    SELECT m.id FROM needing d
                    JOIN sluice_mutations b ON b.id = d.id
                    JOIN sluice_mutations m ON m.sequence_number > b.sequence_number
                    WHERE m.status NOT IN ('succeeded', 'discarded') AND (
                        (m.entity_type = b.entity_type AND m.key = b.key)
                        OR (b.operation IN ('create', 'POST') AND EXISTS (
                            SELECT 1 FROM json_each(m.names) n WHERE n.value = b.entity_type || ' ' || b.local_id))
                        OR EXISTS (SELECT 1 FROM json_each(m.dependency_ids) i WHERE i.value = b.id))
                )
                SELECT m.id FROM needing d JOIN sluice_mutations m ON m.id = d.id
                WHERE m.id <> ?1 ORDER BY m.sequence_number
                """,
            arguments: [row.id.wire]
        )
    }

    // MARK: - Resolve

    func resolve(_ id: UUID, _ winner: Winner, payload: JSON?) throws {
        let (row, status) = try mutation(id)
        guard status == "conflict" else {
            throw SluiceError.stateForbids("a write that is \(status) has no conflict to resolve")
        }
        var body: [String: JSON] = ["strategy": .string(winner.rawValue)]
        if winner == .client {
            body["payload"] = payload
            try edit(row, payload)
        }
        try Intent.save(id, .resolve, .object(body), db, now: now)
        try winner == .server ? hide(row) : refresh(row)
    }

    // MARK: - What all of them need

    private func mutation(_ id: UUID) throws -> (row: OutboxRow, status: String) {
        let row = try Row.fetchOne(
            db,
            sql: "SELECT \(OutboxRow.columns), status FROM sluice_mutations WHERE id = ?",
            arguments: [id.wire]
        )
        guard let row else { throw SluiceError.unknownMutation }
        return (try OutboxRow(row), row["status"])
    }

    private func refresh(_ row: OutboxRow) throws {
        if let entity = map[row.entityType], let key = row.key { try rows.refresh(entity, key) }
    }

    /// Shows the row of a mutation as it is by now.
    func refresh(_ id: UUID) throws { try refresh(try mutation(id).row) }

    /// The payload of an edited write, from the record as the person wants it.
    func payload(_ id: UUID, of values: [String: DatabaseValue]) throws -> JSON {
        let (row, _) = try mutation(id)
        let entity = try map.entity(row.entityType)
        guard let key = row.key, try entity.key(of: values) == key else {
            throw SluiceError.invalid("the record is another one than the write's")
        }
        var document = try entity.document(of: values, map)
        if row.operation == Operation.update.rawValue {
            let before = try rows.document(entity, key, before: row.sequence) ?? [:]
            document = entity.mapped(before).patch(to: document) ?? [:]
        }
        return try identities.toWire(document, entity).document
    }
}
