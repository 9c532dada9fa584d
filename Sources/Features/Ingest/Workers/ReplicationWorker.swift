import Foundation
package import Logging
import Postgres
import ServiceLifecycle
import SyncDispatch
package import SyncModel
package import SyncStore
import Synchronization

/// Follows the logs of organizations' own databases.
///
/// One worker of all replicas at a time follows each source. Organizations take turns for the places, and no
/// organization has more than its share of them. Sources whose last run failed take at most half of the places, so that
/// databases that do not respond cannot take all of them.
package final class ReplicationWorker: Service {
    package struct Configuration: Sendable {
        /// Sources that this replica follows at the same time; each requires two threads and two connections to its
        /// database.
        package var places = 32
        /// Of these, for one organization.
        package var placesOfOrganization = 4
        /// Seconds after which a source releases its place if others wait.
        package var turn: Double = 60
        /// A source that is followed for longer and is due all the same was changed by an operator, in seconds.
        package var settling: Double = 5
        /// How often the database is searched, in seconds, before jitter.
        package var pollInterval: Double = 1
        /// The interval at which progress is written and confirmed.
        package var tick: Duration = .seconds(1)
        /// How long a stream has to last to count as one that works.
        package var proof: Duration = .seconds(3)
        /// The interval at which a worker checks its lease. A disabled source ingests nothing after five seconds.
        package var heldInterval: Duration = .seconds(2)
        /// Attempts to hand in the same event before the source stops with an error and pauses.
        package var attempts = 8
        /// The pause before the second attempt, in seconds; later pauses double, up to ten seconds.
        package var retryPause = 0.25
        /// The interval at which the slot is checked.
        package var watchInterval: Duration = .seconds(20)
        /// Events that are handed on together.
        package var batch = 500
        /// Of documents.
        package var limits = IntakeLimits()
        package var now: TimeSource

        package init(now: @escaping TimeSource) {
            self.now = now
        }
    }

    private struct Work {
        let begun = ContinuousClock.now
        var yields = false
    }

    private let store: Store
    private let door: ReplicationDoor
    private let configuration: Configuration
    private let logger: Logger
    private let metrics = SourceMetrics()
    private let running = Mutex([SourceKey: Work]())
    /// Sources whose last run on this replica failed.
    private let failing = Mutex(Set<SourceKey>())
    private let slots = Mutex([SourceKey: SlotReport]())
    private let isDraining = Atomic(false)

    package init(store: Store, door: ReplicationDoor, configuration: Configuration, logger: Logger) {
        self.store = store
        self.door = door
        self.configuration = configuration
        self.logger = logger
    }

    /// Sources that are followed.
    package var current: Int { running.withLock { $0.count } }

    /// Sources that are to release their places.
    var yielding: [SourceKey] { running.withLock { $0.filter(\.value.yields).map(\.key) } }

    /// The states of the slots that this replica checked in the last minutes.
    package var reports: [SlotReport] {
        let since = configuration.now().adding(seconds: -600)
        return slots.withLock { slots in
            slots = slots.filter { $0.value.checkedAt >= since }
            return Array(slots.values)
        }
    }

    /// Follows until graceful shutdown; then durable events are confirmed, and every source is released.
    package func run() async throws {
        await withTaskGroup(of: Void.self) { group in
            group.addTask { await self.keepFollowing() }
            group.addTask {
                try? await gracefulShutdown()
                self.isDraining.store(true, ordering: .relaxed)
            }
            await group.waitForAll()
        }
    }

    private var ends: Bool { isDraining.load(ordering: .relaxed) || Task.isCancelled }

    private func keepFollowing() async {
        await withDiscardingTaskGroup { tasks in
            var next: SourceStore.Place?
            while !ends {
                do throws(Problem) {
                    let found = try await store.sources.due(.postgres, after: next)
                    next = found.next
                    for source in choose(found.due) { tasks.addTask { await self.work(on: source) } }
                    if next != nil, current < configuration.places { continue }
                } catch {
                    logger.debug("Due sources could not be queried", metadata: ["reason": "\(error.detail)"])
                }
                await cancelWhenGracefulShutdown {
                    try? await Task.sleep(for: .seconds(self.configuration.pollInterval * Double.random(in: 0.8...1.2)))
                }
            }
        }
    }

    /// Assigns places to sources, organization by organization.
    ///
    /// If no place is left, asks the sources that have had theirs for long to release it.
    func choose(_ sources: [SourceKey]) -> [SourceKey] {
        running.withLock { running in
            for source in sources {
                guard let work = running[source], work.begun.duration(to: .now) > .seconds(configuration.settling)
                else { continue }
                running[source]?.yields = true
            }
            let failing = failing.withLock(\.self)
            var failingCount = running.keys.count { failing.contains($0) }
            var chosen: [SourceKey] = []
            var taken = Dictionary(grouping: running.keys, by: \.organization).mapValues(\.count)
            let mostFailing = max(1, configuration.places / 2)
            var new: [SourceKey] = []
            for source in sources where running[source] == nil {
                if failing.contains(source) {
                    guard failingCount < mostFailing else { continue }
                    failingCount += 1
                }
                new.append(source)
            }
            new.reverse()
            // the one that has waited longest is taken first
            var waiting = Dictionary(grouping: new, by: \.organization)
            while running.count < configuration.places, !waiting.isEmpty {
                for organization in waiting.keys.shuffled() where running.count < configuration.places {
                    guard taken[organization, default: 0] < configuration.placesOfOrganization,
                        let source = waiting[organization]?.popLast()
                    else {
                        askForPlaces(of: organization, waiting[organization]?.count ?? 0, &running)
                        waiting[organization] = nil
                        continue
                    }
                    taken[organization, default: 0] += 1
                    running[source] = Work()
                    chosen.append(source)
                }
            }
            let left = waiting.values.reduce(0) { $0 + $1.count }
            if left > 0 {
                askForPlaces(of: nil, left, &running)
                askForExcess(left, waiting: Set(waiting.filter { !$0.value.isEmpty }.keys), &running)
            }
            return chosen
        }
    }

    private func askForPlaces(of organization: UUID?, _ count: Int, _ running: inout [SourceKey: Work]) {
        let old = running.filter { key, work in
            !work.yields && (organization == nil || key.organization == organization)
                && work.begun.duration(to: .now) >= .seconds(configuration.turn)
        }
        let longest = old.sorted { $0.value.begun < $1.value.begun }.prefix(count)
        for (key, _) in longest { running[key]?.yields = true }
    }

    /// Asks organizations that hold more than an equal part for the excess, before the turns of their sources end.
    private func askForExcess(_ count: Int, waiting: Set<UUID>, _ running: inout [SourceKey: Work]) {
        let held = Dictionary(grouping: running, by: \.key.organization)
        let share = max(1, configuration.places / max(1, waiting.union(held.keys).count))
        var remaining = count - running.values.count { $0.yields }
        for works in held.values {
            var excess = works.count { !$0.value.yields } - share
            for (key, work) in works.sorted(by: { $0.value.begun < $1.value.begun })
            where excess > 0 && remaining > 0 && !work.yields {
                guard work.begun.duration(to: .now) >= .seconds(min(configuration.settling, configuration.turn)) else {
                    break
                }
                running[key]?.yields = true
                (excess, remaining) = (excess - 1, remaining - 1)
            }
        }
    }

    // MARK: - Working

    private func work(on source: SourceKey) async {
        defer { running.withLock { _ = $0.removeValue(forKey: source) } }
        do throws(Problem) {
            guard let claim = try await store.sources.claim(source, .postgres),
                case .postgres(let settings) = claim.settings
            else { return }
            let run = ReplicationRun(
                claim,
                settings,
                ReplicationRun.Parts(
                    sources: store.sources,
                    ingest: store.ingest,
                    door: door,
                    configuration: configuration,
                    metrics: metrics,
                    logger: logger,
                    watched: { report in self.slots.withLock { $0[source] = report } },
                    ends: { self.ends || self.running.withLock { $0[source]?.yields ?? true } }
                )
            )
            try await finish(claim, await run.run(), failures: run.isProven ? 0 : Int(claim.failureCount))
        } catch {
            let metadata = Self.metadata(source, ["reason": "\(error.detail)"])
            logger.warning("The end of a source's run was not written", metadata: metadata)
        }
    }

    private func finish(
        _ claim: ClaimedSource,
        _ end: ReplicationRun.End,
        failures: Int
    ) async throws(Problem) {
        let now = configuration.now()
        failing.withLock { failing in
            if case .failed = end { failing.insert(claim.key) } else { failing.remove(claim.key) }
            // the next failures fill it again
            if failing.count > 10_000 { failing = [] }
        }
        switch end {
        case .released:
            metrics.run(.postgres, .succeeded)
            try await write(.released(nextRunAt: now), claim)
        case .lost:
            metrics.run(.postgres, .lost)
            logger.info("A source was left to another worker", metadata: Self.metadata(claim.key))
        case .failed(let trouble):
            metrics.run(.postgres, .failed)
            let pause = Self.pause(failures: failures, isFatal: trouble.isFatal) * Double.random(in: 0.8...1.2)
            let retry = now.adding(seconds: pause)
            logger.warning(
                "Replication of a database failed",
                metadata: Self.metadata(claim.key, ["reason": "\(trouble.words)", "retry_at": "\(retry.rfc3339)"])
            )
            try await write(.failed(error: trouble.words, retryAt: retry), claim)
        }
    }

    /// Writes an outcome, with patience while the gateway's database is unavailable: an operator has to see why a source
    /// stopped.
    private func write(_ outcome: SourceOutcome, _ claim: ClaimedSource) async throws(Problem) {
        for attempt in 1... {
            do throws(Problem) {
                _ = try await store.sources.finish(claim, outcome)
                return
            } catch {
                if attempt >= 60 || ends { throw error }
                try? await Task.sleep(for: .milliseconds(Int.random(in: 500...1_000)))
            }
        }
    }

    /// Seconds until the next attempt: doubled each time, up to one minute, or up to five if an operator has to act
    /// first.
    static func pause(failures: Int, isFatal: Bool) -> Double {
        min(isFatal ? 300 : 60, Double(1 << min(failures, 10)))
    }

    static func metadata(_ source: SourceKey, _ more: Logger.Metadata = [:]) -> Logger.Metadata {
        let names: Logger.Metadata = [
            "organization": "\(source.organization.lowercasedText)", "source": "\(source.name)",
        ]
        return names.merging(more) { $1 }
    }
}
