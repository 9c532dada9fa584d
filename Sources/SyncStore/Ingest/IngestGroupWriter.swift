import FoundationEssentials
import Postgres
import SyncModel

/// The second round trip of a group of batches: all changes of the group's plans, and COMMIT.
struct IngestGroupWriter {
    let seals: SealTable
    let now: Timestamp
    private var taken: [TakenEventRow] = []
    private var refreshed: [TakenEventRow] = []
    private var settled: [TakenEventRow] = []
    private var toPark: [(name: EventName, event: ReceivedEvent)] = []
    private var finished: [EventName] = []
    private var refused: [EventName] = []
    private var stopped: [QueuePlaceRow] = []
    private var woken: [EntityRows.Key] = []
    private var postponed: [(name: EventName, until: Timestamp)] = []
    private var used: [IngestBearer] = []
    private var types: [TypeRow] = []
    /// The indices of the feeds' rows in the results.
    private var feedResults: [Int] = []

    /// The time after which a parked event is evaluated again without a signal, in seconds.
    static let pollSeconds: Double = 1

    /// The age, in seconds, from which the record of an event is refreshed when the event is received again.
    private static let refreshSeconds: Double = 86_400

    init(seals: SealTable, now: Timestamp) {
        self.seals = seals
        self.now = now
    }

    // MARK: - The decisions of plans

    mutating func take(_ plan: IngestPlan, of origin: IngestGroup.Origin) {
        for (event, result) in plan.remembered {
            let name = EventName(organization: origin.organization, source: origin.source, eventID: event.event.id)
            taken.append(TakenEventRow(name: name, result: result, receivedAt: event.receivedAt))
            if result == .parked { toPark.append((name, event)) }
        }
        register(plan.typesToRegister, in: origin.organization)
    }

    /// Keeps the record of an event that was received again.
    ///
    /// A poller receives the unchanged items of a list with each pass. If their records were deleted, these items would
    /// be applied again, and would overwrite later edits.
    mutating func refresh(_ name: EventName, _ result: IngestResult, receivedAt: Timestamp) {
        guard result != .parked, receivedAt < now.adding(seconds: -Self.refreshSeconds) else { return }
        refreshed.append(TakenEventRow(name: name, result: result, receivedAt: now))
    }

    mutating func release(_ name: EventName, _ event: ReceivedEvent, _ verdict: IngestVerdict) {
        finished.append(name)
        guard verdict.result.isRemembered else { return refused.append(name) }
        settled.append(TakenEventRow(name: name, result: verdict.result, receivedAt: event.receivedAt))
    }

    /// Makes the later events about the same entity wait for a parked event.
    mutating func deferFollowers(of waiting: ParkedEvent) {
        let (organization, event) = (waiting.name.organization, waiting.event)
        stopped.append(QueuePlaceRow(organization: organization, key: event.event.key, place: event.place ?? 0))
    }

    /// Makes the next parked event about an entity due now.
    mutating func wakeNext(organization: UUID, _ entity: EntityKey) { woken.append((organization, entity)) }

    mutating func postpone(_ name: EventName, seconds: Double) {
        postponed.append((name, now.adding(seconds: seconds)))
    }

    mutating func use(_ bearer: IngestBearer) { used.append(bearer) }

    mutating func register(_ new: [EntityType], in organization: UUID) {
        for type in new where !types.contains(where: { $0.organization == organization && $0.type.name == type.name }) {
            types.append(TypeRow(organization: organization, type: type))
        }
    }

    // MARK: - Queries

    mutating func queries(of organizations: [UUID], _ states: [UUID: IngestState]) throws(SealError) -> [Query] {
        var queries: [Query] = []
        addEvents(&queries)
        try addParked(&queries)
        let requests = organizations.flatMap { id in
            (states[id]?.usedRequests ?? []).map { RequestKeyRow(organization: id, key: $0) }
        }.sorted { ($0.organization, $0.key) < ($1.organization, $1.key) }
        if !requests.isEmpty { queries.append(RequestKeyRow.columns.query(IngestStatements.useRequests, requests)) }
        if !types.isEmpty { queries.append(Query(GroupStatements.useTypes, TypeRow.columns.parameters(types))) }
        addTokens(&queries)
        try addEntities(of: organizations, states, &queries)
        queries.append(isChange ? .commit : .rollback)
        return queries
    }

    private var isChange = false

    private mutating func addEvents(_ queries: inout [Query]) {
        // sorted by name, so that concurrent transactions with the same names wait for each other instead of
        // deadlocking
        let order: (TakenEventRow, TakenEventRow) -> Bool = { left, right in
            (left.name.organization, left.name.source, left.name.eventID)
                < (right.name.organization, right.name.source, right.name.eventID)
        }
        if !taken.isEmpty {
            isChange = true
            queries.append(TakenEventRow.columns.query(IngestStatements.remember, taken.sorted(by: order)))
        }
        if !refreshed.isEmpty {
            isChange = true
            queries.append(TakenEventRow.columns.query(IngestStatements.refresh, refreshed.sorted(by: order)))
        }
        if !settled.isEmpty {
            isChange = true
            queries.append(TakenEventRow.columns.query(IngestStatements.settle, settled.sorted(by: order)))
        }
        if !refused.isEmpty {
            isChange = true
            queries.append(EventName.columns.query(IngestStatements.forget, refused))
        }
    }

    private mutating func addParked(_ queries: inout [Query]) throws(SealError) {
        let lookAt = now.adding(seconds: Self.pollSeconds)
        var lacking = LackingKeys()
        var rows: [ParkedEventRow] = []
        for (name, event) in toPark {
            let row = try lacking.collect { () throws(SealError) in
                try ParkedEventRow(name, event, seals, lookAt: lookAt)
            }
            if let row { rows.append(row) }
        }
        try lacking.check()
        if !rows.isEmpty { queries.append(ParkedEventRow.columns.query(IngestStatements.park, rows)) }
        if !finished.isEmpty { queries.append(EventName.columns.query(IngestStatements.unpark, finished)) }
        if !woken.isEmpty {
            isChange = true
            queries.append(EntityRows.keys.query(IngestStatements.wakeNext, woken, at: now))
        }
        if !stopped.isEmpty {
            isChange = true
            queries.append(QueuePlaceRow.columns.query(IngestStatements.deferFollowers, stopped))
        }
        for until in Set(postponed.map(\.until)) {
            isChange = true
            let names = postponed.filter { $0.until == until }.map(\.name)
            queries.append(EventName.columns.query(IngestStatements.postpone, names, at: until))
        }
    }

    private mutating func addTokens(_ queries: inout [Query]) {
        guard !used.isEmpty else { return }
        isChange = true
        let tokens = used.sorted { ($0.organization, $0.tokenID) < ($1.organization, $1.tokenID) }
        queries.append(
            IngestStatements.touchTokens(
                organizations: tokens.map(\.organization),
                ids: tokens.map(\.tokenID),
                now: now
            )
        )
    }

    private mutating func addEntities(
        of organizations: [UUID],
        _ states: [UUID: IngestState],
        _ queries: inout [Query]
    ) throws(SealError) {
        let writes = organizations.map { (organization: $0, writes: states[$0]?.entities.writes ?? []) }
        let changed = writes.filter { !$0.writes.isEmpty }
        let marks = organizations.flatMap { id -> [EntityMarkRow] in
            guard let state = states[id] else { return [] }
            return state.changedMarks.compactMap { key in
                state.marks[key].map { EntityMarkRow(organization: id, key: key, mark: $0) }
            }
        }
        if !changed.isEmpty {
            feedResults.append(queries.count)
            queries.append(EntityRows.raiseFeeds(changed))
        }
        let unchanged = writes.filter { $0.writes.isEmpty }.map(\.organization)
        if !unchanged.isEmpty {
            feedResults.append(queries.count)
            queries.append(Query(GroupStatements.readFeeds, Parameters(unchanged)))
        }
        queries += try EntityRows.write(changed, now: now, seals)
        if !marks.isEmpty {
            isChange = true
            queries.append(EntityMarkRow.columns.query(IngestStatements.markEntities, marks))
        }
    }

    /// Returns the end of each organization's feed after this group.
    func feeds(_ results: [Rows]) throws -> [UUID: FeedCursor] {
        var feeds: [UUID: FeedCursor] = [:]
        for index in feedResults {
            for feed in try results[index].read(FeedCursor.end) { feeds[feed.organization] = feed.end }
        }
        return feeds
    }
}
