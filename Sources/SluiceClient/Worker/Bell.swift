/// Wakes the worker. Rings while nobody waits are remembered, once.
final class Bell: Sendable {
    private struct State {
        var isRung = false
        var waiter: CheckedContinuation<Void, Never>?
    }

    private let state = Locked(State())

    func ring() {
        let waiter = state.withLock { state in
            defer { state.waiter = nil }
            if state.waiter == nil { state.isRung = true }
            return state.waiter
        }
        waiter?.resume()
    }

    /// Returns when it rings, when the time is over, or when the task is cancelled.
    func wait(atMost duration: Duration) async {
        let timer = Task {
            try? await Task.sleep(for: duration)
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
                    state.waiter = continuation
                    return false
                }
                if isOver { continuation.resume() }
            }
        } onCancel: {
            ring()
        }
    }
}
