import Postgres
import SyncStore

extension StoredTable {
    static let operations = StoredTable("operations", key: ["id"], purge: .last, isShown: true)
        .naming(
            "user_id",
            "place_user",
            erase: .first(OperationUsers.erase),
            merge: .update(OperationUsers.merge, [.now], .dependent)
        )
        .plain(
            "kind",
            "statuses",
            "entity_type",
            "error_code",
            "error_status",
            "ids",
            "dependents",
            "strategy",
            "reason",
            "actor",
            "per_second",
            "state",
            "matched",
            "done",
            "skipped",
            "failed",
            "error",
            "place_at",
            "place_id",
            "place_entity",
            "lease_owner",
            "lease_token",
            "due_at",
            "created_at",
            "started_at",
            "changed_at",
            "ended_at",
            "total",
            "total_is_more"
        )
        .open("reasons")
}

/// Changes operations whose users are erased or merged.
enum OperationUsers {
    /// Removes the user from operations that name the user or one of the user's mutations; the operations stay.
    ///
    /// Parameters as for ``StoredTable/Erase/batches(_:keep:)``.
    static let erase = Statement(
        "erase_operations",
        ["organization", "user", "user_hash", "limit"],
        """
        WITH own AS MATERIALIZED (
            SELECT o.id, ARRAY(
                SELECT i.id FROM unnest(o.ids) i (id)
                CROSS JOIN LATERAL (
                    SELECT 1 FROM mutations m
                    WHERE m.organization_id = :organization AND m.user_id = :user AND m.id = i.id
                    OFFSET 0
                ) m
            ) AS ids
            FROM operations o WHERE o.organization_id = :organization
        ), gone AS (
            UPDATE operations AS o
            SET user_id = CASE WHEN o.user_id = :user THEN \(nobody) ELSE o.user_id END,
                place_user = CASE WHEN o.place_user = :user THEN \(nobody) ELSE o.place_user END,
                place_id = CASE WHEN o.place_user = :user THEN \(nobody) ELSE o.place_id END,
                ids = CASE WHEN o.ids IS NOT NULL THEN
                    ARRAY(SELECT i.id FROM unnest(o.ids) i (id) WHERE i.id <> ALL (w.ids)) END
            FROM own w
            WHERE o.organization_id = :organization AND o.id = w.id
                AND (o.user_id = :user OR o.place_user = :user OR cardinality(w.ids) > 0)
            RETURNING 1
        )
        SELECT count(*) FILTER (WHERE :user_hash::bytea IS NOT NULL AND :limit::int8 > 0) AS count FROM gone
        """
    )

    private static let nobody = "'00000000-0000-0000-0000-000000000000'::uuid"

    /// Replaces the user in operations by the target user.
    ///
    /// An operation that names mutations of the user ends: these mutations no longer exist under the user, and the
    /// operation does not cover the target's own mutations.
    static let merge = Statement(
        "join_operations",
        ["organization", "user", "into", "now"],
        """
        UPDATE operations AS o
        SET user_id = CASE WHEN o.user_id = :user THEN :into ELSE o.user_id END,
            place_user = CASE WHEN o.place_user = :user THEN :into ELSE o.place_user END,
            state = CASE WHEN \(endsWithUser) THEN 'failed' ELSE o.state END,
            error = CASE WHEN \(endsWithUser)
                THEN 'given up: the user became part of another; make a new one for what is left' ELSE o.error END,
            due_at = CASE WHEN \(endsWithUser) THEN NULL ELSE o.due_at END,
            lease_owner = CASE WHEN \(endsWithUser) THEN NULL ELSE o.lease_owner END,
            ended_at = CASE WHEN \(endsWithUser) THEN :now ELSE o.ended_at END,
            changed_at = :now
        WHERE o.organization_id = :organization AND (o.user_id = :user OR o.place_user = :user)
        """
    )

    private static let endsWithUser = "o.user_id = :user AND o.state = 'running'"
}
