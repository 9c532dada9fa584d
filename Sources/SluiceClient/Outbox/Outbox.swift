import Foundation
import GRDB

/// Operations on rows of the outbox that several callers need.
enum Outbox {
    /// Assigns new numbers to writes that were never sent. These writes keep their order, and get higher numbers than
    /// all writes that were sent.
    ///
    /// - Parameter first: the lowest present number of the writes to renumber.
    /// - Returns: the entities whose edits now have a different order. The rows of these entities must be written
    ///   again.
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

    /// Reopens mutations that the gateway has lost, because it was restored or a push was lost.
    ///
    /// All mutations above the gateway's watermark are sent again (`docs/clients.md`, sequence_gap), except for
    /// mutations that were discarded or never accepted.
    static func reopen(above watermark: Int64, _ db: Database, now: Date) throws {
        // a write that a person discarded must not run. When the discard is sent, the gateway responds that it does not
        // have the write.
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
        try requestFormerIDs(db)
        try db.execute(sql: "UPDATE sluice_device SET accepted_sequence = ?", arguments: [watermark])
    }

    /// Adds the entity's former server id to each create that is sent again, so that the built-in store assigns the
    /// same id. Other phones use that id in their rows and in their waiting writes.
    static func requestFormerIDs(_ db: Database) throws {
        try db.execute(
            sql: """
                UPDATE sluice_mutations AS m SET server_id = i.server_id FROM sluice_id_mappings i
                WHERE m.status = 'queued' AND m.operation = 'create' AND m.endpoint IS NULL AND m.local_id IS NOT NULL
                    AND i.entity_type = m.entity_type AND i.key = m.key AND i.status = 'resolved'
                """
        )
    }

    /// Stores the gateway's watermark. Only ``reopen(above:_:now:)`` lowers the stored watermark.
    static func note(accepted: Int64, _ db: Database) throws {
        try db.execute(
            sql: """
                UPDATE sluice_device
                SET accepted_sequence = max(accepted_sequence, ?1), next_sequence = max(next_sequence, ?1 + 1),
                    is_shared = is_shared OR ?1 >= ?2
                """,
            // if the gateway has accepted a number that this phone has not assigned, another phone uses the same device
            // id
            arguments: [accepted, try Device.nextSequence(db)]
        )
    }

    /// Records that the gateway may have mutations that this database never sent. This is possible if the phone was
    /// restored from a backup. From then on, discards of such mutations are sent to the gateway.
    ///
    /// - Parameter accepted: the gateway's watermark, if it is higher than the stored watermark.
    static func noteRestore(upTo accepted: Int64, _ db: Database) throws {
        try db.execute(
            sql: """
                UPDATE sluice_device SET is_shared = 1 WHERE EXISTS (
                    SELECT 1 FROM sluice_mutations WHERE status = 'queued' AND sequence_number <= ?)
                """,
            arguments: [accepted]
        )
    }

    /// Deletes mutations that ended before a time. The app no longer needs them, nor does a gateway that was restored
    /// from a backup.
    static func prune(endedBefore moment: Date, _ db: Database) throws {
        // store the counter, so that a number is never assigned again after its mutation was deleted
        try db.execute(sql: "UPDATE sluice_device SET next_sequence = ?", arguments: [try Device.nextSequence(db)])
        try db.execute(
            sql: """
                DELETE FROM sluice_mutations
                WHERE \(WriteStatus.isEnded) AND NOT is_shown AND settled_at < ?
                """,
            arguments: [moment.rfc3339]
        )
        // delete tombstones to which no mutation of the outbox refers
        try db.execute(
            sql: """
                DELETE FROM sluice_base WHERE is_deleted AND NOT EXISTS (
                    SELECT 1 FROM sluice_mutations m
                    WHERE m.entity_type = sluice_base.entity_type AND m.key = sluice_base.key)
                """
        )
    }
}
