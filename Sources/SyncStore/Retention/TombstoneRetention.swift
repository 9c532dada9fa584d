import Foundation
import Postgres
import SyncModel

/// Tombstones go, and the mappings of those who made the entities, and all devices' own ids of them. Whoever has pulled
/// nothing since then starts over: the feed's horizon says so.
struct TombstoneRetention: Retention {
    struct Row: Sendable {
        let organization: UUID
        let type: String
        let id: String
        let owner: UUID
        let clientID: UUID?
        let feedPosition: Int64
        let deletedAt: Timestamp

        var key: EntityKey { EntityKey(type: type, id: id) }

        /// What a tombstone is found by, as it was read.
        static let tombstone = Columns<Row>(
            .uuid("organization_id", \.organization),
            .text("entity_type", \.type),
            .text("id", \.id),
            .int8("feed_position", \.feedPosition)
        )

        /// What the mapping of whoever made the entity is found by.
        static let mapping = Columns<Row>(
            .uuid("organization_id", \.organization),
            .uuid("user_id", \.owner),
            .uuid("client_id", \.clientID),
            .text("entity_type", \.type),
            .text("server_id", \.id)
        )
    }

    /// A device's own id of an entity that some mutation has named, of a user who has open mutations.
    private struct NamedID {
        let user: UUID
        let clientID: UUID
        let key: EntityKey
    }

    let organization: UUID
    let cutoffs: RetentionCutoffs

    func page(after place: RetentionPlace?, limit: Int) -> Query {
        var parameters = Parameters(of: organization)
        if case .tombstone(let moment, let type, let id) = place {
            parameters.add(timestamp: moment.microseconds)
            parameters.add(type)
            parameters.add(id)
        } else {
            parameters.add(timestamp: Timestamp.longAgo.microseconds)
            parameters.add("")
            parameters.add("")
        }
        parameters.add(timestamp: cutoffs.everything.microseconds)
        parameters.add(Int64(limit))
        return Query(Self.pageStatement, parameters)
    }

    func row(_ row: inout RowReader) throws -> Row {
        Row(
            organization: organization,
            type: try row.string("entity_type"),
            id: try row.string("id"),
            owner: try row.uuid("owner_id"),
            clientID: try row.optionalUUID("client_id"),
            feedPosition: try row.int64("feed_position"),
            deletedAt: try row.moment("updated_at")
        )
    }

    func place(of row: Row) -> RetentionPlace { .tombstone(row.deletedAt, type: row.type, id: row.id) }
    func isDue(_ row: Row) -> Bool { true }
    func user(of row: Row) -> UUID { row.owner }

    func others(besides rows: [Row], on connection: Connection) async throws -> Set<UUID> {
        Set(try await named(rows, on: connection).map(\.user))
    }

    func drop(_ rows: [Row], lanes: [LaneKey: LaneState], on connection: Connection) async throws -> Int {
        let needed = try await NeededIDs(of: lanes, on: connection)
        // a device's own id that an open mutation needs leads somewhere as long as the tombstone is there
        let held = try await named(rows, on: connection).filter { needed.contains($0.clientID, of: $0.user) }.map(\.key)
        let sorted = rows.filter { !held.contains($0.key) }.sorted { ($0.type, $0.id) < ($1.type, $1.id) }
        guard !sorted.isEmpty else { return 0 }
        let gone = try await connection.run(Row.tombstone.query(Self.deleteStatement, sorted))
        guard gone.count > 0 else { return 0 }
        var last = Int64.min
        var entities: Set<EntityKey> = []
        for var row in gone {
            entities.insert(try row.entityKey())
            last = max(last, try row.int64("feed_position"))
        }
        // an open mutation may still need the client id; then the mapping goes when mappings are looked through
        let mapped = sorted.filter { row in
            guard let client = row.clientID else { return false }
            return !needed.contains(client, of: row.owner) && entities.contains(row.key)
        }
        if !mapped.isEmpty {
            _ = try await connection.run(Row.mapping.query(Self.deleteMappingsStatement, mapped))
        }
        try await dropLocalIDs(of: entities.sorted { ($0.type, $0.id) < ($1.type, $1.id) }, on: connection)
        var horizon = Parameters(of: organization)
        horizon.add(last)
        _ = try await connection.run([Query(Self.horizonStatement, horizon)])
        return gone.count
    }

    // MARK: - Devices' own ids

    /// Devices that one statement asks.
    private static let portion = 500

    private func named(_ rows: [Row], on connection: Connection) async throws -> [NamedID] {
        var parameters = parameters(rows.map(\.key))
        parameters.add(organization)
        let found = try await connection.run(Query(Self.namedIDsStatement, parameters))
        return try found.read { row in
            NamedID(user: try row.uuid("user_id"), clientID: try row.uuid("client_id"), key: try row.entityKey())
        }
    }

    /// There is no index by which all devices' ids of an entity could be found at once, for a device's first pull would then
    /// write all over it: each device is asked, some at a time.
    private func dropLocalIDs(of entities: [EntityKey], on connection: Connection) async throws {
        let found = try await connection.run(Query(Self.ofDeviceTypesStatement, parameters(entities)))
        let own = try found.read { try $0.entityKey() }
        guard !own.isEmpty else { return }
        var last: (user: UUID, device: UUID)? = (UUID.least, UUID.least)
        while let (user, device) = last {
            var page = Parameters(of: organization)
            page.add(user)
            page.add(device)
            page.add(Int64(Self.portion))
            let devices = try await connection.run(Query(Self.devicesStatement, page))
            let asked = try devices.read { (user: try $0.uuid("user_id"), device: try $0.uuid("device_id")) }
            var parameters = parameters(own)
            parameters.add(asked.map(\.user))
            parameters.add(asked.map(\.device))
            _ = try await connection.run(Query(Self.deleteLocalIDsStatement, parameters))
            last = asked.count == Self.portion ? asked.last : nil
        }
        _ = try await connection.run(Query(Self.deleteSecondIDsStatement, parameters(own)))
    }

    private func parameters(_ entities: [EntityKey]) -> Parameters {
        EntityRows.keys.parameters(entities.map { (organization, $0) })
    }

    /// Of a list that is called `k`, what is of a type with device ids.
    private static let ofDeviceTypes = """
        CROSS JOIN LATERAL (
                SELECT FROM entity_types t
                WHERE t.organization_id = k.organization_id AND t.name = k.entity_type AND t.id_space = 'device'
                OFFSET 0
            ) t
        """

    static let ofDeviceTypesStatement = Statement(
        "retention_of_device_types",
        """
        SELECT k.entity_type, k.id
        FROM \(EntityRows.keys.unnested(as: "k"))
        \(ofDeviceTypes)
        ORDER BY k.entity_type, k.id
        """
    )

    /// A device that has numbers is in the table: a push makes it, and so does a pull that assigns the first.
    static let devicesStatement = Statement(
        "retention_devices",
        """
        SELECT d.user_id, d.device_id
        FROM devices d
        WHERE d.organization_id = $1 AND (d.user_id, d.device_id) > ($2, $3)
        ORDER BY d.user_id, d.device_id
        LIMIT $4
        """
    )

    /// Of lanes where nothing waits no id is needed, so only devices of the others are asked. What is pushed meanwhile, and
    /// names what has been gone for so long, fails when its turn comes.
    static let namedIDsStatement = Statement(
        "retention_named_local_ids",
        """
        WITH d AS MATERIALIZED (
            SELECT z.user_id, v.device_id
            FROM lanes z
            CROSS JOIN LATERAL (
                SELECT x.device_id FROM devices x
                WHERE x.organization_id = $4 AND x.user_id = z.user_id
                OFFSET 0
            ) v
            WHERE z.organization_id = $4 AND z.open_count > 0
        )
        SELECT l.user_id, l.client_id, k.entity_type, k.id
        FROM \(EntityRows.keys.unnested(as: "k"))
        \(ofDeviceTypes)
        CROSS JOIN d
        CROSS JOIN LATERAL (
            SELECT x.user_id, x.client_id FROM local_ids x
            WHERE x.organization_id = k.organization_id AND x.user_id = d.user_id AND x.device_id = d.device_id
                AND x.entity_type = k.entity_type AND x.server_id = k.id AND x.client_id IS NOT NULL
            UNION ALL
            SELECT y.user_id, y.client_id FROM local_ids y
            WHERE y.organization_id = k.organization_id AND y.user_id = d.user_id AND y.device_id = d.device_id
                AND y.entity_type = k.entity_type AND y.same_as = k.id AND y.client_id IS NOT NULL
            OFFSET 0
        ) l
        """
    )

    static let deleteLocalIDsStatement = Statement(
        "retention_delete_local_ids",
        """
        DELETE FROM local_ids AS d
        USING (
            SELECT l.organization_id, l.user_id, l.device_id, l.entity_type, l.local_id
            FROM unnest($4::uuid[], $5::uuid[]) AS v (user_id, device_id)
            CROSS JOIN \(EntityRows.keys.unnested(as: "k"))
            CROSS JOIN LATERAL (
                SELECT * FROM local_ids z
                WHERE z.organization_id = k.organization_id AND z.user_id = v.user_id AND z.device_id = v.device_id
                    AND z.entity_type = k.entity_type AND z.server_id = k.id
                OFFSET 0
            ) l
        ) g
        WHERE d.organization_id = g.organization_id AND d.user_id = g.user_id AND d.device_id = g.device_id
            AND d.entity_type = g.entity_type AND d.local_id = g.local_id
        """
    )

    /// Numbers that were not the first by which their devices knew the entities.
    static let deleteSecondIDsStatement = Statement(
        "retention_delete_second_local_ids",
        """
        DELETE FROM local_ids AS d
        USING \(EntityRows.keys.unnested(as: "k"))
        WHERE d.organization_id = k.organization_id AND d.entity_type = k.entity_type AND d.same_as = k.id
        """
    )

    static let pageStatement = Statement(
        "retention_tombstones",
        """
        SELECT e.entity_type, e.id, e.owner_id, e.client_id, e.feed_position, e.updated_at
        FROM entities e
        WHERE e.organization_id = $1 AND e.is_deleted AND e.updated_at >= $2
            AND (e.updated_at, e.entity_type, e.id::text COLLATE "C") > ($2, $3::text COLLATE "C", $4::text COLLATE "C")
            AND e.updated_at < $5
        ORDER BY e.updated_at, e.entity_type, e.id::text COLLATE "C"
        LIMIT $6
        """
    )

    /// One that was written since it was read has another position, and stays.
    static let deleteStatement = Statement(
        "retention_delete_tombstones",
        """
        DELETE FROM entities AS e
        USING \(Row.tombstone.unnested(as: "k"))
        WHERE e.organization_id = k.organization_id AND e.entity_type = k.entity_type AND e.id = k.id
            AND CASE WHEN e.feed_position = k.feed_position THEN true END
        RETURNING e.entity_type, e.id, e.feed_position
        """
    )

    static let deleteMappingsStatement = Statement(
        "retention_delete_mappings_of_tombstones",
        """
        DELETE FROM id_mappings AS i
        USING \(Row.mapping.unnested(as: "k"))
        WHERE i.organization_id = k.organization_id AND i.user_id = k.user_id AND i.client_id = k.client_id
            AND i.entity_type = k.entity_type AND i.server_id = k.server_id
        """
    )

    /// The last lock of the transaction, as ever.
    static let horizonStatement = Statement(
        "retention_raise_horizon",
        "UPDATE feeds AS f SET horizon = greatest(f.horizon, $2) WHERE f.organization_id = $1"
    )
}
