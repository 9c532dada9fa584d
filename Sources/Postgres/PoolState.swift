/// Lends connections, queues callers, and decides when to connect.
///
/// The type has no side effects: the time is an argument, and each method returns the tasks that the owner must do.
///
/// While connecting fails, waiters wait until their own time-out. If connecting has failed for the duration of that
/// time-out, the outage is considered long, and callers are refused immediately until an attempt to connect succeeds.
/// Callers trigger these attempts, with back-off.
struct PoolState<Member: Sendable, Waiter: Sendable>: Sendable {
    struct Limits: Sendable {
        /// The maximum number of connections, including connections that are being opened.
        let maximum: Int
        let maximumWaiters: Int
        let acquireTimeout: Duration
        let backoff: Backoff
    }

    enum Answer: Sendable {
        case lend(Member, idleSince: ContinuousClock.Instant?)
        case refuse(PostgresError)
    }

    /// The tasks for the owner of the state.
    struct Effects: Sendable {
        var answers: [(Waiter, Answer)] = []
        /// The number of connections to open.
        var connects = 0
        /// Members to close.
        var discards: [Member] = []
    }

    private struct Waiting: Sendable {
        let id: UInt64
        let waiter: Waiter
        let deadline: ContinuousClock.Instant
    }

    private let limits: Limits
    private var idle: [(member: Member, since: ContinuousClock.Instant)] = []
    private var leased = 0
    private var connecting = 0
    private var created = 0
    private var exhausted = 0
    private var waited = Duration.zero
    private var waiting: [Waiting] = []
    private var failures = 0
    private var lastFailure: PostgresError?
    private var failingSince: ContinuousClock.Instant?
    private var nextAttemptAt: ContinuousClock.Instant?
    private(set) var isClosed = false

    init(_ limits: Limits) { self.limits = limits }

    private var open: Int { leased + idle.count }

    /// Whether no connection is left after closing.
    var isDrained: Bool { isClosed && open == 0 && connecting == 0 }

    var statistics: Pool.Statistics {
        .init(
            open: open,
            idle: idle.count,
            connecting: connecting,
            waiting: waiting.count,
            created: created,
            maximum: limits.maximum,
            exhausted: exhausted,
            waited: waited
        )
    }

    mutating func acquire(_ id: UInt64, _ waiter: Waiter, at now: ContinuousClock.Instant) -> Effects {
        if isClosed { return refuse(waiter, PostgresError(.unavailable, "the pool is closed")) }
        if waiting.isEmpty, let (member, since) = idle.popLast() {
            leased += 1
            return Effects(answers: [(waiter, .lend(member, idleSince: since))])
        }
        if waiting.count >= limits.maximumWaiters {
            exhausted += 1
            return refuse(waiter, PostgresError(.poolExhausted, "\(waiting.count) callers wait already"))
        }
        if isLongOutage(at: now), connecting == 0, let nextAttemptAt, now < nextAttemptAt {
            return refuse(waiter, unavailable)
        }
        waiting.append(Waiting(id: id, waiter: waiter, deadline: now + limits.acquireTimeout))
        return Effects(connects: connects(at: now))
    }

    /// Accepts a returned member. If the argument is nil, the member was closed, and only its slot becomes free.
    mutating func release(_ member: Member?, at now: ContinuousClock.Instant) -> Effects {
        leased -= 1
        guard let member else { return Effects(connects: connects(at: now)) }
        return place(member, at: now)
    }

    mutating func connected(_ member: Member, at now: ContinuousClock.Instant) -> Effects {
        connecting -= 1
        created += 1
        failures = 0
        failingSince = nil
        nextAttemptAt = nil
        lastFailure = nil
        var effects = place(member, at: now)
        effects.connects = connects(at: now)
        return effects
    }

    mutating func connectFailed(_ error: PostgresError, at now: ContinuousClock.Instant, jitter: Double) -> Effects {
        connecting -= 1
        failures += 1
        lastFailure = error
        failingSince = failingSince ?? now
        nextAttemptAt = now + limits.backoff.delay(afterFailures: failures, jitter: jitter)
        guard isLongOutage(at: now) else { return Effects() }
        return refuseAll(unavailable)
    }

    /// Removes a waiter that no longer waits. Has no effect if the waiter was already answered.
    mutating func cancel(_ id: UInt64) -> Effects {
        guard let index = waiting.firstIndex(where: { $0.id == id }) else { return Effects() }
        return refuse(waiting.remove(at: index).waiter, PostgresError(.cancelled, "while waiting for a connection"))
    }

    /// Refuses waiters whose deadline has passed, and connects when the back-off is over.
    mutating func tick(at now: ContinuousClock.Instant) -> Effects {
        // All callers have the same time-out, so the queue is ordered by deadline.
        let late = waiting.prefix { $0.deadline <= now }
        waiting.removeFirst(late.count)
        let error = open == 0 ? unavailable : PostgresError(.poolExhausted, "all \(open) connections stayed in use")
        if open > 0 { exhausted += late.count }
        waited += limits.acquireTimeout * late.count
        return Effects(answers: late.map { ($0.waiter, .refuse(error)) }, connects: connects(at: now))
    }

    /// Returns the time at which `tick` is due.
    func nextTick(after now: ContinuousClock.Instant) -> ContinuousClock.Instant? {
        guard let deadline = waiting.first?.deadline else { return nil }
        guard let nextAttemptAt, connecting == 0, open < limits.maximum else { return deadline }
        return min(deadline, max(nextAttemptAt, now))
    }

    mutating func close() -> Effects {
        isClosed = true
        var effects = refuseAll(PostgresError(.unavailable, "the pool is closed"))
        effects.discards = idle.map(\.member)
        // Until the idle members are closed, they are counted as lent.
        leased += idle.count
        idle = []
        return effects
    }
}

extension PoolState {
    private var unavailable: PostgresError {
        lastFailure ?? PostgresError(.unavailable, "no connection could be made in time")
    }

    private func isLongOutage(at now: ContinuousClock.Instant) -> Bool {
        guard open == 0, let failingSince else { return false }
        return now - failingSince >= limits.acquireTimeout
    }

    /// Gives a free member to the caller that has waited longest.
    private mutating func place(_ member: Member, at now: ContinuousClock.Instant) -> Effects {
        if isClosed {
            leased += 1
            return Effects(discards: [member])
        }
        if waiting.isEmpty {
            idle.append((member, now))
            return Effects()
        }
        leased += 1
        let first = waiting.removeFirst()
        waited += limits.acquireTimeout - (first.deadline - now)
        return Effects(answers: [(first.waiter, .lend(member, idleSince: nil))])
    }

    /// Returns the number of connections to open: one for each waiter, within the maximum.
    ///
    /// While connecting fails, only one connection is opened at a time.
    private mutating func connects(at now: ContinuousClock.Instant) -> Int {
        guard !isClosed else { return 0 }
        if let nextAttemptAt, now < nextAttemptAt { return 0 }
        let wanted = min(waiting.count - connecting, limits.maximum - open - connecting)
        let count = failures > 0 ? min(wanted, 1 - connecting) : wanted
        guard count > 0 else { return 0 }
        connecting += count
        return count
    }

    private func refuse(_ waiter: Waiter, _ error: PostgresError) -> Effects {
        Effects(answers: [(waiter, .refuse(error))])
    }

    private mutating func refuseAll(_ error: PostgresError) -> Effects {
        defer { waiting = [] }
        return Effects(answers: waiting.map { ($0.waiter, .refuse(error)) })
    }
}
