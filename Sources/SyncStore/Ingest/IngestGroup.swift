import FoundationEssentials
import Postgres
import SyncModel

/// A committer's group of batches, in the transaction that ingests them.
///
/// The group locks the entities that the batches name, reads the data for the plans, and writes the changes that the
/// plans decide.
struct IngestGroup {
    private let group: [IngestJob]
    private let entries: [UUID: Catalog.Entry]
    private let seals: SealTable
    private let now: Timestamp
    /// Whether a job may use the work budget of a whole transaction (``IngestBounds/part``).
    ///
    /// The part of a job that exceeds its budget is left to a later transaction.
    private let takesHeavy: Bool
    private let organizations: [UUID]
    /// The handlers of the results, in the order of the queries after BEGIN.
    private var readers: [(inout IngestGroup, Rows) throws -> Void] = []
    private(set) var readQueries: [Query] = [.begin]

    private var held: Set<UUID> = []
    /// Outcomes of events that were ingested before, by source.
    private var seen: [Origin: [ByteExactString: IngestResult]] = [:]
    private var states: [UUID: IngestState] = [:]
    /// Erased users among the owners that events name.
    private var erased: Set<LaneKey> = []
    /// For each entity whose parked events a job evaluates again: the first of these events, in order of arrival.
    private var parked: [EntityOfOrganization: [ParkedEvent]] = [:]
    /// The maximum number of parked events that are read for each entity.
    private var parkedLimit = 0

    /// The plans, by the job's index in the group; nil for organizations that accept no events.
    private(set) var plans: [IngestPlan?] = []
    /// The problems of refused jobs, by the job's index in the group.
    private(set) var problems: [Int: Problem] = [:]
    /// The lanes of jobs with too much work to share a group.
    private(set) var heavy: Set<LaneKey> = []
    /// The lanes of jobs at the heavy worker whose work is small enough to share a group.
    private(set) var light: Set<LaneKey> = []
    private var writer: IngestGroupWriter

    struct Origin: Hashable {
        let organization: UUID
        @Exact private(set) var source: String
    }

    /// The maximum bytes of documents that a group reads. The last document can exceed this limit.
    static let readBytes = 4_194_304

    init(
        _ group: [IngestJob],
        entries: [UUID: Catalog.Entry],
        seals: SealTable,
        now: Timestamp,
        takesHeavy: Bool
    ) {
        self.group = group
        self.takesHeavy = takesHeavy
        self.entries = entries
        self.seals = seals
        self.now = now
        organizations = Set(group.map(\.organization)).sorted()
        writer = IngestGroupWriter(seals: seals, now: now)
        for id in organizations {
            guard let rules = entries[id]?.channelRules, !rules.isEmpty else { continue }
            states[id] = IngestState()
            states[id]?.entities = EntityTable(rules)
        }
        addReading()
    }

    // MARK: - 1: read

    private mutating func add(_ query: Query, _ read: @escaping (inout IngestGroup, Rows) throws -> Void) {
        readQueries.append(query)
        readers.append(read)
    }

    private mutating func addReading() {
        add(IngestStatements.hold(organizations: organizations)) { group, rows in
            group.held = try Set(rows.read { try $0.read("id", as: UUID.self) })
        }
        addNames()
        addParked()
        addOwners()
        addEntities()
        add(IngestStatements.parkedCounts(organizations: organizations)) { group, rows in
            for var row in rows {
                let organization: UUID = try row.read("organization_id")
                group.states[organization, default: IngestState()].parkedCount = Int(
                    try row.read("count", as: Int64.self)
                )
            }
        }
    }

    private mutating func addNames() {
        var taken: [EventName] = []
        for job in group {
            guard case .take(_, let bearer) = job.task else { continue }
            taken += job.events.map {
                EventName(organization: job.organization, source: bearer.source, eventID: $0.id)
            }
        }
        guard !taken.isEmpty else { return }
        add(EventName.columns.query(IngestStatements.seen, taken)) { group, rows in
            for var row in rows {
                let name = try EventName(&row)
                let result: IngestResult = try row.choice("result")
                let origin = Origin(organization: name.organization, source: name.source)
                group.seen[origin, default: [:]][name.eventID] = result
                group.writer.refresh(name, result, receivedAt: try row.read("received_at"))
            }
        }
    }

    /// Adds the queries for the parked events of jobs that evaluate parked events.
    ///
    /// If another worker has locked the first event about an entity, all events about this entity are left to that
    /// worker. Thus no event overtakes an earlier one.
    private mutating func addParked() {
        var entities: Set<EntityOfOrganization> = []
        var limit = 0
        for job in group {
            guard case .release(let keys, let most) = job.task else { continue }
            limit = max(limit, most)
            for key in keys { entities.insert(EntityOfOrganization(organization: job.organization, key: key)) }
        }
        guard !entities.isEmpty else { return }
        parkedLimit = limit
        let sorted = Self.keys(entities)
        var parameters = EntityRows.keys.parameters(sorted)
        parameters.add(limit)
        let causes = Query(IngestStatements.parkedCauses, parameters)
        parameters.add(Self.readBytes)
        add(Query(IngestStatements.parked, parameters)) { group, rows in
            var lacking = LackingKeys()
            for var row in rows {
                let found = try lacking.collect { try ParkedEventRow.read(&row, group.seals) }
                guard let parked = found else { continue }
                let entity = EntityOfOrganization(organization: parked.name.organization, key: parked.event.event.key)
                group.parked[entity, default: []].append(parked)
            }
            try lacking.check()
        }
        add(EntityRows.keys.query(IngestStatements.firstParked, sorted)) { group, rows in
            let first = try Set(rows.read(EventName.init))
            group.parked = group.parked.filter { $0.value.first.map { first.contains($0.name) } ?? false }
        }
        add(causes) { group, rows in
            for var row in rows { try group.record(&row) }
        }
    }

    private static func keys(_ entities: Set<EntityOfOrganization>) -> [EntityRows.Key] {
        entities.sorted().map { ($0.organization, $0.key) }
    }

    /// Adds the query that finds erased users among the owners of new events.
    ///
    /// The owners of parked events are not checked, because parked events are deleted together with their owner.
    private mutating func addOwners() {
        var owners: Set<LaneKey> = []
        for job in group {
            let joins = entries[job.organization]?.joins
            for case let owner? in job.events.map(\.owner) {
                owners.insert(LaneKey(organization: job.organization, user: owner))
                if case .part(let target)? = joins?.state(of: owner, at: now) {
                    owners.insert(LaneKey(organization: job.organization, user: target))
                }
            }
        }
        guard !owners.isEmpty else { return }
        add(OwnerRow.query(owners)) { group, rows in
            for user in try rows.read(OwnerRow.read) { group.erased.insert(user) }
        }
    }

    private mutating func addEntities() {
        var keys: Set<EntityOfOrganization> = []
        var causes: Set<RequestKeyRow> = []
        for job in group {
            for key in job.entities { keys.insert(EntityOfOrganization(organization: job.organization, key: key)) }
            for key in job.causingKeys { causes.insert(RequestKeyRow(organization: job.organization, key: key)) }
        }
        guard !keys.isEmpty else { return }
        let sorted = Self.keys(keys)
        add(EntityRows.keys.query(IngestStatements.lastPlaces, sorted)) { group, rows in
            for var row in rows {
                let organization: UUID = try row.read("organization_id")
                let key = try row.entityKey()
                group.states[organization, default: IngestState()].lastPlaces[key] = try row.read(
                    "place",
                    as: Int64.self
                )
            }
        }
        add(lockQuery(sorted)) { group, rows in
            var lacking = LackingKeys()
            for var row in rows { _ = try lacking.collect { try group.load(&row) } }
            try lacking.check()
        }
        add(EntityRows.keys.query(IngestStatements.requests, sorted)) { group, rows in
            for var row in rows { try group.record(&row) }
        }
        if !causes.isEmpty {
            add(RequestKeyRow.columns.query(IngestStatements.causes, Array(causes))) { group, rows in
                for var row in rows { try group.record(&row) }
            }
        }
        let types = Set(keys.map { TypeNameRow(organization: $0.organization, name: $0.key.type) })
        let cut = now.adding(seconds: -SentRecord.flightSeconds)
        add(TypeNameRow.columns.query(IngestStatements.creates, Array(types), at: cut)) { group, rows in
            for var row in rows {
                let organization: UUID = try row.read("organization_id")
                let type: String = try row.read("entity_type")
                group.states[organization, default: IngestState()].firstCreates[type] = try row.read(
                    "sent_at",
                    as: Timestamp.self
                )
            }
        }
    }

    /// Returns the query that locks entities in the order of their keys.
    ///
    /// The query reads documents in the order of the events.
    private func lockQuery(_ entities: [EntityRows.Key]) -> Query {
        var places: [EntityOfOrganization: Int64] = [:]
        for job in group {
            for key in job.entities {
                let entity = EntityOfOrganization(organization: job.organization, key: key)
                if places[entity] == nil { places[entity] = Int64(places.count) }
            }
        }
        let rows = entities.map { entity in
            let name = EntityOfOrganization(organization: entity.organization, key: entity.key)
            return EntityPlaceRow(entity: entity, place: places[name] ?? 0)
        }
        var parameters = EntityPlaceRow.columns.parameters(rows)
        parameters.add(Self.readBytes)
        // the heavy worker needs the sizes of all documents, because it refuses batches by these sizes
        parameters.add(takesHeavy ? IngestBounds.most : Self.readBytes)
        return Query(IngestStatements.lockEntities, parameters)
    }

    private mutating func load(_ row: inout RowReader) throws {
        let (of, entity) = try EntityRows.read(&row, seals)
        let mark = SourceMark(
            version: try row.read("source_version"),
            occurredAt: try row.read("source_at"),
            fraction: try row.read("source_at_fraction", as: Int64?.self) ?? 0
        )
        states[of.organization, default: IngestState()].entities.load(of.key, entity)
        states[of.organization]?.sizes[of.key] = try row.read("bytes")
        if try row.read("is_left_out"), !entity.isDeleted {
            states[of.organization]?.unread.insert(of.key)
        }
        if mark != SourceMark() { states[of.organization, default: IngestState()].marks[of.key] = mark }
    }

    private mutating func record(_ row: inout RowReader) throws {
        let organization: UUID = try row.read("organization_id")
        let record = SentRecord(
            key: try row.read("idempotency_key"),
            entityType: try row.read("entity_type"),
            entityID: try row.read("server_id"),
            sentAt: try row.read("sent_at"),
            answeredAt: try row.read("answered_at"),
            content: try row.read("content", as: [UInt8]?.self).map(ContentHash.init(bytes:)),
            version: try row.read("version"),
            isUsed: try row.read("is_used")
        )
        states[organization, default: IngestState()].add(record)
    }

    mutating func read(_ results: [Rows]) throws {
        for (organization, entry) in entries where !entry.relations.isEmpty {
            states[organization, default: IngestState()].entities.relations = entry.relations
        }
        for (reader, rows) in zip(readers, results.dropFirst()) { try reader(&self, rows) }
    }

    // MARK: - 2: decide

    mutating func decide() {
        for (index, job) in group.enumerated() {
            guard held.contains(job.organization), let entry = entries[job.organization],
                let organization = entry.organization
            else {
                plans.append(nil)
                continue
            }
            let size = size(of: job)
            guard size <= IngestBounds.most || job.source == nil else {
                problems[index] = IngestBounds.tooLarge(size)
                plans.append(nil)
                continue
            }
            let (before, changed) = (states[job.organization]?.work ?? 0, channelChanges)
            let (plan, isWhole) = plan(job, IngestPlanner(entry.context(of: organization, at: now, erased: erased)))
            plans.append(plan)
            let work = (states[job.organization]?.work ?? 0) - before
            let isCrowded = channelChanges != changed && channelChanges.exceedGroup
            if !takesHeavy, !isWhole || work > IngestBounds.light || isCrowded { heavy.insert(job.lane) }
            if isWhole, takesHeavy, work <= IngestBounds.light { light.insert(job.lane) }
        }
    }

    /// The counts of the grants, and of the stays (the periods of an entity in a channel), that the plans have changed
    /// so far.
    private var channelChanges: ChannelChanges {
        states.values.reduce(into: ChannelChanges()) { $0 += $1.entities.channelChanges }
    }

    private var budget: Int { takesHeavy ? IngestBounds.part : IngestBounds.light }

    /// Returns the total bytes of the stored documents of the entities that a batch's events concern.
    ///
    /// Events that were ingested before are ignored.
    private func size(of job: IngestJob) -> Int {
        guard case .take(_, let bearer) = job.task, let state = states[job.organization] else { return 0 }
        let known = seen[Origin(organization: job.organization, source: bearer.source)] ?? [:]
        let keys = Set(job.events.filter { known[$0.id] == nil }.map(\.key))
        return keys.reduce(0) { $0 + (state.sizes[$1] ?? 0) }
    }

    /// - Returns: the plan, and whether it covers the whole job.
    private mutating func plan(_ job: IngestJob, _ planner: IngestPlanner) -> (IngestPlan, isWhole: Bool) {
        let organization = job.organization
        switch job.task {
        case .take(let request, let bearer):
            let origin = Origin(organization: organization, source: bearer.source)
            let plan = planner.plan(
                request,
                seen: seen[origin] ?? [:],
                budget: budget,
                &states[organization, default: IngestState()]
            )
            for (event, result) in plan.remembered { seen[origin, default: [:]][event.event.id] = result }
            writer.take(plan, of: origin)
            if bearer.isFirstUse { writer.use(bearer) }
            return (plan, plan.verdicts.count == request.entries.count)
        case .release(let keys, _):
            var plan = IngestPlan()
            let start = states[organization]?.work ?? 0
            var isWhole = true
            for key in keys {
                let left = budget - (states[organization]?.work ?? 0) + start
                guard left > 0 else {
                    isWhole = false
                    break
                }
                let entity = EntityOfOrganization(organization: organization, key: key)
                // two jobs can name the same entity; then the second job finds no events
                guard let queue = parked.removeValue(forKey: entity) else { continue }
                let (part, isAll) = release(queue, of: entity, planner, budget: left)
                plan.append(part)
                if !isAll { isWhole = false }
            }
            writer.register(plan.typesToRegister, in: organization)
            return (plan, isWhole)
        }
    }

    /// Evaluates an entity's events in order of arrival, until an event has to remain parked.
    private mutating func release(
        _ queue: [ParkedEvent],
        of entity: EntityOfOrganization,
        _ planner: IngestPlanner,
        budget: Int
    ) -> (IngestPlan, isAll: Bool) {
        let all = queue
        // the first event whose document was not read, and all later events, are left to a later poll
        let queue = all.firstIndex(where: \.isLeftOut).map { Array(all[..<$0]) } ?? all
        // an event that cannot be decrypted waits for a gateway that can decrypt it; later events wait for this event,
        // but only for a limited time
        let isPatient = { [now] (parked: ParkedEvent) in
            parked.event.receivedAt.adding(seconds: IngestPlanner.timeoutSeconds) > now
        }
        let closed = queue.firstIndex { !$0.isReadable && isPatient($0) }
        let open = queue[..<(closed ?? queue.endIndex)].filter(\.isReadable)
        for parked in queue where !parked.isReadable { writer.postpone(parked.name, seconds: 30) }
        var state = states[entity.organization] ?? IngestState()
        // the limit of parked events does not apply, because these events were already accepted
        let count = state.parkedCount
        state.parkedCount = 0
        let plan = planner.plan(released: open.map(\.event), budget: budget, &state)
        state.parkedCount = count
        let waiter = plan.verdicts.firstIndex { $0.result == .parked }
        for (parked, verdict) in zip(open, plan.verdicts).prefix(waiter ?? open.count) {
            writer.release(parked.name, parked.event, verdict)
        }
        if let stopped = waiter.map({ open[$0] }) ?? closed.map({ queue[$0] }) {
            writer.deferFollowers(of: stopped)
            if stopped.isReadable { writer.postpone(stopped.name, seconds: IngestGroupWriter.pollSeconds) }
        } else {
            let isAll = all.count < parkedLimit && queue.count == all.count && queue.allSatisfy(\.isReadable)
            if isAll, plan.verdicts.count == open.count, let last = queue.last?.event.place,
                state.lastPlaces[entity.key].map({ $0 <= last }) ?? true
            {
                state.lastPlaces[entity.key] = nil
            }
            writer.wakeNext(organization: entity.organization, entity.key)
        }
        states[entity.organization] = state
        return (plan, queue.count == all.count && plan.verdicts.count == open.count)
    }

    // MARK: - 3: write

    /// The queries for all writes, and COMMIT. If nothing changes, only the remaining reads and ROLLBACK.
    var writeQueries: [Query] {
        mutating get throws(SealError) { try writer.queries(of: organizations, states) }
    }

    /// Returns the end of each organization's feed after this group.
    func feeds(_ results: [Rows]) throws -> [UUID: FeedCursor] { try writer.feeds(results) }

    /// The organizations with new changes in their feeds.
    var changed: [UUID] { organizations.filter { states[$0]?.entities.writes.isEmpty == false } }
}

/// The name of an entity. Its sort order is the order in which entities are locked.
private struct EntityOfOrganization: Hashable, Comparable {
    let organization: UUID
    let key: EntityKey

    static func < (left: Self, right: Self) -> Bool {
        if left.organization != right.organization { return left.organization < right.organization }
        if left.key.type != right.key.type { return left.key.type.utf8.lexicographicallyPrecedes(right.key.type.utf8) }
        return left.key.id.utf8.lexicographicallyPrecedes(right.key.id.utf8)
    }
}
