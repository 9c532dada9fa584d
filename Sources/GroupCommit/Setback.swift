package import Postgres

/// What is to be done about a group that was not committed.
package enum Setback: Error {
    /// Try again, this time looking up everything.
    case readAgain
    /// Try again after a little while.
    case contended(PostgresError)
    /// A statement took too long, or waited too long for a lock: a job in the group is at fault, and not the database.
    case tooLong(PostgresError)
    /// What is remembered of organizations is out of date.
    case stale
    /// The database refuses something in it.
    case refused(PostgresError)
    case unavailable(PostgresError)
}
