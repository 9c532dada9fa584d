import FoundationEssentials
import SyncModel
import Synchronization

/// The requests in progress, and the memory for them.
///
/// Each request is sent in a separate task. A shutdown cancels this task, and not the task of the lane's runner, which
/// still writes the outcome.
final class InFlightRequests: Sendable {
    /// The maximum size of a small request, in bytes. Small requests do not wait while large requests hold the memory.
    static let small = 16_384
    /// The maximum time that a request waits for memory. It is much shorter than a lane's lease.
    private static let patience: Duration = .seconds(10)

    private struct State {
        var tasks: [UUID: Task<UpstreamAnswer, Never>] = [:]
        var counts: [UUID: Int] = [:]
        var memory: FairSemaphore
        /// The number of bytes that small requests hold without regard to the capacity.
        var smallBytes = 0
        /// The requests that wait for memory. Each is resumed with true if it got the memory, and otherwise with false.
        var waiters: [FairSemaphore.Ticket: CheckedContinuation<Bool, Never>] = [:]
        var isGivenUp = false

        mutating func end(_ id: UUID, of organization: UUID) {
            tasks[id] = nil
            let count = (counts[organization] ?? 1) - 1
            counts[organization] = count > 0 ? count : nil
        }
    }

    private let upstream: any Upstream
    /// The number of bytes that all requests together may hold before large requests must wait.
    private let capacity: Int
    private let state: Mutex<State>

    init(_ upstream: any Upstream, bytes: Int = 67_108_864) {
        self.upstream = upstream
        capacity = bytes
        state = Mutex(State(memory: FairSemaphore(whole: bytes, timeout: Self.patience)))
    }

    /// Whether requests are cancelled.
    var isGivenUp: Bool { state.withLock { $0.isGivenUp } }

    /// The number of requests, by organization.
    var counts: [UUID: Int] { state.withLock { $0.counts } }

    /// The number of requests that wait for memory.
    var waiting: Int { state.withLock { $0.waiters.count } }

    /// The number of reserved bytes.
    var heldBytes: Int { state.withLock { $0.memory.shares.taken } }

    func send(_ request: UpstreamRequest, to settings: UpstreamSettings) async -> UpstreamAnswer {
        let id = UUID()
        let task = Task { await upstream.send(request, to: settings) }
        let isGivenUp = state.withLock { state in
            state.tasks[id] = task
            state.counts[request.organization, default: 0] += 1
            return state.isGivenUp
        }
        if isGivenUp { task.cancel() }
        defer { state.withLock { $0.end(id, of: request.organization) } }
        return await task.value
    }

    /// Cancels the requests in progress, and every later request.
    func giveUp() {
        let (tasks, waiters) = state.withLock { state in
            state.isGivenUp = true
            for ticket in state.waiters.keys { state.memory.leave(ticket) }
            defer { state.waiters = [:] }
            return (Array(state.tasks.values), Array(state.waiters.values))
        }
        for task in tasks { task.cancel() }
        for waiter in waiters { waiter.resume(returning: false) }
    }
}

// MARK: - Memory

extension InFlightRequests {
    /// The maximum number of bytes that small requests hold without waiting, so that large requests do not delay them.
    ///
    /// Further small requests wait like large requests. All requests together hold at most the sum of the capacity and
    /// this number: 96 MiB by default.
    private var smallCapacity: Int { capacity / 2 }

    /// Reserves the memory of a lane's request, before its body is rendered. Organizations take turns.
    ///
    /// A waiting request holds no memory. A request that holds memory waits only for its upstream, within a time limit.
    /// Because of these two rules, every wait ends.
    ///
    /// - Returns: nil if the memory did not become free in time, or if requests are cancelled.
    func reserve(_ bytes: Int, for lane: LaneKey) async -> MemoryReservation? {
        let bytes = min(bytes, capacity)
        let (isReserved, isSmall) = state.withLock { state in
            guard bytes <= Self.small, state.smallBytes + bytes <= smallCapacity else {
                return (state.memory.tryAcquire(bytes, for: lane), false)
            }
            state.memory.take(bytes, for: lane)
            state.smallBytes += bytes
            return (true, true)
        }
        if !isReserved, await !waitForMemory(bytes, lane) { return nil }
        return MemoryReservation { [self] in
            state.withLock { state in
                state.memory.release(bytes, of: lane)
                if isSmall { state.smallBytes -= bytes }
            }
            admitWaiters()
        }
    }

    private func waitForMemory(_ bytes: Int, _ lane: LaneKey) async -> Bool {
        await withCheckedContinuation { continuation in
            let ticket = state.withLock { state -> FairSemaphore.Ticket? in
                guard !state.isGivenUp else { return nil }
                let ticket = state.memory.wait(for: bytes, by: lane, now: .now)
                state.waiters[ticket] = continuation
                return ticket
            }
            guard let ticket else { return continuation.resume(returning: false) }
            admitWaiters()
            Task {
                try? await Task.sleep(for: Self.patience)
                stopWaiting(ticket)
            }
        }
    }

    private func stopWaiting(_ ticket: FairSemaphore.Ticket) {
        let waiter = state.withLock { state in
            let waiter = state.waiters.removeValue(forKey: ticket)
            if waiter != nil { state.memory.leave(ticket) }
            return waiter
        }
        guard let waiter else { return }
        waiter.resume(returning: false)
        admitWaiters()
    }

    private func admitWaiters() {
        let decided = state.withLock { state -> [(waiter: CheckedContinuation<Bool, Never>, isAdmitted: Bool)] in
            guard state.memory.waiting > 0 else { return [] }
            let decision = state.memory.settle(now: .now)
            return (decision.admitted.map { ($0, true) } + decision.refused.map { ($0, false) })
                .compactMap { ticket, isAdmitted in
                    state.waiters.removeValue(forKey: ticket).map { (waiter: $0, isAdmitted: isAdmitted) }
                }
        }
        for (waiter, isAdmitted) in decided { waiter.resume(returning: isAdmitted) }
    }
}
