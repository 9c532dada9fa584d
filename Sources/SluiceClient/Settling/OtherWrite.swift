import Foundation
import GRDB

/// A write of another device of the user that needs a decision. The other device may be lost.
///
/// The write is stored at the gateway. The phone keeps a copy, so that a person can decide about the write offline.
struct OtherWrite: Sendable {
    let id: UUID
    let entityType: String
    /// The key of the row on this phone; nil if the phone does not have the row.
    let key: String?
    let operation: String
    let status: String

    /// Replaces all copies by the mutations that the gateway returned.
    ///
    /// - Parameter mutations: the user's failed and conflicting mutations, including mutations of this phone.
    static func replaceAll(_ mutations: [JSON], _ map: EntityMap, _ db: Database) throws {
        let ids = mutations.compactMap { $0["id"]?.string.flatMap(UUID.init(text:)) }
        try db.execute(
            sql: "DELETE FROM sluice_others WHERE id NOT IN (SELECT value FROM json_each(?))",
            arguments: [JSON.array(ids.map { .string($0.wire) }).text]
        )
        for mutation in mutations {
            guard let result = MutationResult(mutation), [.failed, .conflict].contains(result.status),
                let device = mutation["device_id"]?.string.flatMap(UUID.init(text:)),
                let type = mutation["entity_type"]?.string, let operation = mutation["operation"]?.string,
                try !isInOutbox(result.id, db)
            else { continue }
            func id(_ member: String) -> JSON? { mutation[member].flatMap { $0.isNull ? nil : $0 } }
            try db.execute(
                sql: """
                    INSERT INTO sluice_others (
                        id, device_id, sequence_number, status, operation, entity_type, local_id, server_id, created_at,
                        payload, response, error, attempt_count)
                    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
                    ON CONFLICT (id) DO UPDATE SET
                        status = excluded.status, server_id = excluded.server_id, payload = excluded.payload,
                        response = excluded.response, error = excluded.error, attempt_count = excluded.attempt_count
                    """,
                arguments: [
                    result.id.wire, device.wire, mutation["sequence_number"]?.int64 ?? 0, result.status.rawValue,
                    operation, type, id("local_id")?.id, id("server_id")?.id, mutation["created_at"]?.string,
                    mutation["payload"].flatMap { $0.isNull ? nil : $0.text },
                    result.response?.text, result.error?.text, result.attemptCount,
                ]
            )
        }
        try findKeys(map, db)
    }

    /// Repeats decisions that a restored gateway has lost. The writes have ended on this phone, but wait for a decision
    /// at the gateway again.
    static func repeatLostDecisions(_ mutations: [JSON], _ map: EntityMap, _ db: Database, now: Date) throws {
        for mutation in mutations {
            guard let result = MutationResult(mutation), [.failed, .conflict].contains(result.status) else { continue }
            try db.execute(
                sql: """
                    INSERT OR IGNORE INTO sluice_intents (mutation_id, action, body, created_at)
                    SELECT id, 'discard', '{"dependents":"keep"}', ?1 FROM sluice_mutations
                    WHERE id = ?2 AND status = 'discarded'
                    """,
                arguments: [now.rfc3339, result.id.wire]
            )
            try db.execute(
                sql: """
                    UPDATE sluice_mutations SET status = 'pending', is_outdated = 0, version = NULL, settled_at = NULL
                    WHERE id = ? AND status = 'succeeded'
                    """,
                arguments: [result.id.wire]
            )
            // the write had succeeded before, and now waits for a person's decision again
            if db.changesCount > 0 { try PushAnswer(map, db, now: now).apply(result) }
        }
    }

    private static func isInOutbox(_ id: UUID, _ db: Database) throws -> Bool {
        try Bool.fetchOne(
            db,
            sql: "SELECT EXISTS (SELECT 1 FROM sluice_mutations WHERE id = ?)",
            arguments: [id.wire]
        ) ?? false
    }

    /// Finds the phone's rows that belong to the copied writes. A pull may have added the rows after the writes were
    /// copied.
    static func findKeys(_ map: EntityMap, _ db: Database) throws {
        let rows = try Row.fetchAll(
            db,
            sql: "SELECT id, entity_type, local_id, server_id FROM sluice_others WHERE key IS NULL"
        )
        for row in rows {
            guard let entity = map[row["entity_type"]],
                let key = try key(entity, localID: row.json("local_id"), serverID: row.json("server_id"), db)
            else { continue }
            try db.execute(
                sql: "UPDATE sluice_others SET key = ? WHERE id = ?",
                arguments: [key, row["id"] as String]
            )
        }
    }

    private static func key(_ entity: EntitySync, localID: JSON?, serverID: JSON?, _ db: Database) throws -> String? {
        if let serverID, let known = try IDMapping.of(entity.entityType, serverID: serverID, db) { return known.key }
        // the local id was assigned by the other device, and may belong to another row on this phone
        guard entity.idSpace != .device, let localID else { return nil }
        return try IDMapping.of(entity.entityType, clientID: localID, db)?.key
    }

    static func fetch(_ id: UUID, _ db: Database) throws -> OtherWrite? {
        let row = try Row.fetchOne(
            db,
            sql: "SELECT entity_type, key, operation, status FROM sluice_others WHERE id = ?",
            arguments: [id.wire]
        )
        return row.map { OtherWrite(id: id, entityType: $0[0], key: $0[1], operation: $0[2], status: $0[3]) }
    }

    /// Returns whether any of these mutations is neither in the outbox nor copied.
    static func isAnyUnknown(_ ids: [UUID], _ db: Database) throws -> Bool {
        try ids.contains { try !isInOutbox($0, db) && fetch($0, db) == nil }
    }

    /// Applies the gateway's response to a decision. Does nothing if the write is in this phone's outbox.
    static func apply(_ result: MutationResult, _ db: Database) throws {
        if [.failed, .conflict].contains(result.status) {
            try db.execute(
                sql: "UPDATE sluice_others SET status = ?, error = ?, response = ? WHERE id = ?",
                arguments: [result.status.rawValue, result.error?.text, result.response?.text, result.id.wire]
            )
        } else {
            try delete(result.id, db)
        }
    }

    static func delete(_ id: UUID, _ db: Database) throws {
        try db.execute(sql: "DELETE FROM sluice_others WHERE id = ?", arguments: [id.wire])
    }

    static func refuse(_ id: UUID, _ problem: Problem, _ db: Database) throws {
        try db.execute(
            sql: "UPDATE sluice_others SET settle_error = ? WHERE id = ?",
            arguments: [problem.description, id.wire]
        )
    }

    // MARK: - Decisions

    func retry(payload: JSON?, _ options: RetryOptions, _ db: Database, now: Date) throws {
        var body: [String: JSON] = [:]
        body["payload"] = payload
        body["endpoint"] = options.endpoint.map(JSON.string)
        if options.isForced { body["force"] = true }
        try Intent.save(id, .retry, .object(body), db, now: now)
    }

    func discard(_ dependents: Dependents?, _ db: Database, now: Date) throws {
        let body: JSON = dependents.map { ["dependents": .string($0.rawValue)] } ?? [:]
        try Intent.save(id, .discard, body, db, now: now)
    }

    func resolve(_ winner: Winner, payload: JSON?, _ db: Database, now: Date) throws {
        guard status == "conflict" else {
            throw SluiceError.stateForbids("a write that is \(status) has no conflict to resolve")
        }
        var body: [String: JSON] = ["strategy": .string(winner.rawValue)]
        if winner == .client { body["payload"] = payload }
        try Intent.save(id, .resolve, .object(body), db, now: now)
    }
}
