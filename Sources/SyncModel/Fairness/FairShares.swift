public import Foundation

/// Room of one kind, bytes or places, that organizations share (product rule 16).
///
/// It records how much each holds, and decides which may take more.
///
/// An organization may hold as much as it leaves free. So a single one holds at most a half. Two with unlimited demand
/// hold a third each, and n hold 1/(n + 1) each. Shares shrink as more organizations come, and a newcomer finds as much
/// free as the largest share. The users of an organization divide its share in the same way. An organization that holds
/// nothing else may take any free room, so every request is served at some time.
public struct FairShares: Sendable {
    /// The total amount.
    public let whole: Int
    /// How much all organizations hold together.
    public private(set) var taken = 0
    private var organizations: [UUID: Int] = [:]
    private var users: [LaneKey: Int] = [:]

    public init(whole: Int) {
        self.whole = whole
    }

    public func held(by organization: UUID) -> Int { organizations[organization] ?? 0 }

    public func held(by user: LaneKey) -> Int { users[user] ?? 0 }

    /// Whether a user may take that much more.
    ///
    /// - Parameter own: the part that the same request holds already.
    public func mayTake(_ amount: Int, for user: LaneKey, excluding own: Int = 0) -> Bool {
        let free = whole - taken - amount
        guard free >= 0 else { return false }
        let inOrganization = held(by: user.organization)
        guard inOrganization > own else { return true }
        let spare = free - inOrganization - amount
        guard spare >= 0 else { return false }
        let held = held(by: user)
        // taking half of the spare room would bring the organization to its share
        return held <= own || held + amount <= spare / 2
    }

    /// Whether a user's organization holds more than its share.
    ///
    /// Room that was taken unconditionally counts as well.
    public func isOver(_ user: LaneKey) -> Bool {
        let held = held(by: user.organization)
        return held > 0 && held > max(0, whole - taken)
    }

    /// Takes room, whether or not the user may.
    public mutating func take(_ amount: Int, for user: LaneKey) {
        guard amount != 0 else { return }
        taken += amount
        organizations[user.organization, default: 0] += amount
        users[user, default: 0] += amount
    }

    public mutating func release(_ amount: Int, of user: LaneKey) {
        guard amount != 0 else { return }
        taken -= amount
        Self.reduce(&organizations[user.organization], by: amount)
        Self.reduce(&users[user], by: amount)
    }

    /// An entry of 0 is removed.
    private static func reduce(_ held: inout Int?, by amount: Int) {
        guard let had = held else { return }
        held = had > amount ? had - amount : nil
    }
}
