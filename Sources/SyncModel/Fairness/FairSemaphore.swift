public import Foundation

/// Room of one kind that users may wait for.
///
/// Organizations take turns, and so do the users of each; ``FairShares`` limits how much each may hold. This type only
/// decides; the caller resumes the waiters.
public struct FairSemaphore: Sendable {
    /// Names a waiter.
    public typealias Ticket = Int

    /// The waiters that are admitted or rejected.
    public struct Decision: Sendable, Equatable {
        /// They hold the room that they asked for.
        public var admitted: [Ticket] = []
        /// They have waited too long.
        public var refused: [Ticket] = []
    }

    private struct Waiter {
        let ticket: Ticket
        let user: LaneKey
        let amount: Int
        let since: ContinuousClock.Instant
    }

    /// Organizations, or users of one, that may be passed over in one decision.
    ///
    /// They hold enough already. After that many, all waiters wait for the next chance: this bounds the work when
    /// thousands wait. Those passed over go to the end of the queue, since giving back their room will give them
    /// another chance.
    private static let scanLimit = 64

    public private(set) var shares: FairShares
    private let timeout: Duration
    private var lines: [UUID: RoundRobinQueue<UUID, Waiter>] = [:]
    private var order = FIFOQueue<UUID>()
    private var lastTicket = 0
    /// The number of waiters.
    public private(set) var waiting = 0

    /// - Parameters:
    ///   - whole: the total amount of room.
    ///   - timeout: how long a user may wait before it is rejected.
    public init(whole: Int, timeout: Duration) {
        shares = FairShares(whole: whole)
        self.timeout = timeout
    }

    /// Takes room for a user if it is available at once.
    ///
    /// No other user of its organization may wait.
    public mutating func tryAcquire(_ amount: Int, for user: LaneKey) -> Bool {
        guard lines[user.organization] == nil, shares.mayTake(amount, for: user) else { return false }
        shares.take(amount, for: user)
        return true
    }

    /// Queues a user for room.
    public mutating func wait(for amount: Int, by user: LaneKey, now: ContinuousClock.Instant) -> Ticket {
        lastTicket += 1
        let waiter = Waiter(ticket: lastTicket, user: user, amount: amount, since: now)
        if lines[user.organization] == nil { order.append(user.organization) }
        lines[user.organization, default: RoundRobinQueue()].append(waiter, of: user.user)
        waiting += 1
        return lastTicket
    }

    /// Takes room whether or not it is free: for what the user holds already.
    public mutating func take(_ amount: Int, for user: LaneKey) {
        shares.take(amount, for: user)
    }

    public mutating func release(_ amount: Int, of user: LaneKey) {
        shares.release(amount, of: user)
    }

    /// Admits the waiters for whom there is room.
    ///
    /// Rejects those at the head of each queue who have waited too long.
    public mutating func settle(now: ContinuousClock.Instant) -> Decision {
        var decision = Decision()
        var passed: [UUID] = []
        while passed.count < Self.scanLimit, let organization = order.popFirst() {
            switch settle(organization, now, &decision) {
            case .admitted: order.append(organization)
            case .empty: lines[organization] = nil
            case .holdsEnough: passed.append(organization)
            case .noRoom:
                // no waiter behind passes: a request that needs much room would never get it
                order.prepend([organization])
                for organization in passed { order.append(organization) }
                return decision
            }
        }
        for organization in passed { order.append(organization) }
        return decision
    }

    /// Removes a waiter that no longer needs room. Does nothing for one that has left the queue.
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

    /// Turns away all who have waited too long.
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

    /// One organization's turn: admits the next of its users for whom there is room.
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

/// Room held by a value for as long as a copy of it exists.
///
/// All are equal, so that values which hold room compare as they would without it.
public final class MemoryReservation: Sendable, Hashable {
    private let release: @Sendable () -> Void

    /// - Parameter release: gives the room back; called once.
    public init(release: @escaping @Sendable () -> Void) {
        self.release = release
    }

    deinit { release() }

    public static func == (_: MemoryReservation, _: MemoryReservation) -> Bool { true }
    public func hash(into hasher: inout Hasher) {}
}
