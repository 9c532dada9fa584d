import FoundationEssentials
package import Postgres
package import SyncModel

/// Reads mutations that are in flight or next in their lanes.
struct QueuedReader {
    let seals: SealTable
    let now: Timestamp

    /// Reads a mutation, and omits the values that cannot be decrypted.
    ///
    /// These values are damaged, or were accepted long ago under a data key that no longer exists.
    func mutation(_ row: inout RowReader, of lane: LaneKey, _ entry: Catalog.Entry) throws -> QueuedMutation {
        let seal = seals.lane(lane)
        let start = row
        do {
            return try QueuedColumns.mutation(&row, seal)
        } catch SealError.unknownKey(let number) where entry.readAt >= now && !seal.seal.isThere(number) {
            let closed = LaneSeal(seal: seal.seal.withoutKeyRefresh, user: seal.user)
            row = start
            let mutation = try QueuedColumns.mutation(&row, closed)
            // another replica may have just created the key
            guard mutation.acceptedAt.adding(seconds: OrganizationKeys.grace) < now else {
                throw SealError.unknownKey(number)
            }
            return mutation
        }
    }

    /// Reads the columns of ``LaneStatements/heads`` that follow the columns of the job.
    func head(_ row: inout RowReader, of lane: LaneKey, _ entry: Catalog.Entry) throws -> FoundHead {
        let start = row
        do {
            let mutation = try mutation(&row, of: lane, entry)
            let mappings = try Self.mappings(&row)
            let entity = row.isNextNull ? nil : try EntityRows.read(&row, seals).state
            return .mutation(mutation, entry.type(mutation.entity.type), mappings, entity)
        } catch let error as SealError where !error.lacksUserKeys {
            row = start
            return .sealed(position: try QueuedColumns.position(&row), error)
        }
    }

    /// Reads four parallel arrays: client ids, types, server ids, and kinds of server ids.
    private static func mappings(_ row: inout RowReader) throws -> [UUID: [DispatchPlanner.ResolvedID]] {
        let clients: [UUID] = try row.read("client_ids") ?? []
        let types: [String] = try row.read("entity_types") ?? []
        let ids: [String] = try row.read("server_ids") ?? []
        let areIntegers: [Bool] = try row.read("are_integers") ?? []
        var mappings: [UUID: [DispatchPlanner.ResolvedID]] = [:]
        for (place, client) in clients.enumerated() {
            let id = ServerID(text: ids[place], isInteger: areIntegers[place])
            mappings[client, default: []].append(DispatchPlanner.ResolvedID(entityType: types[place], serverID: id))
        }
        return mappings
    }
}

extension Catalog.Entry {
    /// Returns a mutation's type. If the type is not registered, returns the type that the first use would register.
    package func type(_ name: String) -> EntityType {
        types[name] ?? EntityType(firstUseOf: name, hasUpstream: organization?.upstream != nil)
    }
}

/// The columns of `mutations` that make a ``QueuedMutation``.
package enum QueuedColumns {
    /// The columns, for a table with the alias `m`.
    package static let list = MutationColumn.list(of: .queued)

    /// Reads only the position in the lane from a row.
    package static func position(_ row: inout RowReader) throws -> Int64 {
        row.skip("id")
        row.skip("accepted_at")
        row.skip("device_id")
        return try row.read("position")
    }

    /// Reads the columns of ``list``.
    package static func mutation(_ row: inout RowReader, _ seal: LaneSeal) throws -> QueuedMutation {
        let id: UUID = try row.read("id")
        let acceptedAt: Timestamp = try row.read("accepted_at")
        var mutation = QueuedMutation(
            id: id,
            deviceID: try row.read("device_id"),
            position: try row.read("position"),
            acceptedAt: acceptedAt,
            operation: try row.choice("operation"),
            entity: try row.entity(),
            maxAttempts: try row.read("max_attempts"),
            conflictResolution: try row.choice("conflict_resolution")
        )
        var unreadable: [String] = []
        // a settled conflict stores these values only for display; they are never sent
        var lost: [String] = []
        mutation.endpoint = try row.endpoint()
        mutation.payload = try seal.read(json: row.read("payload"), .payload, of: id, &unreadable)
        mutation.headers = try seal.read(json: row.read("headers"), .headers, of: id, &unreadable)
        mutation.baseVersion = try row.read("base_version")
        mutation.references = try row.references()
        mutation.revision = try row.read("revision")
        mutation.attemptCount = try row.read("attempt_count")
        mutation.nextRetryAt = try row.read("next_retry_at")
        mutation.resolution = try row.optionalChoice("resolution")
        mutation.isOutcomeUnknown = try row.read("is_outcome_unknown")
        mutation.conflictRetries = try row.read("conflict_retries")
        mutation.hold = try hold(&row)
        mutation.override = try sent(&row, seal, of: id, &unreadable)
        mutation.error = try seal.read(json: row.read("error"), .error, of: id, &lost)
        mutation.traceparent = try row.read("traceparent")
        mutation.keyUser = try row.read("key_user_id")
        mutation.unreadable = unreadable
        return mutation
    }

    private static func hold(_ row: inout RowReader) throws -> AuthBackoff? {
        let count: Int16 = try row.read("hold_count")
        return try row.read("held_since", as: Timestamp?.self).map { AuthBackoff(count: count, since: $0) }
    }

    private static func sent(
        _ row: inout RowReader,
        _ seal: LaneSeal,
        of id: UUID,
        _ unreadable: inout [String]
    ) throws -> SentRequest? {
        let method: String? = try row.read("sent_method")
        let endpoint: String? = try row.read("sent_endpoint")
        let payload = try seal.read(json: row.read("sent_payload"), .sentPayload, of: id, &unreadable)
        return method.map { SentRequest(method: $0, endpoint: endpoint, payload: payload) }
    }
}

/// Client ids that got a server id while mutations under the client id are open.
///
/// A mutation waits for the latest open mutation of its entity, under any of the entity's ids (product rule 3).
/// Therefore a later push under the server id must find the mutations that were pushed under the client id. To make
/// this possible, the latest of these mutations stores both ids, and its dependencies lead to the earlier mutations. If
/// the latest mutation is given up, the latest remaining mutation gets both ids.
struct KnownIDs {
    private var serverIDs: [MappingName: ServerID] = [:]

    /// Adds the outcome of a create, in a lane that has other open mutations.
    mutating func add(_ lane: LaneKey, _ mutation: QueuedMutation, _ outcome: Outcome, _ state: LaneState) {
        guard let created = mutation.created, outcome.status.isFinal, state.openCount > 0 else { return }
        add(lane, created.clientID, created.entityType, outcome.serverID)
    }

    /// Adds a pair of ids. Does nothing if either id is missing.
    mutating func add(_ lane: LaneKey, _ clientID: UUID?, _ entityType: String, _ serverID: ServerID?) {
        guard let clientID, let serverID else { return }
        serverIDs[MappingName(lane: lane, clientID: clientID, entityType: entityType)] = serverID
    }

    /// The query to run after the mutations and mappings are written; empty if no pair was added.
    ///
    /// The rows of the query are in key order.
    var queries: [Query] {
        guard !serverIDs.isEmpty else { return [] }
        return [Query(Self.statement, Self.columns.parameters(serverIDs.sorted { $0.key < $1.key }))]
    }

    private static let columns = Columns<(key: MappingName, value: ServerID)>(
        .lane { $0.key.lane },
        .value("client_id") { $0.key.clientID },
        .value("entity_type") { $0.key.entityType },
        .serverID { $0.value }
    )

    /// Writes the server ids. The change position is not raised, because readers need not see this change.
    static let statement = Statement(
        "lane_known_ids",
        columns.inputs,
        """
        UPDATE mutations AS m
        SET server_id = l.server_id, server_id_is_integer = l.server_id_is_integer
        FROM (
            SELECT k.organization_id, k.user_id, x.id, k.server_id, k.server_id_is_integer
            FROM \(columns.unnested(as: "k"))
            CROSS JOIN LATERAL (
                SELECT y.id, y.server_id FROM mutations y
                WHERE y.organization_id = k.organization_id AND y.user_id = k.user_id AND y.local_id = k.client_id
                    AND y.entity_type = k.entity_type AND y.synced_at IS NULL
                ORDER BY y.position DESC
                LIMIT 1
            ) x
            WHERE x.server_id IS NULL
            OFFSET 0
        ) l
        WHERE m.organization_id = l.organization_id AND m.user_id = l.user_id AND m.id = l.id
        """
    )
}
