import Foundation
import Postgres
import SyncModel
import SyncStore

/// A row of a user, with its age.
struct AgedRow: RetentionRow {
    let user: UUID
    let id: UUID
    let age: Timestamp
    var isDue: Bool

    /// Reads one from ``AgedRows/statement``.
    init(_ row: inout RowReader) throws {
        user = try row.uuid("user_id")
        id = try row.uuid("id")
        age = try row.moment("age")
        isDue = try row.bool("is_due")
    }

    var place: RetentionPosition { .aged(age, user: user, id: id) }
}
