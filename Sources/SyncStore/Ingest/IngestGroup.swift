import Foundation
import Postgres
import SyncModel

/// One group of batches within its transaction: reads what their plans need under the locks of the entities that they
/// name, and writes what they decide.
struct IngestGroup {
    private let group: [IngestJob]
    private let entries: [UUID: Catalog.Entry]
    private let seals: SealTable
    private let now: Timestamp
    private let organizations: [UUID]
    /// What is done with the results, in the order of the queries behind BEGIN.
    private var readers: [(inout IngestGroup, Rows) throws -> Void] = []
    private(set) var readQueries: [Query] = [.begin]

    private var held: Set<UUID> = []
    /// What became of events that were taken before, by source.
    private var seen: [Origin: [String: IngestResult]] = [:]
    private var states: [UUID: IngestState] = [:]
    /// Of the users that events name as owners, those whose data were erased.
    private var erased: Set<LaneKey> = []
    /// Events that wait, of jobs that release them; nil where one cannot be opened.
    private var parked: [(name: EventName, event: ReceivedEvent?)] = []

    /// By place in the group; nil of organizations that take no events.
    private(set) var plans: [IngestPlan?] = []
    private var writer: IngestGroupWriter

    struct Origin: Hashable {
        let organization: UUID
        let source: String
    }

    init(_ group: [IngestJob], entries: [UUID: Catalog.Entry], seals: SealTable, now: Timestamp) {
        self.group = group
        self.entries = entries
        self.seals = seals
        self.now = now
        organizations = Set(group.map(\.organization)).sorted()
        writer = IngestGroupWriter(seals: seals, now: now)
        addReading()
    }

    // MARK: - 1: read

    private mutating func add(_ query: Query, _ read: @escaping (inout IngestGroup, Rows) throws -> Void) {
        readQueries.append(query)
        readers.append(read)
    }

    private mutating func addReading() {
        add(Query(IngestStatements.hold, Parameters(organizations))) { group, rows in
            group.held = try Set(rows.read { try $0.uuid("id") })
        }
        addNames()
        addOwners()
        addEntities()
        add(Query(IngestStatements.parkedCounts, Parameters(organizations))) { group, rows in
            for var row in rows {
                let organization = try row.uuid("organization_id")
                group.states[organization, default: IngestState()].parkedCount = Int(try row.int64("count"))
            }
        }
    }

    private mutating func addNames() {
        var (taken, waiting): ([EventName], [EventName]) = ([], [])
        for job in group {
            switch job.task {
            case .take(_, let bearer):
                let source = bearer.source
                taken += job.events.map {
                    EventName(organization: job.organization, source: source, eventID: $0.id)
                }
            case .release(let events):
                waiting += events.map(\.name)
            }
        }
        if !taken.isEmpty {
            add(EventName.columns.query(IngestStatements.seen, taken)) { group, rows in
                for var row in rows {
                    let origin = Origin(organization: try row.uuid("organization_id"), source: try row.string("source"))
                    let id = try row.string("event_id")
                    group.seen[origin, default: [:]][id] = try row.choice("result")
                }
            }
        }
        if !waiting.isEmpty {
            add(EventName.columns.query(IngestStatements.parked, waiting)) { group, rows in
                var lacking = LackingKeys()
                for var row in rows {
                    let found = try lacking.collect { try ParkedEventRow.read(&row, group.seals) }
                    if let found { group.parked.append(found) }
                }
                try lacking.check()
            }
        }
    }

    /// Events that wait go with their owner, so only those that come are looked at.
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
        let sorted = keys.sorted().map { ($0.organization, $0.key) as EntityRows.Key }
        add(EntityRows.keys.query(IngestStatements.lockEntities, sorted)) { group, rows in
            var lacking = LackingKeys()
            for var row in rows { _ = try lacking.collect { try group.load(&row) } }
            try lacking.check()
        }
        add(EntityRows.keys.query(IngestStatements.requests, sorted)) { group, rows in
            for var row in rows { try group.note(&row) }
        }
        if !causes.isEmpty {
            add(RequestKeyRow.columns.query(IngestStatements.causes, Array(causes))) { group, rows in
                for var row in rows { try group.note(&row) }
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

    private mutating func load(_ row: inout RowReader) throws {
        let (of, entity) = try EntityRows.read(&row, seals)
        let mark = SourceMark(
            version: try row.optionalInt64("source_version"),
            occurredAt: try row.optionalMoment("source_at")
        )
        states[of.organization, default: IngestState()].entities.load(of.key, entity)
        if mark != SourceMark() { states[of.organization, default: IngestState()].marks[of.key] = mark }
    }

    private mutating func note(_ row: inout RowReader) throws {
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
        for job in group {
            guard held.contains(job.organization), let entry = entries[job.organization],
                let organization = entry.organization
            else {
                plans.append(nil)
                continue
            }
            plans.append(plan(job, IngestPlanner(entry.context(of: organization, at: now, erased: erased))))
        }
    }

    private mutating func plan(_ job: IngestJob, _ planner: IngestPlanner) -> IngestPlan {
        let organization = job.organization
        switch job.task {
        case .take(let request, let bearer):
            let origin = Origin(organization: organization, source: bearer.source)
            let plan = planner.plan(
                request,
                seen: seen[origin] ?? [:],
                &states[organization, default: IngestState()]
            )
            for (event, result) in plan.remembered { seen[origin, default: [:]][event.event.id] = result }
            writer.take(plan, of: origin)
            if bearer.isUseNews { writer.use(bearer) }
            return plan
        case .release(let keys):
            let named = Set(keys.map(\.name))
            let mine = parked.filter { named.contains($0.name) }.sorted { Self.isOlder($0.event, $1.event) }
            // what cannot be opened waits for who can
            for waiting in mine where waiting.event == nil { writer.postpone(waiting.name, seconds: 30) }
            let open = mine.compactMap { one in one.event.map { (one.name, $0) } }
            // what was taken is not refused for want of room
            let count = states[organization]?.parkedCount ?? 0
            states[organization]?.parkedCount = 0
            let plan = planner.plan(released: open.map(\.1), &states[organization, default: IngestState()])
            states[organization]?.parkedCount = count
            for ((name, event), verdict) in zip(open, plan.verdicts) { writer.release(name, event, verdict) }
            writer.register(plan.typesToRegister, in: organization)
            return plan
        }
    }

    private static func isOlder(_ left: ReceivedEvent?, _ right: ReceivedEvent?) -> Bool {
        guard let left, let right else { return left != nil }
        if let one = left.event.mark.version, let other = right.event.mark.version, one != other { return one < other }
        if let one = left.event.mark.occurredAt, let other = right.event.mark.occurredAt, one != other {
            return one < other
        }
        return left.receivedAt < right.receivedAt
    }

    // MARK: - 3: write

    /// All writes and COMMIT; where nothing changes, what is still to be read and ROLLBACK.
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
