import CLibPQ
import Glibc
import Synchronization

/// The state that callers and a connection's thread share.
final class Mailbox: Sendable {
    /// The session's transaction state, as of the end of the last job.
    enum Transaction: Sendable {
        case none
        /// Inside a transaction block. The transaction may have failed.
        case open
    }

    fileprivate struct State {
        var jobs: [Job] = []
        var isClosing = false
        var hasEnded = false
        /// The error of a session whose transaction was idle for too long.
        var idleTimeout: PostgresError?
        var transaction = Transaction.none
        var needsReplacement = false
        var isReadOnly = false
        var isSignalled = false
        var serverProcess: Int32 = 0
        var endWaiters: [CheckedContinuation<Void, Never>] = []
    }

    let wakeUp: WakeUp
    private let state = Mutex(State())

    init?() {
        guard let wakeUp = WakeUp() else { return nil }
        self.wakeUp = wakeUp
    }

    // For callers

    /// Posts a job; returns false if the connection accepts no more jobs.
    func post(_ job: Job) -> Bool {
        let (accepted, signal) = state.withLock { state in
            guard !state.isClosing, !state.hasEnded else { return (false, false) }
            state.jobs.append(job)
            return (true, state.raiseSignal())
        }
        if signal { wakeUp.signal() }
        return accepted
    }

    /// The error for a job that is not accepted.
    var refusal: PostgresError {
        state.withLock { $0.idleTimeout } ?? PostgresError(.connectionLost, "the connection is closed")
    }

    /// Wakes the thread, which then checks whether the mailbox is closing, and whether jobs are cancelled or late.
    func wake() {
        if state.withLock({ $0.raiseSignal() }) { wakeUp.signal() }
    }

    func close() {
        state.withLock { $0.isClosing = true }
        wake()
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

    var isUsable: Bool { state.withLock { !$0.isClosing && !$0.hasEnded } }
    var needsReplacement: Bool { state.withLock { $0.needsReplacement || $0.isReadOnly } }
    var isReadOnly: Bool { state.withLock { $0.isReadOnly } }
    var transaction: Transaction { state.withLock { $0.transaction } }
    var serverProcess: Int32 { state.withLock { $0.serverProcess } }

    // For the connection's thread

    var isClosing: Bool { state.withLock { $0.isClosing } }

    func next() -> Job? {
        state.withLock { $0.jobs.isEmpty || $0.isClosing ? nil : $0.jobs.removeFirst() }
    }

    /// Clears the signal. Call it before reading the jobs, so that no later signal is lost.
    func clearSignal() {
        wakeUp.clear()
        state.withLock { $0.isSignalled = false }
    }

    /// Removes and returns the waiting jobs that are cancelled or late. Also returns the earliest deadline of the other
    /// waiting jobs.
    func takeInterrupted(
        at now: ContinuousClock.Instant
    ) -> (jobs: [(Job, PostgresError.Kind)], nextDeadline: ContinuousClock.Instant?) {
        state.withLock { state in
            if state.jobs.isEmpty { return ([], nil) }
            var taken: [(Job, PostgresError.Kind)] = []
            state.jobs.removeAll { job in
                guard let kind = job.limits.interruption(at: now) else { return false }
                taken.append((job, kind))
                return true
            }
            return (taken, state.jobs.lazy.compactMap(\.limits.deadline).min())
        }
    }

    func connected(to serverProcess: Int32) {
        state.withLock { $0.serverProcess = serverProcess }
    }

    func finished(in transaction: Transaction, needsReplacement: Bool, isReadOnly: Bool) {
        state.withLock {
            $0.transaction = transaction
            $0.needsReplacement = $0.needsReplacement || needsReplacement
            $0.isReadOnly = isReadOnly
        }
    }

    /// Closes the mailbox, as the last step of the thread. After that, the mailbox accepts no jobs.
    ///
    /// The remaining jobs, and all callers that wait for the end, get their answers.
    func end(_ error: PostgresError) {
        let (jobs, waiters) = state.withLock { state in
            state.hasEnded = true
            if error.sqlState == "25P03" { state.idleTimeout = error }
            defer {
                state.jobs = []
                state.endWaiters = []
            }
            return (state.jobs, state.endWaiters)
        }
        for job in jobs { job.continuation.resume(returning: .failure(error)) }
        for waiter in waiters { waiter.resume() }
    }
}

extension Mailbox.State {
    /// Returns whether the caller must write to the eventfd. This is true only for the first call after the thread has
    /// cleared the signal.
    fileprivate mutating func raiseSignal() -> Bool {
        defer { isSignalled = true }
        return !isSignalled
    }
}

/// Passes a task's cancellation to the connection's thread. The cancellation may occur before or after the job is
/// posted.
final class CancellationToken: Sendable {
    private let cancelled = Atomic(false)

    var isCancelled: Bool { cancelled.load(ordering: .acquiring) }

    func cancel() { cancelled.store(true, ordering: .releasing) }
}

/// An eventfd that any thread may signal, and that one thread polls.
final class WakeUp: Sendable {
    /// The descriptor to poll.
    ///
    /// The descriptor is closed when the last reference to this object is released, so that it is open for every thread
    /// that can signal it.
    let descriptor: Int32

    init?() {
        descriptor = eventfd(0, Int32(EFD_CLOEXEC | EFD_NONBLOCK))
        if descriptor < 0 { return nil }
    }

    deinit { _ = close(descriptor) }

    func signal() {
        var one: UInt64 = 1
        // The write fails only if the counter is full. In this case, a signal is pending already.
        _ = write(descriptor, &one, MemoryLayout<UInt64>.size)
    }

    func clear() {
        var count: UInt64 = 0
        _ = read(descriptor, &count, MemoryLayout<UInt64>.size)
    }
}
