import Foundation
import Postgres
import SyncModel

/// What a group's pushes name by ids of their devices, and where those lead.
struct LocalIDReader: Sendable {
    private let group: [PushInput]

    init(_ group: [PushInput]) {
        self.group = group
    }

    /// Looks up ids; nil for none.
    ///
    /// - Parameter isWanted: whether an id of a push has to be looked up.
    func find(_ isWanted: (_ push: Int, _ clientID: UUID) -> Bool) -> Query? {
        var columns = LocalIDColumns()
        for (index, input) in group.enumerated() where !input.localIDs.named.isEmpty {
            let device = device(of: index)
            for (clientID, id) in input.localIDs.named where isWanted(index, clientID) {
                columns.add(index, device, id)
            }
        }
        return columns.isEmpty ? nil : Query(LocalIDStatements.find, columns.parameters)
    }

    func read(_ rows: Rows, _ snapshot: inout GroupSnapshot) throws {
        for row in 0..<rows.count {
            let push = Int(try rows.int32(row, 0))
            let id = LocalID(entityType: try rows.string(row, 1), number: try rows.int64(row, 2))
            let clientID = id.clientID(on: group[push].push.deviceID)
            guard try rows.bool(row, 5) else {
                let isCreated = group[push].localIDs.created.contains(clientID)
                if try !isCreated && rows.bool(row, 9) { snapshot.unassigned[push, default: [:]][id] = clientID }
                continue
            }
            let serverID = try rows.serverID(row, 3)
            var mapping = IDMapping(
                entityType: id.entityType,
                clientID: clientID,
                serverID: serverID,
                status: serverID == nil ? .pending : .resolved,
                // of one that is resolved nobody asks
                mutationID: try rows.optionalUUID(row, 6) ?? clientID,
                isAbandoned: try serverID == nil && rows.bool(row, 7)
            )
            mapping.localNumber = id.number
            snapshot.pushes[push].mappings[clientID, default: []].append(mapping)
            if try rows.bool(row, 8) { snapshot.pushes[push].pinnedIDs.insert(clientID) }
        }
    }

    // MARK: - What pulls assigned

    /// Two more round trips, for pushes that are the first to use what a pull assigned to their device: what those ids
    /// lead to, and the entities that are written by them.
    func readAssigned(
        _ snapshot: inout GroupSnapshot,
        _ access: GroupReader.Access,
        _ seals: Seals,
        on connection: Connection
    ) async throws {
        let unassigned = snapshot.unassigned
        guard let pages = pages(snapshot), let again = find({ unassigned[$0]?.values.contains($1) == true }) else {
            return
        }
        // a pull may have confirmed a page since: what is not among the pages any more is found behind them
        let found = try await connection.run([pages, again])
        snapshot.unassigned = [:]
        try read(found[1], &snapshot)
        try readPages(found[0], &snapshot)
        var entities = EntityColumns()
        for (index, job) in group.enumerated() {
            guard let looked = unassigned[index].map({ Set($0.values) }) else { continue }
            for mutation in job.push.entries.compactMap(\.mutation) {
                guard mutation.operation != .create, mutation.serverID == nil, let clientID = mutation.localID,
                    looked.contains(clientID), let id = snapshot.pushes[index].mappings[clientID]?.first?.serverID
                else { continue }
                entities.add(index, job.lane, mutation.entityType, clientID, nil, id.text)
            }
        }
        guard !entities.isEmpty else { return }
        let results = try await connection.run([
            entities.open, entities.query(access),
        ])
        try GroupReader.readOpen(results[0], &snapshot)
        try EntityRows.load(results[1], into: &snapshot.entities, seals)
    }

    /// Ids that lead nowhere may have been assigned by a pull, whose page this push then confirms for the ids that it
    /// uses.
    private func pages(_ snapshot: GroupSnapshot) -> Query? {
        guard !snapshot.unassigned.isEmpty else { return nil }
        var columns = PushColumns()
        for push in snapshot.unassigned.keys.sorted() {
            columns.add(push, group[push].lane, group[push].push.deviceID)
        }
        return Query(LocalIDStatements.pages, columns.parameters)
    }

    /// An id that two pages give to different entities is not guessed at: the device has to pull first.
    private func readPages(_ rows: Rows, _ snapshot: inout GroupSnapshot) throws {
        var found: [Int: [LocalID: ServerID]] = [:]
        var ambiguous: [Int: Set<LocalID>] = [:]
        for row in 0..<rows.count {
            let push = Int(try rows.int32(row, 0))
            guard let wanted = snapshot.unassigned[push] else { continue }
            let (types, numbers) = (try rows.strings(row, 1), try rows.int64s(row, 2))
            let (ids, areIntegers) = (try rows.strings(row, 3), try rows.bools(row, 4))
            for (place, number) in numbers.enumerated() {
                let id = LocalID(entityType: types[place], number: number)
                guard wanted[id] != nil else { continue }
                let serverID = ServerID(text: ids[place], isInteger: areIntegers[place])
                if let other = found[push]?.updateValue(serverID, forKey: id), other != serverID {
                    ambiguous[push, default: []].insert(id)
                }
                found[push, default: [:]][id] = serverID
            }
        }
        for (push, ids) in found {
            for (id, serverID) in ids where ambiguous[push]?.contains(id) != true {
                guard let clientID = snapshot.unassigned[push]?[id] else { continue }
                var mapping = IDMapping(
                    entityType: id.entityType,
                    clientID: clientID,
                    serverID: serverID,
                    status: .resolved,
                    mutationID: clientID
                )
                mapping.localNumber = id.number
                snapshot.pushes[push].mappings[clientID, default: []].append(mapping)
                snapshot.pushes[push].tentativeIDs[clientID] = serverID
            }
        }
        snapshot.unassigned = [:]
    }

    private func device(of index: Int) -> LocalIDColumns.Device {
        LocalIDColumns.Device(lane: group[index].lane, id: group[index].push.deviceID)
    }
}
