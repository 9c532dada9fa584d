import Postgres
import SyncModel
import SyncStore

/// The statements that read the history of one mutation (`id`) from its user's lane. Each statement reads a bounded
/// number of rows.
enum MutationHistoryStatements {
    /// The number of later open mutations that are searched for dependents of the mutation.
    static let waiterScan: Int64 = 5_000
    /// The number of the user's last mutations that are searched for mutations of the same entity.
    static let historyScan: Int64 = 2_000
    /// The maximum number of dependencies, and of dependents, that are shown.
    static let shown = 50
    static let entityMutations = 20

    private static let own = """
        (
            SELECT * FROM mutations y
            WHERE y.organization_id = :organization AND y.user_id = :user AND y.id = :id
            OFFSET 0
        )
        """

    private static let relatedMutation = "m.id, m.status, m.operation, \(EntityName.list)"

    static let queued = Statement(
        "story_queued",
        ["organization", "user", "id"],
        """
        SELECT m.changed_at, \(QueuedColumns.list)
        FROM mutations m WHERE m.organization_id = :organization AND m.user_id = :user AND m.id = :id
        """
    )

    static let attempts = Statement(
        "story_attempts",
        ["organization", "user", "id"],
        """
        SELECT a.ordinal, a.outcome, a.revision, a.number, a.sent_at, a.duration_ms, a.status, a.error
        FROM attempts a WHERE a.organization_id = :organization AND a.user_id = :user AND a.mutation_id = :id
        ORDER BY a.ordinal
        """
    )

    static let waitsFor = Statement(
        "story_waits_for",
        ["organization", "user", "id"],
        """
        SELECT \(relatedMutation)
        FROM \(own) o
        CROSS JOIN LATERAL unnest(o.depends_on) AS k (id)
        CROSS JOIN LATERAL (
            SELECT * FROM mutations x
            WHERE x.organization_id = :organization AND x.user_id = :user AND x.id = k.id
            OFFSET 0
        ) m
        LIMIT \(shown)
        """
    )

    static let waiters = Statement(
        "story_waiters",
        ["organization", "user", "id"],
        """
        WITH behind AS MATERIALIZED (
            SELECT x.id, x.status, x.operation, x.entity_type, x.local_id, x.local_number, x.server_id,
                x.server_id_is_integer, x.position, x.status = 'blocked' AND o.id = ANY (x.depends_on) AS waits
            FROM \(own) o
            CROSS JOIN LATERAL (
                SELECT * FROM mutations z
                WHERE z.organization_id = :organization AND z.user_id = :user AND z.synced_at IS NULL AND z.position > o.position
                ORDER BY z.position
                LIMIT \(waiterScan)
            ) x
        )
        SELECT (SELECT count(*) FROM behind b WHERE b.waits) AS count,
            (SELECT count(*) FROM behind) = \(waiterScan) AS is_cut, \(relatedMutation)
        FROM behind m
        WHERE m.waits
        ORDER BY m.position
        LIMIT \(shown)
        """
    )

    static let ahead = Statement(
        "story_ahead",
        ["organization", "user", "id"],
        """
        SELECT count(*) AS count
        FROM (
            SELECT 1
            FROM \(own) o
            CROSS JOIN LATERAL (
                SELECT 1 FROM mutations z
                WHERE z.organization_id = :organization AND z.user_id = :user AND z.synced_at IS NULL AND z.position < o.position
                LIMIT \(BoundedCount.limit + 1)
            ) x
        ) y
        """
    )

    static let entity = Statement(
        "story_entity",
        ["organization", "user", "id"],
        """
        SELECT \(EntityRows.list(of: "e")), e.updated_at
        FROM \(own) m
        CROSS JOIN LATERAL (
            SELECT * FROM entities x
            WHERE x.organization_id = :organization AND x.entity_type = m.entity_type AND x.id = coalesce(m.server_id, (
                SELECT z.server_id FROM id_mappings z
                WHERE z.organization_id = :organization AND z.user_id = :user AND z.client_id = m.local_id
                    AND z.entity_type = m.entity_type), (
                SELECT coalesce(z.server_id, z.same_as) FROM local_ids z
                WHERE m.local_number IS NOT NULL AND z.organization_id = :organization AND z.user_id = :user
                    AND z.client_id = m.local_id))
            OFFSET 0
        ) e
        """
    )

    static let history = Statement(
        "story_history",
        ["organization", "user", "id"],
        """
        SELECT x.id, x.status, x.operation, x.version, x.changed_at
        FROM \(own) m
        CROSS JOIN LATERAL (
            SELECT z.id, z.status, z.operation, z.version, z.changed_at, z.entity_type, z.local_id, z.server_id, z.position
            FROM mutations z
            WHERE z.organization_id = :organization AND z.user_id = :user AND z.position > 0
            ORDER BY z.position DESC
            LIMIT \(historyScan)
        ) x
        WHERE x.id <> :id AND x.entity_type = m.entity_type
            AND (x.local_id = m.local_id OR x.server_id = m.server_id)
        ORDER BY x.position DESC
        LIMIT \(entityMutations)
        """
    )

    /// The permanent ids to which client ids (`client_ids`) are mapped.
    static let resolved = Statement(
        "story_resolved",
        ["organization", "user", "client_ids"],
        """
        SELECT y.client_id, y.entity_type, y.server_id, y.server_id_is_integer
        FROM unnest(:client_ids::uuid[]) AS r (client_id)
        CROSS JOIN LATERAL (
            SELECT z.client_id, z.entity_type, z.server_id::text AS server_id, z.server_id_is_integer
            FROM id_mappings z
            WHERE z.organization_id = :organization AND z.user_id = :user AND z.client_id = r.client_id AND z.status = 'resolved'
            UNION ALL
            SELECT z.client_id, z.entity_type, coalesce(z.server_id, z.same_as)::text, z.server_id_is_integer
            FROM local_ids z
            -- a UUID of version 8 represents a device's own id
            WHERE get_byte(uuid_send(r.client_id), 6) & 240 = 128 AND z.organization_id = :organization AND z.user_id = :user
                AND z.client_id = r.client_id AND coalesce(z.server_id, z.same_as) IS NOT NULL
            OFFSET 0
        ) y
        """
    )

    static let all = [queued, attempts, waitsFor, waiters, ahead, entity, history, resolved]
}
