import Metrics
package import SyncModel
import Synchronization

/// A memory budget for which requests wait for a limited time. Organizations take turns (``FairSemaphore``).
///
/// A decoded push takes about five times the memory of its body. Decoding more pushes than the committers can process
/// has no benefit. Therefore further pushes wait in encoded form, which limits the memory under load, but not the
/// number of clients.
package final class AdmissionController: Sendable {
    private struct State {
        package var semaphore: FairSemaphore
        package var waiters: [FairSemaphore.Ticket: CheckedContinuation<Bool, Never>] = [:]
    }

    private let overload: Overload
    private let limit: Int
    private let now: @Sendable () -> ContinuousClock.Instant
    private let state: Mutex<State>
    private let meter: Meter?

    /// - Parameters:
    ///   - limit: the budget in bytes. A request for more than a quarter of the budget reserves a quarter.
    ///   - timeout: the time after which a waiting request is refused. After this time, its client has given up or
    ///     should retry.
    ///   - label: the label of the metric that shows the reserved bytes.
    package init(
        _ kind: Overload.Kind,
        limit: Int,
        timeout: Duration,
        label: String? = nil,
        now: @escaping @Sendable () -> ContinuousClock.Instant = { .now }
    ) {
        overload = Overload(kind)
        self.limit = limit
        self.now = now
        state = Mutex(State(semaphore: FairSemaphore(whole: limit, timeout: timeout)))
        meter = label.map { Meter(label: $0) }
    }

    package var waiting: Int { state.withLock { $0.semaphore.waiting } }

    package var held: Int { state.withLock { $0.semaphore.shares.taken } }

    /// The number of bytes that a request reserves. It is at most a quarter of the budget, so that a few of the largest
    /// requests always fit into the budget.
    package func weight(_ bytes: Int) -> Int { min(bytes, max(1, limit / 4)) }

    /// Runs an operation as soon as its bytes can be reserved.
    ///
    /// - Throws: `overloaded` if the bytes could not be reserved in time, and errors of the operation.
    package func admit<Value>(_ bytes: Int, for user: LaneKey, _ operation: () async throws -> Value) async throws
        -> Value
    {
        let weight = weight(bytes)
        try await acquire(weight, for: user)
        defer { release(weight, of: user) }
        return try await operation()
    }

    /// Reserves bytes as soon as possible. The caller releases them with ``release(_:of:)``.
    ///
    /// - Throws: `overloaded` if the bytes could not be reserved in time.
    package func acquire(_ weight: Int, for user: LaneKey) async throws(Problem) {
        if tryAcquire(weight, for: user) { return }
        let isAdmitted = await withCheckedContinuation { continuation in
            settle { state, now in
                state.waiters[state.semaphore.wait(for: weight, by: user, now: now)] = continuation
            }
        }
        guard isAdmitted else { throw overload.problem() }
        meter?.increment(by: Double(weight))
    }

    /// Reserves bytes if this is possible without waiting.
    package func tryAcquire(_ weight: Int, for user: LaneKey) -> Bool {
        guard state.withLock({ $0.semaphore.tryAcquire(weight, for: user) }) else { return false }
        meter?.increment(by: Double(weight))
        return true
    }

    package func release(_ weight: Int, of user: LaneKey) {
        guard weight > 0 else { return }
        settle { state, _ in state.semaphore.release(weight, of: user) }
        meter?.decrement(by: Double(weight))
    }

    /// Counts bytes that are already in memory, even if they exceed the budget.
    package func count(_ weight: Int, for user: LaneKey) {
        state.withLock { $0.semaphore.take(weight, for: user) }
        meter?.increment(by: Double(weight))
    }

    /// Refuses a user whose organization has reserved more than its share.
    package func requireShare(of user: LaneKey) throws(Problem) {
        if isOver(user) { throw overload.problem() }
    }

    /// Whether a user's organization has reserved more than its share.
    package func isOver(_ user: LaneKey) -> Bool {
        state.withLock { $0.semaphore.shares.isOver(user) }
    }

    /// Refuses requests that have waited too long.
    package func expire() {
        let late = state.withLock { state in
            state.semaphore.expire(now: now()).compactMap { state.waiters.removeValue(forKey: $0) }
        }
        for waiter in late { waiter.resume(returning: false) }
    }

    /// Makes a change, then admits requests that now fit and refuses requests that have waited too long.
    private func settle(_ change: (inout State, ContinuousClock.Instant) -> Void) {
        var admitted: [CheckedContinuation<Bool, Never>] = []
        var refused: [CheckedContinuation<Bool, Never>] = []
        state.withLock { state in
            let now = now()
            change(&state, now)
            guard state.semaphore.waiting > 0 else { return }
            let decision = state.semaphore.settle(now: now)
            admitted = decision.admitted.compactMap { state.waiters.removeValue(forKey: $0) }
            refused = decision.refused.compactMap { state.waiters.removeValue(forKey: $0) }
        }
        for waiter in admitted { waiter.resume(returning: true) }
        for waiter in refused { waiter.resume(returning: false) }
    }
}
