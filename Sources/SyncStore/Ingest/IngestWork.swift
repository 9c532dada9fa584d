import FoundationEssentials
import GroupCommit
import JSONText
import Logging
import Postgres
import SyncModel
import Synchronization

/// Commits groups of events.
///
/// A group takes two round trips. The first locks the entities and reads their known state for the plans. The second
/// writes all changes and commits.
struct IngestWork: GroupTransaction {
    let catalog: Catalog
    let notifier: ChangeNotifier
    let metrics: IngestMetrics
    /// The sources whose latest batches had much work.
    let heavyLanes: HeavyLanes
    private let grantMetrics = ChannelMetrics()
    let now: TimeSource
    let failure: StoreFailure

    func commit(_ group: [IngestJob], on connection: Connection, _ context: RetryContext) async throws {
        let moment = now()
        var entries: [UUID: Catalog.Entry] = [:]
        var seals: [UUID: Seal] = [:]
        for id in Set(group.map(\.organization)) {
            let seal = try await catalog.seal(of: id)
            entries[id] = try await catalog.entry(id)
            seals[id] = context.hasNewestKeys ? seal.withoutKeyRefresh : seal
        }
        // missing keys are created only for values that are written, not for each user that an event names
        try await catalog.userKeys.fetch(owners(group, entries)) { seals[$0] }
        var steps = IngestGroup(
            group,
            entries: entries,
            seals: SealTable(seals),
            now: moment,
            takesHeavy: context.takesHeavy
        )
        try steps.read(await connection.run(steps.readQueries))
        steps.decide()
        if !steps.heavy.isEmpty {
            heavyLanes.insert(steps.heavy)
            throw CommitFailure.heavy(steps.heavy)
        }
        heavyLanes.remove(steps.light)
        let writes = try steps.writeQueries
        let results = try await connection.run(writes)
        grantMetrics.count(writes, results)
        let feeds = try steps.feeds(results)
        finish(group, steps, feeds)
    }

    /// The users whose keys seal the documents of the events.
    private func owners(_ group: [IngestJob], _ entries: [UUID: Catalog.Entry]) -> [LaneKey] {
        group.flatMap { job -> [LaneKey] in
            guard let entry = entries[job.organization] else { return [] }
            return job.events.compactMap { event in
                guard let user = entry.seal.user(ofType: event.entityType, owner: event.owner) else { return nil }
                return LaneKey(organization: job.organization, user: user)
            }
        }
    }

    func problem(_ error: any Error) -> Problem { failure.problem(error, doing: "commit events") }

    func isStale(_ error: PostgresError) -> Bool {
        error.statement == GroupStatements.useTypes.name && error.sqlState == "23502"
    }

    func fetchMissingKeys(_ error: SealError) async throws { try await catalog.userKeys.fetchMissingKeys(error) }

    func invalidateCache(_ group: [IngestJob]) {
        for job in group { catalog.invalidate(job.organization) }
    }

    private func finish(_ group: [IngestJob], _ steps: IngestGroup, _ feeds: [UUID: FeedCursor]) {
        for (index, (job, plan)) in zip(group, steps.plans).enumerated() {
            if let problem = steps.problems[index] {
                job.refuse(problem)
                continue
            }
            guard let plan else {
                catalog.invalidate(job.organization)
                job.refuse(Problem(.organizationUnknown, "the organization does not accept events"))
                continue
            }
            metrics.record(plan.verdicts, isRelease: job.source == nil)
            if !plan.typesToRegister.isEmpty { catalog.markInUse(plan.typesToRegister, in: job.organization) }
            if job.source == nil { log(plan, job) }
            let answer = IngestAnswer(verdicts: plan.verdicts, feed: feeds[job.organization]?.text ?? "")
            job.reply.send(.success(answer))
        }
        let changed = steps.changed
        if !changed.isEmpty {
            notifier.changed(changed.map { LaneKey(organization: $0, user: Writer.elsewhere.user) })
        }
    }

    /// Logs the rejection of events that had been parked.
    ///
    /// Without the log, a source could only see this result by sending the event again.
    private func log(_ plan: IngestPlan, _ job: IngestJob) {
        for verdict in plan.verdicts where verdict.result == .refused {
            failure.logger.notice(
                "A parked event was rejected; it can be sent again with the same id",
                metadata: [
                    "organization": "\(job.organization.lowercased)", "event": "\(verdict.eventID ?? "")",
                    "reason": "\(verdict.problem?.detail ?? "")",
                ]
            )
        }
    }
}

/// Signals that parked events of some entities can be evaluated again.
///
/// An event is parked while a request about its entity is in flight. Signals coalesce: the worker receives one wake-up
/// for any number of signals since its last poll.
final class ParkedEntitySignal: Sendable {
    private let entities = Mutex<Set<ParkedKey>>([])
    /// Yields a value when there are entities to take. Supports one reader.
    let signals: AsyncStream<Void>
    private let ring: AsyncStream<Void>.Continuation

    init() {
        (signals, ring) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
    }

    func ring(for woken: Set<ParkedKey>) {
        guard !woken.isEmpty else { return }
        entities.withLock { $0.formUnion(woken) }
        ring.yield()
    }

    /// Wakes the worker without an entity, so that it polls for due events.
    func tick() { ring.yield() }

    func take() -> [ParkedKey] {
        entities.withLock { entities in
            defer { entities = [] }
            return Array(entities)
        }
    }
}
