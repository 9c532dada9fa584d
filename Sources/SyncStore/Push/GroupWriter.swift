import FoundationEssentials
import Postgres
import SyncModel

/// The second round trip of a group of pushes: all changes of the plans, and COMMIT.
///
/// A group without changes ends in ROLLBACK, which needs no flush to disk.
struct GroupWriter {
    private let group: [PushJob]
    private let plan: GroupPlan
    private let uses: [MappingUse]
    private let changes: [GroupPlan.Placed]
    private let lastSeenUpdates: [GroupPlan.Placed]
    private let now: Timestamp
    private let seals: SealTable
    private let participants: [any CommitParticipant]
    /// The indices of the feeds' rows in the results.
    private var feedResults: [Int] = []
    private(set) var queries: [Query] = []

    init(
        _ group: [PushJob],
        plan: GroupPlan,
        uses: [MappingUse],
        now: Timestamp,
        seals: SealTable,
        participants: [any CommitParticipant]
    ) throws(SealError) {
        self.group = group
        self.participants = participants
        self.seals = seals
        self.plan = plan
        self.uses = uses
        self.now = now
        changes = plan.changes
        lastSeenUpdates = plan.lastSeenUpdates(at: now)
        if isCommitted {
            addLanes()
            addDevices()
            addUsers()
        }
        try addMutations()
        addParticipants()
        addMappings()
        addMappingUses()
        addLocalIDs()
        addKnownIDs()
        try addRejections()
        addAllowances()
        addTypes()
        try addFeedsAndEntities()
        queries.append(isCommitted ? .commit : .rollback)
    }

    private var isCommitted: Bool { !changes.isEmpty || !lastSeenUpdates.isEmpty }

    /// Returns the end of each organization's feed after this group.
    func feeds(_ results: [Rows]) throws -> [UUID: FeedCursor] {
        var feeds: [UUID: FeedCursor] = [:]
        for index in feedResults {
            for feed in try results[index].read(FeedCursor.end) { feeds[feed.organization] = feed.end }
        }
        return feeds
    }

    // MARK: - Lanes, devices, users

    private mutating func addLanes() {
        guard !changes.isEmpty else { return }
        let rows = inKeyOrder(changes).map { LaneRow(key: group[$0.index].lane, state: $0.plan.lane) }
        queries.append(LaneRows.write(rows))
    }

    private mutating func addDevices() {
        let rows = inKeyOrder(changes + lastSeenUpdates).map { push in
            DevicePushRow(
                lane: group[push.index].lane,
                id: group[push.index].push.deviceID,
                acceptedSequence: push.plan.acceptedSequence,
                unresolvedIDs: push.plan.unresolvedIDs?.stored
            )
        }
        add(GroupStatements.writeDevices, DevicePushRow.columns, rows)
    }

    private func inKeyOrder(_ plans: [GroupPlan.Placed]) -> [GroupPlan.Placed] {
        plans.sorted { group[$0.index].lane < group[$1.index].lane }
    }

    /// Records new users, even users whose pushes are refused.
    ///
    /// The commit creates the lanes of these users. After that, a later push could no longer recognize a user as new.
    private mutating func addUsers() {
        let newcomers = group.indices.filter { plan.snapshots[$0].isLaneNew }.map { group[$0].lane }.sorted()
        add(GroupStatements.writeUsers, .lanes, newcomers)
    }

    /// Adds a statement over rows, with the time as the last parameter. Adds nothing if there are no rows.
    private mutating func add<Row>(_ statement: Statement, _ columns: Columns<Row>, _ rows: [Row]) {
        if !rows.isEmpty { queries.append(columns.query(statement, rows, at: now)) }
    }

    // MARK: - Mutations

    private mutating func addMutations() throws(SealError) {
        let isPlain = seals.arePlain
        var (dependencies, references, blockers) = (FlattenedLists(), FlattenedLists(), FlattenedLists())
        var referenceTypes: [String] = []
        var rows: [MutationRow] = []
        for change in changes {
            let job = group[change.index]
            let seal = isPlain ? nil : seals.lane(job.lane)
            for new in change.plan.mutations {
                let row = MutationRow(
                    job.lane,
                    new,
                    changePosition: change.plan.lane.changePosition,
                    traceparent: job.traceparent
                )
                row.dependencies = dependencies.add(new.mutation.dependencyIDs)
                row.blockers = blockers.add(new.record.status == .blocked ? new.record.dependsOn : [])
                row.references = references.add(new.references.map(\.clientID))
                referenceTypes += new.references.lazy.map(\.entityType)
                // values are usually stored unchanged: in plain text, and without a value that would be mistaken for a
                // sealed value and therefore has to be escaped
                if let seal { try row.seal(seal) } else if row.looksSealed { try row.seal(seals.lane(job.lane)) }
                rows.append(row)
            }
        }
        guard !rows.isEmpty else { return }
        if MutationRow.areCommon(rows) { return add(GroupStatements.writeCommonMutations, MutationRow.common, rows) }
        var parameters = MutationRow.columns.parameters(rows)
        parameters.add(now)
        parameters.add(dependencies.ids)
        parameters.add(blockers.ids)
        parameters.add(references.ids)
        parameters.add(referenceTypes)
        queries.append(Query(GroupStatements.writeMutations, parameters))
    }

    /// Adds the participants' queries. Most groups need no such queries, because no mutation fails or gets into conflict.
    private mutating func addParticipants() {
        var outcomes: [FailedOutcome] = []
        for change in changes {
            let (lane, state) = (group[change.index].lane, change.plan.lane)
            let stuck = change.plan.mutations.filter(\.record.status.isForAPerson)
            // in the user's order, which can differ from the order of the request
            for new in stuck.sorted(by: { $0.record.position < $1.record.position }) {
                outcomes.append(FailedOutcome(lane: lane, state: state, origin: .push(new)))
            }
        }
        queries += participants.queries(for: outcomes, at: now)
    }

    // MARK: - Ids

    private mutating func addMappings() {
        let rows = changes.flatMap { change in
            change.plan.mappings.filter { $0.mapping.localID == nil }.map { new in
                MappingRow(
                    lane: group[change.index].lane,
                    changePosition: change.plan.lane.changePosition,
                    new: new
                )
            }
        }
        add(GroupStatements.writeMappings, MappingRow.columns, rows.filter { !$0.new.replacesAbandoned })
        add(GroupStatements.replaceMappings, MappingRow.columns, rows.filter(\.new.replacesAbandoned))
    }

    /// Adds the client ids that a create takes over from an abandoned create, with their server ids.
    ///
    /// Mutations that waited for the abandoned create can still be open, and later pushes under the server id must find
    /// them (``KnownIDs``).
    private mutating func addKnownIDs() {
        var known = KnownIDs()
        for change in changes {
            for new in change.plan.mappings where new.replacesAbandoned {
                let mapping = new.mapping
                known.add(group[change.index].lane, mapping.clientID, mapping.entityType, mapping.serverID)
            }
        }
        queries += known.queries
    }

    /// Records the use of mappings that are named by pushes with changes. Each mapping is written once, in key order.
    private mutating func addMappingUses() {
        let changed = Set(changes.map(\.index))
        var seen: Set<MappingName> = []
        for use in uses where use.isChange(at: now) && changed.contains(use.push) {
            seen.insert(
                MappingName(lane: group[use.push].lane, clientID: use.name.clientID, entityType: use.name.entityType)
            )
        }
        add(GroupStatements.touchMappings, MappingName.columns, seen.sorted())
    }

    /// Adds local ids in key order, because pulls also write local ids and do not lock lanes.
    private mutating func addLocalIDs() {
        var (new, replacing, confirmed) = (LocalIDRows(), LocalIDRows(), LocalIDRows())
        var pinned = LocalIDRows()
        for change in changes {
            let plan = change.plan
            let device = group[change.index].device
            for row in plan.mappings {
                guard let id = row.mapping.localID else { continue }
                if row.replacesAbandoned {
                    replacing.add(device, id, row.mapping.serverID, createdBy: row.mapping.mutationID)
                } else {
                    new.add(device, id, row.mapping.serverID, createdBy: row.mapping.mutationID)
                }
            }
            for (id, serverID) in plan.confirmedIDs { confirmed.add(device, id, serverID) }
            for id in plan.pinnedIDs { pinned.add(device, id, nil) }
        }
        if !new.isEmpty { queries.append(new.query(LocalIDStatements.write)) }
        if !replacing.isEmpty { queries.append(replacing.query(LocalIDStatements.replace)) }
        if !confirmed.isEmpty { queries += [confirmed.query(LocalIDStatements.confirm), confirmed.confirmSecond()] }
        if !pinned.isEmpty { queries.append(pinned.pin()) }
    }

    private mutating func addRejections() throws(SealError) {
        var rows: [RejectionRow] = []
        for change in changes {
            let lane = group[change.index].lane
            for rejection in change.plan.rejections { rows.append(try RejectionRow(lane, rejection, seals)) }
        }
        add(GroupStatements.writeRejections, RejectionRow.columns, rows)
    }

    /// Adds the quota use. The rows are in key order, as the rows of lanes are.
    private mutating func addAllowances() {
        let rows = changes.compactMap { change in
            change.plan.allowance.map { AllowanceRow(lane: group[change.index].lane, bucket: $0) }
        }.sorted { $0.lane < $1.lane }
        guard !rows.isEmpty else { return }
        queries.append(Query(QuotaStatements.writeMutations, AllowanceRow.columns.parameters(rows)))
    }

    private mutating func addTypes() {
        var seen: Set<EntityKey> = []
        var rows: [TypeRow] = []
        for change in changes {
            let organization = group[change.index].lane.organization
            for type in change.plan.typesToRegister
            where seen.insert(EntityKey(type: type.name, id: organization.uuidString)).inserted {
                rows.append(TypeRow(organization: organization, type: type))
            }
        }
        guard !rows.isEmpty else { return }
        queries.append(Query(GroupStatements.useTypes, TypeRow.columns.parameters(rows)))
    }

    // MARK: - Entities

    private mutating func addFeedsAndEntities() throws(SealError) {
        let organizations = Set(group.map(\.organization.id)).sorted()
        let writes = organizations.map { ($0, plan.entities[$0]?.writes ?? []) }
        let changed = writes.filter { !$0.1.isEmpty }
        if !changed.isEmpty {
            feedResults.append(queries.count)
            queries.append(EntityRows.raiseFeeds(changed))
        }
        let unchanged = writes.filter { $0.1.isEmpty }.map(\.0)
        if !unchanged.isEmpty {
            feedResults.append(queries.count)
            queries.append(GroupStatements.readFeeds(organizations: unchanged))
        }
        queries += try EntityRows.write(changed, now: now, seals)
    }
}
