package import Foundation
package import Logging
import ServiceLifecycle
package import SyncModel
package import SyncStore
import Synchronization

/// Finds lanes that are due and has them run: those that this process made ready, from memory; all others by looking
/// into the database now and then. Any number of replicas do so side by side.
package final class Dispatcher: Service {
    /// Lanes that one look into the database brings.
    private static let pollLimit = 1_000

    private let configuration: DispatchConfiguration
    private let store: Store
    private let inFlight: InFlightRequests
    private let circuits: Circuits
    private let logger: Logger
    private let inbox = Inbox()
    let isDraining = Atomic(false)
    /// What runners may ask of the scheduler, which is the loop's own.
    private let crowd = Mutex(LaneScheduler.Crowd())
    /// What is known of how many lanes of an organization may run.
    private let caps = Mutex([UUID: Int]())
    private let counts = Mutex(Counts())
    private let lastCensus = Mutex<LaneStore.Census?>(nil)
    private let lastOrganizations = Mutex<[LaneStore.OrganizationCensus]>([])
    private let lastTurn = Mutex<ContinuousClock.Instant?>(nil)
    /// The process, as leases name it.
    package let worker = UUID()

    /// What the dispatcher has in hand.
    package struct Counts: Sendable, Hashable {
        package var running = 0
        /// Lanes that are due and wait for a place.
        package var waiting = 0
        /// Upstreams to which nothing is sent.
        package var openCircuits = 0
    }

    package init(
        store: Store,
        upstream: any Upstream,
        configuration: DispatchConfiguration,
        logger: Logger
    ) {
        self.store = store
        inFlight = InFlightRequests(upstream)
        self.configuration = configuration
        self.logger = logger
        circuits = Circuits(now: configuration.now)
    }

    package var current: Counts {
        var counts = counts.withLock { $0 }
        counts.openCircuits = circuits.openCount
        return counts
    }

    /// How lanes stood when they were last counted; nil before the first time.
    package var census: LaneStore.Census? { lastCensus.withLock { $0 } }

    /// How the lanes of organizations stood when they were last counted, as many as the settings say, those first whose
    /// mutations have waited longest; and one more, if there are others, whose mutations have waited longest of those.
    package var organizations: [LaneStore.OrganizationCensus] { lastOrganizations.withLock { $0 } }

    /// Why lanes are not run; empty when they are.
    package var reasons: [String] {
        let last = lastTurn.withLock { $0 }
        guard let last else { return ["the dispatcher has not started"] }
        return .now - last > .seconds(30) ? ["the dispatcher does not react"] : []
    }

    /// Begins nothing more; what is under way goes on. Graceful shutdown does so too, but later.
    package func drain() {
        isDraining.store(true, ordering: .relaxed)
        inbox.post { $0.isClosed = true }
    }

    /// Looks into the database at once.
    package func poll() {
        inbox.post { $0.mustPoll = true }
    }

    /// Runs lanes until graceful shutdown; then what is under way is finished, or given up when that takes long, and
    /// every lane is given back.
    package func run() async throws {
        store.notifier.whenReady { [inbox] in inbox.post(ready: $0) }
        store.notifier.whenDueElsewhere { [inbox] in inbox.post { $0.mustPoll = true } }
        defer {
            store.notifier.whenReady(nil)
            store.notifier.whenDueElsewhere(nil)
        }
        await withTaskGroup(of: Void.self) { group in
            group.addTask { await self.keepPolling() }
            group.addTask { await self.keepCounting() }
            group.addTask {
                await withDiscardingTaskGroup { tasks in await self.loop(&tasks) }
            }
            group.addTask {
                try? await gracefulShutdown()
                self.drain()
            }
            // polling and counting never end by themselves; the loop does, and with it the rest
            await group.next()
            await group.next()
            group.cancelAll()
        }
    }

    // MARK: - The loop

    private func loop(_ tasks: inout DiscardingTaskGroup) async {
        var scheduler = LaneScheduler(capacity: configuration.maximumLanes)
        let runner = runner()
        var isPolling = false
        var isClosed = false
        var deadline: Task<Void, Never>?
        while true {
            let messages = await inbox.next()
            lastTurn.withLock { $0 = .now }
            take(messages, into: &scheduler)
            isClosed = isClosed || messages.isClosed
            if isClosed {
                if scheduler.runningCount == 0 { break }
                if deadline == nil { deadline = giveUpLater() }
                report(scheduler)
                continue
            }
            if messages.due != nil { isPolling = false }
            if messages.mustPoll, !isPolling {
                isPolling = true
                let (occupied, running) = (scheduler.occupied, running(scheduler))
                tasks.addTask { await self.search(excluding: occupied, running: running) }
            }
            while let lane = scheduler.next() {
                tasks.addTask { [inbox] in
                    let isDue = await runner.run(lane)
                    inbox.post { $0.finished.append(Inbox.Finished(lane: lane, isDue: isDue)) }
                }
            }
            for (organization, room) in scheduler.hungry {
                scheduler.setMayHaveMore(organization, false)
                let running = running(scheduler)
                tasks.addTask { await self.search(organization, room, running: running) }
            }
            if scheduler.isFull { store.notifier.tellDue() }
            report(scheduler)
        }
        deadline?.cancel()
        report(scheduler)
        // others need not wait for their next look into the database
        store.notifier.tellDue()
    }

    private func take(_ messages: Inbox.Messages, into scheduler: inout LaneScheduler) {
        for (organization, cap) in messages.caps { scheduler.setCap(organization, cap) }
        for finished in messages.finished { scheduler.finish(finished.lane, isDue: finished.isDue) }
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

    /// Lanes that are not to be put off, since they are about to be claimed: one of them may be the one that tries an
    /// upstream again. Of interest only while a circuit is open.
    private func running(_ scheduler: LaneScheduler) -> Set<LaneKey> {
        circuits.openCount == 0 ? [] : scheduler.running
    }

    private func report(_ scheduler: LaneScheduler) {
        counts.withLock { $0 = Counts(running: scheduler.runningCount, waiting: scheduler.waitingCount) }
        crowd.withLock { $0 = scheduler.crowd }
    }

    private func runner() -> LaneRunner {
        LaneRunner(
            store: store.lanes,
            inFlight: inFlight,
            circuits: circuits,
            planner: OutcomePlanner(policy: configuration.policy),
            metrics: DispatchMetrics(),
            now: configuration.now,
            burst: configuration.burst,
            worker: worker,
            logger: logger,
            isDraining: { [self] in isDraining.load(ordering: .relaxed) },
            isCrowded: { [self] organization in crowd.withLock { $0.includes(organization) } },
            noteCap: { [self] organization, cap in noteCap(organization, cap) }
        )
    }

    private func noteCap(_ organization: UUID, _ cap: Int) {
        let isNew = caps.withLock { caps in
            guard caps[organization] != cap else { return false }
            caps[organization] = cap
            return true
        }
        if isNew { inbox.post { $0.caps[organization] = cap } }
    }

    /// Requests that take too long once the gateway shuts down are given up; what came of them is still written.
    private func giveUpLater() -> Task<Void, Never> {
        Task { [inFlight, configuration] in
            try? await Task.sleep(for: .seconds(configuration.grace))
            if !Task.isCancelled { inFlight.giveUp() }
        }
    }

    // MARK: - Looking into the database

    private func keepPolling() async {
        while !Task.isCancelled {
            poll()
            // jitter keeps replicas from looking at the same moment
            let pause = configuration.pollInterval * Double.random(in: 0.8...1.2)
            try? await Task.sleep(for: .seconds(pause))
        }
    }

    private func keepCounting() async {
        while !Task.isCancelled {
            let census = try? await store.lanes.census(at: configuration.now())
            if let census { lastCensus.withLock { $0 = census } }
            if configuration.censusOrganizations > 0,
                let organizations = try? await store.lanes.census(organizations: configuration.censusOrganizations + 1)
            {
                lastOrganizations.withLock { $0 = organizations }
            }
            try? await Task.sleep(for: .seconds(configuration.censusInterval))
        }
    }

    private func search(excluding organizations: [UUID], running: Set<LaneKey>) async {
        var found = Inbox.Due(lanes: [], isAll: true)
        var mustLookAgain = false
        do throws(Problem) {
            let now = configuration.now()
            let due = try await store.lanes.due(at: now, excluding: organizations, limit: Self.pollLimit)
            let (lanes, postponed) = sort(due, running: running)
            try await store.lanes.postpone(postponed, now: now)
            found = Inbox.Due(lanes: lanes, isAll: due.count < Self.pollLimit)
            // those that were put off may have hidden others'
            mustLookAgain = !found.isAll && !postponed.isEmpty
        } catch {
            logger.debug("Lanes cannot be looked for", metadata: ["reason": "\(error.detail)"])
        }
        inbox.post { [found, mustLookAgain] messages in
            messages.due = found
            if mustLookAgain { messages.mustPoll = true }
        }
    }

    /// Lanes of an upstream that takes nothing are put off instead of being claimed for nothing; once it may be tried
    /// again, one of them is taken to try it: one that did not try in vain before, if there is any.
    private func sort(
        _ due: [LaneKey],
        running: Set<LaneKey>
    ) -> (lanes: [LaneKey], postponed: [(lane: LaneKey, until: Timestamp)]) {
        var lanes: [LaneKey] = []
        var postponed: [(lane: LaneKey, until: Timestamp)] = []
        var probed: Set<UUID> = []
        for lane in due where !running.contains(lane) {
            let organization = lane.organization
            if !circuits.isOpen(organization) {
                lanes.append(lane)
            } else if circuits.waits(lane) == nil, probed.insert(organization).inserted {
                lanes.append(lane)
            } else {
                let until = circuits.waits(lane) ?? configuration.now()
                postponed.append((lane, until.adding(seconds: .random(in: 0.5...1.5))))
            }
        }
        return (lanes, postponed)
    }

    private func search(_ organization: UUID, _ limit: Int, running: Set<LaneKey>) async {
        do throws(Problem) {
            let now = configuration.now()
            let due = try await store.lanes.due(at: now, in: organization, limit: limit)
            let (lanes, postponed) = sort(due, running: running)
            try await store.lanes.postpone(postponed, now: now)
            let found = Inbox.Found(organization: organization, lanes: lanes, isAll: due.count < limit)
            inbox.post { $0.found.append(found) }
        } catch {
            logger.debug("Lanes cannot be looked for", metadata: ["reason": "\(error.detail)"])
        }
    }
}
