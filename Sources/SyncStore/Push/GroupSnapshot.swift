import Foundation
import SyncModel

/// Everything that a group's plans need, read under its locks.
struct GroupSnapshot {
    /// One a push.
    var pushes: [PushSnapshot]
    /// Whether the push's lane exists.
    ///
    /// It does not when the organization is no longer active.
    var hasLane: [Bool]
    /// By organization.
    var entities: [UUID: EntityTable] = [:]
    /// Mappings that the group names, and when the use of each was last recorded.
    var mappingUses: [MappingUse] = []
    /// Local ids that an unconfirmed pull may have assigned, by push.
    ///
    /// They lead nowhere yet; each has the UUID that represents it.
    var unassigned: [Int: [LocalID: UUID]] = [:]
}
