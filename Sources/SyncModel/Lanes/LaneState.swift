package import Foundation

/// Names a lane: a user's ordered queue inside an organization.
package struct LaneKey: Sendable, Hashable, Comparable {
    /// The tenant.
    package let organization: UUID
    /// The user.
    package let user: UUID

    /// Creates the key.
    package init(organization: UUID, user: UUID) {
        self.organization = organization
        self.user = user
    }

    /// The order in which locks are taken.
    package static func < (left: LaneKey, right: LaneKey) -> Bool {
        left.organization != right.organization ? left.organization < right.organization : left.user < right.user
    }
}

/// A lane as its locked row shows it.
package struct LaneState: Sendable, Hashable {
    /// The place that the next mutation takes.
    package var nextPosition: Int64 = 1
    /// Raised by one with each change to the lane's mutations and mappings.
    package var changePosition: Int64 = 0
    /// Mutations that run when their turn comes: pending or in flight.
    package var queuedCount: Int32 = 0
    /// Mutations that are not final.
    package var openCount: Int32 = 0
    /// The mutation that holds everything else until a person settles it.
    package var haltedBy: UUID?
    /// When a worker may claim the lane: its head is due, or the lease on it has run out. Nil when nothing is to run.
    package var readyAt: Timestamp?
    /// The worker that runs the lane, until ``readyAt``.
    package var leaseOwner: UUID?
    /// Raised with every claim: an outcome under an older one is thrown away (product rule 13).
    package var leaseToken: Int64 = 0
    /// What was sent and has no outcome yet.
    package var inFlight: UUID?
    /// No mutation before this position is pending or in flight.
    package var headPosition: Int64 = 1
    /// When the first of the queued mutations was accepted.
    package var queuedSince: Timestamp?
    /// Whether the row was made for this push: the user's first.
    package var isNew = false

    /// A new lane.
    package init() {}

    /// Notes that a mutation at `position`, accepted at a moment, is pending now and was not before.
    package mutating func enqueue(position: Int64, acceptedAt: Timestamp) {
        headPosition = queuedCount == 0 ? position : min(headPosition, position)
        queuedSince = queuedSince.map { min($0, acceptedAt) } ?? acceptedAt
        queuedCount += 1
    }

    /// Lets a worker look at the lane at once, unless one has it, a person is waited for, or nothing is to run.
    package mutating func wake(now: Timestamp) {
        guard leaseOwner == nil else { return }
        readyAt = haltedBy == nil && queuedCount > 0 ? now : nil
    }

    /// Whether something may keep the lane's head from running: a person is waited for, or something is queued that nobody
    /// runs. In the usual case nothing is, and nobody has to look at the head.
    package var mayBeHeld: Bool { leaseOwner == nil && (haltedBy != nil || queuedCount > 0) }

    /// Whether a worker may claim the lane now.
    package func isReady(at now: Timestamp) -> Bool {
        readyAt.map { $0 <= now } ?? false
    }
}
