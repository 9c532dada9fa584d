public import Foundation

/// What an explanation of a user rests on, as of one moment.
public struct UserSnapshot: Sendable {
    /// Whether requests of the user are served.
    public enum Standing: Sendable, Hashable {
        case itself
        /// It was joined into another user, and everything is that one's.
        case part(of: UUID)
        /// It is being joined with another user just now.
        case joining
        case erased
    }

    /// A mutation that is asked about.
    public struct Question: Sendable {
        public let id: UUID
        /// Nil where the user has none of that id.
        public let record: MutationRecord?
        /// Open mutations of the lane before it.
        public let ahead: BoundedCount

        public init(id: UUID, record: MutationRecord?, ahead: BoundedCount) {
            self.id = id
            self.record = record
            self.ahead = ahead
        }
    }

    public var organization: OrganizationStatus
    public var standing: Standing
    /// Whether the organization knows the user.
    public var isKnown: Bool
    /// Whether the user's requests are answered: an operator let the user in, or the organization needs nobody to.
    public var isLetIn = true
    public var backlog: Backlog
    /// Nil for a user without a lane.
    public var lane: LaneState?
    public var mutation: Question?
    /// The device that is asked about; nil for all.
    public var device: UUID?
    public var now: Timestamp

    public init(
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
