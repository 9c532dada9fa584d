import FoundationEssentials
import Postgres
import SyncModel

/// Looks up keys and ids that a group's pushes contain and that stored mutations, rejections or entities may already
/// have.
extension GroupReader {
    mutating func addLookUps() {
        let created = group.indices.map { group[$0].localIDs.named.isEmpty ? [] : leftOut(of: $0).created }
        steps += lookups(wanted) { !created[$0].contains($1) }
    }

    /// Returns the keys and ids of a push that the first look-ups omit.
    private func leftOut(of push: Int) -> PushLookUps {
        PushLookUps.deferred(of: group[push].push, above: watermarks?[push], excluding: wanted[push])
    }

    /// - Parameter isWanted: whether to look up an id of a push's device, given the UUID that represents it.
    private func lookups(_ wanted: [PushLookUps], _ isWanted: (Int, UUID) -> Bool) -> [Step] {
        let (keys, ids, clients) = (rows(wanted, \.keys), rows(wanted, \.ids), rows(wanted, \.clients))
        let seals = laneSeals
        var steps: [Step] = []
        if !keys.isEmpty {
            steps.append(mutations(keys, seals))
            steps.append(
                (PushIDRow.keys.query(GroupStatements.rejections, keys), { try Self.readRejections($0, &$1, seals) })
            )
        }
        if !ids.isEmpty {
            var parameters = PushIDRow.ids.parameters(ids)
            GroupStatements.addBounds(to: &parameters)
            let query = Query(GroupStatements.mutationsByID, parameters)
            steps.append((query, { try Self.readByID($0, &$1, seals) }))
        }
        if !clients.isEmpty {
            steps.append((PushIDRow.clients.query(GroupStatements.mappings, clients), Self.readMappings))
        }
        let localIDs = LocalIDReader(group)
        if let query = localIDs.find(isWanted) { steps.append((query, localIDs.read)) }
        return steps
    }

    private func rows(_ wanted: [PushLookUps], _ ids: (PushLookUps) -> Set<UUID>) -> [PushIDRow] {
        zip(group, wanted).enumerated().flatMap { index, push in
            ids(push.1).map { PushIDRow(push: index, lane: push.0.lane, id: $0) }
        }
    }

    private func mutations(_ keys: [PushIDRow], _ seals: [LaneSeal]) -> Step {
        var parameters = PushIDRow.keys.parameters(keys)
        GroupStatements.addBounds(to: &parameters)
        return (Query(GroupStatements.mutationsByKey, parameters), { try Self.readByKey($0, &$1, seals) })
    }

    private var laneSeals: [LaneSeal] { group.map { [seals] in seals.lane($0.lane) } }

    /// Looks up the entries' keys, and the mappings for the responses. Used for pushes that contain only repeats.
    mutating func addRepeated() {
        let (keys, clients) = (rows(wanted, \.keys), rows(wanted, \.clients))
        // a push without keys has no rows, and Citus cannot choose a server for a statement without rows
        if !keys.isEmpty { steps.append(mutations(keys, laneSeals)) }
        guard !clients.isEmpty else { return }
        steps.append((PushIDRow.clients.query(GroupStatements.mappings, clients), Self.readMappings))
    }

    // MARK: - Completion

    /// Returns the queries of a further round trip, for pushes with an entry that would be refused.
    ///
    /// The queries look up the keys and ids that were assumed to be new.
    func completion(of pushes: Set<Int>) -> [Query] { deferred(of: pushes).map(\.query) }

    /// Adds the results of ``completion(of:)`` to the snapshot.
    func complete(_ pushes: Set<Int>, _ results: [Rows], in snapshot: inout GroupSnapshot) throws {
        for (step, rows) in zip(deferred(of: pushes), results) { try step.read(rows, &snapshot) }
        for push in pushes { snapshot.pushes[push].isComplete = true }
    }

    private func deferred(of pushes: Set<Int>) -> [Step] {
        let wanted = group.indices.map { pushes.contains($0) ? leftOut(of: $0) : PushLookUps() }
        return lookups(wanted) { wanted[$0].created.contains($1) }
    }

    private static func readByKey(_ rows: Rows, _ snapshot: inout GroupSnapshot, _ seals: [LaneSeal]) throws {
        for (push, record) in try records(rows, seals) {
            snapshot.pushes[push].knownByKey[record.idempotencyKey] = record
            snapshot.pushes[push].knownByID[record.id] = record
        }
    }

    private static func readByID(_ rows: Rows, _ snapshot: inout GroupSnapshot, _ seals: [LaneSeal]) throws {
        for (push, record) in try records(rows, seals) { snapshot.pushes[push].knownByID[record.id] = record }
    }

    private static func records(_ rows: Rows, _ seals: [LaneSeal]) throws -> [(push: Int, record: MutationRecord)] {
        try rows.readSealed { row in
            let push = try row.push()
            return (push, try RecordColumns.boundedRecord(&row, seals[push]))
        }
    }

    /// The problem that replaces a recorded problem that cannot be decrypted. The entry remains refused.
    private static let lostRefusal = Problem(
        .validationFailed,
        "the entry was rejected before, and its stored error cannot be decrypted"
    ).json

    private static func readRejections(_ rows: Rows, _ snapshot: inout GroupSnapshot, _ seals: [LaneSeal]) throws {
        let rejections = try rows.readSealed { row in
            let push = try row.push()
            let key: UUID = try row.read("idempotency_key")
            let place = SealedPlace.rejection(user: seals[push].user, key: key)
            var unreadable: [String] = []
            let rejection = Rejection(
                idempotencyKey: key,
                id: try row.read("id"),
                deviceID: try row.read("device_id"),
                sequenceNumber: try row.read("sequence_number"),
                error: try seals[push].seal.read(json: row.read("error"), as: place, &unreadable)
                    ?? Self.lostRefusal
            )
            return (push: push, rejection: rejection)
        }
        for (push, rejection) in rejections { snapshot.pushes[push].rejections[rejection.idempotencyKey] = rejection }
    }

    static func readMappings(_ rows: Rows, _ snapshot: inout GroupSnapshot) throws {
        for found in try rows.read(FoundMapping.init) {
            let name = found.mapping.reference
            // the id may already have been looked up for a comparison
            if snapshot.pushes[found.push].mapping(name) != nil { continue }
            snapshot.pushes[found.push].mappings[name.clientID, default: []].append(found.mapping)
            snapshot.mappingUses.append(MappingUse(push: found.push, name: name, notedAt: found.usedAt))
        }
    }

    // MARK: - Ids that are needed to compare repeats

    /// Returns the queries of a third round trip, for repeats whose ids differ from the ids in the first request.
    ///
    /// - Parameter pushes: the indices of the pushes to read for; nil for all.
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
            steps.append(
                (PushLocalIDRow.compared.query(LocalIDStatements.findCompared, local), Self.readComparedLocalIDs)
            )
        }
        return steps
    }

    private static func readComparedLocalIDs(_ rows: Rows, _ snapshot: inout GroupSnapshot) throws {
        for var row in rows {
            let push = try row.push()
            let device: UUID = try row.read("device_id")
            let clientID = try row.localID().clientID(on: device)
            guard let serverID = try row.serverID() else { continue }
            snapshot.pushes[push].comparedIDs[clientID, default: []].append(serverID)
        }
    }

    func add(_ results: [Rows], of steps: [Step], to snapshot: inout GroupSnapshot) throws {
        for (step, rows) in zip(steps, results) { try step.read(rows, &snapshot) }
    }
}
