package import FoundationEssentials
package import Postgres
package import SyncModel

/// Reads the data for settling, on a connection that holds the lane's lock.
package struct SettleReader {
    package let connection: Connection
    package let lane: LaneKey
    package let seal: Seal

    /// Locks the lane, and reads some of its mutations in lane order; nil if the user has no lane.
    ///
    /// - Parameters:
    ///   - screen: selects the mutations that still match the request; nil to select all.
    ///   - hasContents: whether to read payloads, responses and errors.
    package func begin(
        _ ids: [UUID],
        _ screen: (any SettlementGuard)?,
        hasContents: Bool = true,
        type: (String) -> EntityType
    ) async throws -> (lane: LaneState, subjects: [SettleSubject])? {
        let results = try await connection.runByIndex(
            [
                LaneRows.lock([lane]),
                Query(hasContents ? SettleStatements.subjects : SettleStatements.outlines, Parameters(of: lane, ids)),
            ] + (screen.map { [$0.query(of: lane.user)] } ?? [])
        )
        guard let state = try LaneRows.lanes(results[0])[lane] else { return nil }
        let meant = screen == nil ? nil : Set(try results[2].read { try $0.read("id", as: UUID.self) })
        var subjects = try results[1].read { row in
            let id: UUID = try row.read("id")
            var unreadable: [String] = []
            let endpoint = try row.endpoint()
            let payload = try laneSeal.read(json: row.read("payload"), .payload, of: id, &unreadable)
            let isOutcomeUnknown: Bool = try row.read("is_outcome_unknown")
            let references = try row.references()
            let record = try RecordColumns.record(&row, laneSeal, unreadable: unreadable)
            return SettleSubject(
                record: record,
                endpoint: endpoint,
                payload: payload,
                isOutcomeUnknown: isOutcomeUnknown,
                type: type(record.entity.type),
                references: references
            )
        }
        subjects.removeAll { meant?.contains($0.record.id) == false }
        return (state, subjects)
    }

    /// Returns which of an entity's channels the user holds.
    func access(to channels: Set<ChannelID>) async throws -> ChannelAccess {
        guard !channels.isEmpty else { return ChannelAccess() }
        let query = ChannelAccess.query(of: lane, to: channels.sorted())
        return try ChannelAccess(of: lane, await connection.runByIndex(query))
    }

    /// Returns mutations in their current state, with all their properties.
    package func details(_ ids: [UUID]) async throws -> [MutationDetail] {
        let rows = try await connection.run(
            MutationReader.byIDStatement(organization: lane.organization, user: lane.user, ids: ids)
        )
        return try rows.read { try MutationDetail(&$0, user: lane.user, seal) }
    }

    /// Returns the dependencies in the lane. Reads nothing if the lane has at most `count` open mutations.
    package func graph(_ state: LaneState, excluding count: Int) async throws -> DependencyGraph {
        guard state.openCount > count else { return DependencyGraph([]) }
        return DependencyGraph(
            try nodes(await connection.run(SettleStatements.edges(organization: lane.organization, user: lane.user)))
        )
    }

    /// Returns the mutations that are blocked on a mutation.
    package func waiters(for id: UUID) async throws -> [DependencyNode] {
        let waiters = try nodes(
            await connection.run(
                SettleStatements.waiters(organization: lane.organization, user: lane.user, blocker: id)
            )
        )
        return waiters.sorted { $0.position < $1.position }
    }

    /// Returns those mutations among `ids` that do not satisfy their dependants yet.
    ///
    /// The result maps each of these mutations to the entity that it writes.
    package func unmet(_ ids: [UUID]) async throws -> [UUID: EntityName] {
        guard !ids.isEmpty else { return [:] }
        let rows = try await connection.run(
            SettleStatements.unmet(organization: lane.organization, user: lane.user, ids: ids)
        )
        var unmet: [UUID: EntityName] = [:]
        for var row in rows {
            let id: UUID = try row.read("id")
            unmet[id] = try row.entity()
        }
        return unmet
    }

    /// Returns those mutations among `ids` that need one of the client ids. The result maps each mutation to this
    /// client id.
    package func needs(_ ids: [UUID], _ references: [ClientReference]) async throws -> [UUID: UUID] {
        guard !ids.isEmpty, !references.isEmpty else { return [:] }
        let clientIDs = references.map(\.clientID)
        let rows = try await connection.run(
            SettleStatements.needs(
                organization: lane.organization,
                user: lane.user,
                ids: ids,
                client_ids: clientIDs,
                entity_types: references.map(\.entityType)
            )
        )
        var needs: [UUID: UUID] = [:]
        for var row in rows {
            let id: UUID = try row.read("id")
            needs[id] = try row.read("client_id", as: UUID.self)
        }
        if !seal.isPlain {
            let rest = ids.filter { needs[$0] == nil }
            for start in stride(from: 0, to: rest.count, by: Self.sealedPage) {
                let page = Array(rest[start..<min(rest.count, start + Self.sealedPage)])
                needs.merge(try await sealedNeeds(page, clientIDs)) { known, _ in known }
            }
        }
        return needs
    }

    /// The number of sealed payloads that are searched together.
    private static let sealedPage = 50

    /// Returns the client ids that occur in sealed payloads whose references were not recorded.
    private func sealedNeeds(_ ids: [UUID], _ clientIDs: [UUID]) async throws -> [UUID: UUID] {
        let rows = try await connection.run(
            SettleStatements.sealedPayloads(
                organization: lane.organization,
                user: lane.user,
                ids: ids,
                beginning: SealedText.beginning(isJSON: true)
            )
        )
        var needs: [UUID: UUID] = [:]
        for var row in rows {
            let id: UUID = try row.read("id")
            // a payload that cannot be decrypted must not prevent this decision, and is treated as empty; the mutation
            // with this payload fails later, when it runs
            var unreadable: [String] = []
            let payload = try laneSeal.read(json: row.read("payload"), .payload, of: id, &unreadable) ?? []
            let text = String(decoding: payload, as: UTF8.self).lowercased()
            needs[id] = clientIDs.first { text.contains($0.uuidString.lowercased()) }
        }
        return needs
    }

    private var laneSeal: LaneSeal { LaneSeal(seal: seal, user: lane.user) }
    private var seals: SealTable { SealTable([lane.organization: seal]) }

    /// Returns the mappings of the user's client ids, and the mappings of local ids of one of the user's devices.
    ///
    /// In the result, the key of a client id is the client id itself, and the key of a local id is the UUID that
    /// represents it.
    package func mappings(
        _ clientIDs: [UUID],
        _ localIDs: [LocalID],
        of device: UUID
    ) async throws -> [UUID: [IDMapping]] {
        let device = DeviceKey(lane: lane, id: device)
        let ids = clientIDs.map { PushIDRow(push: 0, lane: lane, id: $0) }
        let numbers = localIDs.map { PushLocalIDRow(push: 0, device: device, id: $0) }
        var found: [IDMapping] = []
        if !ids.isEmpty {
            let rows = try await connection.run(PushIDRow.clients.query(GroupStatements.mappings, ids))
            found += try rows.read(FoundMapping.init).map(\.mapping)
        }
        if !numbers.isEmpty {
            let rows = try await connection.run(PushLocalIDRow.columns.query(LocalIDStatements.find, numbers))
            found += try rows.read(FoundLocalID.init).compactMap(\.mapping)
        }
        return Dictionary(grouping: found, by: \.clientID)
    }

    /// Locks an entity and reads it; nil if it does not exist.
    package func lockEntity(_ key: EntityKey) async throws -> EntityState? {
        var entities: [UUID: EntityTable] = [:]
        let rows = try await connection.run(EntityRows.lock([(organization: lane.organization, key: key)]))
        try EntityRows.load(rows, into: &entities, seals)
        return entities[lane.organization]?[key]
    }

    /// Returns the new errors of mutations to be discarded, by mutation. Each error contains the current state of the
    /// mutation's entity, which clients show instead of the discarded change.
    ///
    /// For each entity, only the first mutation's error contains the document, and only within the maximum number of
    /// bytes. For the other mutations, the gateway adds the document when the mutation is read.
    package func current(_ ids: [UUID]) async throws -> [UUID: [UInt8]] {
        let rows = try await connection.run(
            SettleStatements.current(
                organization: lane.organization,
                user: lane.user,
                ids: ids,
                bytes: WorkBounds.discardDocuments,
                error_bytes: WorkBounds.bulkContents
            )
        )
        var errors: [UUID: [UInt8]] = [:]
        for var row in rows {
            let mutation: UUID = try row.read("mutation_id")
            let hasError: Bool = try row.read("has_error")
            var unreadable: [String] = []
            let error = try laneSeal.read(json: row.read("error"), .error, of: mutation, &unreadable)
            // if a mutation's error was not read, the mutation is discarded, but its error is not changed
            guard hasError, unreadable.isEmpty else { continue }
            let isOutline: Bool = try row.read("is_outline")
            let (of, state) = try EntityRows.read(&row, seals)
            let id = ServerID(text: of.key.id, isInteger: state.isIntegerID)
            errors[mutation] = Problem.given(up: error, for: state, type: of.key.type, id: id, isOutline: isOutline)
        }
        return errors
    }

    /// Divides a list of mutations into parts whose contents fit into a transaction.
    ///
    /// Each part has at least one mutation.
    package func parts(of ids: [UUID]) async throws -> [[UUID]] {
        let rows = try await connection.run(
            SettleStatements.contentBytes(organization: lane.organization, user: lane.user, ids: ids)
        )
        var parts: [[UUID]] = []
        var bytes = 0
        for var row in rows {
            let id: UUID = try row.read("id")
            bytes += try row.read("bytes")
            if parts.isEmpty || bytes > WorkBounds.bulkContents {
                parts.append([])
                bytes = 0
            }
            parts[parts.count - 1].append(id)
        }
        return parts
    }

    /// Whether an entity was written after the last change of a mutation.
    package func isNewer(_ key: EntityKey, than mutation: UUID) async throws -> Bool {
        let rows = try await connection.run(
            SettleStatements.isNewer(
                organization: lane.organization,
                user: lane.user,
                mutation: mutation,
                entity_type: key.type,
                entity: key.id
            )
        )
        return try rows.read { try $0.read("is_newer", as: Bool.self) }.first ?? false
    }

    private func nodes(_ rows: Rows) throws -> [DependencyNode] {
        try rows.read { row in
            DependencyNode(
                id: try row.read("id"),
                position: try row.read("position"),
                acceptedAt: try row.read("accepted_at"),
                status: try row.choice("status"),
                operation: try row.choice("operation"),
                entity: try row.entity(),
                dependsOn: try row.read("depends_on")
            )
        }
    }
}
