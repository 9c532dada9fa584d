import Foundation
import SyncModel

/// One push on its way through a committer: what came in, and whom to tell.
struct PushJob: Sendable {
    let push: PushRequest
    let organization: Organization
    let user: UUID
    let isStrict: Bool
    let enqueuedAt: ContinuousClock.Instant
    let answer: CheckedContinuation<Result<PushAnswer, Problem>, Never>

    /// A lane takes part in a group once.
    var lane: LaneKey { LaneKey(organization: organization.id, user: user) }

    /// What the push adds to a group's bound on mutations.
    var weight: Int { max(1, push.entries.count) }
}

/// Names a lane.
struct LaneKey: Sendable, Hashable, Comparable {
    let organization: UUID
    let user: UUID

    /// The order in which locks are taken.
    static func < (left: LaneKey, right: LaneKey) -> Bool {
        left.organization != right.organization ? left.organization < right.organization : left.user < right.user
    }
}
