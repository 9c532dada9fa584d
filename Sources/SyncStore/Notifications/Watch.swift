import Synchronization

/// Lets one reader wait until something that it watches is changed.
package final class Watch: ChangeObserver {
    private struct State {
        var changes = PendingChanges()
        /// The time limit of the current call has passed.
        var isLate = false
        var reader: CheckedContinuation<Void, Never>?
    }

    private let state = Mutex(State())

    init() {}

    /// Waits for changes, for at most `limit` or until the task is cancelled. Returns at once when there are some since
    /// the last call. One caller at a time.
    package func changes(within limit: Duration) async -> PendingChanges {
        if limit > .zero {
            let timer = Task {
                do { try await Task.sleep(for: limit) } catch { return }
                self.change { $0.isLate = true }
            }
            await wait()
            timer.cancel()
        }
        return state.withLock { state in
            defer {
                state.changes = PendingChanges()
                state.isLate = false
            }
            return state.changes
        }
    }

    package func laneChanged() {
        change { $0.changes.laneChanged() }
    }

    package func feedMoved(to position: Int64) {
        change { $0.changes.feedMoved(to: position) }
    }

    private func wait() async {
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let isOver = state.withLock { state in
                    if !state.changes.isEmpty || state.isLate || Task.isCancelled { return true }
                    state.reader = continuation
                    return false
                }
                if isOver { continuation.resume() }
            }
        } onCancel: {
            wake()
        }
    }

    private func wake() {
        change { _ in }
    }

    private func change(_ body: (inout State) -> Void) {
        let reader = state.withLock { state in
            body(&state)
            defer { state.reader = nil }
            return state.reader
        }
        reader?.resume()
    }
}
