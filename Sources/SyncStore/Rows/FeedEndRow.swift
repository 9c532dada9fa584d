import Foundation
import Postgres
import SyncModel

extension FeedCursor {
    /// Reads `organization_id`, `epoch` and `last_position` of a feed: where it ends.
    static func end(_ row: inout RowReader) throws -> (organization: UUID, end: FeedCursor) {
        let organization = try row.uuid("organization_id")
        let epoch = try row.int64("epoch")
        let position = try row.int64("last_position")
        return (organization, FeedCursor(epoch: epoch, position: position, head: position))
    }
}
