import FoundationEssentials
import GroupCommit
import Postgres
import SyncModel

/// Commits groups of pushes.
///
/// A group takes two round trips. The first locks and reads all data for the group's plan. The second writes all
/// changes and commits. If an entry would be refused, a further round trip looks up every key and id in the entry's
/// push, so that a refusal never depends on a cache alone.
struct PushWork: GroupTransaction {
    let catalog: Catalog
    let notifier: ChangeNotifier
    let now: TimeSource
    /// The maximum number of a user's devices.
    let deviceLimit: Int
    let participants: [any CommitParticipant]
    let failure: StoreFailure
    let hints = WatermarkHints()
    private let metrics = ChannelMetrics()
    private let ids = UUIDv7Generator()

    init(
        catalog: Catalog,
        notifier: ChangeNotifier,
        deviceLimit: Int,
        participants: [any CommitParticipant],
        now: @escaping TimeSource,
        failure: StoreFailure
    ) {
        self.catalog = catalog
        self.notifier = notifier
        self.deviceLimit = deviceLimit
        self.participants = participants
        self.now = now
        self.failure = failure
    }

    func commit(_ group: [PushJob], on connection: Connection, _ context: RetryContext) async throws {
        let moment = now()
        let sealing = try await seals(of: group, context)
        var batch = try await batch(group, moment, isBatched: !context.takesHeavy)
        if !context.looksUpAll {
            batch = try await answerRepetitions(batch, sealing, at: moment, on: connection)
            if batch.isEmpty { return }
        }
        let group = batch.jobs
        let found = try await read(batch, sealing, on: connection, context)
        let reader = found.reader
        var snapshot = found.snapshot
        var plan = try await self.plan(batch, &snapshot, reader, isCertain: context.looksUpAll, on: connection)
        if !plan.incomplete.isEmpty {
            let pushes = plan.incomplete
            try reader.complete(pushes, await connection.run(reader.completion(of: pushes)), in: &snapshot)
            let comparisons = reader.comparisons(&snapshot, of: pushes)
            try reader.add(await connection.run(comparisons.map(\.query)), of: comparisons, to: &snapshot)
            plan = try await self.plan(batch, &snapshot, reader, isCertain: context.looksUpAll, on: connection)
        }
        if plan.lacksRemembered || !plan.incomplete.isEmpty { throw CommitFailure.readAgain }
        let unread = plan.heavy.isEmpty ? plan.crowded : plan.heavy
        if !unread.isEmpty {
            if !context.takesHeavy { throw CommitFailure.heavy(Set(unread.map { group[$0].lane })) }
            return try await commitOneByOne(group, on: connection, context)
        }
        let writer = try GroupWriter(
            group,
            plan: plan,
            uses: snapshot.mappingUses,
            now: moment,
            seals: sealing,
            participants: participants
        )
        let results = try await connection.run(writer.queries)
        metrics.count(writer.queries, results)
        let feeds = try writer.feeds(results)
        finish(group, plan, feeds, at: moment)
        // the answers to the other pushes were sent first, because they do not depend on these reads
        for index in plan.withoutLane {
            group[index].reply.send(.failure(await catalog.reasonForNoLane(of: group[index].lane, taking: "pushes")))
        }
    }

    /// Locks and reads the data of a group.
    private func read(
        _ batch: PushBatch,
        _ sealing: SealTable,
        on connection: Connection,
        _ context: RetryContext
    ) async throws -> (reader: GroupReader, snapshot: GroupSnapshot) {
        let (group, inputs) = (batch.jobs, batch.inputs)
        // a push that is alone at the heavy worker may read the maximum bytes of a single push
        let isAlone = group.count == 1 && context.takesHeavy
        let documentBytes = isAlone ? WorkBounds.pushDocuments : WorkBounds.groupDocuments
        let readsVisible = isAlone && GroupReader.dependsOnVisibility(group[0].push, batch.contexts[0].types)
        let reader = GroupReader(
            inputs,
            hints: context.looksUpAll ? nil : hints,
            deviceLimit: deviceLimit,
            seals: sealing,
            documentBytes: documentBytes,
            namedBytes: readsVisible ? 0 : nil
        )
        var snapshot = try reader.snapshot(await connection.run(reader.queries))
        let hasAssigned = try await LocalIDReader(inputs).readAssigned(
            &snapshot,
            .locking,
            sealing,
            documentBytes: reader.namedBytes,
            on: connection
        )
        let comparisons = reader.comparisons(&snapshot)
        try reader.add(await connection.run(comparisons.map(\.query)), of: comparisons, to: &snapshot)
        let hasReferrers = try await reader.referrers(snapshot).read(into: &snapshot.entities, on: connection)
        if hasAssigned || hasReferrers { try await reader.readAccess(into: &snapshot, on: connection) }
        return (reader, snapshot)
    }

    /// Plans a group, and reads the channels and documents on which the plans depend.
    private func plan(
        _ batch: PushBatch,
        _ snapshot: inout GroupSnapshot,
        _ reader: GroupReader,
        isCertain: Bool,
        on connection: Connection
    ) async throws -> GroupPlan {
        var (channelReads, documentReads) = (0, 0)
        while true {
            if reader.readsVisible {
                let types = batch.contexts[0].types
                try await reader.readVisible(types, readsForwarded: false, into: &snapshot, on: connection)
            }
            let plan = GroupPlan(batch.jobs, contexts: batch.contexts, snapshot: snapshot, isCertain: isCertain)
            if try await ChannelAccess.readUnread(&snapshot.entities, &channelReads, on: connection) { continue }
            guard !plan.neededDocuments.isEmpty, documentReads < GroupReader.documentReads else {
                return plan
            }
            documentReads += 1
            try await reader.read(plan.neededDocuments, into: &snapshot, on: connection)
        }
    }

    /// Commits pushes whose documents and grants do not fit into one transaction, each in its own transaction.
    private func commitOneByOne(
        _ group: [PushJob],
        on connection: Connection,
        _ context: RetryContext
    ) async throws {
        _ = try await connection.run([.rollback])
        guard group.count > 1 else {
            let detail = "the documents of this push are too large to be read together; send fewer of its mutations"
            return group.forEach { $0.refuse(Problem(.payloadTooLarge, detail)) }
        }
        for job in group where !job.isAnswered { try await commit([job], on: connection, context) }
    }

    func problem(_ error: any Error) -> Problem { failure.problem(error, doing: "commit pushes") }

    func problem(_ error: PostgresError, ofLone job: PushJob) -> Problem {
        failure.problem(
            error,
            doing: "commit pushes",
            count: job.push.entries.count,
            advice: "this push takes too long to be written in one transaction; send fewer mutations"
        )
    }

    func isStale(_ error: PostgresError) -> Bool {
        error.statement == GroupStatements.useTypes.name && error.sqlState == "23502"
    }

    func fetchMissingKeys(_ error: SealError) async throws { try await catalog.userKeys.fetchMissingKeys(error) }

    func invalidateCache(_ group: [PushJob]) {
        for job in group { catalog.invalidate(job.organization.id) }
    }

    private func seals(of group: [PushJob], _ context: RetryContext) async throws -> SealTable {
        var seals: [UUID: Seal] = [:]
        for id in Set(group.map(\.organization.id)) {
            let seal = try await catalog.seal(of: id)
            seals[id] = context.hasNewestKeys ? seal.withoutKeyRefresh : seal
        }
        try await catalog.userKeys.prepare(group.lazy.map(\.lane)) { seals[$0] }
        return SealTable(seals)
    }

    private func batch(
        _ group: [PushJob],
        _ moment: Timestamp,
        isBatched: Bool
    ) async throws -> PushBatch {
        var batch = PushBatch()
        for job in group {
            let entry = try await catalog.entry(job.organization.id)
            var context = PushPlanner.Context(
                organization: job.organization,
                types: entry.types,
                user: job.user,
                isStrict: job.isStrict,
                now: moment,
                makeID: { [ids] in ids.make(at: moment) }
            )
            context.deviceLimit = deviceLimit
            context.isBatched = isBatched
            batch.add(job, context, job.input(entry))
        }
        return batch
    }

    private func finish(_ group: [PushJob], _ plan: GroupPlan, _ feeds: [UUID: FeedCursor], at moment: Timestamp) {
        let withoutLane = Set(plan.withoutLane)
        for (index, job) in group.enumerated() where !withoutLane.contains(index) {
            switch plan.outcomes[index] {
            case .failure(let problem): job.reply.send(.failure(problem))
            case .success(let planned):
                hints.record(planned.acceptedSequence, of: job.device)
                if !planned.typesToRegister.isEmpty {
                    catalog.markInUse(planned.typesToRegister, in: job.organization.id)
                }
                // unless a push halts the lane, its answer has the lane's state before the push, because new mutations
                // usually run at once
                let lane = planned.lane.haltedBy == nil ? plan.snapshots[index].lane : planned.lane
                answer(job, planned, lane: lane, feed: feeds[job.organization.id])
            }
        }
        let changed = plan.changes
        guard !changed.isEmpty else { return }
        notifier.changed(changed.map { group[$0.index].lane })
        // a new mutation after the head does not end the head's back-off
        let ready = changed.filter { change in
            let lane = change.plan.lane
            let isConcurrent = group[change.index].organization.settings.order == .dependencies
            return lane.isReady(at: moment) || isConcurrent && lane.lease.owner != nil
        }
        notifier.ready(ready.map { group[$0.index].lane })
    }

    func answer(_ job: PushJob, _ plan: PushPlan, lane: LaneState, feed: FeedCursor?) {
        var answer = PushAnswer(
            acceptedSequence: plan.acceptedSequence,
            feed: feed?.text ?? "",
            push: job.push,
            verdicts: plan.verdicts,
            mappings: plan.touchedMappings
        )
        answer.quotaStatus = plan.quotaStatus
        answer.lane = lane
        answer.warnings = plan.warnings
        job.reply.send(.success(answer))
    }
}

/// Repeats: pushes from devices that did not receive the answer to the first request.
extension PushWork {
    /// Answers repeats from one read-only transaction: one round trip, without locks and without a flush to disk.
    ///
    /// The first request is known to be committed, because the device's watermark was cached after its commit. The
    /// cache only decides whether this method is tried. A push is answered here only if all its entries are found and
    /// none is refused.
    ///
    /// - Returns: the remaining pushes, which must be planned under locks.
    func answerRepetitions(
        _ batch: PushBatch,
        _ seals: SealTable,
        at moment: Timestamp,
        on connection: Connection
    ) async throws -> PushBatch {
        let places = batch.inputs.indices.filter { seemsRepeated(batch.inputs[$0]) }
        if places.isEmpty { return batch }
        let repeating = batch[places]
        let reader = GroupReader(repeating: repeating.inputs, seals: seals)
        let feeds = Query(GroupStatements.readFeeds, Parameters(Set(repeating.jobs.map(\.organization.id)).sorted()))
        let results = try await connection.run(reader.queries + [feeds, .rollback])
        var ends: [UUID: FeedCursor] = [:]
        for feed in try results[results.count - 2].read(FeedCursor.end) { ends[feed.organization] = feed.end }
        let snapshot = try reader.snapshot(results)
        var left = Set(batch.jobs.indices)
        for (index, place) in places.enumerated() {
            guard let plan = repetition(repeating, index, snapshot, at: moment) else { continue }
            let job = repeating.jobs[index]
            answer(job, plan, lane: snapshot.pushes[index].lane, feed: ends[job.organization.id])
            left.remove(place)
        }
        return batch[left.sorted()]
    }

    private func seemsRepeated(_ input: PushInput) -> Bool {
        guard input.localIDs.named.isEmpty, let watermark = hints[input.device] else { return false }
        return input.push.entries.allSatisfy { $0.sequenceNumber.map { $0 <= watermark } ?? false }
    }

    /// Returns the plan of a push that changes nothing; nil if the push requires further reads or a write.
    private func repetition(
        _ batch: PushBatch,
        _ index: Int,
        _ snapshot: GroupSnapshot,
        at moment: Timestamp
    ) -> PushPlan? {
        var push = snapshot.pushes[index]
        let compared = push.idsToCompare(batch.jobs[index].push)
        guard snapshot.hasLane[index], compared.isEmpty, push.uncompared.isEmpty, !push.shouldRecordLastSeen(at: moment)
        else {
            return nil
        }
        var entities = EntityTable()
        let plan = try? PushPlanner.plan(
            batch.jobs[index].push,
            snapshot: push,
            context: batch.contexts[index],
            entities: &entities
        )
        guard let plan, !plan.changesAnything(from: push), plan.verdicts.allSatisfy(\.isReplayed) else { return nil }
        return plan
    }
}
