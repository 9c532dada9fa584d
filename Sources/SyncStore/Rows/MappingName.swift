import Foundation
import SyncModel

/// A client id of a user under a type: the key of a mapping.
struct MappingName: Hashable, Comparable {
    let lane: LaneKey
    let clientID: UUID
    let entityType: String

    static func < (left: MappingName, right: MappingName) -> Bool {
        if left.lane != right.lane { return left.lane < right.lane }
        return (left.clientID, left.entityType) < (right.clientID, right.entityType)
    }
}
