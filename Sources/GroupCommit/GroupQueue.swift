import FoundationEssentials
package import SyncModel
import Synchronization

/// The jobs that wait for the committers. Each job is assigned to a numbered worker, and each committer takes the jobs
/// of one worker.
///
/// The queue is bounded and fair. ``FairGroupQueue`` decides the order.
package final class GroupQueue<Job: GroupJob>: Sendable {
    /// The maximum number of waiting jobs. If the queue is full, the gateway is overloaded.
    static var capacity: Int { 4_096 }

    private struct State {
        var line: FairGroupQueue
        var jobs: [Int: Job] = [:]
        var lastTicket = 0
        /// The committers that wait for work, by worker.
        var consumers: [Int: CheckedContinuation<Void, Never>] = [:]
        var isClosed = false
        /// The workers whose committers have to probe their connections.
        var probes: Set<Int> = []
        var activeWorkers: ActiveWorkerCount
        /// The weights of the current groups, by worker.
        var weights: [Int: Int] = [:]
        /// The shard number of the current group, by worker.
        var shards: [Int: Int] = [:]

        /// Whether the queue is closed and no job waits.
        ///
        /// Until then, no worker may end, because a job that waits for another worker can move to this worker when a
        /// group is finished.
        var isOver: Bool { isClosed && line.count == 0 }

        mutating func jobs(of items: [FairGroupQueue.Item]) -> [Job] {
            items.compactMap { jobs.removeValue(forKey: $0.ticket) }
        }

        mutating func takeConsumers() -> [CheckedContinuation<Void, Never>] {
            defer { consumers = [:] }
            return Array(consumers.values)
        }

        mutating func remove(_ items: [FairGroupQueue.Item]) -> [Job] {
            activeWorkers.remove(items.reduce(0) { $0 + $1.weight })
            return jobs(of: items)
        }
    }

    /// The number of workers for light jobs. Each organization is assigned to one of these workers.
    let workers: Int
    private let state: Mutex<State>

    /// - Parameter hasHeavyWorker: whether there is an additional worker for heavy jobs. The heavy worker has the
    ///   highest number.
    package init(workers: Int, hasHeavyWorker: Bool, limits: GroupLimits = GroupLimits()) {
        self.workers = workers
        let line = FairGroupQueue(
            workers: workers,
            hasHeavyWorker: hasHeavyWorker,
            capacity: Self.capacity,
            limits: limits
        )
        state = Mutex(State(line: line, activeWorkers: ActiveWorkerCount(most: workers, limits: limits)))
    }

    package var count: Int { state.withLock { $0.line.count } }

    /// Whether the queue accepts no more jobs.
    var isClosed: Bool { state.withLock { $0.isClosed } }

    /// Returns whether there are waiting jobs that the worker could take.
    func hasWork(at worker: Int) -> Bool { state.withLock { !$0.line.isEmpty(at: worker) } }

    /// Adds a job; returns false if the queue is full or closed.
    ///
    /// - Parameter place: the partition or shard of the organization. All light jobs of a partition have the same
    ///   worker, because the first row that a statement writes to a partition costs more than the next ten rows.
    ///   Partitions are distributed over the currently active workers. Shards are distributed over all workers, because
    ///   two shards never share a group.
    package func add(_ job: Job, at place: Placement) -> Bool {
        let (isAdded, consumer) = state.withLock { state -> (Bool, CheckedContinuation<Void, Never>?) in
            guard !state.isClosed else { return (false, nil) }
            let ticket = state.lastTicket + 1
            let item = FairGroupQueue.Item(
                ticket: ticket,
                lane: job.lane,
                weight: job.weight,
                bytes: job.bytes,
                shard: place.shard
            )
            let worker = place.number % (place.shard == nil ? state.activeWorkers.count : workers)
            guard let woken = state.line.add(item, worker: worker) else { return (false, nil) }
            state.activeWorkers.add(item.weight)
            state.lastTicket = ticket
            state.jobs[ticket] = job
            return (true, state.consumers.removeValue(forKey: woken))
        }
        consumer?.resume()
        return isAdded
    }

    /// Leaves a job of the current group to the worker for heavy jobs.
    ///
    /// - Returns: false if that worker accepts no more jobs.
    func deferToHeavyWorker(_ job: Job) -> Bool {
        state.withLock { state in
            guard !state.isClosed else { return false }
            let ticket = state.lastTicket + 1
            let item = FairGroupQueue.Item(ticket: ticket, lane: job.lane, weight: job.weight, bytes: job.bytes)
            guard state.line.deferToHeavyWorker(item) else { return false }
            state.activeWorkers.add(item.weight)
            state.lastTicket = ticket
            state.jobs[ticket] = job
            return true
        }
    }

    /// Wakes an idle committer, which receives an empty group.
    func wakeForProbe(_ worker: Int) {
        let consumer = state.withLock { state -> CheckedContinuation<Void, Never>? in
            guard let consumer = state.consumers.removeValue(forKey: worker) else { return nil }
            state.probes.insert(worker)
            return consumer
        }
        consumer?.resume()
    }

    /// Waits for jobs, and returns the next group of a worker. The call also marks the worker's previous group as done.
    ///
    /// If the result is an empty group, the committer must probe its connection. If the queue is closed and empty, the
    /// result is nil.
    ///
    /// - Parameter took: the duration of the previous group; nil if it was not measured.
    func next(at worker: Int, took: Duration? = nil) async -> [Job]? {
        finish(at: worker, took)
        while true {
            let (group, isOver, isProbe) = state.withLock { state in
                let items = state.line.take(at: worker)
                state.weights[worker] = items.reduce(0) { $0 + $1.weight }
                state.shards[worker] = items.first?.shard
                return (state.jobs(of: items), state.isOver, state.probes.remove(worker) != nil)
            }
            if !group.isEmpty { return group }
            if isOver { return nil }
            if isProbe { return [] }
            await withCheckedContinuation { continuation in
                let mustWait = state.withLock { state in
                    guard state.line.isEmpty(at: worker), !state.isOver else { return false }
                    state.consumers[worker] = continuation
                    return true
                }
                if !mustWait { continuation.resume() }
            }
        }
    }

    /// Returns the shard of a worker's current group; nil if the database has no shards.
    func shard(at worker: Int) -> Int? { state.withLock { $0.shards[worker] } }

    /// Ends the group of a worker, so that other workers can take jobs of the group's organizations.
    private func finish(at worker: Int, _ took: Duration?) {
        let consumers = state.withLock { state in
            let woken = state.line.finish(at: worker, took: took.map { $0 / .microseconds(1) })
            state.activeWorkers.remove(state.weights.removeValue(forKey: worker) ?? 0)
            // once the queue is closed, every waiting worker checks whether jobs are left
            let workers = state.isClosed ? Set(state.consumers.keys) : woken
            return workers.compactMap { state.consumers.removeValue(forKey: $0) }
        }
        for consumer in consumers { consumer.resume() }
    }

    /// Removes and returns the jobs that have waited for longer than `age`.
    func expired(_ age: Duration, now: ContinuousClock.Instant) -> [Job] {
        remove { state in
            let late = Set(state.jobs.lazy.filter { now - $0.value.enqueuedAt >= age }.map(\.key))
            return late.isEmpty ? [] : state.line.remove { late.contains($0.ticket) }
        }
    }

    /// Removes and returns the jobs that wait for a worker.
    ///
    /// - Parameter organization: if it is not nil, only jobs of the shard with this organization's rows are removed.
    func drain(at worker: Int, fromShardOf organization: UUID? = nil) -> [Job] {
        remove { $0.line.drain(at: worker, fromShardOf: organization) }
    }

    /// Removes jobs. If the queue is closed and no job is left, wakes the waiting committers.
    private func remove(_ select: (inout State) -> [FairGroupQueue.Item]) -> [Job] {
        let (jobs, consumers) = state.withLock { state in
            let items = select(&state)
            return (state.remove(items), state.isOver ? state.takeConsumers() : [])
        }
        for consumer in consumers { consumer.resume() }
        return jobs
    }

    /// Stops accepting jobs. The committers still receive the queued jobs.
    package func close() {
        let consumers = state.withLock { state in
            state.isClosed = true
            return state.takeConsumers()
        }
        for consumer in consumers { consumer.resume() }
    }
}
