import Foundation
package import SyncModel
import Synchronization

/// The jobs that wait for the committers, each of which has a desk. Bounded and fair: ``FairGroupQueue`` decides the
/// order.
package final class GroupQueue<Job: GroupJob>: Sendable {
    /// Jobs that may wait; beyond it the gateway is overloaded.
    static var capacity: Int { 4_096 }

    private struct State {
        var line: FairGroupQueue
        var jobs: [Int: Job] = [:]
        var lastTicket = 0
        /// Committers that wait for work, by desk.
        var consumers: [Int: CheckedContinuation<Void, Never>] = [:]
        var isClosed = false
        /// Desks whose committer is to probe its connection.
        var probes: Set<Int> = []
        var deskCount: ActiveWorkerCount
        /// The weights of the current groups, by desk.
        var weights: [Int: Int] = [:]
        /// Where that lies, by desk.
        var shards: [Int: Int] = [:]

        mutating func jobs(of items: [FairGroupQueue.Item]) -> [Job] {
            items.compactMap { jobs.removeValue(forKey: $0.ticket) }
        }

        mutating func giveUp(_ items: [FairGroupQueue.Item]) -> [Job] {
            deskCount.remove(items.reduce(0) { $0 + $1.weight })
            return jobs(of: items)
        }
    }

    /// The number of desks for light jobs: an organization has one of them.
    let desks: Int
    private let state: Mutex<State>

    /// - Parameter hasHeavyDesk: whether there is one more, for heavy jobs; it has the highest number.
    package init(desks: Int, hasHeavyDesk: Bool, limits: GroupLimits = GroupLimits()) {
        self.desks = desks
        let line = FairGroupQueue(desks: desks, hasHeavyDesk: hasHeavyDesk, capacity: Self.capacity, limits: limits)
        state = Mutex(State(line: line, deskCount: ActiveWorkerCount(most: desks, limits: limits)))
    }

    package var count: Int { state.withLock { $0.line.count } }

    /// Whether it accepts no more jobs.
    var isClosed: Bool { state.withLock { $0.isClosed } }

    /// Whether jobs wait that a desk could take.
    func hasWork(at desk: Int) -> Bool { state.withLock { !$0.line.isEmpty(at: desk) } }

    /// Adds a job; false when the queue is full or closed.
    ///
    /// - Parameter place: the organization's. One desk does a partition's light jobs, since the first row that a
    ///   statement writes to a partition costs more than the next ten; which one depends on how many desks take part.
    ///   Shards are spread over all desks at any load, for no two share a group.
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
            let desk = place.number % (place.shard == nil ? state.deskCount.count : desks)
            guard let woken = state.line.add(item, desk: desk) else { return (false, nil) }
            state.deskCount.add(item.weight)
            state.lastTicket = ticket
            state.jobs[ticket] = job
            return (true, state.consumers.removeValue(forKey: woken))
        }
        consumer?.resume()
        return isAdded
    }

    /// Leaves a job of the current group to the desk for heavy ones.
    ///
    /// False if that accepts no more.
    func leave(_ job: Job) -> Bool {
        state.withLock { state in
            guard !state.isClosed else { return false }
            let ticket = state.lastTicket + 1
            let item = FairGroupQueue.Item(ticket: ticket, lane: job.lane, weight: job.weight, bytes: job.bytes)
            guard state.line.leave(item) else { return false }
            state.deskCount.add(item.weight)
            state.lastTicket = ticket
            state.jobs[ticket] = job
            return true
        }
    }

    /// Wakes an idle committer, which receives an empty group.
    func wakeForProbe(_ desk: Int) {
        let consumer = state.withLock { state -> CheckedContinuation<Void, Never>? in
            guard let consumer = state.consumers.removeValue(forKey: desk) else { return nil }
            state.probes.insert(desk)
            return consumer
        }
        consumer?.resume()
    }

    /// The next group for a desk, whose group before it counts as done.
    ///
    /// Waits for the first job; an empty group requests a probe. Nil once closed and empty.
    ///
    /// - Parameter took: the time of the group before; nil where it was not measured.
    func next(at desk: Int, took: Duration? = nil) async -> [Job]? {
        finish(at: desk, took)
        while true {
            let (group, isOver, isProbe) = state.withLock { state in
                let items = state.line.take(at: desk)
                state.weights[desk] = items.reduce(0) { $0 + $1.weight }
                state.shards[desk] = items.first?.shard
                // jobs being committed elsewhere may leave more for this desk
                return (
                    state.jobs(of: items), state.isClosed && state.line.isIdle(for: desk),
                    state.probes.remove(desk) != nil
                )
            }
            if !group.isEmpty { return group }
            if isOver { return nil }
            if isProbe { return [] }
            await withCheckedContinuation { continuation in
                let mustWait = state.withLock { state in
                    guard state.line.isEmpty(at: desk), !(state.isClosed && state.line.isIdle(for: desk)) else {
                        return false
                    }
                    state.consumers[desk] = continuation
                    return true
                }
                if !mustWait { continuation.resume() }
            }
        }
    }

    /// The shard of a desk's current group; nil without shards.
    func shard(at desk: Int) -> Int? { state.withLock { $0.shards[desk] } }

    /// Ends the group of a desk: another desk may have work of its organizations.
    private func finish(at desk: Int, _ took: Duration?) {
        let consumers = state.withLock { state in
            let woken = state.line.finish(at: desk, took: took.map { $0 / .microseconds(1) })
            state.deskCount.remove(state.weights.removeValue(forKey: desk) ?? 0)
            // at the end every consumer checks whether anything is left
            let desks = state.isClosed ? Set(state.consumers.keys) : woken
            return desks.compactMap { state.consumers.removeValue(forKey: $0) }
        }
        for consumer in consumers { consumer.resume() }
    }

    /// Removes the jobs that have waited for longer than `age`.
    func expired(_ age: Duration, now: ContinuousClock.Instant) -> [Job] {
        state.withLock { state in
            let late = Set(state.jobs.lazy.filter { now - $0.value.enqueuedAt >= age }.map(\.key))
            guard !late.isEmpty else { return [] }
            return state.giveUp(state.line.remove { late.contains($0.ticket) })
        }
    }

    /// Removes all jobs that wait for a desk.
    ///
    /// - Parameter organization: removes only jobs of the shard that has this organization's rows; nil removes all.
    func drain(at desk: Int, besides organization: UUID? = nil) -> [Job] {
        state.withLock { state in state.giveUp(state.line.drain(at: desk, besides: organization)) }
    }

    /// Accepts no more jobs; waiting jobs are still handed out.
    package func close() {
        let consumers = state.withLock { state in
            state.isClosed = true
            defer { state.consumers = [:] }
            return Array(state.consumers.values)
        }
        for consumer in consumers { consumer.resume() }
    }
}
