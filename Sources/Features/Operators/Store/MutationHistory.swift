package import Foundation
package import SyncModel
package import SyncStore

/// The complete history of one mutation, as of one moment.
package struct MutationHistory: Sendable {
    /// Another mutation of the lane, as far as a graph shows it.
    package struct RelatedMutation: Sendable {
        package let id: UUID
        package let status: MutationStatus
        package let operation: SyncModel.Operation
        package let entity: EntityName
    }

    /// An attempt, as it is kept.
    package struct Attempt: Sendable {
        /// Counts the mutation's attempts, over all revisions.
        package let ordinal: Int32
        package let note: AttemptRecord
    }

    /// The entity as the feed has it.
    package struct Entity: Sendable {
        package let id: ServerID
        package let state: EntityState
        package let feedPosition: Int64
        package let updatedAt: Timestamp
    }

    /// Another mutation of the same entity.
    package struct EntityMutation: Sendable {
        package let id: UUID
        package let status: MutationStatus
        package let operation: SyncModel.Operation
        package let version: Int64?
        package let changedAt: Timestamp
    }

    package let detail: MutationDetail
    /// Since when it is in its status.
    package let changedAt: Timestamp
    /// Nil for a mutation that is not replayed, and for one that cannot be sent as it is.
    package var sent: ReplayPreview?
    /// The last ones, the first of them first.
    package var attempts: [Attempt] = []
    package var waitsFor: [RelatedMutation] = []
    /// The first of those that wait for it.
    package var waiters: [RelatedMutation] = []
    package var waiterCount = BoundedCount(found: 0)
    package var haltedBy: UUID?
    /// Open mutations of the lane before it.
    package var ahead = BoundedCount(found: 0)
    /// What keeps the lane's head from running.
    package var blocker: LaneBlocker?
    package var entity: Entity?
    /// The last ones first.
    package var history: [EntityMutation] = []
}
