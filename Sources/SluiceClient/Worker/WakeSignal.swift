/// Wakes the worker. If no task waits, one ring is stored for the next task that waits.
final class WakeSignal: Sendable {
    private struct State {
        var isRung = false
        var waiters: [Promise<Void>] = []
    }

    private let state = Locked(State())

    func ring() {
        state.withLock { state in
            let waiters = state.waiters
            state.waiters = []
            // the ring is stored if all waits have already ended, because then no task has received the ring
            state.isRung = waiters.reduce(false) { $1.set(.success(())) || $0 } == false
        }
    }

    /// Returns when the signal rings, the time is over, or the task is cancelled.
    func wait(atMost duration: Duration) async {
        let waiter = Promise<Void>()
        let isRung = state.withLock { state in
            if state.isRung {
                state.isRung = false
                return true
            }
            state.waiters.append(waiter)
            return false
        }
        if isRung { return }
        let timer = Task {
            try await Task.sleep(for: duration)
            waiter.set(.success(()))
        }
        defer { timer.cancel() }
        try? await waiter.value
        // after this call, the waiter receives no ring
        waiter.set(.success(()))
        state.withLock { $0.waiters.removeAll { $0 === waiter } }
    }
}
