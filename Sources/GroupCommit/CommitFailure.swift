package import Postgres
package import SyncModel

/// Why a group was not committed, and how to continue.
package enum CommitFailure: Error {
    /// Try again, and look up everything.
    case readAgain
    /// Try again after a short pause.
    case contended(PostgresError)
    /// A statement took too long, or waited too long for a lock.
    ///
    /// The cause is a job in the group, and not the database.
    case tooLong(PostgresError)
    /// These lanes' jobs change so much that no other job may wait for them.
    case heavy(Set<LaneKey>)
    /// The cached organizations are out of date.
    case stale
    /// The database refuses something in the group.
    case refused(PostgresError)
    case unavailable(PostgresError)
}
