public import Foundation

/// Room of one kind, bytes or places, that organizations share: who holds how much of it, and who may take more
/// (product rule 16).
///
/// An organization may hold as much as it leaves free. So one alone holds a half at most, two that want all they can get
/// hold a third each, of n each holds 1/(n + 1): parts shrink as more of them come, and whoever comes finds as much free
/// as the largest part. The users of an organization share its part in the same way. Who holds nothing else may take
/// whatever is free: there is no request that is never served.
public struct FairShares: Sendable {
    /// How much there is.
    public let whole: Int
    /// How much is held by all.
    public private(set) var taken = 0
    private var organizations: [UUID: Int] = [:]
    private var users: [LaneKey: Int] = [:]

    /// Room that nobody holds anything of.
    public init(whole: Int) {
        self.whole = whole
    }

    /// How much an organization holds.
    public func held(by organization: UUID) -> Int { organizations[organization] ?? 0 }

    /// How much a user holds.
    public func held(by user: LaneKey) -> Int { users[user] ?? 0 }

    /// Whether a user may take so much more.
    ///
    /// - Parameter own: what of it the same request holds already, and only takes more of.
    public func mayTake(_ amount: Int, for user: LaneKey, besides own: Int = 0) -> Bool {
        let free = whole - taken - amount
        guard free >= 0 else { return false }
        let inOrganization = held(by: user.organization)
        guard inOrganization > own else { return true }
        let spare = free - inOrganization - amount
        guard spare >= 0 else { return false }
        let held = held(by: user)
        // taking half of what is spare would bring the organization to its part
        return held <= own || held + amount <= spare / 2
    }

    /// Whether a user, or its organization, holds more than it should: what was taken without asking counts as well.
    public func isOver(_ user: LaneKey) -> Bool {
        let held = held(by: user.organization)
        return held > 0 && held > max(0, whole - taken)
    }

    /// Takes some, whether or not it may be taken.
    public mutating func take(_ amount: Int, for user: LaneKey) {
        guard amount != 0 else { return }
        taken += amount
        organizations[user.organization, default: 0] += amount
        users[user, default: 0] += amount
    }

    /// Gives some back.
    public mutating func giveBack(_ amount: Int, of user: LaneKey) {
        guard amount != 0 else { return }
        taken -= amount
        Self.reduce(&organizations[user.organization], by: amount)
        Self.reduce(&users[user], by: amount)
    }

    /// Who holds nothing is not remembered.
    private static func reduce(_ held: inout Int?, by amount: Int) {
        guard let had = held else { return }
        held = had > amount ? had - amount : nil
    }
}
