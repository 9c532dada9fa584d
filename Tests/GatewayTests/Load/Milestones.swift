import Synchronization

/// Counts what a load has got done, and tells those who wait for it to come so far.
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

    /// Lets everybody go who waits or will wait: nothing comes any more.
    func finish() {
        let all = state.withLock { state in
            state.count = .max
            defer { state.waiters.removeAll() }
            return state.waiters
        }
        for waiter in all { waiter.continuation.resume() }
    }

    /// Returns once so much is done.
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
