import Foundation
import GRDB

/// Operations on rows of the outbox that several callers need.
enum Outbox {
    /// Gives writes that were never sent new numbers, as if the writes were made now: in their order, and after all
    /// writes that were sent.
    ///
    /// - Parameter first: the lowest number from which writes get new numbers.
    /// - Returns: the entities whose edits now have another order; their rows must be written again.
    static func renumberQueued(from first: Int64, _ db: Database) throws -> [EntityName] {
        let queued = try Row.fetchAll(
            db,
            sql: """
                SELECT sequence_number, entity_type, key FROM sluice_mutations
                WHERE status = 'queued' AND sequence_number >= ? ORDER BY sequence_number
                """,
            arguments: [first]
        )
        var names: Set<EntityName> = []
        for row in queued {
            try db.execute(
                sql: "UPDATE sluice_mutations SET sequence_number = ? WHERE sequence_number = ?",
                arguments: [try Device.nextSequence(db), row[0] as Int64]
            )
            if let key: String = row[2] { names.insert(EntityName(row[1], key)) }
        }
        return Array(names)
    }

    /// Reopens mutations after the gateway lost some: it was restored, or a push was lost.
    ///
    /// All mutations above its watermark are sent again (`docs/clients.md`, sequence_gap), except mutations that were
    /// given up or never accepted.
    static func reopen(above watermark: Int64, _ db: Database, now: Date) throws {
        // a write that a person gave up must not run. When the decision is sent, the gateway responds that it lacks the
        // write.
        try Intent.giveUpHidden(above: watermark, db, now: now)
        try db.execute(
            sql: """
                UPDATE sluice_mutations SET status = 'failed'
                WHERE sequence_number > ? AND \(WriteStatus.isOpen)
                    AND id IN (SELECT mutation_id FROM sluice_intents WHERE \(Intent.givesUp))
                """,
            arguments: [watermark]
        )
        try db.execute(
            sql: """
                UPDATE sluice_mutations
                SET status = 'queued', payload = coalesce(edited_payload, payload), edited_payload = NULL,
                    is_shown = \(RowOperation.isOfRow), is_outdated = 0, version = NULL, settled_at = NULL
                WHERE sequence_number > ? AND status NOT IN ('discarded', 'rejected')
                    AND id NOT IN (SELECT mutation_id FROM sluice_intents WHERE \(Intent.givesUp))
                """,
            arguments: [watermark]
        )
        try askForFormerIDs(db)
        try db.execute(sql: "UPDATE sluice_device SET accepted_sequence = ?", arguments: [watermark])
    }

    /// Adds the entity's former server id to each create that is sent again, so that the built-in store assigns it
    /// again. Other phones use that id in their rows and in their waiting writes.
    static func askForFormerIDs(_ db: Database) throws {
        try db.execute(
            sql: """
                UPDATE sluice_mutations AS m SET server_id = i.server_id FROM sluice_id_mappings i
                WHERE m.status = 'queued' AND m.operation = 'create' AND m.endpoint IS NULL AND m.local_id IS NOT NULL
                    AND i.entity_type = m.entity_type AND i.key = m.key AND i.status = 'resolved'
                """
        )
    }

    /// Stores the gateway's watermark, which never falls except in ``reopen(above:_:)``.
    static func note(accepted: Int64, _ db: Database) throws {
        try db.execute(
            sql: """
                UPDATE sluice_device
                SET accepted_sequence = max(accepted_sequence, ?1), next_sequence = max(next_sequence, ?1 + 1),
                    is_shared = is_shared OR ?1 >= ?2
                """,
            // if the gateway has a number that this phone has not assigned, another phone shares the device id
            arguments: [accepted, try Device.nextSequence(db)]
        )
    }

    /// Deletes mutations that ended so long ago that neither the app nor a gateway restored from a backup needs them.
    static func prune(endedBefore moment: Date, _ db: Database) throws {
        // an assigned number is never assigned again, even if its mutation is deleted
        try db.execute(sql: "UPDATE sluice_device SET next_sequence = ?", arguments: [try Device.nextSequence(db)])
        try db.execute(
            sql: """
                DELETE FROM sluice_mutations
                WHERE \(WriteStatus.isEnded) AND NOT is_shown AND settled_at < ?
                """,
            arguments: [moment.rfc3339]
        )
        // tombstones to which no entry of the outbox refers
        try db.execute(
            sql: """
                DELETE FROM sluice_base WHERE is_deleted AND NOT EXISTS (
                    SELECT 1 FROM sluice_mutations m
                    WHERE m.entity_type = sluice_base.entity_type AND m.key = sluice_base.key)
                """
        )
    }
}
