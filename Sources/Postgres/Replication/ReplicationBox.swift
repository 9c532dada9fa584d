import Synchronization

/// The state that a stream's reader and its thread share.
final class ReplicationBox: Sendable {
    typealias Outcome = Result<[ReplicationStream.Entry], PostgresError>
    private typealias Waiter = CheckedContinuation<Outcome, Never>

    private struct State {
        var entries: [ReplicationStream.Entry] = []
        /// The number of bytes of the messages that the reader has not taken yet.
        var bytes = 0
        var waiter: Waiter?
        var confirmed = LogPosition.zero
        /// The position up to which the server has sent its log.
        var sent = LogPosition.zero
        /// Whether the server requested a status message since the last confirmation.
        var isStatusRequested = false
        /// The end of the last transaction that was received, even if the reader has not taken it yet.
        var lastCommit = LogPosition.zero
        /// Whether the beginning of a transaction has arrived, but its end has not arrived yet.
        var isWithin = false
        var isClosing = false
        var failure: PostgresError?
        var hasEnded = false
        var endWaiters: [CheckedContinuation<Void, Never>] = []

        /// Whether the reader has confirmed every change that was received, and no change waits for the reader.
        var isIdle: Bool { !isWithin && confirmed >= lastCommit && entries.isEmpty }
    }

    let wakeUp: WakeUp
    private let state = Mutex(State())

    init?() {
        guard let wakeUp = WakeUp() else { return nil }
        self.wakeUp = wakeUp
    }

    // MARK: - The reader

    func take(_ continuation: CheckedContinuation<Outcome, Never>) {
        let outcome: Outcome? = state.withLock { state in
            if !state.entries.isEmpty {
                defer { (state.entries, state.bytes) = ([], 0) }
                return .success(state.entries)
            }
            if let failure = state.failure { return .failure(failure) }
            if Task.isCancelled { return .failure(PostgresError(.cancelled, "while waiting for changes")) }
            precondition(state.waiter == nil, "one task at a time reads a stream")
            state.waiter = continuation
            return nil
        }
        guard let outcome else { return }
        // the buffer has free space again
        wakeUp.signal()
        continuation.resume(returning: outcome)
    }

    func giveUpWaiting() {
        let waiter = state.withLock { state in
            defer { state.waiter = nil }
            return state.waiter
        }
        waiter?.resume(returning: .failure(PostgresError(.cancelled, "while waiting for changes")))
    }

    func confirm(_ position: LogPosition) {
        state.withLock { state in
            state.confirmed = max(state.confirmed, position)
            state.isStatusRequested = false
        }
        wakeUp.signal()
    }

    func close() {
        state.withLock { $0.isClosing = true }
        wakeUp.signal()
    }

    func waitForEnd() async {
        await withCheckedContinuation { continuation in
            let hasEnded = state.withLock { state in
                if !state.hasEnded { state.endWaiters.append(continuation) }
                return state.hasEnded
            }
            if hasEnded { continuation.resume() }
        }
    }

    // MARK: - The thread

    var isClosing: Bool { state.withLock { $0.isClosing } }

    var bytesAhead: Int { state.withLock { $0.bytes } }

    func put(_ entry: ReplicationStream.Entry, bytes: Int) {
        let waiter: (Waiter, [ReplicationStream.Entry])? = state.withLock { state in
            switch entry.message {
            case .begin: state.isWithin = true
            case .commit(let end): (state.isWithin, state.lastCommit) = (false, end)
            default: break
            }
            state.entries.append(entry)
            state.bytes += bytes
            guard let waiter = state.waiter else { return nil }
            defer { (state.waiter, state.entries, state.bytes) = (nil, [], 0) }
            return (waiter, state.entries)
        }
        waiter?.0.resume(returning: .success(waiter?.1 ?? []))
    }

    /// Returns the position to report to the server, which has sent everything up to `sent`.
    ///
    /// If `confirmsIdle` is true and the reader has confirmed all changes that were received, the reported position is
    /// at least `sent`. The server can then discard the log of changes in other tables.
    func progress(sent: LogPosition, isRequested: Bool, confirmsIdle: Bool) -> LogPosition {
        state.withLock { state in
            state.sent = max(state.sent, sent)
            if isRequested { state.isStatusRequested = true }
            return confirmsIdle && state.isIdle ? max(state.confirmed, sent) : state.confirmed
        }
    }

    var idlePosition: ReplicationStream.IdlePosition? {
        state.withLock { state in
            guard state.isIdle, state.sent > state.confirmed else { return nil }
            return ReplicationStream.IdlePosition(position: state.sent, isRequested: state.isStatusRequested)
        }
    }

    /// Records the end, and answers all waiting callers.
    func end(_ error: PostgresError) {
        let (waiter, endWaiters) = state.withLock { state in
            defer { (state.waiter, state.endWaiters) = (nil, []) }
            (state.failure, state.hasEnded) = (error, true)
            return (state.waiter, state.endWaiters)
        }
        waiter?.resume(returning: .failure(error))
        for waiter in endWaiters { waiter.resume() }
    }
}
