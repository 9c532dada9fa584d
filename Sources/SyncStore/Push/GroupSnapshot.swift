import Foundation
import SyncModel

/// Everything that a group's plans need, read under its locks.
struct GroupSnapshot {
    /// One a push.
    var pushes: [PushSnapshot]
    /// Whether the push's lane exists: it does not when the organization is no longer active.
    var hasLane: [Bool]
    /// By organization.
    var entities: [UUID: EntityTable] = [:]
    /// Mappings that the group names, and when the use of each was last noted.
    var mappingUses: [MappingUse] = []
    /// By push, local ids that lead nowhere and that an unconfirmed pull may have assigned; each with the UUID that
    /// represents it.
    var unassigned: [Int: [LocalID: UUID]] = [:]
}
