import Foundation
import Postgres
package import SyncModel
import SyncStore

/// Retention's state, over all replicas.
package struct RetentionStatus: Sendable {
    /// When the current run began; nil when none is under way.
    package let runningSince: Timestamp?
    /// When the next run is due; nil: at once.
    package let dueAt: Timestamp?
    /// When a run last finished; nil before the first.
    package let finishedAt: Timestamp?
    /// That run's numbers, a JSON object by kind.
    package let lastReport: [UInt8]?

    /// Reads a row of ``RetentionStatements/status``.
    init(_ rows: Rows, now: Timestamp) throws {
        guard var row = rows.first else { throw PostgresError(.decoding, "retention_runs has no row") }
        let expires = try row.optionalMoment("expires_at")
        dueAt = try row.optionalMoment("due_at")
        let started = try row.optionalMoment("started_at")
        runningSince = expires.map { $0 > now && $0 <= Self.latestExpiry(at: now) } ?? false ? started : nil
        finishedAt = try row.optionalMoment("finished_at")
        lastReport = try row.optionalBytes("last_report")
    }

    package func isDue(at now: Timestamp) -> Bool {
        dueAt.map { $0 <= now || $0 > Self.latestDue(at: now) } ?? true
    }

    /// A lease that ends later was written by a wrong clock.
    static func latestExpiry(at now: Timestamp) -> Timestamp { now.adding(seconds: 2 * RetentionStore.leaseSeconds) }

    /// The same for the time when a run is due: an interval is a week at most.
    static func latestDue(at now: Timestamp) -> Timestamp { now.adding(seconds: 8 * 86_400) }
}
