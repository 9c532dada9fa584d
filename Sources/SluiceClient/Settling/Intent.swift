import Foundation
import GRDB

/// A person's decision about a mutation. It is stored until the gateway has received it.
struct Intent: Sendable {
    enum Action: String, Sendable { case retry, discard, resolve }

    let id: Int64
    let mutationID: UUID
    let action: Action
    let body: JSON

    /// Returns the oldest intent, except for intents that must wait: if the mutation was sent and has no response yet,
    /// its intent waits for the response.
    static func next(_ db: Database) throws -> Intent? {
        let row = try Row.fetchOne(
            db,
            sql: """
                SELECT i.id, i.mutation_id, i.action, i.body FROM sluice_intents i
                LEFT JOIN sluice_mutations m ON m.id = i.mutation_id
                WHERE m.status IS NULL OR m.status NOT IN ('queued', 'sent')
                ORDER BY i.id LIMIT 1
                """
        )
        return try row.map {
            Intent(
                id: $0["id"],
                mutationID: try UUID(wire: $0["mutation_id"]),
                action: Action(rawValue: $0["action"]) ?? .retry,
                body: try JSON(parsing: $0["body"] as String)
            )
        }
    }

    static func save(_ mutationID: UUID, _ action: Action, _ body: JSON, _ db: Database, now: Date) throws {
        try db.execute(
            sql: """
                INSERT OR REPLACE INTO sluice_intents (mutation_id, action, body, created_at) VALUES (?, ?, ?, ?)
                """,
            arguments: [mutationID.wire, action.rawValue, body.text, now.rfc3339]
        )
        for table in ["sluice_mutations", "sluice_others"] {
            try db.execute(
                sql: "UPDATE \(table) SET settle_error = NULL WHERE id = ?",
                arguments: [mutationID.wire]
            )
        }
    }

    /// Sends discards again.
    ///
    /// A phone that was restored from a backup may have discarded writes that, in its database, were never sent. In
    /// fact, the gateway may have accepted these writes. A gateway that was restored from a backup may have lost the
    /// discards.
    ///
    /// - Parameter accepted: the highest number to repeat; nil for the gateway's watermark.
    static func repeatDiscards(above known: Int64, upTo accepted: Int64?, _ db: Database, now: Date) throws {
        try db.execute(
            sql: """
                INSERT OR IGNORE INTO sluice_intents (mutation_id, action, body, created_at)
                SELECT id, ?, '{"dependents":"keep"}', ? FROM sluice_mutations
                WHERE status = 'discarded' AND sequence_number > ?
                    AND sequence_number <= coalesce(?, (SELECT accepted_sequence FROM sluice_device))
                ORDER BY sequence_number
                """,
            arguments: [Action.discard.rawValue, now.rfc3339, known, accepted]
        )
    }

    /// Discards hidden writes. A write that was discarded together with another write is only hidden, and has no
    /// separate decision yet.
    static func giveUpHidden(above watermark: Int64, _ db: Database, now: Date) throws {
        try db.execute(
            sql: """
                INSERT OR IGNORE INTO sluice_intents (mutation_id, action, body, created_at)
                SELECT id, ?, '{"dependents":"keep"}', ? FROM sluice_mutations
                WHERE sequence_number > ? AND \(WriteStatus.isUnfinished) AND status <> 'rejected'
                    AND \(RowOperation.isOfRow) AND NOT is_shown ORDER BY sequence_number
                """,
            arguments: [Action.discard.rawValue, now.rfc3339, watermark]
        )
    }

    func isInOutbox(_ db: Database) throws -> Bool {
        try Bool.fetchOne(
            db,
            sql: "SELECT EXISTS (SELECT 1 FROM sluice_mutations WHERE id = ?)",
            arguments: [mutationID.wire]
        ) ?? false
    }

    func delete(_ db: Database) throws {
        try db.execute(sql: "DELETE FROM sluice_intents WHERE id = ?", arguments: [id])
    }
}
