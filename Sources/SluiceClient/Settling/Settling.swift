import Foundation
import GRDB

/// How to treat writes that depend on a discarded write.
public enum Dependents: String, Sendable {
    /// The dependent writes are discarded as well.
    case discard
    /// The dependent writes continue without the discarded write. If the discarded write is a create, dependent writes
    /// that need the id of its entity fail.
    case keep
}

/// The winner of a conflict.
public enum Winner: String, Sendable {
    /// The write is removed, and the server's entity is shown.
    case server = "server_wins"
    /// The write overrides the server's entity.
    case client = "client_wins"
}

/// Applies a person's decision about a write, in one transaction and without a connection.
///
/// If the gateway has the mutation, an ``Intent`` is stored, which the worker sends to the gateway. All other decisions
/// change only the phone's database, so they are complete immediately.
struct Settling {
    private let map: EntityMap
    private let db: Database
    private let now: Date
    private let identities: Identities
    private let rows: Projection

    init(_ map: EntityMap, _ db: Database, now: Date) {
        self.map = map
        self.db = db
        self.now = now
        identities = Identities(map, db, now: now)
        rows = Projection(map, identities, db)
    }

    // MARK: - Retry

    /// - Parameter payload: a payload with the gateway's ids, which replaces the write's payload; nil for a retry
    ///   without changes.
    func retry(_ id: UUID, payload: JSON?, _ options: RetryOptions) throws {
        if let endpoint = options.endpoint { try Enqueuing.check(endpoint: endpoint) }
        if let other = try OtherWrite.fetch(id, db) {
            return try other.retry(payload: payload, options, db, now: now)
        }
        let (row, status) = try mutation(id)
        let endpoint = options.endpoint ?? missingEndpoint(of: row)
        switch status {
        case "failed", "conflict":
            try edit(row, payload)
            var body: [String: JSON] = [:]
            body["payload"] = payload
            body["endpoint"] = endpoint.map(JSON.string)
            if options.isForced { body["force"] = true }
            try Intent.save(id, .retry, .object(body), db, now: now)
        case "rejected":
            try edit(row, payload)
            if let endpoint {
                // the idempotency key can be used with new content, because the gateway has not accepted the mutation
                try db.execute(
                    sql: "UPDATE sluice_mutations SET endpoint = ? WHERE id = ?",
                    arguments: [endpoint, id.wire]
                )
            }
            try resubmit([row.sequence] + rejected(becauseOf: row), from: row.sequence)
        default: throw SluiceError.stateForbids("a write that is \(status) cannot be retried")
        }
        try show(row)
    }

    /// Returns the entity's endpoint, if an earlier version of the app made the write without an endpoint.
    private func missingEndpoint(of row: OutboxRow) -> String? {
        guard row.endpoint == nil, let operation = RowOperation(rawValue: row.operation) else { return nil }
        return map[row.entityType]?.endpoint(of: operation)
    }

    /// Sends a rejected write again, unchanged, under a new number.
    ///
    /// - Returns: false if the write is no longer rejected, or if a person has decided about the write.
    func resubmitUndecided(_ id: UUID) throws -> Bool {
        let isUndecided = try Bool.fetchOne(
            db,
            sql: "SELECT is_shown AND \(WriteStatus.needsDecision) FROM sluice_mutations WHERE id = ?",
            arguments: [id.wire]
        )
        guard isUndecided ?? false else { return false }
        let (row, status) = try mutation(id)
        guard status == "rejected" else { return false }
        try resubmit([row.sequence] + rejected(becauseOf: row), from: row.sequence)
        return true
    }

    private func edit(_ row: OutboxRow, _ payload: JSON?) throws {
        guard let payload else { return }
        // the new payload may reference other entities; ids outside of declared references are found by the gateway
        let pending = try map[row.entityType].map { try identities.pendingIDs(in: payload, $0) } ?? []
        let names = Set(row.names).union(pending).map(\.text).sorted()
        try db.execute(
            sql: "UPDATE sluice_mutations SET edited_payload = ?, names = ? WHERE id = ?",
            arguments: [payload.text, JSON.array(names.map(JSON.string)).text, row.id.wire]
        )
    }

    /// Assigns new numbers to rejected mutations, which keep their idempotency keys. These keys can be used with new
    /// content, because the gateway has not accepted the mutations (`docs/clients.md`, resubmitting a rejected entry).
    private func resubmit(_ sequences: [Int64], from first: Int64) throws {
        for sequence in sequences {
            try db.execute(
                sql: """
                    UPDATE sluice_mutations
                    SET status = 'queued', payload = coalesce(edited_payload, payload), edited_payload = NULL,
                        error = NULL, settled_at = NULL, overtaken = NULL
                    WHERE sequence_number = ?
                    """,
                arguments: [sequence]
            )
        }
        // later writes that were never sent are also renumbered, so that all writes keep their order
        try rows.refresh(Outbox.renumberQueued(from: first, db))
    }

    private func rejected(becauseOf row: OutboxRow) throws -> [Int64] {
        let dependents = try Set(dependents(of: row))
        return try Row.fetchAll(
            db,
            sql: "SELECT sequence_number, id FROM sluice_mutations WHERE status = 'rejected' ORDER BY sequence_number"
        ).filter { dependents.contains($0[1]) }.map { $0[0] }
    }

    // MARK: - Discard

    /// - Throws: ``SluiceError/hasDependents(_:)`` if other writes depend on the write and `dependents` is nil.
    func discard(_ id: UUID, dependents choice: Dependents?) throws {
        if let other = try OtherWrite.fetch(id, db) { return try other.discard(choice, db, now: now) }
        let (row, status) = try mutation(id)
        let dependents = try dependents(of: row)
        if choice == nil, !dependents.isEmpty { throw SluiceError.hasDependents(dependents.count) }
        let isOurs = Self.isLocal(status)
        if choice == .discard {
            // the last writes are discarded first, so that a row is removed before the row that it references
            for id in dependents.reversed() {
                let (row, status) = try mutation(UUID(wire: id))
                // if the gateway has the discarded mutation, the gateway itself discards the mutations that depend on
                // it
                try isOurs || Self.isLocal(status) ? discard(row, status, .discard) : hide(row)
            }
        }
        try discard(row, status, choice)
        try rows.refresh(rows.held(limit: 1_000))
    }

    private static func isLocal(_ status: String) -> Bool { status == "queued" || status == "rejected" }

    private func discard(_ row: OutboxRow, _ status: String, _ choice: Dependents?) throws {
        switch status {
        case "queued", "rejected":
            try db.execute(
                sql: "UPDATE sluice_mutations SET status = 'discarded', settled_at = ? WHERE id = ?",
                arguments: [now.rfc3339, row.id.wire]
            )
            if row.operation == RowOperation.create.rawValue, let key = row.key {
                try identities.mapping(EntityName(row.entityType, key)).map(identities.fail)
            }
            // another phone, or this phone before it was restored, may have sent the write
            if try Bool.fetchOne(db, sql: "SELECT is_shared FROM sluice_device") ?? false {
                try Intent.save(row.id, .discard, ["dependents": "keep"], db, now: now)
            }
        case "sent", "pending", "blocked", "failed", "conflict":
            let body: JSON = choice.map { ["dependents": .string($0.rawValue)] } ?? [:]
            try Intent.save(row.id, .discard, body, db, now: now)
        default: throw SluiceError.stateForbids("a write that is \(status) cannot be discarded")
        }
        try hide(row)
    }

    /// Discards the unfinished writes of a row whose create was discarded, the last write first.
    ///
    /// A write that the gateway is sending to the upstream cannot be discarded. It is only hidden.
    func discardWrites(of name: EntityName) throws {
        let ids = try String.fetchAll(
            db,
            sql: """
                SELECT id FROM sluice_mutations
                WHERE entity_type = ? AND key = ? AND is_shown AND \(WriteStatus.isUnfinished)
                ORDER BY sequence_number DESC
                """,
            arguments: [name.entityType, name.key]
        )
        for id in ids {
            let (row, status) = try mutation(UUID(wire: id))
            if status == "in_flight" { try hide(row) } else { try discard(row, status, .keep) }
        }
    }

    /// Shows an edit again, if an earlier decision has hidden it.
    private func show(_ row: OutboxRow) throws {
        if RowOperation(rawValue: row.operation) != nil {
            try db.execute(
                sql: "UPDATE sluice_mutations SET is_shown = 1, overtaken = NULL WHERE id = ?",
                arguments: [row.id.wire]
            )
        }
        try refresh(row)
    }

    private func hide(_ row: OutboxRow) throws {
        try db.execute(sql: "UPDATE sluice_mutations SET is_shown = 0 WHERE id = ?", arguments: [row.id.wire])
        try refresh(row)
        if row.operation == RowOperation.delete.rawValue, let key = row.key {
            try rows.restoreChildren(of: EntityName(row.entityType, key))
        }
    }

    func dependents(of id: UUID) throws -> [UUID] { try dependents(of: try mutation(id).row).map(UUID.init(wire:)) }

    /// Returns the ids of unfinished writes that need this write, directly or through other writes. A write needs an
    /// earlier write if it references the entity that the earlier write creates, if it declares the dependency, or if
    /// it writes the same entity.
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
                    WHERE m.\(WriteStatus.isUnfinished) AND (
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
        if let other = try OtherWrite.fetch(id, db) {
            return try other.resolve(winner, payload: payload, db, now: now)
        }
        let (row, status) = try mutation(id)
        guard status == "conflict" else {
            throw SluiceError.stateForbids("a write that is \(status) has no conflict to resolve")
        }
        var body: [String: JSON] = ["strategy": .string(winner.rawValue)]
        if winner == .client {
            let whole = try payload ?? restored(row)
            body["payload"] = whole
            try edit(row, whole)
        }
        try Intent.save(id, .resolve, .object(body), db, now: now)
        try winner == .server ? hide(row) : show(row)
    }

    /// Returns the whole document if an update has to override a deletion, because a patch would restore only the
    /// members that it changes. Returns nil in all other cases.
    ///
    /// - Throws: ``SluiceError/stateForbids(_:)`` if the phone has only the changed members.
    private func restored(_ row: OutboxRow) throws -> JSON? {
        guard row.operation == RowOperation.update.rawValue, let entity = map[row.entityType], let key = row.key else {
            return nil
        }
        let name = EntityName(row.entityType, key)
        let base = try ServerSnapshot.of(name, db)
        let error = try String.fetchOne(
            db,
            sql: "SELECT error FROM sluice_mutations WHERE id = ?",
            arguments: [row.id.wire]
        )
        let current = try error.map { try JSON(parsing: $0) }?["current"]
        guard base?.isDeleted ?? false || current?["deleted"]?.bool ?? false else { return nil }
        let edits = try Edit.shown(of: name, .before(row.sequence), db)
        guard base?.document != nil || edits.contains(where: { [.create, .replace].contains($0.operation) }) else {
            throw SluiceError.stateForbids("the phone does not have the deleted row's other members: discard the write")
        }
        return try rows.document(entity, key, of: .before(row.sequence + 1)).map {
            try identities.toWire($0, entity).document
        }
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

    /// Shows the row of a mutation in its present state.
    func refresh(_ id: UUID) throws { try refresh(try mutation(id).row) }

    private func ownWrite(_ id: UUID) throws -> (String, String?, String, Int64?) {
        let row = try mutation(id).row
        return (row.entityType, row.key, row.operation, row.sequence)
    }

    /// Returns the new payload of a write, from the record that contains the person's edits.
    func payload(_ id: UUID, of values: [String: DatabaseValue]) throws -> JSON {
        let row = try OtherWrite.fetch(id, db).map { ($0.entityType, $0.key, $0.operation, nil) } ?? ownWrite(id)
        let (type, writeKey, operation, sequence): (String, String?, String, Int64?) = row
        let entity = try map.entity(type)
        guard let key = writeKey, try entity.key(of: values) == key else {
            throw SluiceError.invalid("the record's key is not that of the write's row")
        }
        var document = try entity.document(of: values, map)
        if operation == RowOperation.update.rawValue {
            // a write of another device has no position among the edits of this phone's row
            let before =
                try sequence.map { try rows.document(entity, key, of: .before($0)) ?? [:] }
                ?? ServerSnapshot.of(EntityName(type, key), db)?.document ?? [:]
            document = entity.mapped(before).patch(to: document) ?? [:]
        }
        return try identities.toWire(document, entity).document
    }
}
