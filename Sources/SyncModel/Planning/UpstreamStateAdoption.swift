import Foundation

/// Whether the feed adopts the state that an upstream showed to a user.
///
/// The user's mutation gave way to that state.
struct UpstreamStateAdoption {
    let user: UUID
    let visibility: Visibility
    let isCreate: Bool

    /// - Parameters:
    ///   - stored: the current entity.
    ///   - isNewer: whether the entity was written after the gateway asked the upstream: that writer knows better.
    func isPossible(over stored: EntityState?, isNewer: Bool) -> Bool {
        // a private entity belongs to its creator
        guard let stored else { return isCreate || visibility == .organization }
        guard stored.isVisible(to: user, visibility), !isNewer else { return false }
        return !isCreate || stored.mayBeMade(by: user)
    }
}

extension EntityState {
    /// Whether a create's answer may be about this entity. A create makes a new entity: an answer that names one that
    /// another user has written shows at most that it exists.
    func mayBeMade(by user: UUID) -> Bool { isDeleted || lastWriter.isOwn(of: user) }
}
