public import Foundation

/// Names a lane: a user's ordered queue inside an organization.
public struct LaneKey: Sendable, Hashable, Comparable {
    public let organization: UUID
    public let user: UUID

    public init(organization: UUID, user: UUID) {
        self.organization = organization
        self.user = user
    }

    /// The order in which locks are taken.
    public static func < (left: LaneKey, right: LaneKey) -> Bool {
        left.organization != right.organization ? left.organization < right.organization : left.user < right.user
    }
}
