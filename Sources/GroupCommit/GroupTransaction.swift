package import Postgres
package import SyncModel

/// The work of a committer on a group: one transaction.
package protocol GroupTransaction: Sendable {
    associatedtype Job: GroupJob
    /// Reads, decides, writes and commits, and answers the jobs.
    ///
    /// - Parameter context: what must not be taken from a cache.
    /// - Throws: `PostgresError`, ``CommitFailure``, or what `Catalog` throws; then nothing of the group is committed.
    func commit(_ group: [Job], on connection: Connection, _ context: RetryContext) async throws

    /// The problem for a job that failed; the log has the rest.
    func problem(_ error: any Error) -> Problem

    /// The problem for a job that failed alone, in the time of a whole group.
    func problem(_ error: PostgresError, ofLone job: Job) -> Problem

    /// Whether a database error means that the cached organizations are out of date.
    func isStale(_ error: PostgresError) -> Bool

    /// Fetches users' keys that values are sealed with, or are to be.
    func fetchMissingKeys(_ error: SealError) async throws

    /// Drops a group's organizations from the cache.
    func invalidateCache(_ group: [Job])
}

extension GroupTransaction {
    package func problem(_ error: PostgresError, ofLone job: Job) -> Problem { problem(error) }
}
