import DequeModule
import SyncModel
import Synchronization

/// Lets so many pushes be decoded, and wait decoded for their commit, as their bodies together have bytes.
///
/// A decoded push takes about five times the memory of its body. Beyond what keeps the committers busy that buys
/// nothing, so the rest wait as bytes: the memory under load is bounded by this and not by the number of clients.
///
/// First come, first served. No package at hand has a weighted asynchronous semaphore.
final class IntakeGate: Sendable {
    /// Who has waited longer is turned away: its client has given up, or will do better to come back.
    static let patience: Duration = .seconds(5)

    private struct Waiter {
        let weight: Int
        let since: ContinuousClock.Instant
        let admission: CheckedContinuation<Bool, Never>
    }

    private struct State {
        var entered = 0
        var waiting: Deque<Waiter> = []
    }

    private let capacity: Int
    private let now: @Sendable () -> ContinuousClock.Instant
    private let state = Mutex(State())

    /// - Parameter capacity: bytes; something larger enters when nothing else is in.
    init(capacity: Int, now: @escaping @Sendable () -> ContinuousClock.Instant = { .now }) {
        self.capacity = capacity
        self.now = now
    }

    /// How many wait for room.
    var waiting: Int { state.withLock { $0.waiting.count } }

    /// Runs an operation as soon as there is room for it.
    ///
    /// - Throws: `overloaded` when room did not come in time, or what the operation throws.
    func admit<Value>(_ bytes: Int, _ operation: () async throws -> Value) async throws -> Value {
        let weight = min(bytes, capacity)
        guard await enter(weight) else {
            var problem = Problem(.overloaded, "Too many pushes are waiting.")
            problem.retryAfter = 1
            throw problem
        }
        defer { leave(weight) }
        return try await operation()
    }

    private func enter(_ weight: Int) async -> Bool {
        await withCheckedContinuation { admission in
            settle { $0.waiting.append(Waiter(weight: weight, since: now(), admission: admission)) }
        }
    }

    private func leave(_ weight: Int) {
        settle { $0.entered -= weight }
    }

    /// Makes a change, then lets in who has room by now and turns away who has waited too long.
    private func settle(_ change: (inout State) -> Void) {
        var admitted: [Waiter] = []
        var refused: [Waiter] = []
        state.withLock { state in
            change(&state)
            let now = now()
            while let next = state.waiting.first {
                if now - next.since > Self.patience {
                    refused.append(next)
                } else if state.entered + next.weight <= capacity {
                    state.entered += next.weight
                    admitted.append(next)
                } else {
                    break
                }
                state.waiting.removeFirst()
            }
        }
        for waiter in admitted { waiter.admission.resume(returning: true) }
        for waiter in refused { waiter.admission.resume(returning: false) }
    }
}
