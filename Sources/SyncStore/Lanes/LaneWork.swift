import FoundationEssentials
import GroupCommit
import JSONText
import Logging
import Postgres
import Spans
import SyncModel

/// Commits groups of lane steps.
///
/// A group takes three round trips. The first locks lanes and entities. The second writes the outcomes of requests,
/// releases blocked mutations, and reads the next heads. The third marks the heads as in flight and commits.
struct LaneWork: GroupTransaction {
    let catalog: Catalog
    let notifier: ChangeNotifier
    let leaseSeconds: Double
    /// The signal for entities whose parked events may have waited for an outcome.
    let parkedSignal: ParkedEntitySignal
    let participants: [any CommitParticipant]
    let now: TimeSource
    let failure: StoreFailure
    let ids = UUIDv7Generator()
    private let metrics = ChannelMetrics()

    func commit(_ group: [LaneJob], on connection: Connection, _ context: RetryContext) async throws {
        let moment = now()
        var entries: [UUID: Catalog.Entry] = [:]
        for id in Set(group.map(\.lane.organization)) { entries[id] = try await catalog.entry(id) }
        let locked = group.filter { entries[$0.lane.organization]?.seal.lock != nil }
        if !locked.isEmpty { try await skip(locked, moment, on: connection) }
        let group = locked.isEmpty ? group : group.filter { entries[$0.lane.organization]?.seal.lock == nil }
        guard !group.isEmpty else { return }
        try await catalog.userKeys.prepare(group.lazy.map(\.lane)) { entries[$0]?.seal }
        do {
            try await run(group, entries, context, moment, on: connection)
        } catch let error as SealError where !error.lacksUserKeys && Self.isDamaged(group, entries, error, moment) {
            failure.logger.error("Lane waits: mutation in flight cannot be decrypted", metadata: ["reason": "\(error)"])
            _ = try await connection.run([.rollback])
            try await skip(group, moment, on: connection)
        }
    }

    /// Whether the group consists of the claim of one lane, and this lane contains a value that cannot be decrypted.
    ///
    /// Such a lane is postponed, because otherwise every poll would try to claim it again.
    private static func isDamaged(
        _ group: [LaneJob],
        _ entries: [UUID: Catalog.Entry],
        _ error: SealError,
        _ moment: Timestamp
    ) -> Bool {
        guard group.count == 1, let job = group.first, job.request.step.token == nil else { return false }
        guard case .unknownKey = error, let entry = entries[job.lane.organization] else { return true }
        // another replica may have just created the key
        return entry.readAt >= moment
    }

    private func run(
        _ group: [LaneJob],
        _ entries: [UUID: Catalog.Entry],
        _ context: RetryContext,
        _ moment: Timestamp,
        on connection: Connection
    ) async throws {
        var steps = LaneGroup(
            group,
            entries: entries,
            context,
            leaseSeconds: leaseSeconds,
            participants: participants,
            now: moment
        ) { [ids] in
            ids.make(at: moment)
        }
        try steps.readLocked(await connection.run(steps.lockQueries))
        try await steps.readReferrers(on: connection)
        let lost = steps.lostQueries
        if !lost.isEmpty { try steps.readLost(await connection.run(lost)) }
        try await steps.readAccess(on: connection)
        steps.settle()
        if group.count > 1, steps.channelChanges.exceedGroup { throw CommitFailure.tooMuch }
        let settling = try steps.settleQueries
        if !settling.queries.isEmpty { try steps.readNext(await connection.run(settling.queries), settling) }
        if steps.isStale { throw CommitFailure.stale }
        try await steps.readAccessToHeads(on: connection)
        steps.choose()
        let queries = try steps.finalQueries
        metrics.count(queries, try await connection.run(queries))
        for reason in steps.sealed {
            failure.logger.error("Lane waits: first mutation cannot be decrypted", metadata: ["reason": "\(reason)"])
        }
        for note in steps.notes {
            failure.logger.error(
                "Lane was inconsistent",
                metadata: [
                    "organization": "\(note.lane.organization.lowercased)", "user": "\(note.lane.user.lowercased)",
                    "reason": "\(note.text)",
                ]
            )
        }
        finish(group, steps)
    }

    /// Postpones lanes of organizations whose data cannot be decrypted, without claiming the lanes.
    ///
    /// The mutations of these lanes are neither sent nor given up, and no attempt is counted. A mutation in flight
    /// remains in flight until the lease has expired.
    private func skip(_ jobs: [LaneJob], _ moment: Timestamp, on connection: Connection) async throws {
        let until = moment.adding(seconds: LanePlan.pause)
        let claims = jobs.filter { $0.request.step.token == nil }.sorted { $0.lane < $1.lane }
        if !claims.isEmpty {
            let moments = claims.map { (lane: $0.lane, until: until) }
            _ = try await connection.run(LaneStore.postpone(moments, now: moment))
        }
        for job in jobs {
            if job.request.step.token == nil {
                job.reply.send(.success(.released(readyAt: until)))
            } else {
                job.refuse(StoreFailure.sealed)
            }
        }
    }

    func problem(_ error: any Error) -> Problem { failure.problem(error, doing: "run lanes") }

    func isStale(_ error: PostgresError) -> Bool { false }

    func fetchMissingKeys(_ error: SealError) async throws { try await catalog.userKeys.fetchMissingKeys(error) }

    func invalidateCache(_ group: [LaneJob]) {
        for job in group { catalog.invalidate(job.lane.organization) }
    }

    private func finish(_ group: [LaneJob], _ steps: LaneGroup) {
        for (job, action) in zip(group, steps.nextActions) { job.reply.send(.success(action)) }
        notifier.changed(steps.changedLanes)
        parkedSignal.ring(for: steps.woken)
    }
}

/// A lane step in a committer's queue.
struct LaneJob: GroupJob {
    let request: LaneRequest
    let span: GatewaySpan?
    let enqueuedAt = ContinuousClock.now
    let reply: JobCompletion<LaneAction>

    var lane: LaneKey { request.lane }
    var weight: Int { request.step.weight }
    /// The bytes from the upstream that the step writes to the database.
    var bytes: Int {
        if case .settle(let results) = request.step { results.reduce(0) { $0 + $1.bytes } } else { 0 }
    }
    var isAnswered: Bool { reply.isSent }

    func refuse(_ problem: Problem) {
        reply.send(.failure(problem))
    }
}

/// The spans of a lane step: one for each mutation whose outcome the step writes, and one for each mutation that the
/// step starts.
///
/// The parent of each span is the span of the mutation's push, which another gateway may have recorded long ago.
struct LaneSpan {
    /// The recorded spans of the mutations whose outcomes are written.
    let settling: [GatewaySpan]
    private let start = Spans.Moment.now

    init(_ step: LaneStep) {
        switch step {
        case .claim, .proceed: settling = []
        case .apply(let dispatch):
            settling = [Self.begin(dispatch, "apply")].compactMap(\.self)
        case .settle(let results):
            settling = results.compactMap { result in
                let span = Self.begin(result.dispatch, "settle")
                span?.set(.outcome, result.outcome.kind.rawValue)
                span?.set(.mutationStatus, result.outcome.status.rawValue)
                // the batch may belong to the trace of another mutation
                if let batch = result.outcome.batchSpan { span?.link(to: batch) }
                return span
            }
        }
    }

    private static func begin(_ dispatch: Dispatch, _ step: String) -> GatewaySpan? {
        let span = Spans.child("lane step", of: dispatch.mutation.trace)
        if let span { describe(span, dispatch) }
        span?.set(.step, step)
        return span
    }

    /// Ends the spans with the step's result.
    func end(_ action: LaneAction) {
        for span in settling { span.end() }
        guard let start else { return }
        for dispatch in action.dispatches {
            let span = Spans.child("lane step", of: dispatch.mutation.trace, since: start)
            guard let span else { continue }
            Self.describe(span, dispatch)
            span.set(.step, "start")
            span.end()
        }
    }

    /// Ends the spans of a step that was not written.
    func fail(_ problem: Problem) {
        for span in settling {
            span.fail(problem)
            span.end()
        }
    }

    private static func describe(_ span: GatewaySpan, _ dispatch: Dispatch) {
        span.set(organization: dispatch.lane.organization)
        span.set(.mutationID, dispatch.mutation.id.lowercased)
        span.set(.entityType, "\(dispatch.mutation.entity.type)")
        span.set(.attempt, Int(dispatch.attempts))
    }
}
