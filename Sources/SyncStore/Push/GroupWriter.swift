import Foundation
import JSONText
import Postgres
import SyncModel

/// A group's second round trip: everything that the plans change, and COMMIT. Nothing to write ends in ROLLBACK, which
/// costs no flush.
struct GroupWriter {
    private let group: [PushJob]
    private let plan: GroupPlan
    private let changes: [(index: Int, plan: PushPlan)]
    private let now: Timestamp
    /// Where in the results the feeds' rows are.
    private var feedResults: [Int] = []
    private(set) var queries: [Query] = []

    init(_ group: [PushJob], plan: GroupPlan, now: Timestamp) {
        self.group = group
        self.plan = plan
        self.now = now
        changes = plan.changes
        addLanes()
        addMutations()
        addMappings()
        addRejections()
        addTypes()
        addFeedsAndEntities()
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

    private mutating func addMutations() {
        let rows = changes.flatMap { change in
            change.plan.mutations.map { (job: group[change.index], change.plan.lane.changePosition, $0) }
        }
        guard !rows.isEmpty else { return }
        let dependencies = Slices(rows.map(\.2.mutation.dependencyIDs))
        let references = Slices(rows.map(\.2.references))
        let blockers = Slices(rows.map { $0.2.record.status == .blocked ? $0.2.record.dependsOn : [] })
        var parameters = Parameters()
        parameters.add(rows.map(\.job.organization.id))
        parameters.add(rows.map(\.job.user))
        parameters.add(rows.map(\.2.mutation.id))
        parameters.add(rows.map(\.2.record.deviceID))
        parameters.add(rows.map(\.2.mutation.sequenceNumber))
        parameters.add(rows.map(\.2.record.position))
        parameters.add(rows.map(\.1))
        parameters.add(rows.map(\.2.mutation.idempotencyKey))
        parameters.add(byteas: rows.map(\.2.mutation.fingerprint.stored))
        parameters.add(rows.map(\.2.mutation.operation.rawValue))
        parameters.add(rows.map(\.2.mutation.entityType))
        parameters.add(rows.map(\.2.mutation.localID))
        parameters.add(rows.map(\.2.record.serverID?.text))
        parameters.add(rows.map { $0.2.record.serverID?.isInteger ?? false })
        parameters.add(rows.map(\.2.mutation.endpoint?.text))
        parameters.add(jsons: rows.map(\.2.mutation.payload?.raw))
        parameters.add(jsons: rows.map(\.2.mutation.headers?.raw))
        parameters.add(dependencies.from)
        parameters.add(dependencies.to)
        parameters.add(rows.map(\.2.priority))
        parameters.add(rows.map(\.2.mutation.maxAttempts))
        parameters.add(rows.map(\.2.conflictResolution.rawValue))
        parameters.add(rows.map(\.2.mutation.baseVersion))
        parameters.add(rows.map(\.2.record.status.rawValue))
        parameters.add(blockers.from)
        parameters.add(blockers.to)
        parameters.add(rows.map(\.2.record.version))
        parameters.add(rows.map(\.2.record.resolution?.rawValue))
        parameters.add(rows.map(\.2.record.responseStatus))
        parameters.add(jsons: rows.map(\.2.record.error))
        parameters.add(rows.map(\.2.record.lastError))
        parameters.add(timestamps: rows.map(\.2.mutation.createdAt.microseconds))
        parameters.add(timestamps: rows.map { $0.2.record.syncedAt?.microseconds })
        parameters.add(dependencies.ids)
        parameters.add(blockers.ids)
        parameters.add(timestamp: now.microseconds)
        parameters.add(references.from)
        parameters.add(references.to)
        parameters.add(references.ids)
        parameters.add(rows.map { $0.2.record.status.isFinal ? nil : $0.job.traceparent })
        queries.append(Query(GroupStatements.writeMutations, parameters))
    }

    private mutating func addMappings() {
        let rows = changes.flatMap { change in
            change.plan.mappings.map { new in
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

    private mutating func addRejections() {
        let rows = changes.flatMap { change in change.plan.rejections.map { (group[change.index].lane, $0) } }
        guard !rows.isEmpty else { return }
        var parameters = Parameters()
        parameters.add(rows.map(\.0.organization))
        parameters.add(rows.map(\.0.user))
        parameters.add(rows.map(\.1.idempotencyKey))
        parameters.add(rows.map(\.1.id))
        parameters.add(rows.map(\.1.deviceID))
        parameters.add(rows.map(\.1.sequenceNumber))
        parameters.add(jsons: rows.map(\.1.error))
        parameters.add(timestamp: now.microseconds)
        queries.append(Query(GroupStatements.writeRejections, parameters))
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
        queries.append(Query(GroupStatements.useTypes, parameters))
    }

    // MARK: - Entities

    private mutating func addFeedsAndEntities() {
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
        queries += EntityRows.write(changed, now: now)
    }
}

/// A mapping to be written, and the lane that it belongs to.
private struct MappingRow {
    let lane: LaneKey
    let changePosition: Int64
    let new: NewMapping
}
