package import Postgres
package import SyncModel

/// One piece of work on one lane that is committed together with others.
package protocol GroupJob: Sendable {
    /// A lane takes part in a group once.
    var lane: LaneKey { get }
    /// What it adds to a group's bound on mutations.
    var weight: Int { get }
    /// What it adds to a group's bound on bytes.
    var bytes: Int { get }
    var enqueuedAt: ContinuousClock.Instant { get }
    /// Whether nobody waits for it any more.
    var isAnswered: Bool { get }
    /// Answers that it was not done.
    func refuse(_ problem: Problem)
}

/// What a group has learnt from tries before this one.
package struct Certainty: Sendable {
    /// Whether keys, ids and watermarks are all to be looked up.
    package var looksUpAll = false
    /// Whether organizations' data keys were read again after a value under an unknown one was met: then it stays closed.
    package var hasNewestKeys = false
}

/// What a committer does with a group: one transaction.
package protocol GroupWork: Sendable {
    associatedtype Job: GroupJob
    /// Reads, decides, writes and commits, and answers the jobs.
    ///
    /// - Parameter certainty: what is not to be taken from what is remembered.
    /// - Throws: `PostgresError`, ``Setback``, or what `Catalog` throws; then nothing of the group is committed.
    func commit(_ group: [Job], on connection: Connection, _ certainty: Certainty) async throws

    /// What a job is told that failed; the log has the rest.
    func problem(_ error: any Error) -> Problem

    /// Whether an error of the database says that what is remembered of organizations is out of date.
    func isStale(_ error: PostgresError) -> Bool

    /// Forgets what is remembered of a group's organizations.
    func forget(_ group: [Job])
}

/// What is to be done about a group that was not committed.
package enum Setback: Error {
    /// Try again, this time looking up everything.
    case readAgain
    /// Try again after a little while.
    case contended(PostgresError)
    /// A statement took too long, or waited too long for a lock: somebody in the group is at fault, and not the database.
    case tooLong(PostgresError)
    /// What is remembered of organizations is out of date.
    case stale
    /// The database refuses something in it.
    case refused(PostgresError)
    case unavailable(PostgresError)
}
