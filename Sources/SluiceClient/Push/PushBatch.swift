import Foundation
import GRDB

/// The entries of one push.
struct PushBatch: Sendable {
    /// The limits of a push. The defaults are the gateway's defaults.
    struct Limits: Sendable {
        var entries = 500
        /// The maximum size of all entries in bytes. The gateway accepts a body of 4 MiB, which includes the entries.
        var bytes = (4 << 20) - 4_096

        init() {}

        init(entries: Int) { self.entries = entries }
    }

    let deviceID: UUID
    /// The watermark that the gateway last returned. A restored gateway has a lower watermark, and therefore refuses
    /// the push.
    let afterSequence: Int64
    let rows: [OutboxRow]

    var body: JSON {
        [
            "device_id": .string(deviceID.wire), "after_sequence": .integer(afterSequence),
            "mutations": .array(rows.map(\.entry)),
        ]
    }
}

extension PushBatch {
    /// Returns the next mutations to push. Mutations that were sent without a response are pushed first, separately
    /// from mutations that were never sent. All returned mutations are marked as sent in the same transaction.
    static func next(_ limits: Limits, _ db: Database, _ shown: Projection) throws -> PushBatch? {
        let unanswered = try rows(of: .sent, limits, db)
        if !unanswered.isEmpty { return try batch(unanswered, db) }
        try renumber(db, shown)
        var queued: [OutboxRow]
        repeat { queued = try rows(of: .queued, limits, db) } while try refuseOrphans(among: queued, db)
        guard !queued.isEmpty else { return nil }
        let statement = try db.cachedStatement(
            sql: "UPDATE sluice_mutations SET status = 'sent' WHERE sequence_number = ?"
        )
        for row in queued { try statement.execute(arguments: [row.sequence]) }
        return try batch(queued, db)
    }

    /// In a copied database, gives the status `sent` to all mutations that could be pushed now, because the original
    /// phone may have sent them.
    static func markSent(_ db: Database) throws {
        var limits = Limits(entries: .max)
        limits.bytes = .max
        var queued: [OutboxRow]
        repeat { queued = try rows(of: .queued, limits, db) } while try refuseOrphans(among: queued, db)
        for row in queued {
            try db.execute(
                sql: "UPDATE sluice_mutations SET status = 'sent' WHERE sequence_number = ?",
                arguments: [row.sequence]
            )
        }
    }

    /// Returns whether any mutation can be sent that was never sent before.
    static func isAnyToSend(_ db: Database) throws -> Bool {
        try !rows(of: .queued, Limits(entries: 1), db).isEmpty
    }

    /// Returns accepted mutations whose outcome the phone has not received.
    ///
    /// A restored gateway refuses the push of these mutations, because the push contains ``afterSequence``, which is
    /// above the restored watermark. If the gateway accepted one of the mutations again, its watermark would rise, and
    /// it would not request the earlier mutations that it has lost.
    ///
    /// - Parameter after: only mutations with a higher number are returned, so that repeated calls request all
    ///   mutations in turn.
    static func open(after: Int64, _ limits: Limits, _ db: Database) throws -> PushBatch? {
        let rows = try rows(of: .taken(after: after), limits, db)
        return rows.isEmpty ? nil : try batch(rows, db)
    }

    /// Returns the succeeded mutations whose latest state a restored gateway may have lost, although their numbers are
    /// not above its watermark. This is possible for mutations about which a person has decided. If another phone also
    /// uses this device's sequence numbers, it is possible for all mutations.
    ///
    /// - Parameter after: only mutations with a higher number are returned.
    static func ended(after: Int64, _ limits: Limits, _ db: Database) throws -> PushBatch? {
        let rows = try rows(of: .ended(after: after), limits, db)
        return rows.isEmpty ? nil : try batch(rows, db)
    }

    private static func batch(_ rows: [OutboxRow], _ db: Database) throws -> PushBatch {
        let accepted = try Int64.fetchOne(db, sql: "SELECT accepted_sequence FROM sluice_device") ?? 0
        return PushBatch(deviceID: try Device.id(db), afterSequence: accepted, rows: rows)
    }

    // MARK: - Which rows

    private enum Selection {
        case sent, queued
        case taken(after: Int64), ended(after: Int64)

        var condition: String {
            switch self {
            case .sent: "status = 'sent'"
            case .queued: "status = 'queued'"
            case .taken(let after): "\(WriteStatus.isTaken) AND sequence_number > \(after)"
            case .ended(let after):
                """
                status = 'succeeded' AND sequence_number > \(after)
                    AND (resolution IS NOT NULL OR revision > 1 OR (SELECT is_shared FROM sluice_device))
                """
            }
        }
    }

    private static func rows(of selection: Selection, _ limits: Limits, _ db: Database) throws -> [OutboxRow] {
        let cursor = try Row.fetchCursor(
            db,
            sql:
                "SELECT \(OutboxRow.columns) FROM sluice_mutations WHERE \(selection.condition) ORDER BY sequence_number"
        )
        var heldBack = if case .queued = selection { try HeldBack(db) } else { HeldBack() }
        var (rows, bytes): ([OutboxRow], Int) = ([], 0)
        while rows.count < limits.entries, let next = try cursor.next() {
            let row = try OutboxRow(next)
            if heldBack.holds(row) { continue }
            bytes += row.entry.utf8.count + 1
            if bytes > limits.bytes, !rows.isEmpty { break }
            rows.append(row)
        }
        return rows
    }

    /// Assigns numbers above the watermark to mutations that were never sent and whose numbers are not above the
    /// watermark.
    ///
    /// These mutations have low numbers because they were held back, or because the phone was restored from a backup
    /// and had used the same numbers before.
    private static func renumber(_ db: Database, _ shown: Projection) throws {
        let accepted = try Int64.fetchOne(db, sql: "SELECT accepted_sequence FROM sluice_device") ?? 0
        guard let first = try rows(of: .queued, Limits(entries: 1), db).first?.sequence, first <= accepted else {
            return
        }
        // all later mutations get new numbers, too, so that the mutations keep their order
        try shown.refresh(Outbox.renumberQueued(from: first, db))
    }

    /// Refuses writes that contain the client id of a discarded create.
    ///
    /// The gateway would treat the client id as data, and every user would receive a row with a dangling reference. In
    /// the same way, the gateway itself refuses a write that depends on a rejected entry.
    ///
    /// - Returns: whether any write was refused.
    private static func refuseOrphans(among rows: [OutboxRow], _ db: Database) throws -> Bool {
        let orphans = try rows.filter { row in try row.names.contains { try IDMapping.of($0, db)?.status == .failed } }
        let problem: JSON = [
            "type": "urn:sluice:problem:dependency_rejected", "title": "A mutation it depends on was not taken",
            "status": 422, "code": "dependency_rejected", "detail": "It refers to a row whose creation was given up.",
        ]
        for orphan in orphans {
            try db.execute(
                sql: "UPDATE sluice_mutations SET status = 'rejected', error = ? WHERE sequence_number = ?",
                arguments: [problem.text, orphan.sequence]
            )
        }
        return !orphans.isEmpty
    }
}

/// The mutations that wait until a rejected create is settled. They reference the client id of the rejected create, or
/// the client id of another create that waits. As long as the entity does not exist, the gateway would treat the client
/// id as data.
private struct HeldBack {
    private var names: Set<String> = []

    init() {}

    init(_ db: Database) throws {
        names = try String.fetchSet(
            db,
            sql: """
                SELECT entity_type || ' ' || local_id FROM sluice_mutations
                WHERE status = 'rejected' AND operation IN ('create', 'POST') AND local_id IS NOT NULL
                """
        )
    }

    mutating func holds(_ row: OutboxRow) -> Bool {
        guard !names.isEmpty, row.names.contains(where: { names.contains($0.text) }) else { return false }
        if ["create", "POST"].contains(row.operation), let id = row.localID {
            names.insert(ClientName(row.entityType, id).text)
        }
        return true
    }
}
