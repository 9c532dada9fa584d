import Foundation

/// The dispatcher's state that other threads may read; the scheduler belongs to its loop.
struct DispatcherState {
    private(set) var running = 0
    private(set) var waiting = 0
    private(set) var working = 0
    private(set) var awaiting = 0
    private(set) var heldBySlow = 0
    private var lastTurn: ContinuousClock.Instant?
    private var contention = LaneScheduler.Contention()
    /// How many lanes of each organization may run, as far as known.
    private var caps: [UUID: Int] = [:]

    /// The loop begins to look at messages.
    mutating func beginTurn(at now: ContinuousClock.Instant) { lastTurn = now }

    /// The loop has given lanes their places.
    mutating func report(_ scheduler: LaneScheduler) {
        running = scheduler.runningCount
        waiting = scheduler.waitingCount
        working = scheduler.hosts.working
        awaiting = scheduler.hosts.awaiting
        heldBySlow = scheduler.hosts.heldBySlow
        contention = scheduler.contention
    }

    /// A runner has read how many lanes of an organization may run.
    ///
    /// - Returns: whether that has changed.
    mutating func noteCap(_ organization: UUID, _ cap: Int) -> Bool {
        caps.updateValue(cap, forKey: organization) != cap
    }

    /// Whether other lanes wait for the place of one of an organization.
    func isCrowded(_ organization: UUID) -> Bool { contention.includes(organization) }

    /// Why lanes are not run; empty if they are.
    func reasons(at now: ContinuousClock.Instant) -> [String] {
        guard let lastTurn else { return ["the dispatcher has not started"] }
        return now - lastTurn > .seconds(30) ? ["the dispatcher does not respond"] : []
    }
}
