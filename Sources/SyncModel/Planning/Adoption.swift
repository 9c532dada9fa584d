import Foundation

/// Whether the feed takes over the state that an upstream showed to a user whose mutation gave way to it.
struct Adoption {
    let user: UUID
    let visibility: Visibility
    /// Whether the mutation was to create the entity.
    let isCreate: Bool

    /// - Parameters:
    ///   - stored: the entity as it stands.
    ///   - isNewer: whether it was written after the upstream was asked: whoever did knows better.
    func isPossible(over stored: EntityState?, isNewer: Bool) -> Bool {
        // what is private belongs to who created it
        guard let stored else { return isCreate || visibility == .organization }
        guard stored.isVisible(to: user, visibility), !isNewer else { return false }
        return !isCreate || stored.mayBeMade(by: user)
    }
}

extension EntityState {
    /// Whether a create's answer may stand for this entity. What a create makes was not there before: an answer that names
    /// what somebody else has written shows at most that it is there.
    func mayBeMade(by user: UUID) -> Bool { isDeleted || lastWriter.isOwn(of: user) }
}
