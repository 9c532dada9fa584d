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
                SELECT
                    count(*) FILTER (WHERE \(WriteStatus.isPending)) AS pending,
                    count(*) FILTER (WHERE \(WriteStatus.needsDecision) AND status <> 'conflict') AS failed,
                    count(*) FILTER (WHERE \(WriteStatus.needsDecision) AND status = 'conflict') AS conflicts,
                    min(created_at) FILTER (WHERE \(WriteStatus.isPending)) AS oldest,
                    (SELECT count(*) FROM sluice_held) AS held
                FROM sluice_mutations WHERE \(WriteStatus.isUnfinished)
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
