package import Foundation
import JSONText
package import SyncModel

/// The filter of a user's list of mutations.
package struct MutationFilter: Sendable, Hashable {
    /// Empty for all.
    package var statuses: [MutationStatus]
    package var deviceID: UUID?
    @Exact package var entityType: String?
    /// 1 to 1,000.
    package var limit: Int
    /// `next` of the page before.
    @Exact package var cursor: String?

    package init(
        statuses: [MutationStatus] = [],
        deviceID: UUID? = nil,
        entityType: String? = nil,
        limit: Int = 100,
        cursor: String? = nil
    ) {
        self.statuses = statuses
        self.deviceID = deviceID
        self.entityType = entityType
        self.limit = limit
        self.cursor = cursor
    }

    /// A hash of the filter without the page, and of further filters, for cursors.
    func standIn(excluding others: [String] = []) -> UInt64 {
        FeedCursor.filter(statuses.map(\.rawValue) + [deviceID?.lowercased ?? "-", entityType ?? "-"] + others)
    }
}
