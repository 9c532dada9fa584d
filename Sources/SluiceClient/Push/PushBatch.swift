import Foundation
import GRDB

/// The entries of one push.
struct PushBatch: Sendable {
    /// Bounds of a push: the gateway's defaults.
    struct Limits: Sendable {
        var entries = 500
        /// Of all entries, in bytes; the gateway takes 4 MiB with what stands around them.
        var bytes = (4 << 20) - 4_096
    }

    let deviceID: UUID
    /// Below the first entry; nil where all of them were taken before, and are asked after.
    let afterSequence: Int64?
    let rows: [OutboxRow]

    var body: JSON {
        var body: [String: JSON] = [
            "device_id": .string(deviceID.wire), "mutations": .array(rows.map(\.entry)),
        ]
        body["after_sequence"] = afterSequence.map(JSON.integer)
        return .object(body)
    }
}

extension PushBatch {
    /// What is to be pushed next: first what was sent without an answer, again and alone, then what was never sent.
    /// From the transaction on it counts as sent.
    static func next(_ limits: Limits, _ db: Database) throws -> PushBatch? {
        let unanswered = try rows("status = 'sent'", limits, db)
        if !unanswered.isEmpty { return try batch(unanswered, db) }
        try renumber(db)
        let queued = try rows("status = 'queued' AND \(isFree)", limits, db)
        guard !queued.isEmpty else { return nil }
        let statement = try db.cachedStatement(
            sql: "UPDATE sluice_mutations SET status = 'sent' WHERE sequence_number = ?"
        )
        for row in queued { try statement.execute(arguments: [row.sequence]) }
        return try batch(queued, db)
    }

    /// Whether anything was never sent that could be.
    static func isAnyToSend(_ db: Database) throws -> Bool {
        try Bool.fetchOne(
            db,
            sql: "SELECT EXISTS (SELECT 1 FROM sluice_mutations m WHERE m.status = 'queued' AND \(isFree))"
        ) ?? false
    }

    /// What was taken, and of which the phone does not know what became.
    ///
    /// - Parameter after: those behind a number, so that all have their turn.
    static func open(after: Int64, _ limits: Limits, _ db: Database) throws -> PushBatch? {
        let rows = try rows(
            "\(WriteStatus.isTaken) AND sequence_number > \(after)",
            limits,
            db
        )
        return rows.isEmpty ? nil : PushBatch(deviceID: try Device.id(db), afterSequence: nil, rows: rows)
    }

    private static func batch(_ rows: [OutboxRow], _ db: Database) throws -> PushBatch {
        let accepted = try Int64.fetchOne(db, sql: "SELECT accepted_sequence FROM sluice_device") ?? 0
        return PushBatch(deviceID: try Device.id(db), afterSequence: accepted, rows: rows)
    }

    /// What names the client id of a create that was rejected waits until that is settled: until there is such an
    /// entity, the gateway takes a UUID for data.
    private static let isFree = """
        NOT EXISTS (
            SELECT 1 FROM json_each(m.names) n
            JOIN sluice_mutations c ON c.status = 'rejected' AND c.operation IN ('create', 'POST')
                AND n.value = c.entity_type || ' ' || c.local_id AND c.id <> m.id)
        """

    private static func rows(_ condition: String, _ limits: Limits, _ db: Database) throws -> [OutboxRow] {
        let cursor = try Row.fetchCursor(
            db,
            sql: """
                SELECT \(OutboxRow.columns) FROM sluice_mutations AS m WHERE \(condition) ORDER BY m.sequence_number
                LIMIT \(limits.entries)
                """
        )
        var (rows, bytes): ([OutboxRow], Int) = ([], 0)
        while let next = try cursor.next() {
            let row = try OutboxRow(next)
            bytes += row.entry.utf8.count + 1
            if bytes > limits.bytes, !rows.isEmpty { break }
            rows.append(row)
        }
        return rows
    }

    /// Gives numbers above the watermark to what was never sent and has one below it: it was held back, or the phone
    /// was restored from a backup and its numbers were given before.
    private static func renumber(_ db: Database) throws {
        let stale = try Int64.fetchAll(
            db,
            sql: """
                SELECT m.sequence_number FROM sluice_mutations m
                WHERE m.status = 'queued' AND m.sequence_number <= (SELECT accepted_sequence FROM sluice_device)
                    AND \(isFree)
                ORDER BY m.sequence_number
                """
        )
        guard let first = stale.first else { return }
        // all that come behind as well, so that they keep their order
        let rest = try Int64.fetchAll(
            db,
            sql: "SELECT sequence_number FROM sluice_mutations WHERE status = 'queued' AND sequence_number > ?"
                + " ORDER BY sequence_number",
            arguments: [first]
        )
        for sequence in [first] + rest { try Outbox.renumber(sequence, db) }
    }
}
