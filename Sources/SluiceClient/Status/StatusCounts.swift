import Foundation
import GRDB

/// The part of ``SyncStatus`` that is read from the database.
struct StatusCounts: Sendable, Hashable {
    var pending = 0
    var failed = 0
    var conflicts = 0
    var oldestPending: Date?
    var held = 0
    var heldDeletions = 0
    var lastPulled: Date?
    var lastPushed: Date?
    var snapshotRows: Int?
    /// The writes of the newest decisions that the gateway has not received yet.
    var decided: Set<UUID> = []

    private static let decisionLimit = 100

    static func fetch(_ db: Database) throws -> StatusCounts {
        var counts = StatusCounts()
        let row = try Row.fetchOne(
            db,
            sql: """
                SELECT
                    count(*) FILTER (WHERE \(WriteStatus.isPending)) AS pending,
                    count(*) FILTER (WHERE \(WriteStatus.needsDecision) AND status <> 'conflict') AS failed,
                    count(*) FILTER (WHERE \(WriteStatus.needsDecision) AND status = 'conflict') AS conflicts,
                    (SELECT count(*) FROM sluice_held) AS held,
                    (SELECT count(*) FROM sluice_held h WHERE \(HeldRow.isOfDeletion)) AS held_deletions,
                    (SELECT count(*) FROM sluice_captured) AS captured
                FROM sluice_mutations WHERE \(WriteStatus.isUnfinished)
                """
        )
        if let row {
            counts.pending = row["pending"] + row["captured"]
            counts.failed = row["failed"]
            counts.conflicts = row["conflicts"]
            counts.held = row["held"]
            counts.heldDeletions = row["held_deletions"]
        }
        let others = try Row.fetchOne(
            db,
            sql: """
                SELECT count(*) FILTER (WHERE status <> 'conflict'), count(*) FILTER (WHERE status = 'conflict')
                FROM sluice_others WHERE \(WriteStatus.needsDecision)
                """
        )
        if let others {
            counts.failed += others[0]
            counts.conflicts += others[1]
        }
        let decided = try String.fetchAll(
            db,
            sql: "SELECT mutation_id FROM sluice_intents ORDER BY id DESC LIMIT ?",
            arguments: [decisionLimit]
        )
        counts.decided = Set(decided.compactMap { UUID(text: $0) })
        counts.oldestPending = try Date.fetchOne(db, sql: oldestOpen)
        let device = try Row.fetchOne(
            db,
            sql: "SELECT pulled_at, pushed_at, is_snapshot, snapshot_rows FROM sluice_device"
        )
        if let device {
            counts.lastPulled = device["pulled_at"]
            counts.lastPushed = device["pushed_at"]
            counts.snapshotRows = device["is_snapshot"] ? device["snapshot_rows"] : nil
        }
        return counts
    }

    /// The time when the oldest open write was made. For each status, the query reads only the write with the lowest
    /// number. Reading ten thousand waiting writes would take milliseconds.
    private static let oldestOpen = """
        SELECT min(created_at) FROM (
            \(WriteStatus.openOnes.map { status in
                """
                SELECT * FROM (
                    SELECT created_at FROM sluice_mutations WHERE status = '\(status)' ORDER BY sequence_number LIMIT 1)
                """
            }.joined(separator: " UNION ALL ")))
        """
}
