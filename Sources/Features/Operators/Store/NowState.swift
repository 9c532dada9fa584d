package import Foundation
package import SyncModel
package import SyncStore

/// The current state of all organizations and gateways, from the database.
package struct NowState: Sendable {
    /// A gateway that is there.
    package struct Replica: Sendable {
        package let id: UUID
        package let lastSeenAt: Timestamp
    }

    /// The mutation that has waited longest.
    package struct Waiting: Sendable {
        package let organization: UUID
        package let user: UUID
        /// Nil if it has continued since.
        package let mutation: UUID?
        package let acceptedAt: Timestamp
    }

    /// When it was read.
    package let at: Timestamp
    package let failed: CappedCount
    package let conflict: CappedCount
    package let haltedLanes: CappedCount
    /// Lanes that wait for a back-off, or for their upstream.
    package let waitingLanes: CappedCount
    package let oldest: Waiting?
    /// Up to 100.
    package let replicas: [Replica]
    package let retention: RetentionStatus
}
