import Foundation
import JSONText
import Postgres
import SyncModel

/// A group's second round trip: everything that the plans change, and COMMIT. Nothing to write ends in ROLLBACK, which
/// costs no flush.
struct GroupWriter {
    private let group: [PushJob]
    private let plan: GroupPlan
    private let uses: [MappingUse]
    private let changes: [(index: Int, plan: PushPlan)]
    private let now: Timestamp
    private let seals: Seals
    /// Where in the results the feeds' rows are.
    private var feedResults: [Int] = []
    private(set) var queries: [Query] = []

    init(
        _ group: [PushJob],
        plan: GroupPlan,
        uses: [MappingUse],
        now: Timestamp,
        seals: Seals
    ) throws(SealError) {
        self.group = group
        self.seals = seals
        self.plan = plan
        self.uses = uses
        self.now = now
        changes = plan.changes
        addLanes()
        try addMutations()
        addMappings()
        addMappingUses()
        addLocalIDs()
        addKnownIDs()
        try addRejections()
        addAllowances()
        addTypes()
        try addFeedsAndEntities()
        queries.append(changes.isEmpty ? .rollback : .commit)
    }

    /// The end of each organization's feed as of this group.
    func feeds(_ results: [Rows]) throws -> [UUID: FeedCursor] {
        var feeds: [UUID: FeedCursor] = [:]
        for index in feedResults {
            let rows = results[index]
            for row in 0..<rows.count {
                let position = try rows.int64(row, 2)
                feeds[try rows.uuid(row, 0)] = FeedCursor(
                    epoch: try rows.int64(row, 1),
                    position: position,
                    head: position
                )
            }
        }
        return feeds
    }

    // MARK: - Lanes, devices, users

    private mutating func addLanes() {
        guard !changes.isEmpty else { return }
        let sorted = changes.sorted { group[$0.index].lane < group[$1.index].lane }
        queries.append(LaneRows.write(sorted.map { (group[$0.index].lane, $0.plan.lane) }))

        var devices = LaneRows.keys(sorted.map { group[$0.index].lane })
        devices.add(sorted.map { group[$0.index].push.deviceID })
        devices.add(sorted.map(\.plan.acceptedSequence))
        devices.add(timestamp: now.microseconds)
        devices.add(byteas: sorted.map(\.plan.strayIDs?.stored))
        queries.append(Query(GroupStatements.writeDevices, devices))

        // also of pushes that are refused: this commit makes their lanes, so no later push finds its user new
        let newcomers = group.indices.filter { plan.snapshots[$0].lane.isNew }.map { group[$0].lane }.sorted()
        guard !newcomers.isEmpty else { return }
        var users = Parameters()
        users.add(newcomers.map(\.organization))
        users.add(newcomers.map(\.user))
        users.add(timestamp: now.microseconds)
        queries.append(Query(GroupStatements.writeUsers, users))
    }

    // MARK: - Mutations

    private mutating func addMutations() throws(SealError) {
        // columns apart from the start: a row that holds a job would be copied once for each column
        var lanes: [LaneKey] = []
        var changePositions: [Int64] = []
        var traceparents: [String?] = []
        var rows: [NewMutation] = []
        for change in changes {
            let job = group[change.index]
            for new in change.plan.mutations {
                lanes.append(job.lane)
                changePositions.append(change.plan.lane.changePosition)
                traceparents.append(new.record.status.isFinal ? nil : job.traceparent)
                rows.append(new)
            }
        }
        guard !rows.isEmpty else { return }
        let dependencies = Slices(rows.map(\.mutation.dependencyIDs))
        let references = Slices(rows.map(\.references))
        let blockers = Slices(rows.map { $0.record.status == .blocked ? $0.record.dependsOn : [] })
        var parameters = Parameters()
        parameters.add(lanes.map(\.organization))
        parameters.add(lanes.map(\.user))
        parameters.add(rows.map(\.mutation.id))
        parameters.add(rows.map(\.record.deviceID))
        parameters.add(rows.map(\.mutation.sequenceNumber))
        parameters.add(rows.map(\.record.position))
        parameters.add(changePositions)
        parameters.add(rows.map(\.mutation.idempotencyKey))
        parameters.add(byteas: rows.map(\.record.fingerprint.stored))
        parameters.add(rows.map(\.mutation.operation.rawValue))
        parameters.add(rows.map(\.mutation.entityType))
        parameters.add(rows.map(\.mutation.localID))
        parameters.add(rows.map(\.record.serverID?.text))
        parameters.add(rows.map { $0.record.serverID?.isInteger ?? false })
        parameters.add(rows.map(\.mutation.endpoint?.text))
        // as it stands, as a rule: nothing to seal, and nothing that looks as if it were
        let isAsItStands = seals.arePlain && !rows.contains(where: \.looksSealed)
        let seals = isAsItStands ? [] : lanes.map { [seals] in seals.lane($0) }
        if seals.isEmpty {
            parameters.add(jsons: rows.map(\.mutation.payload?.raw))
            parameters.add(jsons: rows.map(\.mutation.headers?.raw))
        } else {
            parameters.add(jsons: try Self.sealed(rows, seals, .payload) { $0.mutation.payload.map { Array($0.raw) } })
            parameters.add(jsons: try Self.sealed(rows, seals, .headers) { $0.mutation.headers.map { Array($0.raw) } })
        }
        parameters.add(dependencies.from)
        parameters.add(dependencies.to)
        parameters.add(rows.map(\.priority))
        parameters.add(rows.map(\.mutation.maxAttempts))
        parameters.add(rows.map(\.conflictResolution.rawValue))
        parameters.add(rows.map(\.mutation.baseVersion))
        parameters.add(rows.map(\.record.status.rawValue))
        parameters.add(blockers.from)
        parameters.add(blockers.to)
        parameters.add(rows.map(\.record.version))
        parameters.add(rows.map(\.record.resolution?.rawValue))
        parameters.add(rows.map(\.record.responseStatus))
        if seals.isEmpty {
            parameters.add(jsons: rows.map(\.record.error))
            parameters.add(rows.map(\.record.lastError))
        } else {
            parameters.add(jsons: try Self.sealed(rows, seals, .error, \.record.error))
            parameters.add(
                try zip(rows, seals).map { row, seal throws(SealError) in
                    try seal.seal(text: row.record.lastError, .lastError, of: row.mutation.id)
                }
            )
        }
        parameters.add(timestamps: rows.map(\.mutation.createdAt.microseconds))
        parameters.add(timestamps: rows.map { $0.record.syncedAt?.microseconds })
        parameters.add(dependencies.ids)
        parameters.add(blockers.ids)
        parameters.add(timestamp: now.microseconds)
        parameters.add(references.from)
        parameters.add(references.to)
        parameters.add(references.ids)
        parameters.add(traceparents)
        parameters.add(rows.map(\.mutation.localNumber))
        parameters.add(rows.flatMap(\.referenceTypes))
        parameters.add(
            byteas: rows.map { row -> [UInt8]? in
                let places = row.record.fingerprint.places
                return places.isEmpty ? nil : places
            }
        )
        queries.append(Query(GroupStatements.writeMutations, parameters))
    }

    private static func sealed(
        _ rows: [NewMutation],
        _ seals: [LaneSeal],
        _ column: SealedPlace.Column,
        _ value: (NewMutation) -> [UInt8]?
    ) throws(SealError) -> [[UInt8]?] {
        try zip(rows, seals).map { row, seal throws(SealError) in
            try seal.seal(json: value(row), column, of: row.mutation.id)
        }
    }

    private mutating func addMappings() {
        let rows = changes.flatMap { change in
            change.plan.mappings.filter { $0.mapping.localNumber == nil }.map { new in
                MappingRow(
                    lane: group[change.index].lane,
                    changePosition: change.plan.lane.changePosition,
                    new: new
                )
            }
        }
        addMappings(rows.filter { !$0.new.replacesAbandoned }, GroupStatements.writeMappings)
        addMappings(rows.filter(\.new.replacesAbandoned), GroupStatements.replaceMappings)
    }

    /// What waited in vain for a create that was given up may be open still, when another one takes over its id.
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

    private mutating func addMappings(_ rows: [MappingRow], _ statement: Statement) {
        guard !rows.isEmpty else { return }
        var parameters = Parameters()
        parameters.add(rows.map(\.lane.organization))
        parameters.add(rows.map(\.lane.user))
        parameters.add(rows.map(\.new.mapping.clientID))
        parameters.add(rows.map(\.new.mapping.entityType))
        parameters.add(rows.map(\.new.mapping.serverID?.text))
        parameters.add(rows.map { $0.new.mapping.serverID?.isInteger ?? false })
        parameters.add(rows.map(\.new.mapping.status.rawValue))
        parameters.add(rows.map(\.new.mapping.mutationID))
        parameters.add(rows.map(\.changePosition))
        parameters.add(timestamps: rows.map(\.new.createdAt.microseconds))
        parameters.add(timestamp: now.microseconds)
        queries.append(Query(statement, parameters))
    }

    /// What pushes name that change something. In key order, and each once.
    private mutating func addMappingUses() {
        let changed = Set(changes.map(\.index))
        var seen: Set<MappingName> = []
        for use in uses where use.isNews(at: now) && changed.contains(use.push) {
            seen.insert(MappingName(lane: group[use.push].lane, clientID: use.clientID, entityType: use.entityType))
        }
        guard !seen.isEmpty else { return }
        let names = seen.sorted()
        var parameters = LaneRows.keys(names.map(\.lane))
        parameters.add(names.map(\.clientID))
        parameters.add(names.map(\.entityType))
        parameters.add(timestamp: now.microseconds)
        queries.append(Query(GroupStatements.touchMappings, parameters))
    }

    /// Ids of devices. In key order, for pulls write them too, under no lock of ours.
    private mutating func addLocalIDs() {
        var (new, replacing, confirmed) = (LocalIDRows(), LocalIDRows(), LocalIDRows())
        var pinned = LocalIDRows()
        for change in changes {
            let plan = change.plan
            let device = LocalIDColumns.Device(
                lane: group[change.index].lane,
                id: group[change.index].push.deviceID
            )
            for row in plan.mappings {
                guard let number = row.mapping.localNumber else { continue }
                let id = LocalID(entityType: row.mapping.entityType, number: number)
                if row.replacesAbandoned {
                    replacing.add(device, id, row.mapping.serverID, createdBy: row.mapping.mutationID)
                } else {
                    new.add(device, id, row.mapping.serverID, createdBy: row.mapping.mutationID)
                }
            }
            for (id, serverID) in plan.confirmedIDs { confirmed.add(device, id, serverID) }
            for id in plan.pinnedIDs { pinned.add(device, id, nil) }
        }
        if !new.isEmpty { queries.append(Query(LocalIDStatements.write, new.parameters)) }
        if !replacing.isEmpty { queries.append(Query(LocalIDStatements.replace, replacing.parameters)) }
        if !confirmed.isEmpty {
            queries.append(Query(LocalIDStatements.confirm, confirmed.parameters))
            queries.append(Query(LocalIDStatements.confirmSecond, confirmed.seconds))
        }
        if !pinned.isEmpty { queries.append(Query(LocalIDStatements.pin, pinned.pins)) }
    }

    private mutating func addRejections() throws(SealError) {
        let rows = changes.flatMap { change in change.plan.rejections.map { (group[change.index].lane, $0) } }
        guard !rows.isEmpty else { return }
        var parameters = Parameters()
        parameters.add(rows.map(\.0.organization))
        parameters.add(rows.map(\.0.user))
        parameters.add(rows.map(\.1.idempotencyKey))
        parameters.add(rows.map(\.1.id))
        parameters.add(rows.map(\.1.deviceID))
        parameters.add(rows.map(\.1.sequenceNumber))
        parameters.add(
            jsons: try rows.map { lane, rejection throws(SealError) in
                let place = SealedPlace.rejection(user: lane.user, key: rejection.idempotencyKey)
                return try seals[lane.organization].seal(json: rejection.error, as: place)
            }
        )
        parameters.add(timestamp: now.microseconds)
        queries.append(Query(GroupStatements.writeRejections, parameters))
    }

    /// What users have used of their quotas; in key order, as lanes.
    private mutating func addAllowances() {
        let rows = changes.compactMap { change in
            change.plan.allowance.map { (lane: group[change.index].lane, bucket: $0) }
        }.sorted { $0.lane < $1.lane }
        guard !rows.isEmpty else { return }
        var parameters = LaneRows.keys(rows.map(\.lane))
        parameters.add(rows.map(\.bucket.missing))
        parameters.add(timestamps: rows.map(\.bucket.asOf.microseconds))
        queries.append(Query(QuotaStatements.writeMutations, parameters))
    }

    private mutating func addTypes() {
        var seen: Set<EntityKey> = []
        var rows: [(UUID, EntityType)] = []
        for change in changes {
            let organization = group[change.index].lane.organization
            for type in change.plan.typesToRegister
            where seen.insert(EntityKey(type: type.name, id: organization.uuidString)).inserted {
                rows.append((organization, type))
            }
        }
        guard !rows.isEmpty else { return }
        var parameters = Parameters()
        parameters.add(rows.map(\.0))
        parameters.add(rows.map(\.1.name))
        parameters.add(rows.map(\.1.idSpace.rawValue))
        parameters.add(rows.map(\.1.visibility.rawValue))
        parameters.add(rows.map(\.1.defaultPriority))
        parameters.add(rows.map(\.1.isForwarded))
        parameters.add(rows.map { String(decoding: $0.1.storedRelations, as: UTF8.self) })
        queries.append(Query(GroupStatements.useTypes, parameters))
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
            var parameters = Parameters()
            parameters.add(unchanged)
            feedResults.append(queries.count)
            queries.append(Query(GroupStatements.readFeeds, parameters))
        }
        queries += try EntityRows.write(changed, now: now, seals)
    }
}

/// A mapping to be written, and the lane that it belongs to.
private struct MappingRow {
    let lane: LaneKey
    let changePosition: Int64
    let new: NewMapping
}

extension NewMutation {
    /// Whether something of it would be taken for a sealed value, were it stored as it is. Headers and problems are objects.
    fileprivate var looksSealed: Bool {
        mutation.payload.map { SealedText.needsEscape(json: $0.raw) } ?? false
            || record.lastError.map { SealedText.needsEscape(text: $0) } ?? false
    }
}
