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
