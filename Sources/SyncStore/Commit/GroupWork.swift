import Postgres
import SyncModel

/// One piece of work on one lane that is committed together with others.
protocol GroupJob: Sendable {
    /// A lane takes part in a group once.
    var lane: LaneKey { get }
    /// What it adds to a group's bound on mutations.
    var weight: Int { get }
    var enqueuedAt: ContinuousClock.Instant { get }
    /// Whether nobody waits for it any more.
    var isAnswered: Bool { get }
    /// Answers that it was not done.
    func refuse(_ problem: Problem)
}

/// What a committer does with a group: one transaction.
protocol GroupWork: Sendable {
    associatedtype Job: GroupJob
    /// What is done, for the log.
    var what: StaticString { get }

    /// Reads, decides, writes and commits, and answers the jobs.
    ///
    /// - Parameter isCertain: whether nothing may be taken from what is remembered.
    /// - Throws: `PostgresError`, ``Setback``, or what `Catalog` throws; then nothing of the group is committed.
    func commit(_ group: [Job], on connection: Connection, isCertain: Bool) async throws

    /// Whether an error of the database says that what is remembered of organizations is out of date.
    func isStale(_ error: PostgresError) -> Bool

    /// Forgets what is remembered of a group's organizations.
    func forget(_ group: [Job])
}

/// What is to be done about a group that was not committed.
enum Setback: Error {
    /// Try again, this time looking up everything.
    case readAgain
    /// Try again after a little while.
    case contended(PostgresError)
    /// What is remembered of organizations is out of date.
    case stale
    /// The database refuses something in it.
    case refused(PostgresError)
    case unavailable(PostgresError)
}
