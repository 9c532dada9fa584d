import Foundation
import SyncModel

/// Everything that a group's plans need, read under its locks.
struct GroupSnapshot {
    /// One a push.
    var pushes: [PushSnapshot]
    /// Whether the push's lane is there: it is not when the organization is no longer active.
    var hasLane: [Bool]
    /// By organization.
    var entities: [UUID: EntityTable] = [:]
}
