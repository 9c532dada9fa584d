import Metrics
package import Postgres
import SyncModel

/// Whether one writer can commit at present. The gateway's readiness depends on this, because successful reads do not
/// prove that writes are possible.
///
/// A commit shows that writes are possible. After a failed commit, the writer is considered failing until the next
/// commit succeeds. An idle writer is probed with a write of one row.
///
/// A writer is considered failing only after an error that concerns the database as a whole. A refused job, a contended
/// row and a statement that takes too long are no such errors. However, a refused job makes a probe due, and almost
/// every error of a probe concerns the database as a whole.
package struct WriteHealth: Sendable {
    /// The time for which a writer may fail before the gateway is not ready. A restart of the database is usually
    /// shorter. If a writer has not succeeded since the start, its first failure immediately makes the gateway not
    /// ready.
    package static let timeout: Duration = .seconds(3)
    /// The time during which a successful probe does not end a failure that was caused by a lack of resources, or by a
    /// refusal that does not depend on a statement's parameters (`isOfDatabase`).
    ///
    /// On a full disk, a probe may reuse space, while the next job finds no space. As a result, readiness changes at
    /// most twice a minute. The commit of a job ends the failure at once.
    ///
    /// After a commit that was not replicated, even the commit of a job does not end the failure during this time. The
    /// job may have changed nothing, and a commit without changes does not wait for a standby.
    package static let shortage: Duration = .seconds(30)
    /// The time for which a writer may be idle before it is probed.
    package static let probeInterval: Duration = .seconds(10)
    /// The pause between probes while the writer fails, or after a job was refused.
    package static let failingProbeInterval: Duration = .seconds(1)

    /// Whether a write has succeeded since the start.
    private(set) package var hasWritten = false
    private var failingSince: ContinuousClock.Instant?
    private var lackingSince: ContinuousClock.Instant?
    private var unreplicatedAt: ContinuousClock.Instant?
    /// Whether a job was refused since the last successful write.
    private var isSuspect = false
    /// The time of the last commit, probe or failure.
    private var lastTry: ContinuousClock.Instant?
    /// The last failure; nil after a write has succeeded.
    private(set) package var failure: PostgresError?

    package init() {}

    /// Whether an error shows that the database as a whole accepts no writes.
    package static func counts(_ error: PostgresError) -> Bool {
        // a full pool means only that there is much work; 53400 is a limit that a single statement exceeds
        (error.isUnavailable || error.isOfDatabase) && error.kind != .poolExhausted && error.sqlState != "53400"
    }

    /// Records a commit.
    package mutating func committed(at now: ContinuousClock.Instant) {
        isSuspect = false
        lastTry = now
        if let unreplicatedAt, now - unreplicatedAt < Self.shortage { return }
        self = WriteHealth()
        hasWritten = true
        lastTry = now
    }

    /// Records a probe that succeeded.
    package mutating func probed(at now: ContinuousClock.Instant) {
        isSuspect = false
        lastTry = now
        if let lackingSince, now - lackingSince < Self.shortage { return }
        committed(at: now)
    }

    /// Records the failure of a probe.
    ///
    /// A probe does not depend on a job, so its failure concerns the database as a whole. This includes the error
    /// 54000, which a server without free transaction ids reports, but which a single job can also cause.
    package mutating func failedProbe(_ error: PostgresError, at now: ContinuousClock.Instant) {
        guard !error.isRetryable, error.kind != .cancelled, error.kind != .poolExhausted else { return }
        record(error, at: now)
    }

    /// Records a failure. A failure that does not concern the database as a whole makes a probe due.
    package mutating func failed(_ error: PostgresError, at now: ContinuousClock.Instant) {
        if Self.counts(error) {
            record(error, at: now)
        } else if error.sqlState != nil, !error.isRetryable {
            isSuspect = true
        }
    }

    private mutating func record(_ error: PostgresError, at now: ContinuousClock.Instant) {
        lastTry = now
        failingSince = failingSince ?? now
        failure = error
        if error.isOfLackingResource || error.isOfDatabase { lackingSince = now }
        if error.kind == .unreplicated { (lackingSince, unreplicatedAt) = (now, now) }
    }

    /// The reason why the gateway is not ready; nil while the writer succeeds, or if it has succeeded before and has
    /// failed for less than ``timeout``.
    package func writeFailure(at now: ContinuousClock.Instant) -> PostgresError? {
        guard let failingSince, !hasWritten || now - failingSince >= Self.timeout else { return nil }
        return failure
    }

    package func isProbeDue(at now: ContinuousClock.Instant) -> Bool {
        guard let lastTry else { return true }
        return now - lastTry >= (failingSince == nil && !isSuspect ? Self.probeInterval : Self.failingProbeInterval)
    }
}

/// The metrics of group commit.
package struct CommitMetrics: Sendable {
    /// The reason why a group is tried again.
    enum Retry: String, CaseIterable {
        /// The group needs data that the first read omitted.
        case readAgain = "read_again"
        /// Another gateway has changed an organization's types.
        case staleTypes = "stale_types"
        /// Another gateway has created a data key.
        case staleKeys = "stale_keys"
        /// Users' keys were not in memory.
        case userKeys = "user_keys"
        /// Another transaction conflicted with the group.
        case contended
        /// The connection was lost.
        case connection
        /// A job would change too much to share a group.
        case heavy
        /// The group was halved, because the database refused the group or because its jobs together change too much
        /// data.
        case bisected
        /// A statement of the group took too long, or waited too long for a lock.
        case tooLong = "too_long"
    }

    /// The noun for the members of a group.
    let noun: String
    private let jobs: Recorder
    private let mutations: Recorder
    private let statements: Recorder
    private let roundTrips: Recorder
    private let duration: Timer
    private let retries: [Retry: Counter]

    /// - Parameters:
    ///   - prefix: the beginning of the metrics' names.
    ///   - jobs: the noun for the members of a group.
    package init(prefix: String, jobs: String) {
        noun = jobs
        self.jobs = Recorder(label: "\(prefix)_\(jobs)")
        mutations = Recorder(label: "\(prefix)_mutations")
        statements = Recorder(label: "\(prefix)_statements")
        roundTrips = Recorder(label: "\(prefix)_round_trips")
        duration = Timer(label: "\(prefix)_duration_seconds")
        let retries = Retry.allCases.map { reason in
            (reason, Counter(label: "\(prefix)_retries_total", dimensions: [("reason", reason.rawValue)]))
        }
        self.retries = Dictionary(uniqueKeysWithValues: retries)
    }

    /// - Parameter traffic: all traffic of the group, including retries and the halves of the group.
    func group(jobs: Int, mutations: Int, traffic: Traffic, took: Duration) {
        self.jobs.record(jobs)
        self.mutations.record(mutations)
        statements.record(traffic.statements)
        roundTrips.record(traffic.roundTrips)
        duration.recordNanoseconds(took.nanoseconds)
    }

    func retry(_ reason: Retry) {
        retries[reason]?.increment()
    }
}
