import Foundation
import Postgres

/// A user's row by its id.
///
/// Each row contains the organization: with a plain parameter the planner may join the rows to all of the
/// organization's.
struct UserIDRow {
    let organization: UUID
    let user: UUID
    let id: UUID

    static func columns(_ id: String) -> Columns<UserIDRow> {
        Columns(.uuid("organization_id", \.organization), .uuid("user_id", \.user), .uuid(id, \.id))
    }
}
