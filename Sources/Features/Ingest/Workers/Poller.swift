import Foundation
package import Logging
import ServiceLifecycle
import SyncDispatch
package import SyncModel
package import SyncStore
import Synchronization

/// Polls organizations' APIs for changes.
///
/// It finds sources that are due, and one worker of all replicas at a time polls each. Organizations take turns, and no
/// organization has more than its share of the places. Hosts that respond slowly cannot take all places: see
/// ``HostPlaces``.
///
/// It has nothing to do with the circuits of requests that are forwarded: neither stops the other.
package final class Poller: Service {
    package struct Configuration: Sendable {
        /// Sources that this replica polls at the same time, without those that wait for a slow host.
        package var places = 16
        /// Sources in all for each place, with those that wait for a slow host.
        package var requestsPerPlace = 4
        /// Of these, for one organization.
        package var placesOfOrganization = 4
        /// Pages after which a source releases its place.
        package var pages = 20
        /// Or seconds, between two pages.
        package var turn: Double = 60
        /// How often the database is searched, in seconds, before jitter.
        package var pollInterval: Double = 1
        /// The interval at which a worker renews its lease, in seconds.
        package var renewInterval = SourceStore.renewSeconds
        /// Attempts of a batch that there is no room for, before the source releases its place.
        package var patience = 5
        /// The pause before the second try, in seconds; later pauses double.
        package var retryPause = 0.5
        /// Those of a push; a page is as long as one may be.
        package var limits = IntakeLimits()
        /// The poller's clock.
        package var now: TimeSource

        package init(now: @escaping TimeSource) {
            self.now = now
        }
    }

    private let store: Store
    private let upstream: any UpstreamReader
    private let configuration: Configuration
    private let logger: Logger
    private let metrics = SourceMetrics()
    private let running: RunningHosts<SourceKey>
    private let clock: HostClock<SourceKey>
    private let bell = Doorbell()
    /// Whether a source waits for a place.
    private let isFull = Atomic(false)
    private let isDraining = Atomic(false)
    private let inFlight = Mutex([UUID: Task<FetchAnswer, Never>]())

    package init(store: Store, upstream: any UpstreamReader, configuration: Configuration, logger: Logger) {
        self.store = store
        self.upstream = upstream
        self.configuration = configuration
        self.logger = logger
        let requests = configuration.places * configuration.requestsPerPlace
        let running = RunningHosts<SourceKey>(places: configuration.places, requests: requests)
        self.running = running
        clock = HostClock { event in running.withLock { $0.apply(event) } }
    }

    /// Sources that are worked on.
    package var current: Int { running.withLock { $0.count } }
    /// Of these, those that await an answer, and occupy no place.
    package var awaiting: Int { running.withLock { $0.awaiting } }

    // MARK: - Running

    /// Polls until graceful shutdown.
    ///
    /// Then requests in progress are given up, because they change nothing, the events already read are ingested, and
    /// every source is released.
    package func run() async throws {
        await withTaskGroup(of: Void.self) { group in
            group.addTask { await self.keepPolling() }
            group.addTask { await cancelWhenGracefulShutdown { await self.keepRinging() } }
            group.addTask { await cancelWhenGracefulShutdown { await self.clock.run() } }
            group.addTask {
                try? await gracefulShutdown()
                self.drain()
            }
            await group.waitForAll()
        }
    }

    private var ends: Bool { isDraining.load(ordering: .relaxed) || Task.isCancelled }

    private func drain() {
        isDraining.store(true, ordering: .relaxed)
        for task in inFlight.withLock({ Array($0.values) }) { task.cancel() }
        bell.ring()
    }

    private func keepRinging() async {
        while !Task.isCancelled {
            bell.ring()
            try? await Task.sleep(for: .seconds(configuration.pollInterval * Double.random(in: 0.8...1.2)))
        }
    }

    private func keepPolling() async {
        await withDiscardingTaskGroup { tasks in
            for await _ in bell.rings {
                if ends { break }
                await look(&tasks)
            }
        }
    }

    private func look(_ tasks: inout DiscardingTaskGroup) async {
        var place: SourceStore.Place?
        repeat {
            guard running.withLock({ $0.hasRoom(isSlow: false) }) else {
                return isFull.store(true, ordering: .relaxed)
            }
            do throws(Problem) {
                let found = try await store.sources.due(.poller, after: place)
                place = found.next
                for source in choose(found.due) {
                    tasks.addTask { await self.work(on: source) }
                }
            } catch {
                return logger.debug("Due sources could not be queried", metadata: ["reason": "\(error.detail)"])
            }
        } while place != nil && !ends
    }

    /// Assigns places to sources, organization by organization; within one, in the given order.
    func choose(_ sources: [SourceKey]) -> [SourceKey] {
        running.withLock { running in
            let candidates = sources.reversed().filter { !running.holds($0) }
            let waiting = Dictionary(grouping: candidates, by: \.organization)
            let (chosen, isCrowded) = running.choose(waiting, atMost: configuration.placesOfOrganization)
            if isCrowded { isFull.store(true, ordering: .relaxed) }
            return chosen
        }
    }

    private func work(on source: SourceKey) async {
        var goesOn = false
        do throws(Problem) {
            if let claim = try await store.sources.claim(source, .poller) { goesOn = await hold(claim) }
        } catch {
            logger.debug("A source was not claimed", metadata: Self.metadata(source, ["reason": "\(error.detail)"]))
        }
        running.withLock { $0.release(source) }
        // a source that waits for the place gets it immediately, and so does a list that continues
        if goesOn || isFull.exchange(false, ordering: .relaxed) { bell.ring() }
    }

    // MARK: - A source

    /// Works on a source for as long as this worker has it.
    ///
    /// - Returns: whether there is more to be read immediately.
    private func hold(_ claim: ClaimedSource) async -> Bool {
        await withTaskGroup(of: Bool?.self) { group in
            group.addTask { await self.poll(claim) }
            group.addTask {
                await self.keepRenewing(claim)
                return nil
            }
            let first = await group.next() ?? nil
            group.cancelAll()
            let second = await group.next() ?? nil
            return first ?? second ?? false
        }
    }

    /// Ends when the source is another's, or the task is cancelled.
    private func keepRenewing(_ claim: ClaimedSource) async {
        var until = claim.leasedUntil
        while !Task.isCancelled {
            try? await Task.sleep(for: .seconds(configuration.renewInterval))
            if Task.isCancelled { return }
            do throws(Problem) {
                guard let renewed = try await store.sources.renew(claim) else { return }
                until = renewed
            } catch {
                // until the lease ends, no other worker may have the source
                if configuration.now() >= until { return }
            }
        }
    }

    /// - Returns: whether there is more to be read immediately; nil if the source is left to the next worker.
    private func poll(_ claim: ClaimedSource) async -> Bool? {
        let run = PollRun(
            claim: claim,
            store: store,
            configuration: configuration,
            metrics: metrics,
            logger: logger,
            isEnding: { self.isDraining.load(ordering: .relaxed) },
            fetch: { await self.fetch($0, from: $1, for: claim.key) }
        )
        let result = await run.result()
        guard let result, await written(result.outcome, claim) else {
            // ended by force: another worker continues when the lease has expired
            if isDraining.load(ordering: .relaxed) { return nil }
            metrics.run(.poller, .lost)
            logger.warning("A source's lease was lost", metadata: Self.metadata(claim.key))
            return nil
        }
        note(result, claim)
        return result.goesOn
    }

    /// Writes the result of a source's run; retries while the database is unavailable.
    private func written(_ outcome: SourceOutcome, _ claim: ClaimedSource) async -> Bool {
        for attempt in 1... {
            do throws(Problem) {
                return try await store.sources.finish(claim, outcome)
            } catch {
                if attempt >= 20 || ends && attempt >= 5 { break }
                try? await Task.sleep(for: .milliseconds(Int.random(in: 250...750)))
            }
        }
        return false
    }

    /// Sends a request; given up when the gateway ends.
    private func fetch(
        _ request: UpstreamFetch,
        from settings: UpstreamSettings,
        for source: SourceKey
    ) async -> FetchAnswer {
        let began = ContinuousClock.now
        let ticket = clock.begin(source, of: source.organization, bytes: 0, at: began)
        defer { clock.end(ticket, took: .now - began) }
        let task = Task { await upstream.fetch(request, from: settings) }
        let id = UUID()
        inFlight.withLock { $0[id] = task }
        defer { inFlight.withLock { $0[id] = nil } }
        if isDraining.load(ordering: .relaxed) { task.cancel() }
        return await withTaskCancellationHandler {
            await task.value
        } onCancel: {
            task.cancel()
        }
    }

    // MARK: - Metrics and logs

    private func note(_ result: PollRun.Result, _ claim: ClaimedSource) {
        switch result.outcome {
        case .succeeded:
            metrics.run(.poller, .succeeded)
            if claim.failureCount > 0 {
                let count: Logger.Metadata = ["failures": "\(claim.failureCount)"]
                logger.notice("A source can be polled again", metadata: Self.metadata(claim.key, count))
            }
        case .failed(let error, let retryAt, _):
            metrics.run(.poller, .failed)
            logger.warning(
                "A source could not be polled",
                metadata: Self.metadata(claim.key, ["reason": "\(error)", "retry_at": "\(retryAt.rfc3339)"])
            )
        case .released: break
        }
        if let refusal = result.firstRefusal {
            logger.warning(
                "Items of a source were rejected",
                metadata: Self.metadata(claim.key, ["count": "\(result.refused)", "reason": "\(refusal)"])
            )
        }
        if let reason = result.postponement {
            logger.warning("A source waits", metadata: Self.metadata(claim.key, ["reason": "\(reason)"]))
        }
    }

    private static func metadata(_ source: SourceKey, _ more: Logger.Metadata = [:]) -> Logger.Metadata {
        var metadata = more
        metadata["organization"] = "\(source.organization.lowercasedText)"
        metadata["source"] = "\(source.name)"
        return metadata
    }
}
