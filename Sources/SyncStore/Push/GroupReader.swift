import Foundation
import Postgres
import SyncModel

/// A group's first round trip: which queries to send, and what to make of their results.
struct GroupReader {
    /// How what is there is read.
    enum Access {
        /// Under locks, by a transaction that goes on to write; lanes that are missing are made.
        case locking
        /// As of one moment, by a transaction that writes and locks nothing and waits for nobody.
        case looking
    }

    private let group: [PushInput]
    private let access: Access
    private let seals: Seals
    private var lanes: [LaneKey] = []
    private var pushOfLane: [LaneKey: Int] = [:]
    private var probed: [Set<UUID>] = []
    /// What to do with the result of each query, in order.
    private var steps: [(query: Query, read: (Rows, inout GroupSnapshot) throws -> Void)] = []

    /// - Parameter hints: what is remembered of devices, so that less has to be looked up; nil to look up everything. A
    ///   device that is not remembered counts as new: its lane is made if need be, and its keys are not looked up. Where
    ///   that is wrong the group is read again.
    init(_ group: [PushInput], hints: WatermarkHints?, seals: Seals, access: Access = .locking) {
        self.group = group
        self.seals = seals
        self.access = access
        lanes = group.map(\.lane).sorted()
        for (index, job) in group.enumerated() { pushOfLane[job.lane] = index }
        let watermarks = group.map { hints?[WatermarkHints.Device(lane: $0.lane, device: $0.push.deviceID)] }
        addLanes(maybeNew: zip(group, watermarks).filter { $1 == nil }.map(\.0.lane).sorted())
        addAllowances()
        addLookUps(hints == nil ? nil : watermarks.map { $0 ?? 0 })
        addEntities()
    }

    var queries: [Query] { opening + steps.map(\.query) }

    /// Connections that only look are the pool's, which plan statements in their own way unless they are told.
    private var opening: [Query] {
        switch access {
        case .locking: [.begin]
        case .looking: [.beginReading, Query(SettleStatements.planShape)]
        }
    }

    func snapshot(_ results: [Rows]) throws -> GroupSnapshot {
        var snapshot = GroupSnapshot(
            pushes: probed.map { keys in
                var push = PushSnapshot()
                push.probedKeys = keys
                return push
            },
            hasLane: group.map { _ in false }
        )
        for index in group.indices { snapshot.pushes[index].localIDs = group[index].localIDs }
        for (step, rows) in zip(steps, results.dropFirst(opening.count)) { try step.read(rows, &snapshot) }
        return snapshot
    }

    // MARK: - Ids that repeated entries are compared by

    /// A third round trip, for repetitions in which ids differ from the first try.
    func comparisons(_ snapshot: GroupSnapshot) -> [Query] {
        var columns = PushColumns()
        for (index, job) in group.enumerated() {
            let push = snapshot.pushes[index]
            for id in Set(push.identifiersToCompare(job.push.entries)) where push.mappings[id] == nil {
                columns.add(index, job.lane, id)
            }
        }
        return columns.isEmpty ? [] : [Query(GroupStatements.mappings, columns.parameters)]
    }

    func add(_ results: [Rows], to snapshot: inout GroupSnapshot) throws {
        for rows in results { try Self.readMappings(rows, &snapshot) }
    }

    // MARK: - Lanes and devices

    /// - Parameter maybeNew: the lane of a device that is remembered was there, and only a purge takes it away.
    private mutating func addLanes(maybeNew: [LaneKey]) {
        let pushOfLane = pushOfLane
        func push(_ rows: Rows, _ row: Int) throws -> Int? {
            pushOfLane[LaneKey(organization: try rows.uuid(row, 0), user: try rows.uuid(row, 1))]
        }
        if access == .locking, !maybeNew.isEmpty {
            steps.append(
                (
                    Query(GroupStatements.makeLanes, LaneRows.keys(maybeNew)),
                    { rows, snapshot in
                        for row in 0..<rows.count {
                            if let push = try push(rows, row) { snapshot.pushes[push].lane.isNew = true }
                        }
                    }
                )
            )
        }
        steps.append(
            (
                Query(access == .locking ? LaneRows.lock : LaneRows.look, LaneRows.keys(lanes)),
                { rows, snapshot in
                    for (key, lane) in try LaneRows.lanes(rows) {
                        guard let push = pushOfLane[key] else { continue }
                        let isNew = snapshot.pushes[push].lane.isNew
                        snapshot.hasLane[push] = true
                        snapshot.pushes[push].lane = lane
                        snapshot.pushes[push].lane.isNew = isNew
                    }
                }
            )
        )
        var devices = PushColumns()
        for (index, job) in group.enumerated() { devices.add(index, job.lane, job.push.deviceID) }
        steps.append(
            (
                Query(GroupStatements.devices, devices.parameters),
                { rows, snapshot in
                    for row in 0..<rows.count {
                        snapshot.pushes[Int(try rows.int32(row, 0))].watermark = try rows.int64(row, 1)
                    }
                }
            )
        )
    }

    /// What users have used of their quotas, where they have one.
    private mutating func addAllowances() {
        var pushes: [Int32] = []
        var lanes: [LaneKey] = []
        for (index, job) in group.enumerated() where job.quota != nil {
            pushes.append(Int32(index))
            lanes.append(job.lane)
        }
        guard !pushes.isEmpty else { return }
        var parameters = Parameters()
        parameters.add(pushes)
        parameters.add(lanes.map(\.organization))
        parameters.add(lanes.map(\.user))
        steps.append(
            (
                Query(QuotaStatements.mutations, parameters),
                { rows, snapshot in
                    for row in 0..<rows.count {
                        snapshot.pushes[Int(try rows.int32(row, 0))].allowance = TokenBucket(
                            missing: try rows.int64(row, 1),
                            asOf: Timestamp(microseconds: try rows.timestamp(row, 2))
                        )
                    }
                }
            )
        )
    }

    // MARK: - Known mutations, refusals, mappings

    /// - Parameter watermarks: one a push, above which keys are new; nil to look up every key.
    private mutating func addLookUps(_ watermarks: [Int64]?) {
        var keys = PushColumns()
        var ids = PushColumns()
        var clients = PushColumns()
        var created: [Set<UUID>] = []
        for (index, job) in group.enumerated() {
            var probedKeys: Set<UUID> = []
            var probedIDs: Set<UUID> = []
            var probedClients: Set<UUID> = []
            var createdHere: Set<UUID> = []
            for entry in job.push.entries {
                // a number above the watermark has not been judged; the unique indexes catch the exception
                let isNew = watermarks.map { (entry.sequenceNumber ?? 0) > $0[index] } ?? false
                if !isNew {
                    if let key = entry.idempotencyKey { probedKeys.insert(key) }
                    // a number below a watermark decides by its key alone
                    if watermarks == nil, let id = entry.id { probedIDs.insert(id) }
                }
                guard let mutation = entry.mutation else { continue }
                probedIDs.formUnion(mutation.dependencyIDs)
                probedClients.formUnion(mutation.dependencyIDs)
                probedClients.formUnion(mutation.references)
                guard let localID = mutation.localID else { continue }
                if isNew, mutation.operation == .create {
                    createdHere.insert(localID)
                } else if mutation.localNumber == nil {
                    probedClients.insert(localID)
                }
            }
            created.append(createdHere)
            for key in probedKeys { keys.add(index, job.lane, key) }
            for id in probedIDs { ids.add(index, job.lane, id) }
            for client in probedClients { clients.add(index, job.lane, client) }
            probed.append(probedKeys)
        }
        let seals = group.map { [seals] in seals.lane($0.lane) }
        if !keys.isEmpty {
            steps.append(
                (Query(GroupStatements.mutationsByKey, keys.parameters), { try Self.readByKey($0, &$1, seals) })
            )
            steps.append(
                (Query(GroupStatements.rejections, keys.parameters), { try Self.readRejections($0, &$1, seals) })
            )
        }
        if !ids.isEmpty {
            steps.append((Query(GroupStatements.mutationsByID, ids.parameters), { try Self.readByID($0, &$1, seals) }))
        }
        if !clients.isEmpty { steps.append((Query(GroupStatements.mappings, clients.parameters), Self.readMappings)) }
        let localIDs = LocalIDReader(group)
        if let query = localIDs.find({ !created[$0].contains($1) }) { steps.append((query, localIDs.read)) }
    }

    private static func readByKey(_ rows: Rows, _ snapshot: inout GroupSnapshot, _ seals: [LaneSeal]) throws {
        for row in 0..<rows.count {
            let push = Int(try rows.int32(row, 0))
            let record = try RecordColumns.record(rows, row, from: 1, seals[push])
            snapshot.pushes[push].knownByKey[record.idempotencyKey] = record
            snapshot.pushes[push].knownByID[record.id] = record
        }
    }

    private static func readByID(_ rows: Rows, _ snapshot: inout GroupSnapshot, _ seals: [LaneSeal]) throws {
        for row in 0..<rows.count {
            let push = Int(try rows.int32(row, 0))
            let record = try RecordColumns.record(rows, row, from: 1, seals[push])
            snapshot.pushes[push].knownByID[record.id] = record
        }
    }

    private static func readRejections(_ rows: Rows, _ snapshot: inout GroupSnapshot, _ seals: [LaneSeal]) throws {
        for row in 0..<rows.count {
            let push = Int(try rows.int32(row, 0))
            let key = try rows.uuid(row, 1)
            let place = SealedPlace.rejection(user: seals[push].user, key: key)
            let rejection = Rejection(
                idempotencyKey: key,
                id: try rows.optionalUUID(row, 2),
                deviceID: try rows.uuid(row, 3),
                sequenceNumber: try rows.int64(row, 4),
                error: try seals[push].seal.open(json: rows.bytes(row, 5), as: place) ?? []
            )
            snapshot.pushes[push].rejections[rejection.idempotencyKey] = rejection
        }
    }

    static func readMappings(_ rows: Rows, _ snapshot: inout GroupSnapshot) throws {
        for row in 0..<rows.count {
            let mapping = IDMapping(
                entityType: try rows.string(row, 2),
                clientID: try rows.uuid(row, 1),
                serverID: try rows.serverID(row, 3),
                status: try rows.choice(row, 5),
                mutationID: try rows.uuid(row, 6),
                isAbandoned: try rows.bool(row, 7)
            )
            let push = Int(try rows.int32(row, 0))
            snapshot.pushes[push].mappings[mapping.clientID, default: []].append(mapping)
            snapshot.mappingUses.append(
                MappingUse(
                    push: push,
                    clientID: mapping.clientID,
                    entityType: mapping.entityType,
                    notedAt: try rows.optionalTimestamp(row, 8).map(Timestamp.init(microseconds:))
                )
            )
        }
    }

    // MARK: - Entities

    private mutating func addEntities() {
        var entities = EntityColumns()
        for (index, job) in group.enumerated() {
            for mutation in job.push.entries.compactMap(\.mutation) {
                guard mutation.operation != .create || mutation.serverID != nil else { continue }
                let own = mutation.localNumber.map {
                    EntityColumns.Own(device: job.push.deviceID, number: $0)
                }
                entities.add(index, job.lane, mutation.entityType, mutation.localID, own, mutation.serverID?.text)
            }
        }
        guard !entities.isEmpty else { return }
        steps.append((entities.open, Self.readOpen))
        steps.append(
            (
                entities.query(access),
                { [seals] rows, snapshot in try EntityRows.load(rows, into: &snapshot.entities, seals) }
            )
        )
    }

    static func readOpen(_ rows: Rows, _ snapshot: inout GroupSnapshot) throws {
        for row in 0..<rows.count {
            let open = OpenMutation(
                id: try rows.uuid(row, 1),
                entityType: try rows.string(row, 2),
                localID: try rows.optionalUUID(row, 3),
                serverID: try rows.serverID(row, 4),
                position: try rows.int64(row, 6)
            )
            snapshot.pushes[Int(try rows.int32(row, 0))].open.append(open)
        }
    }
}
