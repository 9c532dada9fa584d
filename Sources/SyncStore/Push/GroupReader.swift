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

    /// A query, and what to do with its result.
    typealias Step = (query: Query, read: (Rows, inout GroupSnapshot) throws -> Void)

    private let group: [PushInput]
    private let access: Access
    private let seals: SealTable
    private var lanes: [LaneKey] = []
    private var pushOfLane: [LaneKey: Int] = [:]
    /// What is not looked up at first, one a push.
    private var leftOut: [LookUps] = []
    /// What to do with the result of each query, in order.
    private var steps: [Step] = []

    /// - Parameter hints: what is remembered of devices, so that less has to be looked up; nil to look up everything. A
    ///   device that is not remembered counts as new: its lane is made if need be, and its keys are not looked up. What
    ///   was left out is looked up before anything is refused (``completion(of:)``).
    init(_ group: [PushInput], hints: WatermarkHints?, seals: SealTable, access: Access = .locking) {
        self.group = group
        self.seals = seals
        self.access = access
        lanes = group.map(\.lane).sorted()
        for (index, job) in group.enumerated() { pushOfLane[job.lane] = index }
        let watermarks = group.map { hints?[$0.device] }
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
            pushes: leftOut.map { rest in
                var push = PushSnapshot()
                push.isComplete = rest.isEmpty
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
    ///
    /// - Parameter pushes: only of these; nil for all.
    func comparisons(_ snapshot: inout GroupSnapshot, of pushes: Set<Int>? = nil) -> [Step] {
        var mapped: [PushIDRow] = []
        var local: [PushLocalIDRow] = []
        for (index, job) in group.enumerated() where pushes?.contains(index) ?? true {
            let ids = snapshot.pushes[index].idsToCompare(job.push)
            mapped += ids.clientIDs.map { PushIDRow(push: index, lane: job.lane, id: $0) }
            local += ids.localIDs.map {
                PushLocalIDRow(push: index, device: DeviceKey(lane: job.lane, id: $0.device), id: $0.id)
            }
        }
        var steps: [Step] = []
        if !mapped.isEmpty {
            steps.append((PushIDRow.clients.query(GroupStatements.mappings, mapped), Self.readMappings))
        }
        if !local.isEmpty {
            steps.append((PushLocalIDRow.columns.query(LocalIDStatements.compare, local), Self.readComparedLocalIDs))
        }
        return steps
    }

    private static func readComparedLocalIDs(_ rows: Rows, _ snapshot: inout GroupSnapshot) throws {
        for var row in rows {
            let push = try row.push()
            let device = try row.uuid("device_id")
            let clientID = try row.localID().clientID(on: device)
            guard let serverID = try row.serverID() else { continue }
            snapshot.pushes[push].comparedIDs[clientID, default: []].append(serverID)
        }
    }

    func add(_ results: [Rows], of steps: [Step], to snapshot: inout GroupSnapshot) throws {
        for (step, rows) in zip(steps, results) { try step.read(rows, &snapshot) }
    }

    // MARK: - New devices

    /// Goes with the third round trip, for devices that are not known.
    ///
    /// - Parameter limit: how far is counted.
    func deviceCounts(_ snapshot: GroupSnapshot, limit: Int) -> [Query] {
        let new = group.indices.filter { !snapshot.pushes[$0].isDeviceKnown }
        guard !new.isEmpty else { return [] }
        var parameters = PushRow.columns.parameters(new.map { PushRow(push: $0, lane: group[$0].lane) })
        parameters.add(Int64(limit))
        return [Query(GroupStatements.deviceCounts, parameters)]
    }

    func addDeviceCounts(_ results: [Rows], to snapshot: inout GroupSnapshot) throws {
        for rows in results {
            for var row in rows { snapshot.pushes[try row.push()].deviceCount = Int(try row.int64("count")) }
        }
    }

    // MARK: - Lanes and devices

    /// - Parameter maybeNew: the lane of a device that is remembered was there, and only a purge takes it away.
    private mutating func addLanes(maybeNew: [LaneKey]) {
        let pushOfLane = pushOfLane
        if access == .locking, !maybeNew.isEmpty {
            steps.append(
                (
                    Query(GroupStatements.makeLanes, LaneRows.keys(maybeNew)),
                    { rows, snapshot in
                        for var row in rows {
                            if let push = pushOfLane[try row.lane()] { snapshot.pushes[push].isLaneNew = true }
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
                        snapshot.hasLane[push] = true
                        snapshot.pushes[push].lane = lane
                    }
                }
            )
        )
        let devices = group.enumerated().map { PushIDRow(push: $0, lane: $1.lane, id: $1.push.deviceID) }
        steps.append(
            (
                PushIDRow.devices.query(GroupStatements.devices, devices),
                { rows, snapshot in
                    for var row in rows {
                        let push = try row.push()
                        snapshot.pushes[push].isDeviceKnown = true
                        snapshot.pushes[push].watermark = try row.int64("accepted_sequence")
                        snapshot.pushes[push].strayIDs = StrayIDs(stored: try row.optionalBytes("stray_ids"))
                    }
                }
            )
        )
    }

    /// What users have used of their quotas, where they have one.
    private mutating func addAllowances() {
        let limited = group.enumerated().filter { $0.element.quota != nil }
            .map { PushRow(push: $0.offset, lane: $0.element.lane) }
        guard !limited.isEmpty else { return }
        steps.append(
            (
                PushRow.columns.query(QuotaStatements.mutations, limited),
                { rows, snapshot in
                    for var row in rows {
                        let push = try row.push()
                        snapshot.pushes[push].allowance = TokenBucket(
                            missing: try row.int64("missing"),
                            asOf: try row.moment("as_of")
                        )
                    }
                }
            )
        )
    }

    // MARK: - Known mutations, refusals, mappings

    /// What of one push is looked up by its name.
    private struct LookUps {
        /// Keys of mutations and of refusals.
        var keys: Set<UUID> = []
        /// Ids of mutations.
        var ids: Set<UUID> = []
        /// Client ids of the user.
        var clients: Set<UUID> = []
        /// What stands for ids of the device that the push creates; the others are always looked up.
        var created: Set<UUID> = []

        var isEmpty: Bool { keys.isEmpty && ids.isEmpty && clients.isEmpty && created.isEmpty }

        mutating func subtract(_ other: LookUps) {
            keys.subtract(other.keys)
            ids.subtract(other.ids)
            clients.subtract(other.clients)
        }
    }

    /// - Parameter watermarks: one a push, above which keys are new; nil to look up every key.
    private mutating func addLookUps(_ watermarks: [Int64]?) {
        var first: [LookUps] = []
        for (index, job) in group.enumerated() {
            var (wanted, rest) = (LookUps(), LookUps())
            for entry in job.push.entries {
                // a number above the watermark has not been judged; the unique indexes catch the exception
                let isNew = watermarks.map { (entry.sequenceNumber ?? 0) > $0[index] } ?? false
                if let key = entry.idempotencyKey {
                    if isNew { rest.keys.insert(key) } else { wanted.keys.insert(key) }
                }
                // a number below a watermark decides by its key alone
                if let id = entry.id {
                    if watermarks == nil { wanted.ids.insert(id) } else { rest.ids.insert(id) }
                }
                guard let mutation = entry.said else { continue }
                wanted.ids.formUnion(mutation.dependencyIDs)
                wanted.clients.formUnion(mutation.dependencyIDs)
                wanted.clients.formUnion(mutation.references)
                guard let localID = mutation.localID else { continue }
                let isCreated = isNew && mutation.operation == .create
                switch (isCreated, mutation.localNumber) {
                case (true, nil): rest.clients.insert(localID)
                case (true, _): rest.created.insert(localID)
                case (false, nil): wanted.clients.insert(localID)
                // ids of the device are looked up anyway
                case (false, _): break
                }
            }
            rest.subtract(wanted)
            first.append(wanted)
            leftOut.append(rest)
        }
        let created = leftOut.map(\.created)
        steps += lookUps(first) { !created[$0].contains($1) }
    }

    /// - Parameter isWanted: of a push and what stands for an id of its device, whether that is looked up.
    private func lookUps(_ wanted: [LookUps], _ isWanted: (Int, UUID) -> Bool) -> [Step] {
        func rows(_ ids: (LookUps) -> Set<UUID>) -> [PushIDRow] {
            group.enumerated().flatMap { index, job in
                ids(wanted[index]).map { PushIDRow(push: index, lane: job.lane, id: $0) }
            }
        }
        let (keys, ids, clients) = (rows(\.keys), rows(\.ids), rows(\.clients))
        let seals = group.map { [seals] in seals.lane($0.lane) }
        var steps: [Step] = []
        if !keys.isEmpty {
            let columns = PushIDRow.keys
            steps.append(
                (columns.query(GroupStatements.mutationsByKey, keys), { try Self.readByKey($0, &$1, seals) })
            )
            steps.append(
                (columns.query(GroupStatements.rejections, keys), { try Self.readRejections($0, &$1, seals) })
            )
        }
        if !ids.isEmpty {
            let query = PushIDRow.ids.query(GroupStatements.mutationsByID, ids)
            steps.append((query, { try Self.readByID($0, &$1, seals) }))
        }
        if !clients.isEmpty {
            steps.append((PushIDRow.clients.query(GroupStatements.mappings, clients), Self.readMappings))
        }
        let localIDs = LocalIDReader(group)
        if let query = localIDs.find(isWanted) { steps.append((query, localIDs.read)) }
        return steps
    }

    // MARK: - What was left out

    /// A further round trip, for pushes of which something would be refused: what was taken for new is looked up.
    func completion(of pushes: Set<Int>) -> [Query] { rest(of: pushes).map(\.query) }

    /// Takes in what ``completion(of:)`` found.
    func complete(_ pushes: Set<Int>, _ results: [Rows], in snapshot: inout GroupSnapshot) throws {
        for (step, rows) in zip(rest(of: pushes), results) { try step.read(rows, &snapshot) }
        for push in pushes { snapshot.pushes[push].isComplete = true }
    }

    private func rest(of pushes: Set<Int>) -> [Step] {
        let wanted = leftOut.enumerated().map { pushes.contains($0) ? $1 : LookUps() }
        return lookUps(wanted) { wanted[$0].created.contains($1) }
    }

    private static func readByKey(_ rows: Rows, _ snapshot: inout GroupSnapshot, _ seals: [LaneSeal]) throws {
        for var row in rows {
            let push = try row.push()
            let record = try RecordColumns.record(&row, seals[push])
            snapshot.pushes[push].knownByKey[record.idempotencyKey] = record
            snapshot.pushes[push].knownByID[record.id] = record
        }
    }

    private static func readByID(_ rows: Rows, _ snapshot: inout GroupSnapshot, _ seals: [LaneSeal]) throws {
        for var row in rows {
            let push = try row.push()
            let record = try RecordColumns.record(&row, seals[push])
            snapshot.pushes[push].knownByID[record.id] = record
        }
    }

    /// A refusal that stays one, though what was said of it cannot be opened.
    private static let lostRefusal = Problem(
        .validationFailed,
        "the entry was refused before, and what it was told cannot be opened any more"
    ).json

    private static func readRejections(_ rows: Rows, _ snapshot: inout GroupSnapshot, _ seals: [LaneSeal]) throws {
        for var row in rows {
            let push = try row.push()
            let key = try row.uuid("idempotency_key")
            let place = SealedPlace.rejection(user: seals[push].user, key: key)
            var unreadable: [String] = []
            snapshot.pushes[push].rejections[key] = Rejection(
                idempotencyKey: key,
                id: try row.optionalUUID("id"),
                deviceID: try row.uuid("device_id"),
                sequenceNumber: try row.int64("sequence_number"),
                error: try seals[push].seal.read(json: row.bytes("error"), as: place, &unreadable)
                    ?? Self.lostRefusal
            )
        }
    }

    static func readMappings(_ rows: Rows, _ snapshot: inout GroupSnapshot) throws {
        for var row in rows {
            let push = try row.push()
            let clientID = try row.uuid("client_id")
            let mapping = IDMapping(
                entityType: try row.string("entity_type"),
                clientID: clientID,
                serverID: try row.serverID(),
                status: try row.choice("status"),
                mutationID: try row.uuid("mutation_id"),
                isAbandoned: try row.bool("is_abandoned")
            )
            // a comparison may have looked it up before
            if snapshot.pushes[push].mapping(mapping.clientID, type: mapping.entityType) != nil { continue }
            snapshot.pushes[push].mappings[mapping.clientID, default: []].append(mapping)
            snapshot.mappingUses.append(
                MappingUse(
                    push: push,
                    clientID: mapping.clientID,
                    entityType: mapping.entityType,
                    notedAt: try row.optionalMoment("last_used_at")
                )
            )
        }
    }

    // MARK: - Entities

    private mutating func addEntities() {
        var entities = EntityLookUps()
        for (index, job) in group.enumerated() {
            for mutation in job.push.entries.compactMap(\.mutation) {
                guard mutation.namesKnownEntity else { continue }
                entities.add(
                    PushEntityRow(
                        push: index,
                        lane: job.lane,
                        type: mutation.entityType,
                        localID: mutation.localID,
                        own: mutation.localNumber.map { .init(device: job.push.deviceID, number: $0) },
                        serverID: mutation.serverID?.text
                    )
                )
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
        for var row in rows {
            let push = try row.push()
            snapshot.pushes[push].open.append(
                OpenMutation(
                    id: try row.uuid("id"),
                    entityType: try row.string("entity_type"),
                    localID: try row.optionalUUID("local_id"),
                    serverID: try row.serverID(),
                    position: try row.int64("position")
                )
            )
        }
    }
}
