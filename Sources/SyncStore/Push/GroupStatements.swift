import Postgres
import SyncModel

/// The statements of a group's first round trip, which first locks and then reads.
///
/// Each statement processes all rows of one kind. Each row of a result contains the index of its push in the group.
/// Inputs are sorted by key, and locks are taken in this order: lanes, then entities. The writes lock the feeds last,
/// when they raise them.
///
/// A plan is made once and reused. Therefore the text of a statement must determine the shape of the plan: a plain join
/// that is planned while the tables are nearly empty would always read a whole table. Each look-up is a lateral
/// subquery that PostgreSQL cannot merge into its query (`OFFSET 0`, `FOR UPDATE`, `LIMIT 1`). For each input row, the
/// subquery reads by primary key in one partition. A test EXPLAINs the statements.
enum GroupStatements {
    /// Creates missing lanes, in active organizations only.
    ///
    /// A purged organization accepts no new rows, but a purge cannot read a lane that is not committed yet. Therefore
    /// the creation of a lane locks the organization's row, which a purge changes first.
    ///
    /// No lane is created for a user who was erased or joined into another user. The lane of such a user was removed,
    /// but the caller's cached state may be older.
    static let makeLanes = Statement(
        "group_make_lanes",
        Columns.lanes.inputs,
        """
        INSERT INTO lanes AS l (organization_id, user_id)
        SELECT k.organization_id, k.user_id
        FROM \(Columns.lanes.unnested(as: "k"))
        -- CASE fixes the order of evaluation: the organization is locked only if the lane is missing, and not by every
        -- push
        WHERE CASE
            WHEN (SELECT x.user_id FROM lanes x
                  WHERE x.organization_id = k.organization_id AND x.user_id = k.user_id) IS NULL
            THEN (SELECT o.status FROM organizations o WHERE o.id = k.organization_id FOR SHARE) = 'active'
                AND (SELECT j.into_id FROM user_joins j
                     WHERE j.organization_id = k.organization_id AND j.user_id = k.user_id
                        AND j.closed_until IS NULL) IS NULL
                AND NOT (\(ErasedUsers.isErased("k.organization_id", "k.user_id")))
        END
        ORDER BY k.organization_id, k.user_id
        ON CONFLICT (organization_id, user_id) DO NOTHING
        RETURNING l.organization_id, l.user_id
        """
    )

    static let devices = Statement(
        "group_devices",
        deviceKeys.inputs,
        """
        SELECT k.organization_id, k.user_id, k.device_id, d.accepted_sequence, d.last_seen_at, d.stray_ids
        FROM \(deviceKeys.unnested(as: "k"))
        CROSS JOIN LATERAL (
            SELECT x.accepted_sequence, x.last_seen_at, x.stray_ids FROM devices x
            WHERE x.organization_id = k.organization_id AND x.user_id = k.user_id AND x.device_id = k.device_id
            OFFSET 0
        ) d
        """
    )

    private static let deviceKeys = Columns<DeviceKey>(.device { $0 })

    /// Reads devices of one organization in a Citus cluster.
    ///
    /// The statement returns a row for every combination of the users and the devices. The reader selects the requested
    /// rows.
    private static let devicesOfOne = Statement(
        "group_devices_of_one",
        ["organization", "users", "devices"],
        """
        SELECT x.organization_id, x.user_id, x.device_id, x.accepted_sequence, x.last_seen_at, x.stray_ids
        FROM devices x
        WHERE x.organization_id = :organization AND x.user_id = ANY (:users) AND x.device_id = ANY (:devices)
        """
    )

    /// Reads devices. The result can include other devices of the same users.
    static func devices(_ keys: [DeviceKey]) -> Query {
        deviceKeys.query(devices, keys).orOfOne(keys, \.lane.organization) {
            devicesOfOne(organization: $0, users: keys.map(\.lane.user), devices: keys.map(\.id))
        }
    }

    /// Counts users' devices up to a limit, for users with an unknown device.
    static let deviceCounts = Statement(
        "group_device_counts",
        PushIDRow.devices.inputs + ["limit"],
        """
        SELECT k.push, d.count
        FROM \(PushIDRow.devices.unnested(as: "k"))
        CROSS JOIN LATERAL (
            SELECT count(*) AS count FROM (
                SELECT 1 FROM devices x
                WHERE x.organization_id = k.organization_id AND x.user_id = k.user_id
                LIMIT :limit
            ) y
        ) d
        -- this subquery runs for each row; PostgreSQL could plan NOT EXISTS as a join that reads all devices
        WHERE (SELECT x.device_id FROM devices x
               WHERE x.organization_id = k.organization_id AND x.user_id = k.user_id AND x.device_id = k.device_id
        ) IS NULL
        """
    )

    static let mutationsByKey = mutations("group_mutations_by_key", PushIDRow.keys, "x.idempotency_key = k.key")
    static let mutationsByID = mutations("group_mutations_by_id", PushIDRow.ids, "x.id = k.id")

    private static func mutations(_ name: String, _ names: Columns<PushIDRow>, _ isNamed: String) -> Statement {
        Statement(
            name,
            names.inputs + ["bytes", "all_bytes"],
            """
            WITH found AS MATERIALIZED (
                SELECT k.push, y.*
                FROM \(names.unnested(as: "k"))
                CROSS JOIN LATERAL (
                    SELECT \(RecordColumns.stored)
                    FROM mutations x
                    WHERE x.organization_id = k.organization_id AND x.user_id = k.user_id AND \(isNamed)
                    OFFSET 0
                ) y
            )
            SELECT m.push, \(RecordColumns.bounded(by: ":bytes", all: ":all_bytes"))
            FROM (
                SELECT r.*, (sum(r.bytes) OVER (PARTITION BY r.push ORDER BY r.position))::int8 AS bytes_to,
                    (sum(r.bytes) OVER (ORDER BY r.push, r.position))::int8 AS all_to
                FROM (
                    SELECT x.*, \(RecordColumns.bytes(of: "x", by: "push", "position", upTo: ":all_bytes")) AS bytes
                    FROM found x
                    OFFSET 0
                ) r
            ) m
            """
        )
    }

    /// Adds two limits: the maximum bytes of contents for one push, and for all pushes.
    ///
    /// These parameters follow the parameters that name mutations.
    static func addBounds(to parameters: inout Parameters) {
        parameters.add(WorkBounds.answer)
        parameters.add(WorkBounds.groupRecords)
    }

    static let rejections = Statement(
        "group_rejections",
        PushIDRow.keys.inputs,
        """
        SELECT k.push, r.idempotency_key, r.id, r.device_id, r.sequence_number, r.error
        FROM \(PushIDRow.keys.unnested(as: "k"))
        CROSS JOIN LATERAL (
            SELECT * FROM rejections x
            WHERE x.organization_id = k.organization_id AND x.user_id = k.user_id AND x.idempotency_key = k.key
            OFFSET 0
        ) r
        """
    )

    /// Reads mappings.
    ///
    /// A failed mapping is abandoned if its create was discarded or deleted. Therefore the statement also reads the
    /// creates of failed mappings.
    static let mappings = Statement(
        "group_mappings",
        PushIDRow.clients.inputs,
        """
        SELECT k.push, i.client_id, i.entity_type, i.server_id, i.server_id_is_integer, i.status, i.mutation_id,
            CASE WHEN i.status = 'failed' THEN coalesce((
                SELECT m.status = 'discarded' FROM mutations m
                WHERE m.organization_id = k.organization_id AND m.user_id = k.user_id AND m.id = i.mutation_id), true)
            ELSE false END AS is_abandoned, i.last_used_at
        FROM \(PushIDRow.clients.unnested(as: "k"))
        CROSS JOIN LATERAL (
            SELECT * FROM id_mappings x
            WHERE x.organization_id = k.organization_id AND x.user_id = k.user_id AND x.client_id = k.client_id
            OFFSET 0
        ) i
        """
    )

    /// Finds the latest open mutation on each entity that the group updates.
    ///
    /// The statement searches only lanes that have open mutations.
    ///
    /// A create is not found by its own client id, because a mutation that follows the create waits for the mapping. If
    /// the create took over the client id, the mutation also waits for mutations that were already open under this id.
    static let open = latest(
        "group_open",
        own: false,
        """
        (
                        SELECT i.server_id FROM id_mappings i
                        WHERE i.organization_id = k.organization_id AND i.user_id = k.user_id
                            AND i.client_id = k.local_id AND i.entity_type = k.entity_type)
        """
    )

    /// Finds the latest open mutations for a group that names some entities by a local id.
    static let openOwn = latest(
        "group_open_own",
        own: true,
        """
        CASE WHEN k.local_number IS NULL THEN (
                        SELECT i.server_id FROM id_mappings i
                        WHERE i.organization_id = k.organization_id AND i.user_id = k.user_id
                            AND i.client_id = k.local_id AND i.entity_type = k.entity_type)
                    ELSE (
                        SELECT coalesce(n.server_id, n.same_as) FROM local_ids n
                        WHERE n.organization_id = k.organization_id AND n.user_id = k.user_id
                            AND n.device_id = k.device_id AND n.entity_type = k.entity_type
                            AND n.local_id = k.local_number)
                    END
        """
    )

    private static func latest(_ name: String, own: Bool, _ known: String) -> Statement {
        let columns = own ? PushEntityRow.openOwn : PushEntityRow.open
        return Statement(
            name,
            columns.inputs,
            """
            SELECT k.push, m.id, \(EntityName.list), m.position
            FROM \(columns.unnested(as: "k"))
            CROSS JOIN LATERAL (
                SELECT
                    -- an entity that is named by its client id may have open mutations under its server id, too
                    coalesce(k.server_id, \(known)) AS server_id
                FROM lanes x
                WHERE x.organization_id = k.organization_id AND x.user_id = k.user_id AND x.open_count > 0
                OFFSET 0
            ) l
            CROSS JOIN LATERAL (
                (SELECT * FROM mutations a
                 WHERE a.organization_id = k.organization_id AND a.user_id = k.user_id AND a.local_id = k.local_id
                    AND a.entity_type = k.entity_type AND a.synced_at IS NULL AND a.operation <> 'create'
                 ORDER BY a.position DESC LIMIT 1)
                UNION ALL
                (SELECT * FROM mutations b
                 WHERE b.organization_id = k.organization_id AND b.user_id = k.user_id AND b.server_id = l.server_id
                    AND b.entity_type = k.entity_type AND b.synced_at IS NULL
                 ORDER BY b.position DESC LIMIT 1)
            ) m
            """
        )
    }

    /// Finds the latest open mutation with each order key.
    static let openByOrderKey = Statement(
        "group_open_by_order_key",
        PushOrderKeyRow.columns.inputs,
        """
        SELECT k.push, k.order_key, m.id
        FROM \(PushOrderKeyRow.columns.unnested(as: "k"))
        CROSS JOIN LATERAL (
            SELECT x.id FROM mutations x
            WHERE x.organization_id = k.organization_id AND x.user_id = k.user_id AND x.order_key = k.order_key
                AND x.synced_at IS NULL
            ORDER BY x.position DESC LIMIT 1
        ) m
        """
    )

    static let reading = [
        makeLanes, devices, devicesOfOne, deviceCounts, mutationsByKey, mutationsByID, rejections, mappings, open,
        openOwn, openByOrderKey,
    ]
}
