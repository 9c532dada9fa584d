public import FoundationEssentials

/// A capacity, such as bytes of memory, that users share and for which they can wait.
///
/// Organizations take turns, and so do the users of each organization. ``FairShares`` limits how much each organization
/// and each user holds. This type only decides which waiters are admitted. The caller resumes these waiters.
public struct FairSemaphore: Sendable {
    /// The identifier of a waiter.
    public typealias Ticket = Int

    /// The waiters that one decision admits or refuses.
    public struct Decision: Sendable, Equatable {
        /// The waiters that now hold the requested capacity.
        public var admitted: [Ticket] = []
        /// The waiters that have waited too long.
        public var refused: [Ticket] = []
    }

    private struct Waiter {
        let ticket: Ticket
        let user: LaneKey
        let amount: Int
        let since: ContinuousClock.Instant
    }

    /// The maximum number of organizations, or of users of one organization, that one decision passes over.
    ///
    /// A waiter is passed over if its user or organization already holds its share. The limit bounds the work of a
    /// decision if thousands wait. The organizations that were passed over go to the end of the queue. These
    /// organizations lose nothing by this, because they get another chance when they release capacity.
    private static let scanLimit = 64

    public private(set) var shares: FairShares
    private let timeout: Duration
    private var lines: [UUID: RoundRobinQueue<UUID, Waiter>] = [:]
    private var order = FIFOQueue<UUID>()
    private var lastTicket = 0
    /// The number of waiters.
    public private(set) var waiting = 0

    /// - Parameters:
    ///   - whole: the total capacity.
    ///   - timeout: the time after which a waiting user is refused.
    public init(whole: Int, timeout: Duration) {
        shares = FairShares(whole: whole)
        self.timeout = timeout
    }

    /// Takes capacity for a user if the capacity is available immediately.
    ///
    /// Returns false if any user of the organization already waits.
    public mutating func tryAcquire(_ amount: Int, for user: LaneKey) -> Bool {
        guard lines[user.organization] == nil, shares.mayTake(amount, for: user) else { return false }
        shares.take(amount, for: user)
        return true
    }

    /// Queues a user for capacity.
    public mutating func wait(for amount: Int, by user: LaneKey, now: ContinuousClock.Instant) -> Ticket {
        lastTicket += 1
        let waiter = Waiter(ticket: lastTicket, user: user, amount: amount, since: now)
        if lines[user.organization] == nil { order.append(user.organization) }
        lines[user.organization, default: RoundRobinQueue()].append(waiter, of: user.user)
        waiting += 1
        return lastTicket
    }

    /// Takes capacity even if no capacity is free. Use this method for memory that the user already occupies.
    public mutating func take(_ amount: Int, for user: LaneKey) {
        shares.take(amount, for: user)
    }

    public mutating func release(_ amount: Int, of user: LaneKey) {
        shares.release(amount, of: user)
    }

    /// Admits the waiters for which capacity is free.
    ///
    /// Also refuses the waiters at the head of each queue, if they have waited too long.
    public mutating func settle(now: ContinuousClock.Instant) -> Decision {
        var decision = Decision()
        var passed: [UUID] = []
        while passed.count < Self.scanLimit, let organization = order.popFirst() {
            switch settle(organization, now, &decision) {
            case .admitted: order.append(organization)
            case .empty: lines[organization] = nil
            case .holdsEnough: passed.append(organization)
            case .noRoom:
                // later waiters must not be admitted first, because then a request for much capacity might never be
                // admitted
                order.prepend([organization])
                for organization in passed { order.append(organization) }
                return decision
            }
        }
        for organization in passed { order.append(organization) }
        return decision
    }

    /// Removes a waiter that no longer needs capacity. Does nothing if the waiter has left the queue.
    public mutating func leave(_ ticket: Ticket) {
        for organization in Array(lines.keys) {
            guard let left = lines[organization]?.remove(where: { $0.ticket == ticket }), !left.isEmpty else {
                continue
            }
            waiting -= left.count
            if lines[organization]?.isEmpty ?? true {
                lines[organization] = nil
                _ = order.remove { $0 == organization }
            }
            return
        }
    }

    /// Removes all waiters that have waited too long.
    public mutating func expire(now: ContinuousClock.Instant) -> [Ticket] {
        guard waiting > 0 else { return [] }
        var late: [Ticket] = []
        for organization in Array(lines.keys) {
            late += lines[organization]?.remove { now - $0.since > timeout }.map(\.ticket) ?? []
            if lines[organization]?.isEmpty ?? true { lines[organization] = nil }
        }
        if !late.isEmpty { _ = order.remove { lines[$0] == nil } }
        waiting -= late.count
        return late
    }

    private enum Admission {
        case admitted, empty, holdsEnough, noRoom
    }

    /// Gives one organization its turn, and admits the organization's next user for whom capacity is free.
    private mutating func settle(_ organization: UUID, _ now: ContinuousClock.Instant, _ decision: inout Decision)
        -> Admission
    {
        guard var line = lines.removeValue(forKey: organization) else { return .empty }
        defer { lines[organization] = line }
        var passed = 0
        while let next = line.next {
            if now - next.since > timeout {
                _ = line.popNext()
                waiting -= 1
                decision.refused.append(next.ticket)
            } else if shares.mayTake(next.amount, for: next.user) {
                _ = line.popNext()
                waiting -= 1
                shares.take(next.amount, for: next.user)
                decision.admitted.append(next.ticket)
                return line.isEmpty ? .empty : .admitted
            } else if shares.held(by: organization) == 0 {
                return .noRoom
            } else {
                passed += 1
                guard passed < min(line.ownerCount, Self.scanLimit) else { return .holdsEnough }
                line.pass()
            }
        }
        return .empty
    }
}

// MARK: - FairShares

/// A capacity, of bytes or of slots, that organizations share (product rule 16).
///
/// The type records how much each organization holds, and decides which organizations can take more.
///
/// An organization may hold at most the amount that remains free. Therefore a single organization holds at most half of
/// the total. Two organizations with unlimited demand hold a third each, and n organizations hold 1/(n + 1) each. When
/// more organizations arrive, the shares shrink. A new organization always finds at least as much free capacity as the
/// largest share.
///
/// The users of an organization divide its share in the same way. An organization that holds no capacity may take any
/// free amount. Therefore every request is served eventually.
public struct FairShares: Sendable {
    /// The total amount.
    public let whole: Int
    /// The amount that all organizations hold together.
    public private(set) var taken = 0
    private var organizations: [UUID: Int] = [:]
    private var users: [LaneKey: Int] = [:]

    public init(whole: Int) {
        self.whole = whole
    }

    public func held(by organization: UUID) -> Int { organizations[organization] ?? 0 }

    public func held(by user: LaneKey) -> Int { users[user] ?? 0 }

    /// Whether a user may take the given amount, in addition to the amount that the user already holds.
    ///
    /// - Parameter own: the amount that the same request already holds.
    public func mayTake(_ amount: Int, for user: LaneKey, excluding own: Int = 0) -> Bool {
        let free = whole - taken - amount
        guard free >= 0 else { return false }
        let inOrganization = held(by: user.organization)
        guard inOrganization > own else { return true }
        let spare = free - inOrganization - amount
        guard spare >= 0 else { return false }
        let held = held(by: user)
        // if the organization took half of `spare` in addition, it would hold exactly its share
        return held <= own || held + amount <= spare / 2
    }

    /// Whether a user's organization holds more than its share.
    ///
    /// The amount includes capacity that was taken unconditionally.
    public func isOver(_ user: LaneKey) -> Bool {
        let held = held(by: user.organization)
        return held > 0 && held > max(0, whole - taken)
    }

    /// Takes capacity for a user unconditionally.
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

    /// Reduces an entry, and removes the entry if it becomes 0.
    private static func reduce(_ held: inout Int?, by amount: Int) {
        guard let had = held else { return }
        held = had > amount ? had - amount : nil
    }
}

/// A reservation of memory that lasts as long as a copy of it exists.
///
/// All reservations are equal, because they must not affect the comparison of values that contain them.
public final class MemoryReservation: Sendable, Hashable {
    private let release: @Sendable () -> Void

    /// - Parameter release: returns the reserved memory. The closure is called once.
    public init(release: @escaping @Sendable () -> Void) {
        self.release = release
    }

    deinit { release() }

    public static func == (_: MemoryReservation, _: MemoryReservation) -> Bool { true }
    public func hash(into hasher: inout Hasher) {}
}
