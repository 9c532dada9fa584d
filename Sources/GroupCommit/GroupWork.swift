package import Postgres
package import SyncModel

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
