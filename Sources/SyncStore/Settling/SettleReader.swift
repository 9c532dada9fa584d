import Foundation
import Postgres
import SyncModel

/// Reads what settling needs to know, on a connection that holds the lane's lock.
struct SettleReader {
    let connection: Connection
    let lane: LaneKey
    let seal: Seal

    /// Locks the lane, and reads some of its mutations in lane order; nil where the user has no lane.
    func begin(
        _ ids: [UUID],
        type: (String) -> EntityType
    ) async throws -> (lane: LaneState, subjects: [SettleSubject])? {
        let results = try await connection.run([
            Query(SettleStatements.planShape), LaneRows.lock([lane]),
            Query(SettleStatements.subjects, parameters(ids)),
        ])
        guard let state = try LaneRows.lanes(results[1])[lane] else { return nil }
        let rows = results[2]
        let first = RecordColumns.count
        let subjects = try (0..<rows.count).map { row in
            let id = try rows.uuid(row, 0)
            var unreadable: [String] = []
            let payload = try laneSeal.read(json: rows.optionalBytes(row, first + 1), .payload, of: id, &unreadable)
            let record = try RecordColumns.record(rows, row, laneSeal, besides: unreadable)
            let references = try rows.optionalUUIDs(row, first + 3) ?? []
            return SettleSubject(
                record: record,
                endpoint: try rows.optionalString(row, first),
                payload: payload,
                isOutcomeUnknown: try rows.bool(row, first + 2),
                type: type(record.entityType),
                references: references,
                referenceTypes: try rows.referenceTypes(row, first + 4, of: references)
            )
        }
        return (state, subjects)
    }

    /// Mutations as they are now, with all their attributes.
    func details(_ ids: [UUID]) async throws -> [MutationDetail] {
        let rows = try await connection.run(Query(MutationReader.byIDStatement, parameters(ids)))
        return try (0..<rows.count).map { try MutationDetail(rows, $0, user: lane.user, seal) }
    }

    /// What depends on anything in the lane; nothing does where `count` mutations are all that is open.
    func graph(_ state: LaneState, besides count: Int) async throws -> DependencyGraph {
        guard state.openCount > count else { return DependencyGraph([]) }
        var parameters = Parameters()
        parameters.add(lane.organization)
        parameters.add(lane.user)
        return DependencyGraph(try nodes(await connection.run(Query(SettleStatements.edges, parameters))))
    }

    /// What is blocked on a mutation.
    func waiters(for id: UUID) async throws -> [DependencyNode] {
        var parameters = Parameters()
        parameters.add(lane.organization)
        parameters.add(lane.user)
        parameters.add(id)
        let waiters = try nodes(await connection.run(Query(SettleStatements.waiters, parameters)))
        return waiters.sorted { $0.position < $1.position }
    }

    /// Those of some mutations that do not satisfy their dependants, and the entities that they write.
    func unmet(_ ids: [UUID]) async throws -> [UUID: EntityName] {
        guard !ids.isEmpty else { return [:] }
        let rows = try await connection.run(Query(SettleStatements.unmet, parameters(ids)))
        var unmet: [UUID: EntityName] = [:]
        for row in 0..<rows.count {
            unmet[try rows.uuid(row, 0)] = EntityName(
                type: try rows.string(row, 1),
                localID: try rows.optionalUUID(row, 2),
                localNumber: try rows.optionalInt64(row, 5),
                serverID: try rows.serverID(row, 3)
            )
        }
        return unmet
    }

    /// Which of some mutations need one of the client ids, and which.
    func needs(_ ids: [UUID], _ references: [ClientReference]) async throws -> [UUID: UUID] {
        guard !ids.isEmpty, !references.isEmpty else { return [:] }
        let clientIDs = references.map(\.clientID)
        var parameters = parameters(ids)
        parameters.add(clientIDs)
        parameters.add(references.map(\.entityType))
        let rows = try await connection.run(Query(SettleStatements.needs, parameters))
        var needs: [UUID: UUID] = [:]
        for row in 0..<rows.count { needs[try rows.uuid(row, 0)] = try rows.uuid(row, 1) }
        if !seal.isPlain {
            let rest = ids.filter { needs[$0] == nil }
            for start in stride(from: 0, to: rest.count, by: Self.sealedPage) {
                let page = Array(rest[start..<min(rest.count, start + Self.sealedPage)])
                needs.merge(try await sealedNeeds(page, clientIDs)) { known, _ in known }
            }
        }
        return needs
    }

    /// Sealed payloads that are searched at a time.
    private static let sealedPage = 50

    /// Which of some client ids stand in sealed payloads, where it was not noted which these hold.
    private func sealedNeeds(_ ids: [UUID], _ clientIDs: [UUID]) async throws -> [UUID: UUID] {
        var parameters = parameters(ids)
        parameters.add(SealedText.beginning(isJSON: true))
        let rows = try await connection.run(Query(SettleStatements.sealedPayloads, parameters))
        var needs: [UUID: UUID] = [:]
        for row in 0..<rows.count {
            let id = try rows.uuid(row, 0)
            // one that stays closed fails when its turn comes, and not what a person settles now
            var unreadable: [String] = []
            let payload = try laneSeal.read(json: rows.optionalBytes(row, 1), .payload, of: id, &unreadable) ?? []
            let text = String(decoding: payload, as: UTF8.self).lowercased()
            needs[id] = clientIDs.first { text.contains($0.uuidString.lowercased()) }
        }
        return needs
    }

    private var laneSeal: LaneSeal { LaneSeal(seal: seal, user: lane.user) }
    private var seals: Seals { Seals([lane.organization: seal]) }

    /// The user's mappings of client ids.
    func mappings(_ clientIDs: [UUID]) async throws -> [UUID: [IDMapping]] {
        guard !clientIDs.isEmpty else { return [:] }
        var columns = PushColumns()
        for id in clientIDs { columns.add(0, lane, id) }
        var snapshot = GroupSnapshot(pushes: [PushSnapshot()], hasLane: [true])
        let rows = try await connection.run(Query(GroupStatements.mappings, columns.parameters))
        try GroupReader.readMappings(rows, &snapshot)
        return snapshot.pushes[0].mappings
    }

    /// Where ids of a device lead, by what stands for them.
    func localIDs(_ ids: [LocalID], of device: UUID) async throws -> [UUID: [IDMapping]] {
        guard !ids.isEmpty else { return [:] }
        var parameters = Parameters()
        parameters.add(lane.organization)
        parameters.add(lane.user)
        parameters.add(device)
        parameters.add(ids.map(\.entityType))
        parameters.add(ids.map(\.number))
        let rows = try await connection.run(Query(SettleStatements.localIDs, parameters))
        var found: [UUID: [IDMapping]] = [:]
        for row in 0..<rows.count {
            let id = LocalID(entityType: try rows.string(row, 0), number: try rows.int64(row, 1))
            let serverID = try rows.serverID(row, 2)
            var mapping = IDMapping(
                entityType: id.entityType,
                clientID: id.clientID(on: device),
                serverID: serverID,
                status: serverID == nil ? .pending : .resolved,
                // what a pull gave waits for nothing
                mutationID: try rows.optionalUUID(row, 4) ?? UUID.least,
                isAbandoned: try rows.bool(row, 5)
            )
            mapping.localNumber = id.number
            found[mapping.clientID] = [mapping]
        }
        return found
    }

    /// Locks an entity and reads it; nil when there is none.
    func lockEntity(_ key: EntityKey) async throws -> EntityState? {
        var entities: [UUID: EntityTable] = [:]
        let rows = try await connection.run(EntityRows.lock([(organization: lane.organization, key: key)]))
        try EntityRows.load(rows, into: &entities, seals)
        return entities[lane.organization]?[key]
    }

    /// Bytes of documents, as they are stored, that one transaction copies to what it gives up: what is long is compressed.
    private static let currentBytes: Int64 = 1_048_576

    /// What is told to mutations that are to be given up: by mutation its problem with what stands in its place, and how
    /// many of them, counted from the last, one transaction can tell.
    func current(_ ids: [UUID]) async throws -> (errors: [UUID: [UInt8]], room: Int) {
        var parameters = parameters(ids)
        parameters.add(Self.currentBytes)
        let rows = try await connection.run(Query(SettleStatements.current, parameters))
        var errors: [UUID: [UInt8]] = [:]
        for row in 0..<rows.count {
            guard try rows.bool(row, 13) else { return (errors, max(1, ids.count - Int(try rows.int64(row, 12)))) }
            let mutation = try rows.uuid(row, 0)
            let type = try rows.string(row, 2)
            guard let id = try rows.serverID(row, 3) else { continue }
            var unreadable: [String] = []
            let error = try laneSeal.read(json: rows.optionalBytes(row, 1), .error, of: mutation, &unreadable)
            // what does not open is given up all the same, and stays
            guard unreadable.isEmpty else { continue }
            errors[mutation] = Problem.given(up: error, for: try currentState(rows, row), type: type, id: id)
        }
        return (errors, ids.count)
    }

    private func currentState(_ rows: Rows, _ row: Int) throws -> EntityState {
        let place = SealedPlace.document(type: try rows.string(row, 2), id: try rows.string(row, 3))
        var unreadable: [String] = []
        var state = EntityState(
            isIntegerID: try rows.bool(row, 4),
            version: try rows.int64(row, 5),
            isDeleted: try rows.bool(row, 6),
            document: try seal.read(json: rows.optionalBytes(row, 14), as: place, &unreadable),
            owner: try rows.uuid(row, 8),
            clientID: nil,
            lastWriter: Writer(user: try rows.uuid(row, 9), device: try rows.uuid(row, 10)),
            runBase: try rows.int64(row, 11),
            isStored: true,
            etag: try rows.optionalString(row, 7)
        )
        state.isUnreadable = !unreadable.isEmpty
        return state
    }

    /// Whether an entity was written after a mutation last changed.
    func isNewer(_ key: EntityKey, than mutation: UUID) async throws -> Bool {
        var parameters = Parameters()
        parameters.add(lane.organization)
        parameters.add(lane.user)
        parameters.add(mutation)
        parameters.add(key.type)
        parameters.add(key.id)
        let rows = try await connection.run(Query(SettleStatements.isNewer, parameters))
        return try rows.count > 0 && rows.bool(0, 0)
    }

    private func parameters(_ ids: [UUID]) -> Parameters {
        var parameters = Parameters()
        parameters.add(lane.organization)
        parameters.add(lane.user)
        parameters.add(ids)
        return parameters
    }

    private func nodes(_ rows: Rows) throws -> [DependencyNode] {
        try (0..<rows.count).map { row in
            DependencyNode(
                id: try rows.uuid(row, 0),
                position: try rows.int64(row, 1),
                acceptedAt: Timestamp(microseconds: try rows.timestamp(row, 2)),
                status: try rows.choice(row, 3),
                operation: try rows.choice(row, 4),
                entity: EntityName(
                    type: try rows.string(row, 5),
                    localID: try rows.optionalUUID(row, 6),
                    localNumber: try rows.optionalInt64(row, 10),
                    serverID: try rows.serverID(row, 7)
                ),
                dependsOn: try rows.uuids(row, 9)
            )
        }
    }
}
