/// Wakes the worker. A ring while nobody waits is remembered, once.
final class Bell: Sendable {
    private struct State {
        var isRung = false
        var waiters: [CheckedContinuation<Void, Never>] = []
    }

    private let state = Locked(State())

    func ring() {
        let waiters = state.withLock { state in
            defer { state.waiters = [] }
            if state.waiters.isEmpty { state.isRung = true }
            return state.waiters
        }
        for waiter in waiters { waiter.resume() }
    }

    /// Returns when it rings, when the time is over, or when the task is cancelled.
    func wait(atMost duration: Duration) async {
        let timer = Task {
            try await Task.sleep(for: duration)
            ring()
        }
        defer { timer.cancel() }
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let isOver = state.withLock { state in
                    if state.isRung || Task.isCancelled {
                        state.isRung = false
                        return true
                    }
                    state.waiters.append(continuation)
                    return false
                }
                if isOver { continuation.resume() }
            }
        } onCancel: {
            ring()
        }
    }
}
