package import Postgres

/// Whether one writer can commit at present, for readiness; reads do not show it.
///
/// A commit is proof that writes are possible, and a failed one counts until the next. An idle writer is probed by a
/// write of one row. Only failures of the database as a whole count: a refused job, a contended row and a statement
/// that takes too long do not. A refused job makes a probe due, and a probe counts whatever its failure is.
package struct WriteHealth: Sendable {
    /// How long a writer may fail before the gateway is not ready. A restart of the database is usually shorter.
    package static let timeout: Duration = .seconds(3)
    /// How long a lack of resources or a refusal by the database counts, unless a job is committed. A probe is no proof
    /// against it: it may reuse space on a full disk, where the next job finds none. So readiness changes twice a
    /// minute at most. While commits are not replicated, a commit is no proof either: one without changes waits for no
    /// standby.
    package static let shortage: Duration = .seconds(30)
    /// How long a writer may be idle before it is probed.
    ///
    /// It is also the pause between probes while the writer fails.
    package static let probeInterval: Duration = .seconds(10)
    package static let failingProbeInterval: Duration = .seconds(1)

    private var failingSince: ContinuousClock.Instant?
    private var lackingSince: ContinuousClock.Instant?
    private var unreplicatedAt: ContinuousClock.Instant?
    /// Whether a job was refused since the last write that succeeded.
    private var isSuspect = false
    /// The last commit, probe or failure.
    private var lastTry: ContinuousClock.Instant?
    /// The last failure; nil once a write has succeeded.
    private(set) package var failure: PostgresError?

    package init() {}

    /// Whether an error means that the database as a whole accepts no writes.
    package static func counts(_ error: PostgresError) -> Bool {
        // a full pool is full of work, and 53400 is a limit that one statement exceeds
        (error.isUnavailable || error.isOfDatabase) && error.kind != .poolExhausted && error.sqlState != "53400"
    }

    /// Records a commit.
    package mutating func committed(at now: ContinuousClock.Instant) {
        isSuspect = false
        lastTry = now
        if let unreplicatedAt, now - unreplicatedAt < Self.shortage { return }
        self = WriteHealth()
        lastTry = now
    }

    /// Records a probe that succeeded.
    package mutating func probed(at now: ContinuousClock.Instant) {
        isSuspect = false
        lastTry = now
        if let lackingSince, now - lackingSince < Self.shortage { return }
        committed(at: now)
    }

    /// Records the failure of a probe. A probe depends on no job, so each failure concerns the database: also that of a
    /// server out of transaction ids (54000), which a single job may cause as well.
    package mutating func failedProbe(_ error: PostgresError, at now: ContinuousClock.Instant) {
        guard !error.isRetryable, error.kind != .cancelled, error.kind != .poolExhausted else { return }
        record(error, at: now)
    }

    /// Records a failure; one that does not concern the database as a whole makes a probe due.
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

    /// Why the gateway is not ready.
    ///
    /// Nil while the writer succeeds, or has failed for a moment only.
    package func writeFailure(at now: ContinuousClock.Instant) -> PostgresError? {
        guard let failingSince, now - failingSince >= Self.timeout else { return nil }
        return failure
    }

    package func isProbeDue(at now: ContinuousClock.Instant) -> Bool {
        guard let lastTry else { return true }
        return now - lastTry >= (failingSince == nil && !isSuspect ? Self.probeInterval : Self.failingProbeInterval)
    }
}
