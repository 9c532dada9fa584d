package import FoundationEssentials
import GroupCommit
import JSONText
import Logging
import Postgres
import ServiceLifecycle
import Spans
package import SyncModel

/// Writes changes that were made outside of Sluice to the feed, in groups.
///
/// This service also evaluates parked events again.
package final class IngestCommit: Service {
    /// The maximum number of due events that one poll finds.
    static let scanLimit: Int64 = 500
    /// The maximum number of an organization's parked events that are evaluated together.
    ///
    /// The limit is divided equally among the entities that are evaluated together: 100 events of one entity, or one
    /// event of each of 100 entities.
    static let releaseLimit = 100
    /// The maximum number of organizations whose events are evaluated at the same time.
    static let releaseWidth = 8

    private let committers: Committers<IngestWork>
    private let catalog: Catalog
    private let pool: Pool
    private let signal: ParkedEntitySignal
    private let pruning: IngestPruning
    private let heavyLanes: HeavyLanes
    private let now: TimeSource
    private let failure: StoreFailure

    /// The error that prevents the committers from writing; nil while they can write.
    var writeFailure: PostgresError? { committers.writeFailure }

    init(
        committers: Committers<IngestWork>,
        catalog: Catalog,
        pool: Pool,
        signal: ParkedEntitySignal,
        pruning: IngestPruning,
        heavyLanes: HeavyLanes,
        now: @escaping TimeSource,
        failure: StoreFailure
    ) {
        self.committers = committers
        self.catalog = catalog
        self.pool = pool
        self.signal = signal
        self.pruning = pruning
        self.heavyLanes = heavyLanes
        self.now = now
        self.failure = failure
    }

    /// Ingests a batch, together with other batches. Returns once the whole batch is durable.
    ///
    /// A batch with much work (``IngestBounds``) is ingested in several transactions, in its order, and other batches
    /// are served between these transactions. If a later transaction fails, the events of the earlier transactions are
    /// already stored. When the sender repeats the batch, these events are duplicates.
    ///
    /// - Throws: the problem that refuses the whole batch; `overloaded` and `store_unavailable` with `retryAfter`;
    ///   `payload_too_large` if the batch alone is too large. A part of the batch may still be small enough
    ///   (``submitHalving(_:from:)``).
    package func submit(_ request: IngestRequest, from bearer: IngestBearer) async throws(Problem)
        -> IngestAnswer
    {
        var answer = try await take(request, from: bearer)
        var idleTurns = 0
        while answer.verdicts.count < request.entries.count {
            let next = answer.verdicts.count
            let end = min(request.entries.count, next + IngestBounds.partEvents)
            let part = try await take(request.part(next..<end), from: bearer)
            answer.verdicts += part.verdicts
            answer.feed = part.feed
            // the result can be empty, because other batches in the transaction may have used up the transaction's
            // limit of reads
            idleTurns = part.verdicts.isEmpty ? idleTurns + 1 : 0
            guard idleTurns < Self.maximumIdleTurns else { throw .overloaded("too many writes are waiting") }
        }
        return answer
    }

    /// Ingests a batch like ``submit(_:from:)``. If the batch is too large, it is ingested in halves.
    ///
    /// - Throws: the errors of ``submit(_:from:)``; `payload_too_large` if a single event is too large.
    package func submitHalving(_ request: IngestRequest, from bearer: IngestBearer) async throws(Problem)
        -> IngestAnswer
    {
        do throws(Problem) {
            return try await submit(request, from: bearer)
        } catch {
            let count = request.entries.count
            guard error.code == .payloadTooLarge, count > 1 else { throw error }
            var answer = try await submitHalving(request.part(0..<(count / 2)), from: bearer)
            let rest = try await submitHalving(request.part((count / 2)..<count), from: bearer)
            answer.verdicts += rest.verdicts
            answer.feed = rest.feed
            return answer
        }
    }

    /// Ingests the first events of a batch, as many as one transaction can process.
    private func take(_ request: IngestRequest, from bearer: IngestBearer) async throws(Problem)
        -> IngestAnswer
    {
        let span = Spans.child("ingest", of: Spans.current)
        span?.set(organization: bearer.organization)
        span?.set(.events, request.entries.count)
        defer { span?.end() }
        let place = try await catalog.entry(bearer.organization).place
        return try await committers.submit(at: place) { reply in
            var job = IngestJob(organization: bearer.organization, task: .take(request, bearer), reply: reply)
            job.isHeavy = heavyLanes.contains(job.lane)
            job.span = span
            return job
        }
    }

    /// The maximum number of consecutive transactions that ingest no event of a batch.
    private static let maximumIdleTurns = 32

    /// Returns the outcomes of a source's earlier events, by their ids.
    ///
    /// The result contains no unknown events.
    package func known(
        _ events: [String],
        from source: String,
        of organization: UUID
    ) async throws(Problem) -> [ByteExactString: IngestResult] {
        let names = events.map { EventName(organization: organization, source: source, eventID: $0) }
        do {
            let rows = try await pool.runByIndex(EventName.columns.query(IngestStatements.seen, names))
            var known: [ByteExactString: IngestResult] = [:]
            for var row in rows {
                row.skip("organization_id")
                row.skip("source")
                let id: String = try row.read("event_id")
                known[id] = try row.choice("result")
            }
            return known
        } catch {
            throw failure.problem(error, doing: "look for events")
        }
    }

    /// Returns those of the given entities that exist in the feed and are not deleted.
    ///
    /// - Throws: `store_unavailable`.
    package func living(_ entities: [EntityKey], of organization: UUID) async throws(Problem) -> Set<EntityKey> {
        var found: Set<EntityKey> = []
        do {
            for start in stride(from: 0, to: entities.count, by: Self.livingLimit) {
                let part = entities[start..<min(entities.count, start + Self.livingLimit)]
                let keys = part.map { (organization, $0) as EntityRows.Key }
                let rows = try await pool.runByIndex(EntityRows.keys.query(IngestStatements.living, keys))
                found.formUnion(try rows.read { try $0.entityKey() })
            }
            return found
        } catch {
            throw failure.problem(error, doing: "look for entities")
        }
    }

    /// The maximum number of entities in one statement of ``living(_:of:)``.
    private static let livingLimit = 500

    /// Returns the outcome that a batch would have in an organization without entities. Writes nothing.
    ///
    /// For patches, only their validity is checked.
    package func examine(_ request: IngestRequest, of organization: UUID) async throws(Problem) -> [IngestVerdict] {
        let entry = try await catalog.entry(organization)
        guard let known = entry.organization else {
            throw Problem(.organizationUnknown, "the organization does not accept events")
        }
        let events = request.entries.compactMap { try? $0.event.get() }
        let owners = Set(events.compactMap(\.owner).map { LaneKey(organization: organization, user: $0) })
        var erased: Set<LaneKey> = []
        if !owners.isEmpty {
            do {
                let rows = try await pool.runByIndex(OwnerRow.query(owners))
                erased = try Set(rows.read(OwnerRow.read))
            } catch {
                throw failure.problem(error, doing: "look up users")
            }
        }
        let planner = IngestPlanner(entry.context(of: known, at: now(), erased: erased))
        var state = IngestState()
        return planner.plan(request.withoutPatches, seen: [:], &state).verdicts
    }

    /// Ingests batches until the task is cancelled, without the other work of ``run()``.
    ///
    /// Use it in a process that only ingests events.
    package func runCommitters() async throws { try await committers.run() }

    /// The number of batches that wait for a committer, for metrics.
    package var waiting: Int { committers.waiting }

    /// Runs until graceful shutdown. The method then ingests the batches that are still queued, and returns.
    package func run() async throws {
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { try await self.committers.run() }
            group.addTask { await self.runReleaseLoop() }
            group.addTask {
                await cancelWhenGracefulShutdown {
                    while !Task.isCancelled {
                        self.signal.tick()
                        try? await Task.sleep(for: .seconds(1))
                    }
                }
            }
            group.addTask { await cancelWhenGracefulShutdown { await self.pruning.runPruneLoop() } }
            // the committers end after all other tasks
            try await group.waitForAll()
        }
    }

    // MARK: - Parked events

    private func runReleaseLoop() async {
        await cancelWhenGracefulShutdown {
            for await _ in self.signal.signals {
                if Task.isCancelled { return }
                await self.release()
            }
        }
    }

    /// Evaluates the parked events whose requests now have outcomes, and the parked events that are due.
    ///
    /// Repeats this until no such events are found, or all found events remain parked.
    package func release() async {
        do {
            var woken = signal.take()
            while !Task.isCancelled {
                let due = try await pool.run([Self.dueStatement(now: now(), limit: Self.scanLimit)])[0].read {
                    ParkedKey(organization: try $0.read("organization_id"), entity: try $0.entityKey())
                }
                var seen: Set<ParkedKey> = []
                let found = (woken + due).filter { seen.insert($0).inserted }
                guard !found.isEmpty, await release(found) else { return }
                woken = signal.take()
            }
        } catch {
            record(error)
        }
    }

    /// - Returns: whether any event is no longer parked.
    private func release(_ found: [ParkedKey]) async -> Bool {
        // organizations are processed concurrently, so that a slow organization does not delay the others
        await withTaskGroup(of: Bool.self) { group in
            var isAny = false
            let organizations = Dictionary(grouping: found, by: \.organization)
            for (number, (organization, keys)) in organizations.enumerated() {
                if number >= Self.releaseWidth, await group.next() == true { isAny = true }
                group.addTask { await self.release(keys.map(\.entity), of: organization) }
            }
            for await isMore in group where isMore { isAny = true }
            return isAny
        }
    }

    private func release(_ entities: [EntityKey], of organization: UUID) async -> Bool {
        var isAny = false
        do {
            for start in stride(from: 0, to: entities.count, by: Self.releaseLimit) {
                let part = Array(entities[start..<min(entities.count, start + Self.releaseLimit)])
                if try await release(part: part, of: organization) { isAny = true }
            }
        } catch {
            record(error)
        }
        return isAny
    }

    /// Logs a database error. The next poll finds the events again.
    private func record(_ error: any Error) { _ = failure.problem(error, doing: "look for parked events") }

    private func release(part entities: [EntityKey], of organization: UUID) async throws -> Bool {
        try await release(part: entities, limit: Self.releaseLimit / entities.count, of: organization)
    }

    /// Evaluates parked events of some entities, at most `limit` for each entity.
    ///
    /// If the work is too much for one transaction, fewer events are evaluated together. Events that cannot be
    /// evaluated even alone are postponed and logged, and delay no other events.
    private func release(part entities: [EntityKey], limit: Int, of organization: UUID) async throws -> Bool {
        let problem: Problem
        do throws(Problem) {
            let place = try await catalog.entry(organization).place
            let answer = try await committers.submit(at: place) { (reply: JobCompletion<IngestAnswer>) in
                IngestJob(organization: organization, task: .release(entities, limit: limit), reply: reply)
            }
            return answer.verdicts.contains { $0.result != .parked }
        } catch {
            problem = error
        }
        let isTooMuch =
            [.payloadTooLarge, .internalError].contains(problem.code) || problem.detail == StoreFailure.tooLong.detail
        if isTooMuch, entities.count > 1 {
            let half = entities.count / 2
            let isFirst = try await release(part: Array(entities[..<half]), limit: limit, of: organization)
            let isSecond = try await release(part: Array(entities[half...]), limit: limit, of: organization)
            return isFirst || isSecond
        }
        if isTooMuch, limit > 1 { return try await release(part: entities, limit: 1, of: organization) }
        // the organization is suspended or purged, its keys are not configured here, or the database refused the
        // events; the evaluation continues with other organizations
        failure.logger.warning(
            "Parked events cannot be evaluated; the gateway retries in 30 seconds",
            metadata: [
                "organization": "\(organization.lowercased)", "entities": "\(entities.count)",
                "first": "\(entities.first.map { "\($0.type) \($0.id)" } ?? "")", "reason": "\(problem.detail)",
            ]
        )
        let until = now().adding(seconds: 30)
        let keys = entities.map { (organization, $0) as EntityRows.Key }
        _ = try await pool.run([EntityRows.keys.query(IngestStatements.postponeEntities, keys, at: until)])
        return false
    }

    static let dueStatement = Statement(
        "ingest_due",
        ["now", "limit"],
        """
        SELECT p.organization_id, p.entity_type, p.id
        FROM parked_events p
        WHERE p.look_at <= :now
        ORDER BY p.look_at
        LIMIT :limit
        """
    )

    /// Finds which entities of some organizations have parked events.
    static let waitingStatement = Statement(
        "ingest_waiting",
        ["organizations"],
        """
        SELECT DISTINCT p.organization_id, p.entity_type, p.id
        FROM unnest(:organizations::uuid[]) AS k (organization_id)
        CROSS JOIN LATERAL (
            SELECT x.organization_id, x.entity_type, x.id FROM parked_events x
            WHERE x.organization_id = k.organization_id
            LIMIT \(2 * IngestPlanner.parkedLimit)
        ) p
        """
    )

    static let statements = [dueStatement, waitingStatement]
}

extension Catalog.Entry {
    /// Returns the organization's data on which the evaluation of events depends.
    ///
    /// - Parameter erased: users whose data were erased, among the users that the events name.
    func context(of organization: Organization, at now: Timestamp, erased: Set<LaneKey>) -> IngestPlanner.Context {
        let (joins, id, recent) = (joins, organization.id, self.erased)
        return IngestPlanner.Context(organization: organization, types: types, now: now) { user in
            let owner: UUID
            switch joins.state(of: user, at: now) {
            case .itself: owner = user
            case .part(let target): owner = target
            case .closed: return .joining
            }
            let isErased = [user, owner].contains { user in
                let user = LaneKey(organization: id, user: user)
                // for parked events, only the erasures in the catalog are known
                return erased.contains(user) || recent.contains(user)
            }
            return isErased ? .erased : .user(owner)
        }
    }
}
