import FoundationEssentials
import Postgres
import SyncModel

/// Looks up the local ids that a group's pushes name.
struct LocalIDReader: Sendable {
    private let group: [PushInput]

    init(_ group: [PushInput]) {
        self.group = group
    }

    /// Returns the query that looks up ids; nil if there are no ids.
    ///
    /// - Parameter isWanted: whether an id of a push has to be looked up.
    func find(_ isWanted: (_ push: Int, _ clientID: UUID) -> Bool) -> Query? {
        let rows = group.enumerated().flatMap { index, input in
            input.localIDs.named.filter { isWanted(index, $0.key) }
                .map { PushLocalIDRow(push: index, device: input.device, id: $0.value) }
        }
        return rows.isEmpty ? nil : PushLocalIDRow.columns.query(LocalIDStatements.find, rows)
    }

    func read(_ rows: Rows, _ snapshot: inout GroupSnapshot) throws {
        for found in try rows.read(FoundLocalID.init) {
            let (push, clientID) = (found.push, found.clientID)
            guard let mapping = found.mapping else {
                let isCreated = group[push].localIDs.created.contains(clientID)
                if !isCreated, found.mayBeAssigned { snapshot.unassigned[push, default: [:]][found.id] = clientID }
                continue
            }
            snapshot.pushes[push].mappings[clientID, default: []].append(mapping)
            if found.isPinned { snapshot.pushes[push].pinnedIDs.insert(clientID) }
        }
    }

    // MARK: - Assignments of pulls

    /// Makes two more round trips for pushes that use a pull's assignments for the first time.
    ///
    /// The queries read the server ids of the assigned ids, and the entities that are written under these ids.
    ///
    /// - Returns: whether entities were read.
    @discardableResult
    func readAssigned(
        _ snapshot: inout GroupSnapshot,
        _ access: GroupReader.Access,
        _ seals: SealTable,
        documentBytes: Int,
        on connection: Connection
    ) async throws -> Bool {
        let unassigned = snapshot.unassigned
        guard let pages = pages(snapshot), let again = find({ unassigned[$0]?.values.contains($1) == true }) else {
            return false
        }
        // a pull may have confirmed a page after the first look-up; then the second query finds the ids of this page
        let found = try await connection.run([pages, again])
        snapshot.unassigned = [:]
        try read(found[1], &snapshot)
        try readPages(found[0], &snapshot)
        var entities = EntityLookUps()
        for (index, job) in group.enumerated() {
            guard let looked = unassigned[index].map({ Set($0.values) }) else { continue }
            for entry in job.push.entries {
                guard let mutation = entry.mutation else { continue }
                let entity = mutation.entity
                for reference in job.localIDs.references(of: entry.index) where looked.contains(reference.clientID) {
                    let type = reference.id.entityType
                    guard job.relations.isTarget(type),
                        let id = snapshot.pushes[index].mappings[reference.clientID]?.first?.serverID
                    else { continue }
                    let target = EntityName(type: type, client: nil, serverID: id)
                    entities.add(target: PushEntityRow(push: index, device: job.device, entity: target))
                }
                guard mutation.operation != .create, entity.serverID == nil, let clientID = entity.clientID,
                    looked.contains(clientID), let id = snapshot.pushes[index].mappings[clientID]?.first?.serverID
                else { continue }
                entities.add(PushEntityRow(push: index, device: job.device, entity: entity.with(id)))
            }
        }
        guard !entities.isEmpty else { return false }
        let open = entities.open
        let results = try await connection.run(
            [entities.query(access, documentBytes: documentBytes)] + (open.map { [$0] } ?? [])
        )
        try EntityRows.loadBounded(
            results[0],
            hasTargets: entities.hasTargets,
            into: &snapshot.entities,
            seals
        )
        if open != nil { try GroupReader.readOpen(results[1], &snapshot) }
        return true
    }

    /// Returns the query for the unconfirmed pages of pulls that may have assigned local ids which identify no entity
    /// yet.
    ///
    /// The push then confirms the assignments of the ids that it uses.
    private func pages(_ snapshot: GroupSnapshot) -> Query? {
        guard !snapshot.unassigned.isEmpty else { return nil }
        let rows = snapshot.unassigned.keys.sorted().map { push in
            PushIDRow(push: push, lane: group[push].lane, id: group[push].push.deviceID)
        }
        return PushIDRow.devices.query(LocalIDStatements.pages, rows)
    }

    /// Reads the pages' assignments.
    ///
    /// If two pages assign an id to different entities, the id remains unresolved, and the device has to pull first.
    private func readPages(_ rows: Rows, _ snapshot: inout GroupSnapshot) throws {
        var found: [Int: [LocalID: ServerID]] = [:]
        var ambiguous: [Int: Set<LocalID>] = [:]
        for var row in rows {
            let push = try row.push()
            guard let wanted = snapshot.unassigned[push] else { continue }
            let (types, numbers) = (
                try row.read("entity_types", as: [String].self), try row.read("local_ids", as: [Int64].self)
            )
            let (ids, areIntegers) = (
                try row.read("server_ids", as: [String].self), try row.read("are_integers", as: [Bool].self)
            )
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
                guard snapshot.unassigned[push]?[id] != nil else { continue }
                let mapping = IDMapping(id, on: group[push].push.deviceID, serverID: serverID)
                snapshot.pushes[push].mappings[mapping.clientID, default: []].append(mapping)
                snapshot.pushes[push].tentativeIDs[mapping.clientID] = serverID
            }
        }
        snapshot.unassigned = [:]
    }
}

/// Builds the input rows for `local_ids`.
struct LocalIDRows {
    struct Row {
        let device: DeviceKey
        let id: LocalID
        let serverID: ServerID?
        let create: UUID?
    }

    private var rows: [Row] = []

    var isEmpty: Bool { rows.isEmpty }

    /// - Parameter create: the create, which is stored until the id has a server id.
    mutating func add(
        _ device: DeviceKey,
        _ id: LocalID,
        _ serverID: ServerID?,
        createdBy create: UUID? = nil
    ) {
        rows.append(Row(device: device, id: id, serverID: serverID, create: serverID == nil ? create : nil))
    }

    private var sorted: [Row] {
        rows.sorted { $0.device != $1.device ? $0.device < $1.device : $0.id < $1.id }
    }

    /// The key of a row.
    private static let key = Columns<Row>(.device(\.device), .localID(\.id))

    /// All columns, for ``LocalIDStatements/write`` and for the statements that replace or confirm ids.
    static let whole = Columns<Row>(
        key,
        .serverID(\.serverID),
        .value("mutation_id", \.create),
        .value("client_id") { row in row.create.map { _ in row.id.clientID(on: row.device.id) } }
    )

    /// The columns for ``LocalIDStatements/confirmSecond``.
    static let second = Columns<Row>(key, .serverID(\.serverID))

    /// The columns for ``LocalIDStatements/pin``.
    static let pin = Columns<Row>(key, .value("client_id") { $0.id.clientID(on: $0.device.id) })

    func query(_ statement: Statement) -> Query { Query(statement, Self.whole.parameters(sorted)) }
    func confirmSecond() -> Query { Query(LocalIDStatements.confirmSecond, Self.second.parameters(sorted)) }
    func pin() -> Query { Query(LocalIDStatements.pin, Self.pin.parameters(sorted)) }
}

/// A row of the result of ``LocalIDStatements/find`` about one local id.
struct FoundLocalID {
    /// The index, in the group, of the push that names the id.
    let push: Int
    let id: LocalID
    /// The UUID that represents the local id.
    let clientID: UUID
    /// The mapping that the id has or will get; nil if the device has assigned no such id.
    let mapping: IDMapping?
    /// Whether the row contains the UUID by which waiting mutations find the id.
    let isPinned: Bool
    /// Whether an unconfirmed pull may have assigned the id.
    let mayBeAssigned: Bool

    init(_ row: inout RowReader) throws {
        push = try row.push()
        let device: UUID = try row.read("device_id")
        id = try row.localID()
        let isKnown: Bool = try row.read("is_known")
        let mapping = IDMapping(
            id,
            on: device,
            serverID: try row.serverID(),
            createdBy: try row.read("mutation_id"),
            isAbandoned: try row.read("is_abandoned")
        )
        clientID = mapping.clientID
        self.mapping = isKnown ? mapping : nil
        isPinned = try row.read("is_pinned")
        mayBeAssigned = try row.read("may_be_assigned")
    }
}
