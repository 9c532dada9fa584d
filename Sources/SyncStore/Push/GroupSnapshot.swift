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
    /// Mappings that the group names, and when that was last noted of them.
    var mappingUses: [MappingUse] = []
    /// By push, ids of its device that lead nowhere, and may have been assigned by a pull that is not confirmed; each
    /// with what stands for it.
    var unassigned: [Int: [LocalID: UUID]] = [:]
}
