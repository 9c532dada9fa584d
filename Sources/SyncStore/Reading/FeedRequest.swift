import Foundation
import Postgres
import SyncModel

/// The requested part of a feed, and its reader.
struct FeedRequest: Sendable {
    let organization: UUID
    let user: UUID
    /// Empty for all.
    let entityTypes: [String]
    /// 1 to 1,000.
    let limit: Int

    var interest: FeedInterest {
        FeedInterest(organization: organization, user: user, entityTypes: Set(entityTypes))
    }

    /// Reads `since`.
    ///
    /// - Throws: `invalid_request` for an invalid cursor, or one made with another filter.
    func cursor(_ since: String?, pointer: String = "") throws(Problem) -> FeedCursor? {
        guard let since else { return nil }
        guard let cursor = FeedCursor(since) else {
            throw .invalidParameter("since is not a cursor of this feed", pointer: pointer)
        }
        guard cursor.filter == FeedCursor.filter(entityTypes) else {
            let detail = "since was issued for another entity_type filter; start over without since"
            throw .invalidParameter(detail, pointer: pointer)
        }
        return cursor
    }
}
