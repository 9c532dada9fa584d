import FoundationEssentials
import Postgres
import SyncModel

/// The queries that write the results of a group's steps. Plans are by place in the group, nil for steps that lost
/// their lane.
struct LaneGroupWriter {
    let seals: SealTable
    /// Organizations whose events are taken: requests for them are recorded.
    let sources: Set<UUID>
    let now: Timestamp
    let participants: [any CommitParticipant]

    /// Writes outcomes, then reads the next heads.
    ///
    /// The order is outcomes, mappings, local ids, known ids, released mutations, and last the reads.
    func settleQueries(_ plans: [LanePlan?], _ entities: [UUID: EntityTable]) throws(SealError) -> [Query] {
        var released: [BlockerRow] = []
        var heads: [HeadRow] = []
        for (index, plan) in plans.enumerated() {
            guard let plan else { continue }
            let (job, lane, state) = (Int32(index), plan.request.lane, plan.lane)
            if let id = plan.unblocking {
                released.append(BlockerRow(job: job, lane: lane, blocker: id, changePosition: state.changePosition))
            }
            heads.append(HeadRow(job: job, lane: lane, headPosition: state.queue.head))
        }
        guard !heads.isEmpty else { return [] }
        var queries = try outcomeQueries(plans)
        queries += requestOutcomes(plans, entities).queries(at: now)
        if !released.isEmpty { queries.append(BlockerRow.query(released, now)) }
        queries.append(HeadRow.columns.query(LaneStatements.heads, heads))
        return queries
    }

    /// Returns the last writes, and COMMIT.
    ///
    /// They write heads that were settled without running, flights, lanes, feeds and entities.
    func finalQueries(_ plans: [LanePlan?], _ entities: [UUID: EntityTable]) throws(SealError) -> [Query] {
        var lanes: [LaneRow] = []
        var flights: [FlightRow] = []
        var requests: [SentRequestRow] = []
        for case let plan? in plans {
            lanes.append(LaneRow(key: plan.request.lane, state: plan.lane))
            guard case .run(let dispatch) = plan.turn else { continue }
            flights.append(FlightRow(dispatch: dispatch))
            if case .upstream = dispatch.destination, sources.contains(plan.request.lane.organization) {
                requests.append(SentRequestRow(dispatch))
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
        // usually there are no attempts: a success at the first attempt has no history
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

    /// Adds a statement over rows, with the moment as the last parameter. Adds nothing if there are no rows.
    private func add<Row>(
        _ statement: Statement,
        _ columns: Columns<Row>,
        _ rows: [Row],
        to queries: inout [Query]
    ) {
        if !rows.isEmpty { queries.append(columns.query(statement, rows, at: now)) }
    }
}
