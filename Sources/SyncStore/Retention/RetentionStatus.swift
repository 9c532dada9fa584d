import FoundationEssentials
package import Postgres
package import SyncModel

/// Retention's state, over all replicas.
package struct RetentionStatus: Sendable {
    /// How long a lease lasts without renewal, in seconds.
    package static let leaseSeconds: Double = 60
    /// The pause after an interrupted run, in seconds.
    package static let secondTry: Double = 60

    /// When the current run began; nil without a run.
    package let runningSince: Timestamp?
    /// When the next run is due; nil: at once.
    package let dueAt: Timestamp?
    /// When a run last finished; nil before the first.
    package let finishedAt: Timestamp?
    /// That run's numbers, a JSON object by kind.
    package let lastReport: [UInt8]?

    /// Reads a row of ``statement``.
    init(_ rows: Rows, now: Timestamp) throws {
        guard var row = rows.first else { throw PostgresError(.decoding, "retention_runs has no row") }
        let expires: Timestamp? = try row.read("expires_at")
        dueAt = try row.read("due_at")
        let started: Timestamp? = try row.read("started_at")
        runningSince = expires.map { $0 > now && $0 <= Self.latestExpiry(at: now) } ?? false ? started : nil
        finishedAt = try row.read("finished_at")
        lastReport = try row.read("last_report")
    }

    /// - Parameter interval: from the end of a run to the next, in seconds.
    package func isDue(at now: Timestamp, interval: Double) -> Bool {
        dueAt.map { $0 <= now || $0 > Self.latestDue(at: now, interval: interval) } ?? true
    }

    /// A lease that ends later was written by a wrong clock.
    package static func latestExpiry(at now: Timestamp) -> Timestamp { now.adding(seconds: 2 * leaseSeconds) }

    /// The latest time at which a run can be due.
    ///
    /// That is also later than an interval from now when the interval was longer then. Replicas' clocks may differ by
    /// some seconds.
    package static func latestDue(at now: Timestamp, interval: Double) -> Timestamp {
        now.adding(seconds: max(interval, secondTry) + 60)
    }

    package static let statement = Statement(
        "retention_status",
        """
        SELECT r.expires_at, r.due_at, r.started_at, r.finished_at, r.last_report
        FROM retention_runs r WHERE r.name = 'retention'
        """
    )
}

extension Store {
    /// Retention's state, over all replicas.
    package func retentionStatus() async throws(Problem) -> RetentionStatus {
        try await failure.reporting("read the state of retention") {
            try RetentionStatus(await pool.run([Query(RetentionStatus.statement, Parameters())])[0], now: now())
        }
    }
}
