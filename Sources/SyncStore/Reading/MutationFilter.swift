package import Foundation
import JSONText
package import SyncModel

/// What a user's list of mutations is narrowed to.
package struct MutationFilter: Sendable, Hashable {
    /// Empty for all.
    package var statuses: [MutationStatus]
    /// Only mutations of this device.
    package var deviceID: UUID?
    /// Only mutations of this type.
    package var entityType: String?
    /// 1 to 1,000.
    package var limit: Int
    /// `next` of the page before.
    package var cursor: String?

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

    /// Stands for all of it but the page, and for what else a list is narrowed to.
    func standIn(besides others: [String] = []) -> UInt64 {
        FeedCursor.filter(statuses.map(\.rawValue) + [deviceID?.lowercased ?? "-", entityType ?? "-"] + others)
    }
}
