import FoundationEssentials
import Postgres
import SyncModel

/// The queries that write the results of a group's steps.
///
/// Plans are in the order of the group's steps. The plan is nil for a step that lost its lane.
struct LaneGroupWriter {
    let seals: SealTable
    /// The organizations that accept events. Requests are recorded only for these organizations.
    let sources: Set<UUID>
    let now: Timestamp
    let participants: [any CommitParticipant]

    /// Returns the queries that write outcomes, and then read the next heads.
    ///
    /// The order is: outcomes, mappings, local ids, known ids, released mutations, and last the reads.
    func settleQueries(_ plans: [LanePlan?], _ entities: [UUID: EntityTable]) throws(SealError) -> LaneReads {
        var released: [BlockerRow] = []
        var heads: [HeadRow] = []
        var windows: [WindowRow] = []
        for (index, plan) in plans.enumerated() {
            guard let plan else { continue }
            let (job, lane, state) = (Int32(index), plan.request.lane, plan.lane)
            released += plan.unblocking.map {
                BlockerRow(job: job, lane: lane, blocker: $0, changePosition: state.changePosition)
            }
            if plan.isConcurrent {
                let room = Int32(plan.room)
                windows.append(WindowRow(job: job, lane: lane, headPosition: state.queue.head, room: room))
            } else {
                heads.append(HeadRow(job: job, lane: lane, headPosition: state.queue.head))
            }
        }
        guard !(heads.isEmpty && windows.isEmpty) else { return LaneReads() }
        var queries = try outcomeQueries(plans)
        queries += requestOutcomes(plans, entities).queries(at: now)
        var reads = LaneReads(queries: queries)
        if !released.isEmpty { reads.released = reads.add(BlockerRow.query(released, now)) }
        if !heads.isEmpty { reads.heads = reads.add(HeadRow.columns.query(LaneStatements.heads, heads)) }
        guard !windows.isEmpty else { return reads }
        let firsts = windows.map { HeadRow(job: $0.job, lane: $0.lane, headPosition: $0.headPosition) }
        reads.windows = reads.add(HeadRow.columns.query(LaneStatements.windows, firsts, at: now))
        let searched = windows.filter { $0.room > 0 }
        if !searched.isEmpty {
            reads.due = reads.add(WindowRow.columns.query(LaneStatements.due, searched, at: now))
        }
        return reads
    }

    /// Returns the last queries, with COMMIT.
    ///
    /// The queries write heads that were settled without running, mutations in flight, lanes, feeds and entities.
    func finalQueries(_ plans: [LanePlan?], _ entities: [UUID: EntityTable]) throws(SealError) -> [Query] {
        var lanes: [LaneRow] = []
        var flights: [FlightRow] = []
        var requests: [SentRequestRow] = []
        for case let plan? in plans {
            lanes.append(LaneRow(key: plan.request.lane, state: plan.lane))
            for dispatch in plan.nextAction.dispatches {
                flights.append(FlightRow(dispatch: dispatch))
                if case .upstream = dispatch.destination, sources.contains(plan.request.lane.organization) {
                    requests.append(SentRequestRow(dispatch))
                }
            }
        }
        guard !lanes.isEmpty else { return [.rollback] }
        var queries = try outcomeQueries(plans)
        add(LaneStatements.markInFlight, FlightRow.columns, flights, to: &queries)
        add(SentRequestRow.write, SentRequestRow.columns, requests, to: &queries)
        queries.append(LaneRows.write(lanes))
        let writes = entities.keys.sorted().map { (organization: $0, writes: entities[$0]?.writes ?? []) }
            .filter { !$0.writes.isEmpty }
        if !writes.isEmpty {
            queries.append(EntityRows.raiseFeeds(writes))
            queries += try EntityRows.write(writes, now: now, seals)
        }
        return queries + [.commit]
    }

    private func requestOutcomes(_ plans: [LanePlan?], _ entities: [UUID: EntityTable]) -> RequestOutcomes {
        var outcomes = RequestOutcomes()
        for case let plan? in plans where sources.contains(plan.request.lane.organization) {
            let lane = plan.request.lane
            for result in plan.outcomes {
                let key = result.outcome.serverID.map { EntityKey(type: result.mutation.entity.type, id: $0.text) }
                outcomes.add(lane, result, entity: key.flatMap { entities[lane.organization]?[$0] })
            }
        }
        return outcomes
    }

    private func outcomeQueries(_ plans: [LanePlan?]) throws(SealError) -> [Query] {
        var outcomes: [OutcomeRow] = []
        var mappings: [MappingOutcomeRow] = []
        var localIDs: [CreatedIDRow] = []
        var knownIDs = KnownIDs()
        var stuck: [FailedOutcome] = []
        var attempts: [AttemptRow] = []
        for case let plan? in plans {
            let (lane, state) = (plan.request.lane, plan.lane)
            for outcome in plan.outcomes {
                outcomes.append(try OutcomeRow(lane, outcome, state, seals))
                if let row = MappingOutcomeRow(lane, outcome, state, seals) { mappings.append(row) }
                if let row = CreatedIDRow(lane, outcome) { localIDs.append(row) }
                if let row = AttemptRow(lane, outcome) { attempts.append(row) }
                knownIDs.add(lane, outcome.mutation, outcome.outcome, state)
                guard let status = outcome.status, status.isForAPerson else { continue }
                stuck.append(FailedOutcome(lane: lane, state: state, origin: .lane(outcome)))
            }
        }
        var queries: [Query] = []
        // usually there are no attempts, because a success at the first attempt has no history
        if !attempts.isEmpty { queries.append(AttemptRow.columns.query(AttemptRow.write, attempts)) }
        if OutcomeRow.areCommon(outcomes) {
            add(LaneStatements.writeCommonOutcomes, OutcomeRow.common, outcomes, to: &queries)
        } else {
            add(LaneStatements.writeOutcomes, OutcomeRow.columns, outcomes, to: &queries)
        }
        add(LaneStatements.writeMappings, MappingOutcomeRow.columns, mappings, to: &queries)
        if !localIDs.isEmpty { queries.append(CreatedIDRow.columns.query(LaneStatements.writeLocalIDs, localIDs)) }
        queries += participants.queries(for: stuck, at: now)
        return queries + knownIDs.queries
    }

    /// Adds a statement over rows, with the time as the last parameter. Adds nothing if there are no rows.
    private func add<Row>(
        _ statement: Statement,
        _ columns: Columns<Row>,
        _ rows: [Row],
        to queries: inout [Query]
    ) {
        if !rows.isEmpty { queries.append(columns.query(statement, rows, at: now)) }
    }
}

/// The queries that write outcomes and read the next mutations, with the positions of the reads in the list.
struct LaneReads {
    private(set) var queries: [Query] = []
    /// The index of the query that reads mutations that are no longer blocked.
    var released: Int?
    /// The index of the query that reads the next mutations of lanes with one mutation in flight.
    var heads: Int?
    /// The index of the query that reads the windows of lanes with several mutations in flight.
    var windows: Int?
    var due: Int?

    init(queries: [Query] = []) {
        self.queries = queries
    }

    /// - Returns: the index of the query in the list.
    mutating func add(_ query: Query) -> Int {
        queries.append(query)
        return queries.count - 1
    }

    /// Returns the same queries with another query before them.
    func behind(_ query: Query) -> LaneReads {
        func later(_ place: Int?) -> Int? { place.map { $0 + 1 } }
        var reads = LaneReads(queries: [query] + queries)
        (reads.released, reads.heads) = (later(released), later(heads))
        (reads.windows, reads.due) = (later(windows), later(due))
        return reads
    }
}
