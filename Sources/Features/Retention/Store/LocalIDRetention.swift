import FoundationEssentials
import Postgres
import SyncModel
import SyncStore

/// Deletes the local ids of entities that retention deletes.
///
/// Each local id becomes a mapping (``LocalID/retiredID(on:)``), because the comparison of a stored mutation with a
/// repeat may need this mapping.
struct LocalIDRetention {
    /// A local id that an open mutation of its user may contain.
    struct Named {
        let user: UUID
        let clientID: UUID
        let key: EntityKey
    }

    let organization: UUID
    let now: Timestamp

    /// The maximum number of devices that one statement reads.
    private static let portion = 500

    func named(_ entities: [EntityKey], on connection: Connection) async throws -> [Named] {
        var parameters = parameters(entities)
        parameters.add(organization)
        let found = try await connection.run(Query(Self.namedIDsStatement, parameters))
        return try found.read { row in
            Named(user: try row.read("user_id"), clientID: try row.read("client_id"), key: try row.entityKey())
        }
    }

    /// Deletes the local ids of entities.
    ///
    /// The ids of every device are searched, up to ``portion`` devices at a time, because no index begins with the
    /// entity. In such an index, each id that a device's first pull inserts would change another page.
    func drop(of entities: [EntityKey], on connection: Connection) async throws {
        let found = try await connection.run(Query(Self.ofDeviceTypesStatement, parameters(entities)))
        let own = try found.read { try $0.entityKey() }
        guard !own.isEmpty else { return }
        var last: (user: UUID, device: UUID)? = (UUID.least, UUID.least)
        while let (user, device) = last {
            let page = Self.devicesStatement(
                organization: organization,
                after_user: user,
                after_device: device,
                limit: Self.portion
            )
            let devices = try await connection.run(page)
            let asked = try devices.read {
                (user: try $0.read("user_id", as: UUID.self), device: try $0.read("device_id", as: UUID.self))
            }
            var parameters = parameters(own)
            parameters.add(asked.map(\.user))
            parameters.add(asked.map(\.device))
            let retire = Query(Self.retireLocalIDsStatement, dated(parameters))
            _ = try await connection.run([retire, Query(Self.deleteLocalIDsStatement, parameters)])
            last = asked.count == Self.portion ? asked.last : nil
        }
        let retire = Query(Self.retireSecondIDsStatement, dated(parameters(own)))
        _ = try await connection.run([retire, Query(Self.deleteSecondIDsStatement, parameters(own))])
    }

    private func dated(_ parameters: Parameters) -> Parameters {
        var parameters = parameters
        parameters.add(now)
        return parameters
    }

    private func parameters(_ entities: [EntityKey]) -> Parameters {
        EntityRows.keys.parameters(entities.map { (organization, $0) })
    }

    /// SQL: the rows of a list `k` whose type has local ids.
    private static let ofDeviceTypes = """
        CROSS JOIN LATERAL (
                SELECT FROM entity_types t
                WHERE t.organization_id = k.organization_id AND t.name = k.entity_type AND t.id_space = 'device'
                OFFSET 0
            ) t
        """

    static let ofDeviceTypesStatement = Statement(
        "retention_of_device_types",
        EntityRows.keys.inputs,
        """
        SELECT k.entity_type, k.id
        FROM \(EntityRows.keys.unnested(as: "k"))
        \(ofDeviceTypes)
        ORDER BY k.entity_type, k.id
        """
    )

    /// Selects the devices with local ids. The table has a row for each such device, because a push and the first
    /// assignment of an id by a pull create this row.
    static let devicesStatement = Statement(
        "retention_devices",
        ["organization", "after_user", "after_device", "limit"],
        """
        SELECT d.user_id, d.device_id
        FROM devices d
        WHERE d.organization_id = :organization AND (d.user_id, d.device_id) > (:after_user, :after_device)
        ORDER BY d.user_id, d.device_id
        LIMIT :limit
        """
    )

    /// Selects local ids that open mutations may contain. Only devices of lanes with open mutations are searched,
    /// because the other lanes need no local id.
    ///
    /// The search misses a mutation that a device pushes at the same time. If the local id in this mutation is then
    /// deleted, the mutation fails when it runs. This is acceptable, because the entity was deleted long ago.
    static let namedIDsStatement = Statement(
        "retention_named_local_ids",
        EntityRows.keys.inputs + ["organization"],
        """
        WITH d AS MATERIALIZED (
            SELECT z.user_id, v.device_id
            FROM lanes z
            CROSS JOIN LATERAL (
                SELECT x.device_id FROM devices x
                WHERE x.organization_id = :organization AND x.user_id = z.user_id
                OFFSET 0
            ) v
            WHERE z.organization_id = :organization AND z.open_count > 0
        )
        SELECT l.user_id, l.client_id, k.entity_type, k.id
        FROM \(EntityRows.keys.unnested(as: "k"))
        \(ofDeviceTypes)
        CROSS JOIN d
        CROSS JOIN LATERAL (
            SELECT x.user_id, x.client_id FROM (\(LocalIDStatements.ofServer(
                "k.id", type: "k.entity_type", device: "d.device_id", user: "d.user_id",
                organization: "k.organization_id"))) x
            WHERE x.client_id IS NOT NULL
            UNION ALL
            SELECT y.user_id, y.client_id FROM local_ids y
            WHERE y.organization_id = k.organization_id AND y.user_id = d.user_id AND y.device_id = d.device_id
                AND y.entity_type = k.entity_type AND y.same_as = k.id AND y.client_id IS NOT NULL
            OFFSET 0
        ) l
        """
    )

    /// Creates mappings from the local ids of users who have mutations. Only the comparison of a repeat with its first
    /// push uses these mappings (``LocalID/retiredID(on:)``).
    ///
    /// The present time is recorded as the last use of each mapping, because a mutation may have named the entity until
    /// now. The mappings have the change position -1. Lists and events begin at position 0, and therefore never show
    /// these mappings.
    ///
    /// - Parameters:
    ///   - inputs: the parameters, including `now`.
    ///   - source: the SQL after FROM, in which `k` has the organization, and `l` is a row of `local_ids`.
    private static func retire(_ name: String, _ inputs: [String], from source: String) -> Statement {
        Statement(
            name,
            inputs,
            """
            INSERT INTO id_mappings AS i (
                organization_id, user_id, client_id, entity_type, server_id, server_id_is_integer, status, mutation_id,
                change_position, created_at, resolved_at, last_used_at)
            SELECT k.organization_id, l.user_id, \(retiredID), l.entity_type, coalesce(l.server_id, l.same_as),
                l.server_id_is_integer, 'resolved', l.device_id, -1, :now::timestamptz, :now::timestamptz, :now::timestamptz
            FROM \(source)
            CROSS JOIN LATERAL (
                SELECT x.id FROM mutations x
                WHERE x.organization_id = k.organization_id AND x.user_id = l.user_id AND x.position >= 0
                LIMIT 1
            ) m
            CROSS JOIN LATERAL (
                SELECT substr(sha256('\(LocalID.retiredPrefix)'::bytea || uuid_send(l.device_id) || int8send(l.local_id)
                    || convert_to(l.entity_type, 'UTF8')), 1, 16) AS hash
                OFFSET 0
            ) r
            ON CONFLICT (organization_id, user_id, client_id, entity_type) DO UPDATE
            SET server_id = excluded.server_id, server_id_is_integer = excluded.server_id_is_integer,
                last_used_at = excluded.last_used_at
            """
        )
    }

    /// SQL of ``LocalID/retiredID(on:)`` from a hash: sets the bits of version 8 and of the variant.
    private static let retiredID = """
        encode(set_byte(set_byte(r.hash, 6, get_byte(r.hash, 6) & 15 | 128), 8, get_byte(r.hash, 8) & 63 | 128), 'hex')::uuid
        """

    static let retireLocalIDsStatement = retire(
        "retention_retire_local_ids",
        EntityRows.keys.inputs + ["users", "devices", "now"],
        from: """
            \(EntityRows.keys.unnested(as: "k"))
            CROSS JOIN unnest(:users::uuid[], :devices::uuid[]) AS v (user_id, device_id)
            CROSS JOIN LATERAL (\(LocalIDStatements.ofServer(
                "k.id", type: "k.entity_type", device: "v.device_id", user: "v.user_id",
                organization: "k.organization_id"))) l
            """
    )

    static let deleteLocalIDsStatement = Statement(
        "retention_delete_local_ids",
        EntityRows.keys.inputs + ["users", "devices"],
        """
        DELETE FROM local_ids AS d
        USING (
            SELECT l.organization_id, l.user_id, l.device_id, l.entity_type, l.local_id
            FROM unnest(:users::uuid[], :devices::uuid[]) AS v (user_id, device_id)
            CROSS JOIN \(EntityRows.keys.unnested(as: "k"))
            CROSS JOIN LATERAL (\(LocalIDStatements.ofServer(
                "k.id", type: "k.entity_type", device: "v.device_id", user: "v.user_id",
                organization: "k.organization_id"))) l
        ) g
        WHERE d.organization_id = g.organization_id AND d.user_id = g.user_id AND d.device_id = g.device_id
            AND d.entity_type = g.entity_type AND d.local_id = g.local_id
        """
    )

    static let retireSecondIDsStatement = retire(
        "retention_retire_second_local_ids",
        EntityRows.keys.inputs + ["now"],
        from: """
            \(EntityRows.keys.unnested(as: "k"))
            CROSS JOIN LATERAL (
                SELECT * FROM local_ids y
                WHERE y.organization_id = k.organization_id AND y.entity_type = k.entity_type AND y.same_as = k.id
                OFFSET 0
            ) l
            """
    )

    /// Deletes local ids that a device assigned to an entity in addition to the first local id.
    static let deleteSecondIDsStatement = Statement(
        "retention_delete_second_local_ids",
        EntityRows.keys.inputs,
        """
        DELETE FROM local_ids AS d
        USING \(EntityRows.keys.unnested(as: "k"))
        WHERE d.organization_id = k.organization_id AND d.entity_type = k.entity_type AND d.same_as = k.id
        """
    )

    static let statements = [
        ofDeviceTypesStatement, devicesStatement, namedIDsStatement, retireLocalIDsStatement,
        deleteLocalIDsStatement, retireSecondIDsStatement, deleteSecondIDsStatement,
    ]
}
