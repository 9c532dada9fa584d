import Foundation
import GRDB

/// What the database says of ``SyncStatus``.
struct StatusCounts: Sendable, Hashable {
    var pending = 0
    var failed = 0
    var conflicts = 0
    var oldestPending: Date?
    var held = 0
    var lastPulled: Date?
    var lastPushed: Date?
    var snapshotRows: Int?

    static func fetch(_ db: Database) throws -> StatusCounts {
        var counts = StatusCounts()
        let row = try Row.fetchOne(
            db,
            sql: """
                WITH decided (id) AS (SELECT mutation_id FROM sluice_intents)
                SELECT
                    (SELECT count(*) FROM sluice_mutations
                     WHERE status IN ('queued', 'sent', 'pending', 'blocked', 'in_flight')) +
                        (SELECT count(*) FROM sluice_mutations
                         WHERE status IN ('failed', 'rejected', 'conflict') AND id IN decided) AS pending,
                    (SELECT count(*) FROM sluice_mutations
                     WHERE status IN ('failed', 'rejected') AND id NOT IN decided) AS failed,
                    (SELECT count(*) FROM sluice_mutations
                     WHERE status = 'conflict' AND id NOT IN decided) AS conflicts,
                    (SELECT min(created_at) FROM sluice_mutations
                     WHERE status IN ('queued', 'sent', 'pending', 'blocked', 'in_flight')) AS oldest,
                    (SELECT count(*) FROM sluice_held) AS held
                """
        )
        if let row {
            counts.pending = row["pending"]
            counts.failed = row["failed"]
            counts.conflicts = row["conflicts"]
            counts.oldestPending = row["oldest"]
            counts.held = row["held"]
        }
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
}
