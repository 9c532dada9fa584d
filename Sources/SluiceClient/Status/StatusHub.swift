import Foundation

/// The present status, and its observers.
final class StatusHub: Sendable {
    private struct State {
        var status = SyncStatus()
        var isSuspended = true
        var isFinished = false
        var watchers: [UUID: AsyncStream<SyncStatus>.Continuation] = [:]
    }

    private let state = Locked(State())

    var status: SyncStatus { state.withLock { $0.status } }

    /// A stream of the status. It starts with the present status, followed by each visible change. A slow reader misses
    /// intermediate values.
    var stream: AsyncStream<SyncStatus> {
        let (changes, last) = (changes, Locked<SyncStatus?>(nil))
        // compared with the value that the reader received last, because intermediate values may be missing
        return AsyncStream {
            for await status in changes {
                let isVisible = last.withLock { last in
                    if let last, status.looksLike(last) { return false }
                    last = status
                    return true
                }
                if isVisible { return status }
            }
            return nil
        }
    }

    private var changes: AsyncStream<SyncStatus> {
        AsyncStream(bufferingPolicy: .bufferingNewest(1)) { continuation in
            let id = UUID()
            state.withLock { state in
                continuation.yield(state.status)
                if state.isFinished { continuation.finish() } else { state.watchers[id] = continuation }
            }
            continuation.onTermination = { [self] _ in state.withLock { _ = $0.watchers.removeValue(forKey: id) } }
        }
    }

    func update(_ change: (inout SyncStatus) -> Void) {
        state.withLock { state in
            let before = state.status
            change(&state.status)
            guard state.status != before else { return }
            for watcher in state.watchers.values { watcher.yield(state.status) }
        }
    }

    /// Records whether the client is suspended.
    func setSuspended(_ isSuspended: Bool) { state.withLock { $0.isSuspended = isSuspended } }

    func update(_ counts: StatusCounts) {
        let isSuspended = state.withLock(\.isSuspended)
        update { status in
            status.pending = counts.pending
            status.failed = counts.failed
            status.conflicts = counts.conflicts
            status.oldestPending = counts.oldestPending
            status.held = counts.held
            status.heldDeletions = counts.heldDeletions
            status.lastPulled = counts.lastPulled
            status.lastPushed = counts.lastPushed
            status.snapshotRows = counts.snapshotRows
            guard status.isSettled(by: counts.decided) else { return }
            status.blockedBy = nil
            if status.phase == .blocked { status.phase = isSuspended ? .suspended : .idle }
        }
    }

    func finish() {
        let watchers = state.withLock { state in
            state.isFinished = true
            return state.watchers.values.map { $0 }
        }
        for watcher in watchers { watcher.finish() }
    }
}
