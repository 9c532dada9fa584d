import FoundationEssentials
import GroupCommit
import Postgres
import SyncModel

/// A committer's group of lane steps, in the transaction that runs them. This type sends no notifications.
///
/// The group reads the data for its ``LanePlan``s, and writes the changes that the plans decide.
struct LaneGroup {
    private let group: [LaneJob]
    private let entries: [UUID: Catalog.Entry]
    private let reader: QueuedReader
    private let makeID: @Sendable () -> UUID
    private let writer: LaneGroupWriter
    /// The seals for entities' documents. A document that cannot be opened is not patched.
    private let documentSeals: SealTable
    private let planner: DispatchPlanner
    private let now: Timestamp
    /// The plans, by the step's index in the group; nil for steps that lost their lane.
    private var plans: [LanePlan?]
    private var entities: [UUID: EntityTable] = [:]
    /// Users whose channels are read, because their organizations have types with channels.
    private let usersOfChannels: [LaneKey]
    /// The users among ``usersOfChannels`` in organizations whose entities grant channels to subjects.
    private let namedUsers: [LaneKey]
    /// The group's organizations that accept events.
    private let sources: [UUID]
    /// Entities with parked events, by organization.
    private var waiting: [UUID: Set<EntityKey>] = [:]
    /// Entities whose parked events can be evaluated again.
    private(set) var woken: Set<ParkedKey> = []
    /// Whether an organization's cached entry is outdated.
    ///
    /// In that case another replica has registered the type of a head (the next mutation of a lane), or created the key
    /// that seals a head.
    private(set) var isStale = false

    init(
        _ group: [LaneJob],
        entries: [UUID: Catalog.Entry],
        _ context: RetryContext,
        leaseSeconds: Double,
        participants: [any CommitParticipant],
        now: Timestamp,
        makeID: @escaping @Sendable () -> UUID
    ) {
        self.group = group
        self.entries = entries
        // values that a gateway with other keys can decrypt are left to that gateway
        let seals = SealTable(entries.mapValues { $0.seal.closing(.damaged) })
        reader = QueuedReader(seals: seals, now: now)
        usersOfChannels = Set(
            group.lazy.map(\.lane).filter { entries[$0.organization]?.channelRules.isEmpty == false }
        ).sorted()
        namedUsers = usersOfChannels.filter {
            entries[$0.organization].map { ChannelRules.grantToSubjects($0.channelRules) } == true
        }
        sources = entries.filter(\.value.hasSources).map(\.key).sorted()
        writer = LaneGroupWriter(seals: seals, sources: Set(sources), now: now, participants: participants)
        documentSeals = SealTable(entries.mapValues { context.hasNewestKeys ? $0.seal.withoutKeyRefresh : $0.seal })
        planner = DispatchPlanner(leaseSeconds: leaseSeconds)
        self.now = now
        self.makeID = makeID
        plans = group.map { _ in nil }
    }

    /// Returns the plan for a row, and the organization's catalog entry; nil for a step that lost its lane.
    private func step(_ row: inout RowReader) throws -> (plan: LanePlan, entry: Catalog.Entry)? {
        guard let plan = plans[Int(try row.read("job", as: Int32.self))],
            let entry = entries[plan.request.lane.organization]
        else {
            return nil
        }
        return (plan, entry)
    }

    // MARK: - 1: lock

    var lockQueries: [Query] {
        let keys = group.flatMap { job in job.request.step.entityKeys.map { (job.lane.organization, $0) } }
        let targets = targets
        let lock = targets.isEmpty ? EntityRows.lock(keys) : EntityRows.lock(keys, referringTo: targets)
        return [.begin, LaneRows.lock(group.map(\.lane))] + (keys.isEmpty && targets.isEmpty ? [] : [lock])
            + (namedUsers.isEmpty ? [] : [Columns.lanes.query(ChannelStatements.subjects, namedUsers)])
            + (usersOfChannels.isEmpty ? [] : [Columns.lanes.query(ChannelStatements.accessOfFew, usersOfChannels)])
    }

    /// The entities to which the steps add references.
    private var targets: [EntityRows.Key] {
        group.flatMap { job in
            job.request.step.targets(relations(of: job)).map { (job.lane.organization, $0) }
        }
    }

    mutating func readLocked(_ results: [Rows]) throws {
        let lanes = try LaneRows.lanes(results[1])
        for (id, entry) in entries where !entry.channelRules.isEmpty { entities[id] = EntityTable(entry.channelRules) }
        var others = results.dropFirst(2)
        if !usersOfChannels.isEmpty { try ChannelAccess.readFew(others.removeLast(), into: &entities) }
        if !namedUsers.isEmpty { try ChannelAccess.readSubjects(others.removeLast(), into: &entities) }
        if let found = others.first, targets.isEmpty {
            try EntityRows.load(found, into: &entities, documentSeals)
        } else if let found = others.first {
            try EntityRows.loadBounded(found, hasTargets: true, into: &entities, documentSeals)
        }
        for (organization, entry) in entries where !entry.relations.isEmpty {
            entities[organization, default: EntityTable()].relations = entry.relations
        }
        for (index, job) in group.enumerated() {
            guard let lane = lanes[job.lane], let entry = entries[job.lane.organization] else { continue }
            plans[index] = LanePlan(
                job.request,
                lane: lane,
                organization: entry.organization,
                isClosed: entry.joins.isClosed(job.lane.user, at: now) || entry.erased.contains(job.lane),
                by: planner,
                now: now
            )
        }
    }

    private func relations(of job: LaneJob) -> EntityRelations {
        entries[job.lane.organization]?.relations ?? EntityRelations()
    }

    /// Reads the entities that refer to entities that the steps may delete.
    mutating func readReferrers(on connection: Connection) async throws {
        let deleting = Set(group.filter(\.request.step.isDeletion).map(\.lane.organization))
        guard !deleting.isEmpty else { return }
        let deletions = group.map { job in
            let (step, relations) = (job.request.step, relations(of: job))
            // a deletion also affects entities whose references to the deleted entity were written by this group
            return ReferrerReader.Deletions(
                organization: job.lane.organization,
                relations: relations,
                entities: step.entityKeys.filter { key in
                    step.isDeletion || deleting.contains(job.lane.organization) && relations.isChained(key.type)
                }
            )
        }
        let reader = ReferrerReader(deletions, .locking, documentSeals, documentBytes: WorkBounds.groupDocuments)
        try await reader.read(into: &entities, on: connection)
    }

    /// Reads the channels on which outcomes depend, for users with many channels.
    mutating func readAccess(on connection: Connection) async throws {
        guard usersOfChannels.contains(where: leavesOut) else { return }
        var reads = 0
        repeat {
            var rehearsed = entities
            for case let plan? in plans { plan.rehearse(&rehearsed, makeID) }
        } while try await ChannelAccess.readUnread(&entities, &reads, on: connection)
    }

    /// Reads the channels on which the next actions depend.
    ///
    /// Channels that were read before are read again, because the heads were read later: a grant in the earlier result
    /// may have ended before a head's entity was written.
    mutating func readAccessToHeads(on connection: Connection) async throws {
        let asked = plans.compactMap { plan -> (user: LaneKey, channels: Set<ChannelID>)? in
            guard let plan else { return nil }
            let channels = Set(plan.channelsOfHeads(by: planner, entities, now: now))
            return channels.isEmpty ? nil : (plan.request.lane, channels)
        }
        for (user, channels) in asked { entities[user.organization]?.access.forget(channels, of: user.user) }
        try await ChannelAccess.read(asked, into: &entities, on: connection)
    }

    private func leavesOut(_ user: LaneKey) -> Bool {
        entities[user.organization]?.access.leavesOut(user.user) ?? false
    }

    // MARK: - 2: lanes whose worker was lost

    var lostQueries: [Query] {
        var flights: [HeadRow] = []
        var lanes: [JobRow] = []
        for (index, plan) in plans.enumerated() {
            guard let plan, plan.recovery != nil else { continue }
            let lane = plan.request.lane
            if plan.lane.inFlight != nil {
                flights.append(HeadRow(job: Int32(index), lane: lane, headPosition: plan.lane.queue.head))
            }
            lanes.append(JobRow(job: Int32(index), lane: lane))
        }
        guard !lanes.isEmpty else { return [] }
        let blockers = JobRow.columns.query(LaneStatements.doneBlockers, lanes)
        // a lost worker may have had no mutation in flight, and Citus cannot choose a server for a statement without
        // rows
        return [blockers] + (flights.isEmpty ? [] : [HeadRow.columns.query(LaneStatements.inFlight, flights)])
    }

    func readLost(_ results: [Rows]) throws {
        var lacking = LackingKeys()
        for rows in results.dropFirst() {
            for var row in rows {
                guard let (plan, entry) = try step(&row) else { continue }
                let found = try lacking.collect { try reader.mutation(&row, of: plan.request.lane, entry) }
                guard let mutation = found else { continue }
                plan.recover(mutation, isForwarded: entry.type(mutation.entity.type).isForwarded)
            }
        }
        try lacking.check()
        for var row in results[0] {
            guard let (plan, _) = try step(&row) else { continue }
            plan.recover(waitersFor: try row.read("id"))
        }
    }

    // MARK: - 3: outcomes

    /// Computes the outcomes of mutations in flight, and their effects on entities and lanes.
    mutating func settle() {
        for case let plan? in plans { plan.settle(&entities, makeID) }
    }

    /// The counts of the grants, and of the stays (the periods of an entity in a channel), that the outcomes change.
    var channelChanges: ChannelChanges { entities.values.reduce(into: ChannelChanges()) { $0 += $1.channelChanges } }

    /// The queries that write outcomes, and then read the next heads.
    var settleQueries: LaneReads {
        get throws(SealError) {
            let reads = try writer.settleQueries(plans, entities)
            if reads.queries.isEmpty || sources.isEmpty { return reads }
            return reads.behind(IngestCommit.waitingStatement(organizations: sources))
        }
    }

    mutating func readNext(_ results: [Rows], _ reads: LaneReads) throws {
        if !sources.isEmpty { try readWaiting(results[0]) }
        if let place = reads.released { try readReleased(results[place]) }
        if let place = reads.windows { try readWindows(results[place]) }
        var lacking = LackingKeys()
        if let place = reads.heads { try readHeads(results[place], &lacking) { $0.head = $1 } }
        if let place = reads.due { try readHeads(results[place], &lacking) { $0.window?.due.append($1) } }
        try lacking.check()
    }

    private mutating func readHeads(
        _ rows: Rows,
        _ lacking: inout LackingKeys,
        _ take: (LanePlan, FoundHead) -> Void
    ) throws {
        for var row in rows {
            guard let (plan, entry) = try step(&row) else { continue }
            let found = try lacking.collect { try reader.head(&row, of: plan.request.lane, entry) }
            guard let found else { continue }
            take(plan, found)
            guard entry.readAt < now else { continue }
            switch found {
            case .mutation(let head, _, _, _) where entry.types[head.entity.type] == nil: isStale = true
            case .sealed(_, .unknownKey): isStale = true
            default: break
            }
        }
    }

    /// A lane without pending mutations has no row, and its window remains empty.
    private func readWindows(_ rows: Rows) throws {
        for case let plan? in plans where plan.isConcurrent { plan.window = LaneWindow() }
        for var row in rows {
            guard let (plan, _) = try step(&row) else { continue }
            plan.window?.first = (position: try row.read("position"), acceptedAt: try row.read("accepted_at"))
            plan.window?.nextRetryAt = try row.read("next_retry_at")
            plan.window?.isFull = try row.read("is_full")
        }
    }

    private mutating func readWaiting(_ rows: Rows) throws {
        for var row in rows {
            let organization: UUID = try row.read("organization_id")
            waiting[organization, default: []].insert(try row.entityKey())
        }
        for case let plan? in plans {
            let organization = plan.request.lane.organization
            guard let waiting = waiting[organization] else { continue }
            for outcome in plan.outcomes {
                let entity = outcome.mutation.entity
                // until the outcome of a create contains the entity's id, the create can concern any entity of its type
                for key in waiting where key.type == entity.type && entity.serverID.map({ $0.text == key.id }) ?? true {
                    woken.insert(ParkedKey(organization: organization, entity: key))
                }
            }
        }
    }

    /// Each lane releases its own waiting mutations, because a mutation's id is unique only in its lane.
    private func readReleased(_ rows: Rows) throws {
        for var row in rows {
            guard let (plan, _) = try step(&row) else { continue }
            let position: Int64 = try row.read("position")
            let acceptedAt: Timestamp = try row.read("accepted_at")
            let status: MutationStatus = try row.choice("status")
            let blocker: UUID = try row.read("blocker")
            if try row.read("more") { plan.unreleased.insert(blocker) }
            if status == .pending { plan.release(position: position, acceptedAt: acceptedAt) }
        }
    }

    // MARK: - 4: next actions

    func choose() {
        for case let plan? in plans {
            let waiting = waiting[plan.request.lane.organization] ?? []
            plan.choose(by: planner, entities, waiting: waiting, now: now)
        }
    }

    /// The queries for all remaining writes, and COMMIT.
    var finalQueries: [Query] {
        get throws(SealError) { try writer.finalQueries(plans, entities) }
    }

    /// The answer to each step.
    var nextActions: [LaneAction] { plans.map { $0?.nextAction ?? .lost } }

    var changedLanes: [LaneKey] { plans.compactMap { $0?.request.lane } }

    /// Notes about defects of lanes that were found and repaired.
    var notes: [(lane: LaneKey, text: String)] {
        plans.compactMap { plan in plan.flatMap { plan in plan.note.map { (plan.request.lane, $0) } } }
    }

    /// The errors of heads that cannot be decrypted.
    var sealed: [SealError] {
        plans.flatMap { plan in
            ((plan?.head).map { [$0] } ?? []) + (plan?.window?.due ?? [])
        }.compactMap { if case .sealed(_, let error) = $0 { error } else { nil } }
    }
}
