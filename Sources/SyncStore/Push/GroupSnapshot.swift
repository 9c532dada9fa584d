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

/// A mapping that a push names.
package struct MappingUse {
    /// A use is noted once a day (``GroupStatements/touchMappings``).
    package static let precision: Double = 86_400

    let push: Int
    let name: ClientReference
    /// Nil where it never was.
    let notedAt: Timestamp?

    /// Whether it is to be noted again.
    func isNews(at now: Timestamp) -> Bool {
        guard let notedAt else { return true }
        return notedAt.adding(seconds: Self.precision) <= now
    }
}
