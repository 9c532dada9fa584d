package import Foundation
package import SyncModel

/// What an explanation of a user rests on, as of one moment.
package struct UserSnapshot: Sendable {
    /// Whether requests of the user are served.
    package enum Standing: Sendable, Hashable {
        case itself
        /// It was joined into another user, and everything is that one's.
        case part(of: UUID)
        /// It is being joined with another user just now.
        case joining
        case erased
    }

    /// A mutation that is asked about.
    package struct Question: Sendable {
        package let id: UUID
        /// Nil if the user has none of that id.
        package let record: MutationRecord?
        /// Open mutations of the lane before it.
        package let ahead: BoundedCount

        package init(id: UUID, record: MutationRecord?, ahead: BoundedCount) {
            self.id = id
            self.record = record
            self.ahead = ahead
        }
    }

    package var organization: OrganizationStatus
    package var standing: Standing
    /// Whether the organization knows the user.
    package var isKnown: Bool
    /// Whether the user's requests are accepted: an operator provisioned the user, or the organization does not require
    /// that.
    package var isLetIn = true
    package var backlog: Backlog
    /// Nil for a user without a lane.
    package var lane: LaneState?
    package var mutation: Question?
    /// The device that is asked about; nil for all.
    package var device: UUID?
    package var now: Timestamp

    package init(
        organization: OrganizationStatus,
        standing: Standing,
        isKnown: Bool,
        backlog: Backlog = Backlog(),
        lane: LaneState? = nil,
        mutation: Question? = nil,
        device: UUID? = nil,
        now: Timestamp
    ) {
        self.organization = organization
        self.standing = standing
        self.isKnown = isKnown
        self.backlog = backlog
        self.lane = lane
        self.mutation = mutation
        self.device = device
        self.now = now
    }
}
