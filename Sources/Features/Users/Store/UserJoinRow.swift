package import Foundation
import Postgres
package import SyncModel
import SyncStore

/// A join of two users as operators see it.
package struct UserJoinRow: Sendable, Hashable {
    package enum State: String, Sendable, Hashable {
        /// Neither user is served, until their lanes are at rest.
        case closing
        /// All rows are the target's; its devices have not received the other's private entities yet.
        case moved
        case done
    }

    static let list = "j.user_id, j.into_id, j.started_at, j.closed_until, j.feed_end, j.finished_at"

    package let user: UUID
    package let target: UUID
    package let startedAt: Timestamp
    /// Nil once the rows have moved.
    package let closedUntil: Timestamp?
    /// The feed's end when the rows moved.
    let feedEnd: Int64?
    package let finishedAt: Timestamp?

    package var state: State { closedUntil != nil ? .closing : finishedAt == nil ? .moved : .done }

    /// Reads the columns of ``list``.
    init(_ row: inout RowReader) throws {
        user = try row.uuid("user_id")
        target = try row.uuid("into_id")
        startedAt = try row.moment("started_at")
        closedUntil = try row.optionalMoment("closed_until")
        feedEnd = try row.optionalInt64("feed_end")
        finishedAt = try row.optionalMoment("finished_at")
    }
}
