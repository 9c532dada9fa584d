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

    /// A part of the memory of requests.
    private enum Part: CaseIterable {
        /// The memory of all requests.
        case whole
        /// The part of the memory that requests to slow or unmeasured upstreams may hold.
        case slow
    }

    /// A capacity in bytes, and the requests that wait for it.
    private struct Memory {
        var semaphore: FairSemaphore
        /// Each waiting request is resumed with true if it got the memory, and otherwise with false.
        var waiters: [FairSemaphore.Ticket: CheckedContinuation<Bool, Never>] = [:]

        init(bytes: Int) {
            semaphore = FairSemaphore(whole: bytes, timeout: patience)
        }
    }

    private struct State {
        var tasks: [UUID: Task<UpstreamAnswer, Never>] = [:]
        var counts: [UUID: Int] = [:]
        var whole: Memory
        var slow: Memory
        /// The number of bytes that small requests hold without regard to the capacity.
        var smallBytes = 0
        var isGivenUp = false

        subscript(part: Part) -> Memory {
            get { part == .whole ? whole : slow }
            _modify { if part == .whole { yield &whole } else { yield &slow } }
        }

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
        state = Mutex(State(whole: Memory(bytes: bytes), slow: Memory(bytes: max(1, bytes / 4 * 3))))
    }

    /// Whether requests are cancelled.
    var isGivenUp: Bool { state.withLock { $0.isGivenUp } }

    /// The number of requests, by organization.
    var counts: [UUID: Int] { state.withLock { $0.counts } }

    /// The number of requests that wait for memory.
    var waiting: Int { state.withLock { $0.whole.waiters.count + $0.slow.waiters.count } }

    /// The number of reserved bytes.
    var heldBytes: Int { state.withLock { $0.whole.semaphore.shares.taken } }

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
            var waiters: [CheckedContinuation<Bool, Never>] = []
            for memory in Part.allCases {
                for ticket in state[memory].waiters.keys { state[memory].semaphore.leave(ticket) }
                waiters += state[memory].waiters.values
                state[memory].waiters = [:]
            }
            return (Array(state.tasks.values), waiters)
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
    /// A waiting request holds no memory of ``Part/whole``. A request that holds memory waits only for its upstream,
    /// within a time limit. Because of these two rules, every wait ends.
    ///
    /// Requests to slow or unmeasured upstreams together hold at most three quarters of the capacity. Otherwise the
    /// requests of many organizations whose upstreams do not answer could hold all memory, and other organizations'
    /// requests would wait for the time-outs of these upstreams (product rule 16).
    ///
    /// - Parameter isFast: whether the upstream has answered fast until now.
    /// - Returns: nil if the memory did not become free in time, or if requests are cancelled.
    func reserve(_ bytes: Int, for lane: LaneKey, isFast: Bool) async -> MemoryReservation? {
        let bytes = min(bytes, capacity)
        if bytes <= Self.small, let small = reserveSmall(bytes, for: lane) { return small }
        let deadline = ContinuousClock.now + Self.patience
        if isFast { return await reserve(bytes, of: .whole, for: lane, until: deadline) }
        let part = min(bytes, state.withLock { $0.slow.semaphore.shares.whole })
        guard let slow = await reserve(part, of: .slow, for: lane, until: deadline),
            let whole = await reserve(bytes, of: .whole, for: lane, until: deadline)
        else { return nil }
        return MemoryReservation { withExtendedLifetime((slow, whole)) {} }
    }

    /// Reserves the memory of a small request without waiting; nil if small requests hold too much.
    private func reserveSmall(_ bytes: Int, for lane: LaneKey) -> MemoryReservation? {
        let isReserved = state.withLock { state in
            guard state.smallBytes + bytes <= smallCapacity else { return false }
            state.whole.semaphore.take(bytes, for: lane)
            state.smallBytes += bytes
            return true
        }
        guard isReserved else { return nil }
        return MemoryReservation { [self] in
            state.withLock { state in
                state.whole.semaphore.release(bytes, of: lane)
                state.smallBytes -= bytes
            }
            admitWaiters(.whole)
        }
    }

    private func reserve(
        _ bytes: Int,
        of memory: Part,
        for lane: LaneKey,
        until deadline: ContinuousClock.Instant
    ) async -> MemoryReservation? {
        let isReserved = state.withLock { $0[memory].semaphore.tryAcquire(bytes, for: lane) }
        if !isReserved, await !waitForMemory(bytes, memory, lane, until: deadline) { return nil }
        return MemoryReservation { [self] in
            state.withLock { $0[memory].semaphore.release(bytes, of: lane) }
            admitWaiters(memory)
        }
    }

    private func waitForMemory(
        _ bytes: Int,
        _ memory: Part,
        _ lane: LaneKey,
        until deadline: ContinuousClock.Instant
    ) async -> Bool {
        await withCheckedContinuation { continuation in
            let ticket = state.withLock { state -> FairSemaphore.Ticket? in
                guard !state.isGivenUp else { return nil }
                let ticket = state[memory].semaphore.wait(for: bytes, by: lane, now: .now)
                state[memory].waiters[ticket] = continuation
                return ticket
            }
            guard let ticket else { return continuation.resume(returning: false) }
            admitWaiters(memory)
            Task {
                try? await Task.sleep(until: deadline)
                stopWaiting(ticket, for: memory)
            }
        }
    }

    private func stopWaiting(_ ticket: FairSemaphore.Ticket, for memory: Part) {
        let waiter = state.withLock { state in
            let waiter = state[memory].waiters.removeValue(forKey: ticket)
            if waiter != nil { state[memory].semaphore.leave(ticket) }
            return waiter
        }
        guard let waiter else { return }
        waiter.resume(returning: false)
        admitWaiters(memory)
    }

    private func admitWaiters(_ memory: Part) {
        let decided = state.withLock { state -> [(waiter: CheckedContinuation<Bool, Never>, isAdmitted: Bool)] in
            guard state[memory].semaphore.waiting > 0 else { return [] }
            let decision = state[memory].semaphore.settle(now: .now)
            return (decision.admitted.map { ($0, true) } + decision.refused.map { ($0, false) })
                .compactMap { ticket, isAdmitted in
                    state[memory].waiters.removeValue(forKey: ticket)
                        .map { (waiter: $0, isAdmitted: isAdmitted) }
                }
        }
        for (waiter, isAdmitted) in decided { waiter.resume(returning: isAdmitted) }
    }
}
