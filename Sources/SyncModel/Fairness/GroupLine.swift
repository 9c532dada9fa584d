import Foundation

/// Bounds of a group that is committed together.
public struct GroupLimits: Sendable {
    /// Pieces of work.
    public var jobs = 64
    /// Mutations of all of them, or whatever else weighs.
    public var weight = 1_000
    /// Bytes of all of them.
    public var bytes = 524_288
    /// What weighs more than this is heavy.
    public var lightWeight = 200
    /// What has more bytes than this is heavy.
    public var lightBytes = 131_072

    /// The defaults.
    public init() {}
}

/// Work that waits to be committed in groups, at several desks. Organizations take turns, and so do the users of each. A
/// lane takes part in a group once, and an organization is at one desk at a time, so that two groups of one process never
/// wait for each other.
///
/// Each organization has its desk. What is heavy goes to a desk of its own, the last one: a group takes as long as its
/// heaviest member, and nobody should wait for what somebody else sends in megabytes.
public struct GroupLine: Sendable {
    /// A piece of work.
    public struct Item: Sendable {
        /// Names it.
        public let ticket: Int
        /// Whose it is.
        public let lane: LaneKey
        /// What it adds to a group's weight.
        public let weight: Int
        /// What it adds to a group's bytes.
        public let bytes: Int

        /// Creates the value.
        public init(ticket: Int, lane: LaneKey, weight: Int, bytes: Int) {
            self.ticket = ticket
            self.lane = lane
            self.weight = weight
            self.bytes = bytes
        }
    }

    private struct Organization {
        /// Where its light work is done.
        let desk: Int
        var line = Turns<UUID, Item>()
        /// Where it is at work, if it is.
        var workedAt: Int?
        /// Where it stands in the line, or stood last.
        var standsAt: Int
    }

    /// Users of an organization whose work is looked at in one turn.
    private static let looks = 64

    private let limits: GroupLimits
    private let hasHeavyDesk: Bool
    private var organizations: [UUID: Organization] = [:]
    private var desks: [Line<UUID>]
    private var shares: FairShares
    /// Organizations at work, by desk.
    private var atWork: [Int: [UUID]] = [:]
    /// How much work waits.
    public private(set) var count = 0

    /// - Parameters:
    ///   - desks: how many there are beside the heavy one.
    ///   - capacity: how much work may wait.
    public init(desks: Int, hasHeavyDesk: Bool, capacity: Int, limits: GroupLimits = GroupLimits()) {
        self.limits = limits
        self.hasHeavyDesk = hasHeavyDesk
        self.desks = Array(repeating: Line(), count: desks + (hasHeavyDesk ? 1 : 0))
        shares = FairShares(whole: capacity)
    }

    /// Adds work; nil when its user or organization has its part waiting already.
    ///
    /// - Parameter desk: the organization's.
    /// - Returns: the desk where there is something to do now; -1 for none.
    public mutating func add(_ item: Item, desk: Int) -> Int? {
        guard shares.mayTake(1, for: item.lane) else { return nil }
        shares.take(1, for: item.lane)
        count += 1
        let id = item.lane.organization
        let wasIdle = organizations[id] == nil
        organizations[id, default: Organization(desk: desk, standsAt: desk)].line.append(item, of: item.lane.user)
        return wasIdle ? queue(id) : -1
    }

    /// The next group for a desk; empty when there is nothing for it. Its organizations are at work until ``finish(at:)``.
    public mutating func take(at desk: Int) -> [Item] {
        var group = Group(limits: limits, takesHeavy: isHeavy(desk))
        var taken: [UUID] = []
        var skipped: [UUID] = []
        // everybody once, in turn
        while !group.isFull, skipped.count < Self.looks, let id = desks[desk].popFirst() {
            if let item = next(of: id, &group) {
                group.add(item)
                organizations[id]?.workedAt = desk
                taken.append(id)
            } else {
                skipped.append(id)
            }
        }
        let isEverybodyOffered = desks[desk].isEmpty
        desks[desk].prepend(skipped)
        // then again, as long as there is room
        var again = Line<UUID>()
        if isEverybodyOffered, skipped.isEmpty { for id in taken { again.append(id) } }
        while !group.isFull, let id = again.popFirst() {
            guard let item = next(of: id, &group) else { continue }
            group.add(item)
            again.append(id)
        }
        atWork[desk] = taken
        return group.items
    }

    /// Ends the work on a desk's group.
    ///
    /// - Returns: the desks where there is something to do by now.
    public mutating func finish(at desk: Int) -> Set<Int> {
        var woken: Set<Int> = []
        for id in atWork.removeValue(forKey: desk) ?? [] {
            organizations[id]?.workedAt = nil
            if let place = queue(id) { woken.insert(place) }
        }
        return woken
    }

    /// Whether nothing waits at a desk now.
    public func isEmpty(at desk: Int) -> Bool { desks[desk].isEmpty }

    /// Whether nothing waits at a desk, and nothing can come to it any more unless it is added.
    public func isIdle(for desk: Int) -> Bool {
        desks[desk].isEmpty && organizations.values.allSatisfy { $0.line.isEmpty || $0.workedAt == nil }
    }

    /// Takes out everything that fits.
    public mutating func remove(where fits: (Item) -> Bool) -> [Item] {
        var removed: [Item] = []
        for id in Array(organizations.keys) { removed += remove(of: id, where: fits) }
        return removed
    }

    /// Takes out everything that waits for a desk.
    public mutating func drain(at desk: Int) -> [Item] {
        var removed: [Item] = []
        for (id, organization) in organizations where (organization.workedAt ?? organization.standsAt) == desk {
            removed += remove(of: id) { _ in true }
        }
        return removed
    }

    // MARK: - Steps

    private func isHeavy(_ desk: Int) -> Bool { hasHeavyDesk && desk == desks.count - 1 }

    /// Puts an organization in the line of the desk that its next work is for; nil where it has none.
    private mutating func queue(_ id: UUID) -> Int? {
        guard let next = organizations[id]?.line.next, let own = organizations[id]?.desk else {
            organizations[id] = nil
            return nil
        }
        let place = hasHeavyDesk && limits.isHeavy(next) ? desks.count - 1 : own
        organizations[id]?.standsAt = place
        desks[place].append(id)
        return place
    }

    /// Takes the next work of an organization that has a place in the group.
    private mutating func next(of id: UUID, _ group: inout Group) -> Item? {
        guard var organization = organizations.removeValue(forKey: id) else { return nil }
        defer { organizations[id] = organization }
        for _ in 0..<min(organization.line.ownerCount, Self.looks) {
            guard let item = organization.line.next else { return nil }
            // a turn at a heavy one is a turn at the other desk
            if !group.takesHeavy, hasHeavyDesk, limits.isHeavy(item) { return nil }
            if group.fits(item) {
                _ = organization.line.popNext()
                count -= 1
                shares.giveBack(1, of: item.lane)
                return item
            }
            guard group.has(item.lane) else { return nil }
            organization.line.pass()
        }
        return nil
    }

    private mutating func remove(of id: UUID, where fits: (Item) -> Bool) -> [Item] {
        let removed = organizations[id]?.line.remove(where: fits) ?? []
        guard !removed.isEmpty else { return [] }
        count -= removed.count
        for item in removed { shares.giveBack(1, of: item.lane) }
        guard let organization = organizations[id], organization.workedAt == nil else { return removed }
        // it may belong to another desk by now, or nowhere
        _ = desks[organization.standsAt].remove { $0 == id }
        _ = queue(id)
        return removed
    }
}

/// A group as it is put together.
private struct Group {
    let limits: GroupLimits
    let takesHeavy: Bool
    private(set) var items: [GroupLine.Item] = []
    private var lanes: Set<LaneKey> = []
    private var weight = 0
    private var bytes = 0

    init(limits: GroupLimits, takesHeavy: Bool) {
        self.limits = limits
        self.takesHeavy = takesHeavy
    }

    var isFull: Bool { items.count >= limits.jobs || weight >= limits.weight || bytes >= limits.bytes }

    func has(_ lane: LaneKey) -> Bool { lanes.contains(lane) }

    func fits(_ item: GroupLine.Item) -> Bool {
        guard !lanes.contains(item.lane) else { return false }
        return items.isEmpty || weight + item.weight <= limits.weight && bytes + item.bytes <= limits.bytes
    }

    mutating func add(_ item: GroupLine.Item) {
        items.append(item)
        lanes.insert(item.lane)
        weight += item.weight
        bytes += item.bytes
    }
}

extension GroupLimits {
    fileprivate func isHeavy(_ item: GroupLine.Item) -> Bool { item.weight > lightWeight || item.bytes > lightBytes }
}
