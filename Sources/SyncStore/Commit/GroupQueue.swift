import DequeModule
import Foundation
import SyncModel
import Synchronization

/// What a group holds at most.
struct GroupLimits: Sendable {
    var jobs = 64
    var mutations = 1_000
}

/// The jobs that wait for one committer. Bounded; first come first served, except that a group holds one job a lane:
/// the next of a lane waits for the next group.
final class GroupQueue<Job: GroupJob>: Sendable {
    /// Jobs that may wait; beyond it the gateway is overloaded.
    static var capacity: Int { 4_096 }

    private struct State {
        var waiting: Deque<Job> = []
        var consumer: CheckedContinuation<Void, Never>?
        var isClosed = false
    }

    private let limits: GroupLimits
    private let state = Mutex(State())

    init(limits: GroupLimits) {
        self.limits = limits
    }

    /// Jobs that wait now.
    var count: Int { state.withLock { $0.waiting.count } }

    /// Adds a job; false when the queue is full or closed.
    func add(_ job: Job) -> Bool {
        let (isAdded, consumer) = state.withLock { state -> (Bool, CheckedContinuation<Void, Never>?) in
            guard !state.isClosed, state.waiting.count < Self.capacity else { return (false, nil) }
            state.waiting.append(job)
            defer { state.consumer = nil }
            return (true, state.consumer)
        }
        consumer?.resume()
        return isAdded
    }

    /// The next group: what waits, up to the limits. Waits for the first job; nil once closed and empty.
    func next() async -> [Job]? {
        while true {
            let (group, isClosed) = state.withLock { state in (take(&state), state.isClosed) }
            if !group.isEmpty { return group }
            if isClosed { return nil }
            await withCheckedContinuation { continuation in
                let mustWait = state.withLock { state in
                    guard state.waiting.isEmpty, !state.isClosed else { return false }
                    state.consumer = continuation
                    return true
                }
                if !mustWait { continuation.resume() }
            }
        }
    }

    /// Takes out what has waited for longer than `age`.
    func expired(_ age: Duration, now: ContinuousClock.Instant) -> [Job] {
        state.withLock { state in
            guard let first = state.waiting.first, now - first.enqueuedAt >= age else { return [] }
            let old = state.waiting.filter { now - $0.enqueuedAt >= age }
            state.waiting.removeAll { now - $0.enqueuedAt >= age }
            return Array(old)
        }
    }

    /// Takes out everything that waits.
    func drain() -> [Job] {
        state.withLock { state in
            defer { state.waiting.removeAll() }
            return Array(state.waiting)
        }
    }

    /// Takes no more; what waits is still handed out.
    func close() {
        let consumer = state.withLock { state in
            state.isClosed = true
            defer { state.consumer = nil }
            return state.consumer
        }
        consumer?.resume()
    }

    private func take(_ state: inout State) -> [Job] {
        var group: [Job] = []
        var lanes: Set<LaneKey> = []
        var mutations = 0
        var passedOver: [Job] = []
        while group.count < limits.jobs, let job = state.waiting.first {
            guard group.isEmpty || mutations + job.weight <= limits.mutations else { break }
            state.waiting.removeFirst()
            guard lanes.insert(job.lane).inserted else {
                passedOver.append(job)
                // a lane with a long line of its own must not make this search long
                if passedOver.count >= limits.jobs { break }
                continue
            }
            mutations += job.weight
            group.append(job)
        }
        for job in passedOver.reversed() { state.waiting.prepend(job) }
        return group
    }
}
