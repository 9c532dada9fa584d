package import FoundationEssentials
package import Logging
import ServiceLifecycle
package import SyncModel
package import SyncStore
import Synchronization

/// Finds due lanes and runs them.
///
/// The dispatcher receives the lanes that this process made ready, and polls the database for all other lanes. Any
/// number of replicas may run concurrently.
package final class Dispatcher: Service {
    private let configuration: DispatchConfiguration
    private let store: Store
    private let inFlight: InFlightRequests
    private let circuits: Circuits
    private let logger: Logger
    private let recordUpstream: @Sendable (UUID, _ isDown: Bool, _ reason: String?) -> Void
    private let inbox = Inbox()
    private let search: LaneSearch
    private let clock: HostClock<LaneKey>
    private let shares: LaneShares
    private let wakes = LaneWakes()
    private let refusedBatches = RefusedBatches()
    let isDraining = Atomic(false)
    private let state = Mutex(DispatcherState())
    /// This process' id, which identifies the owner of a lease.
    package let worker: UUID

    /// The dispatcher's counts, for metrics.
    package struct Counts: Sendable, Hashable {
        package var running = 0
        /// The number of due lanes that wait for a place (``HostPlaces``).
        package var waiting = 0
        /// The number of running lanes that have a place.
        package var working = 0
        /// The number of running lanes that await their upstream's response, and have no place.
        package var awaiting = 0
        /// The number of running lanes of organizations whose upstreams are slow.
        package var heldBySlow = 0
        /// The number of upstreams whose circuit is open.
        package var openCircuits = 0
    }

    /// - Parameters:
    ///   - worker: the gateway's id, which identifies the owner of a lease.
    ///   - recordUpstream: called after each request. Its arguments are the organization, whether its upstream is down,
    ///     and the reason.
    package init(
        store: Store,
        upstream: any Upstream,
        configuration: DispatchConfiguration,
        logger: Logger,
        worker: UUID = UUID(),
        recordUpstream: @escaping @Sendable (UUID, _ isDown: Bool, _ reason: String?) -> Void = { _, _, _ in }
    ) {
        self.store = store
        self.worker = worker
        self.recordUpstream = recordUpstream
        inFlight = InFlightRequests(upstream)
        self.configuration = configuration
        self.logger = logger
        circuits = Circuits(now: configuration.now)
        let requests = HostPlaces<LaneKey>.Limits.requests(places: configuration.maximumLanes)
        shares = LaneShares(limit: configuration.maximumRequests ?? requests) { [inbox] in
            inbox.post { $0.hasFreeRequests = true }
        }
        clock = HostClock { [inbox] event in inbox.post { $0.requests.append(event) } }
        search = LaneSearch(
            store: store.lanes,
            circuits: circuits,
            inbox: inbox,
            now: configuration.now,
            logger: logger
        )
    }

    package var current: Counts {
        let openCircuits = circuits.openCount
        return state.withLock { state in
            Counts(
                running: state.running,
                waiting: state.waiting,
                working: state.working,
                awaiting: state.awaiting,
                heldBySlow: state.heldBySlow,
                openCircuits: openCircuits
            )
        }
    }

    /// The number of requests in flight, by organization. A batch is one request.
    package var requestsInFlight: [UUID: Int] { inFlight.counts }

    /// The number of bytes that are reserved for request bodies, and the number of requests that wait for such memory.
    package var requestMemory: (held: Int, waiting: Int) { (inFlight.heldBytes, inFlight.waiting) }

    /// Returns the reports of this replica's open circuits, beginning with the circuit that has been open longest.
    package func openCircuits(limit: Int) -> [CircuitReport] { circuits.reports(limit: limit) }

    /// The reasons why lanes are not run; empty if they run.
    package var reasons: [String] { state.withLock { $0.reasons(at: .now) } }

    /// Stops starting lanes, while work in progress continues. A graceful shutdown has the same effect, but begins
    /// later.
    package func drain() {
        isDraining.store(true, ordering: .relaxed)
        inbox.post { $0.isClosed = true }
    }

    /// Polls the database immediately.
    package func poll() {
        inbox.post { $0.mustPoll = true }
    }

    /// Runs lanes until graceful shutdown.
    ///
    /// During the shutdown, requests in progress are completed, or cancelled after a time limit, and every lane is
    /// released.
    package func run() async throws {
        store.notifier.whenReady { [inbox] in inbox.post(ready: $0) }
        store.notifier.whenDueElsewhere { [inbox] in inbox.post { $0.mustPoll = true } }
        defer {
            store.notifier.whenReady(nil)
            store.notifier.whenDueElsewhere(nil)
        }
        await withTaskGroup(of: Void.self) { group in
            group.addTask { await self.runPollLoop() }
            group.addTask { await self.clock.run() }
            group.addTask {
                await withDiscardingTaskGroup { tasks in await self.loop(&tasks) }
            }
            group.addTask {
                try? await gracefulShutdown()
                self.drain()
            }
            // the polling task and the clock's task do not end by themselves, and are cancelled after the loop has
            // ended
            await group.next()
            await group.next()
            group.cancelAll()
        }
    }

    // MARK: - The loop

    private func loop(_ tasks: inout DiscardingTaskGroup) async {
        var scheduler = LaneScheduler(
            capacity: configuration.maximumLanes,
            requests: configuration.maximumRequests,
            shares: shares
        )
        let runner = runner()
        var isPolling = false
        // organizations that incomplete searches have found; the next search excludes these organizations
        var found: Set<UUID> = []
        var isClosed = false
        var deadline: Task<Void, Never>?
        while true {
            let messages = await inbox.next()
            state.withLock { $0.beginTurn(at: .now) }
            take(messages, into: &scheduler)
            isClosed = isClosed || messages.isClosed
            if isClosed {
                if scheduler.runningCount == 0 { break }
                if deadline == nil { deadline = giveUpLater() }
                report(scheduler)
                continue
            }
            var mustPoll = messages.mustPoll
            if let due = messages.due {
                isPolling = false
                if due.isAll || due.lanes.isEmpty {
                    found = []
                } else {
                    // the limit of the search may have cut off lanes of other organizations
                    found.formUnion(due.lanes.map(\.organization))
                    mustPoll = true
                }
            }
            if mustPoll, !isPolling {
                isPolling = true
                let excluded = Array(found.union(scheduler.occupied))
                let running = running(scheduler)
                tasks.addTask { [search] in await search.search(excluding: excluded, running: running) }
            }
            while let lane = scheduler.next() {
                tasks.addTask { [inbox] in
                    let isDue = await runner.run(lane)
                    inbox.post { $0.finished.append(Inbox.Finished(lane: lane, isDue: isDue)) }
                }
            }
            for (organization, room) in scheduler.searchable {
                scheduler.setMayHaveMore(organization, false)
                let running = running(scheduler)
                tasks.addTask { [search] in await search.search(organization, room, running: running) }
            }
            if scheduler.isFull { store.notifier.notifyDue() }
            report(scheduler)
        }
        deadline?.cancel()
        report(scheduler)
        // with this hint, other replicas can claim the released lanes before their next search
        store.notifier.notifyDue()
    }

    private func take(_ messages: Inbox.Messages, into scheduler: inout LaneScheduler) {
        for (organization, cap) in messages.caps { scheduler.setCap(organization, cap) }
        for finished in messages.finished { scheduler.finish(finished.lane, isDue: finished.isDue) }
        for event in messages.requests { scheduler.apply(event) }
        wakes.wake(messages.ready)
        for lane in messages.ready { scheduler.add(lane) }
        for found in messages.found {
            scheduler.setMayHaveMore(found.organization, !found.isAll)
            for lane in found.lanes { scheduler.add(lane) }
        }
        if let due = messages.due {
            for lane in due.lanes { scheduler.add(lane) }
            if !due.isAll {
                for organization in Set(due.lanes.map(\.organization)) { scheduler.setMayHaveMore(organization, true) }
            }
        }
    }

    /// Returns the running lanes. A search (``LaneSearch``) must not postpone them, because a runner that has just
    /// started is about to claim its lane.
    ///
    /// One of these lanes may send the next probe of its upstream. While no circuit is open, no lane is postponed, so
    /// the result is empty.
    private func running(_ scheduler: LaneScheduler) -> Set<LaneKey> {
        circuits.openCount == 0 ? [] : scheduler.running
    }

    private func report(_ scheduler: LaneScheduler) {
        state.withLock { $0.report(scheduler) }
    }

    private func runner() -> LaneRunner {
        LaneRunner(
            store: store.lanes,
            inFlight: inFlight,
            circuits: circuits,
            clock: clock,
            configuration: configuration,
            worker: worker,
            logger: logger,
            surroundings: LaneRunner.Surroundings(
                isDraining: { [self] in isDraining.load(ordering: .relaxed) },
                isCrowded: { [self] organization in state.withLock { $0.isCrowded(organization) } },
                recordUpstream: recordUpstream,
                noteCap: { [self] organization, cap in noteCap(organization, cap) },
                shares: shares,
                wakes: wakes,
                refusedBatches: refusedBatches,
                retry: { [inbox] lane, seconds in
                    Task {
                        try? await Task.sleep(for: .seconds(seconds))
                        inbox.post(ready: [lane])
                    }
                }
            )
        )
    }

    private func noteCap(_ organization: UUID, _ cap: Int) {
        if state.withLock({ $0.noteCap(organization, cap) }) { inbox.post { $0.caps[organization] = cap } }
    }

    /// Cancels requests that are still in progress ``DispatchConfiguration/grace`` seconds after the shutdown began.
    /// The outcomes of these requests are still written.
    private func giveUpLater() -> Task<Void, Never> {
        Task { [inFlight, configuration] in
            try? await Task.sleep(for: .seconds(configuration.grace))
            if !Task.isCancelled { inFlight.giveUp() }
        }
    }

    private func runPollLoop() async {
        while !Task.isCancelled {
            poll()
            // jitter keeps replicas from searching at the same moment
            let pause = configuration.pollInterval * Double.random(in: 0.8...1.2)
            try? await Task.sleep(for: .seconds(pause))
        }
    }
}

// MARK: - DispatcherState

/// The part of the dispatcher's state that other threads may read. Only the dispatcher's loop may use the scheduler.
struct DispatcherState {
    private(set) var running = 0
    private(set) var waiting = 0
    private(set) var working = 0
    private(set) var awaiting = 0
    private(set) var heldBySlow = 0
    private var lastTurn: ContinuousClock.Instant?
    private var contention = LaneScheduler.Contention()
    /// The known limits of organizations' running lanes.
    private var caps: [UUID: Int] = [:]

    /// Records that the loop begins to process messages.
    mutating func beginTurn(at now: ContinuousClock.Instant) { lastTurn = now }

    /// Records the state after the loop has assigned places to lanes.
    mutating func report(_ scheduler: LaneScheduler) {
        running = scheduler.runningCount
        waiting = scheduler.waitingCount
        working = scheduler.hosts.working
        awaiting = scheduler.hosts.awaiting
        heldBySlow = scheduler.hosts.heldBySlow
        contention = scheduler.contention
    }

    /// Records an organization's limit of running lanes, which a runner has read.
    ///
    /// - Returns: whether the limit has changed.
    mutating func noteCap(_ organization: UUID, _ cap: Int) -> Bool {
        caps.updateValue(cap, forKey: organization) != cap
    }

    /// Whether other lanes wait for the place of a lane of the organization.
    func isCrowded(_ organization: UUID) -> Bool { contention.includes(organization) }

    /// Returns the reasons why lanes are not run; empty if they run.
    func reasons(at now: ContinuousClock.Instant) -> [String] {
        guard let lastTurn else { return ["the dispatcher has not started"] }
        return now - lastTurn > .seconds(30) ? ["the dispatcher does not respond"] : []
    }
}
