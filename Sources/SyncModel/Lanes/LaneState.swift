public import Foundation

/// Names a lane: a user's ordered queue inside an organization.
public struct LaneKey: Sendable, Hashable, Comparable {
    /// The tenant.
    public let organization: UUID
    /// The user.
    public let user: UUID

    /// Creates the key.
    public init(organization: UUID, user: UUID) {
        self.organization = organization
        self.user = user
    }

    /// The order in which locks are taken.
    public static func < (left: LaneKey, right: LaneKey) -> Bool {
        left.organization != right.organization ? left.organization < right.organization : left.user < right.user
    }
}

/// A lane as its locked row shows it.
public struct LaneState: Sendable, Hashable {
    /// The place that the next mutation takes.
    public var nextPosition: Int64 = 1
    /// Raised by one with each change to the lane's mutations and mappings.
    public var changePosition: Int64 = 0
    /// Mutations that run when their turn comes: pending or in flight.
    public var queuedCount: Int32 = 0
    /// Mutations that are not final.
    public var openCount: Int32 = 0
    /// The mutation that holds everything else until a person settles it.
    public var haltedBy: UUID?
    /// When a worker may claim the lane: its head is due, or the lease on it has run out. Nil when nothing is to run.
    public var readyAt: Timestamp?
    /// The worker that runs the lane, until ``readyAt``.
    public var leaseOwner: UUID?
    /// Raised with every claim: an outcome under an older one is thrown away (product rule 13).
    public var leaseToken: Int64 = 0
    /// What was sent and has no outcome yet.
    public var inFlight: UUID?
    /// No mutation before this position is pending or in flight.
    public var headPosition: Int64 = 1
    /// When the first of the queued mutations was accepted.
    public var queuedSince: Timestamp?
    /// Whether the row was made for this push: the user's first.
    public var isNew = false

    /// A new lane.
    public init() {}

    /// Notes that a mutation at `position`, accepted at a moment, is pending now and was not before.
    public mutating func enqueue(position: Int64, acceptedAt: Timestamp) {
        headPosition = queuedCount == 0 ? position : min(headPosition, position)
        queuedSince = queuedSince.map { min($0, acceptedAt) } ?? acceptedAt
        queuedCount += 1
    }

    /// Lets a worker look at the lane at once, unless one has it, a person is waited for, or nothing is to run.
    public mutating func wake(now: Timestamp) {
        guard leaseOwner == nil else { return }
        readyAt = haltedBy == nil && queuedCount > 0 ? now : nil
    }

    /// Whether something may keep the lane's head from running: a person is waited for, or something is queued that nobody
    /// runs. In the usual case nothing is, and nobody has to look at the head.
    public var mayBeHeld: Bool { leaseOwner == nil && (haltedBy != nil || queuedCount > 0) }

    /// Whether a worker may claim the lane now.
    public func isReady(at now: Timestamp) -> Bool {
        readyAt.map { $0 <= now } ?? false
    }
}
