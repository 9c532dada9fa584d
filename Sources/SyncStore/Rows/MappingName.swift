package import Foundation
package import SyncModel

/// A client id of a user under a type: the key of a mapping.
package struct MappingName: Hashable, Comparable {
    package let lane: LaneKey
    package let clientID: UUID
    @Exact package private(set) var entityType: String

    package init(lane: LaneKey, clientID: UUID, entityType: String) {
        self.lane = lane
        self.clientID = clientID
        self.entityType = entityType
    }

    package static func < (left: MappingName, right: MappingName) -> Bool {
        if left.lane != right.lane { return left.lane < right.lane }
        return (left.clientID, left.entityType) < (right.clientID, right.entityType)
    }
}
