import Postgres

/// The statements of a group's first round trip: lock, then read. All are set-based; each row carries its push's place
/// in the group. Inputs come in key order, and locks are taken in that order: lanes first, then entities; feeds are
/// raised last, when writing.
enum GroupStatements {
    /// Makes the lanes that are missing, in active organizations only: a purged one takes no new rows.
    static let makeLanes = Statement(
        "group_make_lanes",
        """
        INSERT INTO lanes AS l (organization_id, user_id)
        SELECT k.organization_id, k.user_id
        FROM unnest($1::uuid[], $2::uuid[]) AS k (organization_id, user_id)
        WHERE NOT EXISTS (
                SELECT FROM lanes x
                WHERE x.organization_id = k.organization_id AND x.user_id = k.user_id)
            AND EXISTS (SELECT FROM organizations o WHERE o.id = k.organization_id AND o.status = 'active')
        ORDER BY k.organization_id, k.user_id
        ON CONFLICT (organization_id, user_id) DO NOTHING
        RETURNING l.organization_id, l.user_id
        """
    )

    static let lockLanes = Statement(
        "group_lock_lanes",
        """
        SELECT l.organization_id, l.user_id, l.next_position, l.change_position, l.queued_count, l.open_count,
            l.halted_by
        FROM unnest($1::uuid[], $2::uuid[]) AS k (organization_id, user_id)
        JOIN lanes l ON l.organization_id = k.organization_id AND l.user_id = k.user_id
        ORDER BY l.organization_id, l.user_id
        FOR UPDATE OF l
        """
    )

    static let devices = Statement(
        "group_devices",
        """
        SELECT k.push, d.accepted_sequence
        FROM unnest($1::int4[], $2::uuid[], $3::uuid[], $4::uuid[]) AS k (push, organization_id, user_id, device_id)
        JOIN devices d ON d.organization_id = k.organization_id AND d.user_id = k.user_id
            AND d.device_id = k.device_id
        """
    )

    static let mutationsByKey = Statement(
        "group_mutations_by_key",
        """
        SELECT k.push, \(RecordColumns.list)
        FROM unnest($1::int4[], $2::uuid[], $3::uuid[], $4::uuid[]) AS k (push, organization_id, user_id, key)
        JOIN mutations m ON m.organization_id = k.organization_id AND m.user_id = k.user_id
            AND m.idempotency_key = k.key
        """
    )

    static let mutationsByID = Statement(
        "group_mutations_by_id",
        """
        SELECT k.push, \(RecordColumns.list)
        FROM unnest($1::int4[], $2::uuid[], $3::uuid[], $4::uuid[]) AS k (push, organization_id, user_id, id)
        JOIN mutations m ON m.organization_id = k.organization_id AND m.user_id = k.user_id AND m.id = k.id
        """
    )

    static let rejections = Statement(
        "group_rejections",
        """
        SELECT k.push, r.idempotency_key, r.id, r.device_id, r.sequence_number, r.error
        FROM unnest($1::int4[], $2::uuid[], $3::uuid[], $4::uuid[]) AS k (push, organization_id, user_id, key)
        JOIN rejections r ON r.organization_id = k.organization_id AND r.user_id = k.user_id
            AND r.idempotency_key = k.key
        """
    )

    static let mappings = Statement(
        "group_mappings",
        """
        SELECT k.push, i.client_id, i.entity_type, i.server_id, i.server_id_is_integer, i.status, i.mutation_id
        FROM unnest($1::int4[], $2::uuid[], $3::uuid[], $4::uuid[]) AS k (push, organization_id, user_id, client_id)
        JOIN id_mappings i ON i.organization_id = k.organization_id AND i.user_id = k.user_id
            AND i.client_id = k.client_id
        """
    )

    /// The latest open mutation on each entity that the group updates, looked for only in lanes that have open ones.
    static let open = Statement(
        "group_open",
        """
        SELECT k.push, m.id, m.entity_type, m.local_id, m.server_id, m.server_id_is_integer, m.position
        FROM unnest($1::int4[], $2::uuid[], $3::uuid[], $4::text[], $5::uuid[], $6::text[])
            AS k (push, organization_id, user_id, entity_type, local_id, server_id)
        JOIN lanes l ON l.organization_id = k.organization_id AND l.user_id = k.user_id AND l.open_count > 0
        -- an entity that is named by its client id may have open mutations under its server id, too
        LEFT JOIN id_mappings i ON i.organization_id = k.organization_id AND i.user_id = k.user_id
            AND i.client_id = k.local_id AND i.entity_type = k.entity_type
        CROSS JOIN LATERAL (
            (SELECT * FROM mutations a
             WHERE a.organization_id = k.organization_id AND a.user_id = k.user_id AND a.local_id = k.local_id
                AND a.entity_type = k.entity_type AND a.synced_at IS NULL
             ORDER BY a.position DESC LIMIT 1)
            UNION ALL
            (SELECT * FROM mutations b
             WHERE b.organization_id = k.organization_id AND b.user_id = k.user_id
                AND b.server_id = coalesce(k.server_id, i.server_id)
                AND b.entity_type = k.entity_type AND b.synced_at IS NULL
             ORDER BY b.position DESC LIMIT 1)
        ) m
        """
    )

    /// Locks the entities that the group reaches for, by server id or by a client id that is mapped.
    static let lockEntities = Statement(
        "group_lock_entities",
        """
        SELECT e.organization_id, e.entity_type, e.id, e.id_is_integer, e.version, e.is_deleted, e.document,
            e.owner_id, e.client_id, e.updated_by, e.updated_on, e.run_base
        FROM (
            SELECT d.organization_id, d.entity_type, d.id
            FROM unnest($1::uuid[], $2::text[], $3::text[]) AS d (organization_id, entity_type, id)
            UNION
            SELECT i.organization_id, i.entity_type, i.server_id
            FROM unnest($4::uuid[], $5::uuid[], $6::uuid[], $7::text[])
                AS c (organization_id, user_id, client_id, entity_type)
            JOIN id_mappings i ON i.organization_id = c.organization_id AND i.user_id = c.user_id
                AND i.client_id = c.client_id AND i.entity_type = c.entity_type
            WHERE i.server_id IS NOT NULL
        ) k
        JOIN entities e ON e.organization_id = k.organization_id AND e.entity_type = k.entity_type AND e.id = k.id
        ORDER BY e.organization_id, e.entity_type, e.id
        FOR UPDATE OF e
        """
    )
}
