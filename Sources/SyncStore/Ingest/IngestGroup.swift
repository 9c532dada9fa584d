import Foundation
import Postgres
import SyncModel

/// One group of batches within its transaction.
///
/// It reads what their plans need under the locks of the entities that they name, and writes what they decide.
struct IngestGroup {
    private let group: [IngestJob]
    private let entries: [UUID: Catalog.Entry]
    private let seals: SealTable
    private let now: Timestamp
    /// Whether the jobs may do a whole transaction's work, and leave the rest.
    ///
    /// See ``IngestBounds/part``.
    private let takesHeavy: Bool
    private let organizations: [UUID]
    /// The handlers of the results, in the order of the queries after BEGIN.
    private var readers: [(inout IngestGroup, Rows) throws -> Void] = []
    private(set) var readQueries: [Query] = [.begin]

    private var held: Set<UUID> = []
    /// Outcomes of events that were taken before, by source.
    private var seen: [Origin: [ByteExactString: IngestResult]] = [:]
    private var states: [UUID: IngestState] = [:]
    /// Erased users among the owners that events name.
    private var erased: Set<LaneKey> = []
    /// The first waiting events, of jobs that release them, in order of arrival.
    private var parked: [EntityOfOrganization: [ParkedEvent]] = [:]
    /// How many of an entity's were asked for.
    private var parkedLimit = 0

    /// By place in the group; nil of organizations that take no events.
    private(set) var plans: [IngestPlan?] = []
    /// Of jobs that are refused.
    private(set) var problems: [Int: Problem] = [:]
    /// Jobs with too much work to be done with others.
    private(set) var heavy: Set<LaneKey> = []
    /// Jobs of the heavy worker with so little work that others could share the group.
    private(set) var light: Set<LaneKey> = []
    private var writer: IngestGroupWriter

    struct Origin: Hashable {
        let organization: UUID
        @Exact private(set) var source: String
    }

    /// Bytes of documents that a group reads; the last document may exceed them.
    static let readBytes = 4_194_304
    /// Stored bytes of documents whose actual size is measured.
    ///
    /// Without and with room for much work.
    private static let (measuredBytes, mostMeasuredBytes) = (IngestBounds.light, IngestBounds.most)

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
            group.held = try Set(rows.read { try $0.uuid("id") })
        }
        addNames()
        addParked()
        addOwners()
        addEntities()
        add(IngestStatements.parkedCounts(organizations: organizations)) { group, rows in
            for var row in rows {
                let organization = try row.uuid("organization_id")
                group.states[organization, default: IngestState()].parkedCount = Int(try row.int64("count"))
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
                let origin = Origin(organization: try row.uuid("organization_id"), source: try row.string("source"))
                let id = try row.string("event_id")
                group.seen[origin, default: [:]][id] = try row.choice("result")
            }
        }
    }

    /// Events that wait, of the jobs that judge them.
    ///
    /// If another worker has the first event about an entity, all about it are left to that worker: nothing overtakes
    /// what came before it.
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
        parameters.add(Int64(limit))
        let causes = Query(IngestStatements.parkedCauses, parameters)
        parameters.add(Int64(Self.readBytes))
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

    /// Waiting events are deleted with their owner, so only new ones are checked.
    private mutating func addOwners() {
        var owners: Set<LaneKey> = []
        for job in group {
            let standing = entries[job.organization]?.joins
            for case let owner? in job.events.map(\.owner) {
                owners.insert(LaneKey(organization: job.organization, user: owner))
                if case .part(let target)? = standing?.standing(of: owner, at: now) {
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
                let organization = try row.uuid("organization_id")
                let key = try row.entityKey()
                group.states[organization, default: IngestState()].lastPlaces[key] = try row.int64("place")
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
                let organization = try row.uuid("organization_id")
                let type = try row.string("entity_type")
                group.states[organization, default: IngestState()].firstCreates[type] = try row.moment("sent_at")
            }
        }
    }

    /// Locks entities in the order of their keys.
    ///
    /// Documents are needed in the order of events.
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
        parameters.add(Int64(Self.readBytes))
        parameters.add(Int64(takesHeavy ? Self.mostMeasuredBytes : Self.measuredBytes))
        return Query(IngestStatements.lockEntities, parameters)
    }

    private mutating func load(_ row: inout RowReader) throws {
        let (of, entity) = try EntityRows.read(&row, seals)
        let mark = SourceMark(
            version: try row.optionalInt64("source_version"),
            occurredAt: try row.optionalMoment("source_at"),
            fraction: try row.optionalInt64("source_at_fraction") ?? 0
        )
        states[of.organization, default: IngestState()].entities.load(of.key, entity)
        states[of.organization]?.sizes[of.key] = Int(try row.int64("bytes"))
        if try row.bool("is_left_out"), !entity.isDeleted { states[of.organization]?.unread.insert(of.key) }
        if mark != SourceMark() { states[of.organization, default: IngestState()].marks[of.key] = mark }
    }

    private mutating func record(_ row: inout RowReader) throws {
        let organization = try row.uuid("organization_id")
        let record = SentRecord(
            key: try row.uuid("idempotency_key"),
            entityType: try row.string("entity_type"),
            entityID: try row.optionalString("server_id"),
            sentAt: try row.moment("sent_at"),
            answeredAt: try row.optionalMoment("answered_at"),
            content: try row.optionalBytes("content").map(ContentHash.init(bytes:)),
            version: try row.optionalInt64("version"),
            isUsed: try row.bool("is_used")
        )
        states[organization, default: IngestState()].add(record)
    }

    mutating func read(_ results: [Rows]) throws {
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
            let before = states[job.organization]?.work ?? 0
            let (plan, isWhole) = plan(job, IngestPlanner(entry.context(of: organization, at: now, erased: erased)))
            plans.append(plan)
            let work = (states[job.organization]?.work ?? 0) - before
            if !takesHeavy, !isWhole || work > IngestBounds.light { heavy.insert(job.lane) }
            if isWhole, takesHeavy, work <= IngestBounds.light { light.insert(job.lane) }
        }
    }

    private var budget: Int { takesHeavy ? IngestBounds.part : IngestBounds.light }

    /// Bytes of the stored documents that a batch's events concern.
    ///
    /// Events that were taken before do not count.
    private func size(of job: IngestJob) -> Int {
        guard case .take(_, let bearer) = job.task, let state = states[job.organization] else { return 0 }
        let known = seen[Origin(organization: job.organization, source: bearer.source)] ?? [:]
        let keys = Set(job.events.filter { known[$0.id] == nil }.map(\.key))
        return keys.reduce(0) { $0 + (state.sizes[$1] ?? 0) }
    }

    /// - Returns: the plan, and whether it is for all of the job.
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
                // none, where two jobs name the same entity
                guard let queue = parked.removeValue(forKey: entity) else { continue }
                let (part, isAll) = release(queue, of: entity, planner, budget: left)
                plan.append(part)
                if !isAll { isWhole = false }
            }
            writer.register(plan.typesToRegister, in: organization)
            return (plan, isWhole)
        }
    }

    /// Judges an entity's events in order of arrival, until one has to wait further.
    private mutating func release(
        _ queue: [ParkedEvent],
        of entity: EntityOfOrganization,
        _ planner: IngestPlanner,
        budget: Int
    ) -> (IngestPlan, isAll: Bool) {
        let all = queue
        // the first unread event, and all behind it, are left to a later poll
        let queue = all.firstIndex(where: \.isLeftOut).map { Array(all[..<$0]) } ?? all
        // an event that cannot be opened waits for a gateway that can; others wait behind it for a limited time
        let isPatient = { [now] (parked: ParkedEvent) in
            parked.event.receivedAt.adding(seconds: IngestPlanner.timeoutSeconds) > now
        }
        let closed = queue.firstIndex { !$0.isReadable && isPatient($0) }
        let open = queue[..<(closed ?? queue.endIndex)].filter(\.isReadable)
        for parked in queue where !parked.isReadable { writer.postpone(parked.name, seconds: 30) }
        var state = states[entity.organization] ?? IngestState()
        // an event that was taken is not refused for lack of room
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

    /// All writes and COMMIT; where nothing changes, the remaining reads and ROLLBACK.
    var writeQueries: [Query] {
        mutating get throws(SealError) { try writer.queries(of: organizations, states) }
    }

    /// The end of each organization's feed as of this group.
    func feeds(_ results: [Rows]) throws -> [UUID: FeedCursor] { try writer.feeds(results) }

    /// Organizations whose feeds moved.
    var changed: [UUID] { organizations.filter { states[$0]?.entities.writes.isEmpty == false } }
}

/// Names an entity; sorted as entities are locked.
private struct EntityOfOrganization: Hashable, Comparable {
    let organization: UUID
    let key: EntityKey

    static func < (left: Self, right: Self) -> Bool {
        if left.organization != right.organization { return left.organization < right.organization }
        if left.key.type != right.key.type { return left.key.type.utf8.lexicographicallyPrecedes(right.key.type.utf8) }
        return left.key.id.utf8.lexicographicallyPrecedes(right.key.id.utf8)
    }
}
