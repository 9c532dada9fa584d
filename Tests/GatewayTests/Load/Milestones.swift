import Synchronization

/// Counts a load's completed mutations, and resumes tasks that wait for a number of them.
final class Milestones: Sendable {
    private struct State {
        var count = 0
        var waiters: [(count: Int, continuation: CheckedContinuation<Void, Never>)] = []
    }

    private let state = Mutex(State())

    func advance() {
        let reached = state.withLock { state in
            state.count += 1
            defer { state.waiters.removeAll { $0.count <= state.count } }
            return state.waiters.filter { $0.count <= state.count }
        }
        for waiter in reached { waiter.continuation.resume() }
    }

    /// Resumes all present and future waiters, because no further progress follows.
    func finish() {
        let all = state.withLock { state in
            state.count = .max
            defer { state.waiters.removeAll() }
            return state.waiters
        }
        for waiter in all { waiter.continuation.resume() }
    }

    /// Returns once this number is reached.
    func reach(_ count: Int) async {
        await withCheckedContinuation { continuation in
            let isReached = state.withLock { state in
                if state.count < count { state.waiters.append((count, continuation)) }
                return state.count >= count
            }
            if isReached { continuation.resume() }
        }
    }

    var isOver: Bool { state.withLock { $0.count == .max } }
}
