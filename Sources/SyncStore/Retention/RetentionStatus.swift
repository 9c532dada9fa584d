import FoundationEssentials
package import Postgres
package import SyncModel

/// The state of retention, over all replicas.
package struct RetentionStatus: Sendable {
    /// The duration of a lease without renewal, in seconds.
    package static let leaseSeconds: Double = 60
    /// The pause after an interrupted run, in seconds.
    package static let secondTry: Double = 60

    /// The time at which the current run began; nil if there is no current run.
    package let runningSince: Timestamp?
    /// The time at which the next run is due; nil if it is due immediately.
    package let dueAt: Timestamp?
    /// The time at which a run last finished; nil before the first run.
    package let finishedAt: Timestamp?
    /// The report of the last finished run: a JSON object with a number for each kind of row.
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

    /// - Parameter interval: the seconds from the end of a run to the next run.
    package func isDue(at now: Timestamp, interval: Double) -> Bool {
        dueAt.map { $0 <= now || $0 > Self.latestDue(at: now, interval: interval) } ?? true
    }

    /// Returns the latest valid end of a lease. If a lease ends later, it was written by a gateway with a wrong clock.
    package static func latestExpiry(at now: Timestamp) -> Timestamp { now.adding(seconds: 2 * leaseSeconds) }

    /// Returns the latest valid time at which a run is due.
    ///
    /// A later time was written by a gateway with a wrong clock or a longer interval. The clocks of replicas may differ
    /// by some seconds.
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
    /// Returns the state of retention, over all replicas.
    package func retentionStatus() async throws(Problem) -> RetentionStatus {
        try await failure.reporting("read the state of retention") {
            try RetentionStatus(await pool.run([Query(RetentionStatus.statement, Parameters())])[0], now: now())
        }
    }
}
