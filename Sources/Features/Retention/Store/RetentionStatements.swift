import Postgres

/// Statements about the lease, and about pending work.
///
/// Retention is one job for all organizations, so the former name none.
enum RetentionStatements {
    static let claim = Statement(
        "retention_claim",
        """
        UPDATE retention_runs AS r
        SET owner = $1, token = r.token + 1, expires_at = $3, started_at = $2
        -- a moment that is too far ahead was written by a clock that was wrong, or when runs were to be rarer
        WHERE r.name = 'retention' AND (r.expires_at IS NULL OR r.expires_at <= $2 OR r.expires_at > $5)
            AND ($4 OR r.due_at IS NULL OR r.due_at <= $2 OR r.due_at > $6)
        RETURNING r.token
        """
    )

    static let renew = Statement(
        "retention_renew",
        """
        UPDATE retention_runs AS r SET expires_at = $3
        WHERE r.name = 'retention' AND r.owner = $1 AND r.token = $2
        """
    )

    /// A run that was requested since then stays requested.
    static let release = Statement(
        "retention_release",
        """
        UPDATE retention_runs AS r
        SET owner = NULL, expires_at = NULL, finished_at = coalesce($3, r.finished_at),
            last_report = coalesce($4, r.last_report),
            due_at = CASE WHEN r.due_at > r.started_at THEN least(r.due_at, $5) ELSE $5 END
        WHERE r.name = 'retention' AND r.owner = $1 AND r.token = $2
        """
    )

    static let ask = Statement(
        "retention_ask",
        "UPDATE retention_runs AS r SET due_at = $1 WHERE r.name = 'retention'"
    )

    /// For one transaction: how long to wait for a lane, and plans by index as of `Query.planByIndex`. With the
    /// organization as a plain parameter, the planner has one more way to read all of its rows, by materializing them;
    /// that is disabled too.
    static let opening = Statement(
        "retention_opening",
        """
        SELECT set_config('lock_timeout', $1, true), set_config('plan_cache_mode', 'force_generic_plan', true),
            set_config('enable_hashjoin', 'off', true), set_config('enable_mergejoin', 'off', true),
            set_config('enable_seqscan', 'off', true), set_config('enable_material', 'off', true),
            set_config('enable_bitmapscan', 'off', true)
        """
    )

    /// By organization: retention's places, and the age of the oldest row of each kind, each by one index look-up in
    /// one partition.
    static let debts = Statement(
        "retention_debts",
        """
        SELECT o.id, p.shrunk_until, p.shrunk_user, p.shrunk_id, p.mapping_user, p.mapping_client,
            payload.at AS payload, record.at AS record, trouble.at AS trouble, rejection.at AS rejection,
            tombstone.at AS tombstone, delivered.at AS delivered, undelivered.at AS undelivered, mapping.at AS mapping
        FROM (
            SELECT x.id FROM organizations x
            WHERE $1::uuid IS NULL OR x.id > $1
            ORDER BY x.id
            LIMIT $2
        ) o
        LEFT JOIN LATERAL (
            SELECT x.shrunk_user, x.shrunk_id, x.mapping_user, x.mapping_client,
                -- what lies ahead was written by a clock that was wrong
                CASE WHEN x.shrunk_until <= $3 THEN x.shrunk_until END AS shrunk_until,
                CASE WHEN x.mappings_seen_at <= $3 THEN x.mappings_seen_at END AS mappings_seen_at
            FROM retention_places x
            WHERE x.organization_id = o.id
            OFFSET 0
        ) p ON true
        \(oldest("payload", "synced_at", of: "mutations", where: behindShrunk))
        \(oldest("record", "synced_at", of: "mutations", where: "x.synced_at IS NOT NULL"))
        \(oldest("trouble", "accepted_at", of: "mutations", where: "x.error IS NOT NULL AND x.synced_at IS NULL"))
        \(oldest("rejection", "rejected_at", of: "rejections", where: "x.rejected_at IS NOT NULL"))
        \(oldest("tombstone", "updated_at", of: "entities", where: "x.is_deleted"))
        \(oldest("delivered", "occurred_at", of: "webhook_deliveries", where: "x.status = 'delivered'"))
        \(oldest("undelivered", "occurred_at", of: "webhook_deliveries", where: "x.status <> 'delivered'"))
        LEFT JOIN LATERAL (
            SELECT coalesce(p.mappings_seen_at, x.resolved_at, x.created_at) AS at FROM id_mappings x
            WHERE x.organization_id = o.id
            ORDER BY x.user_id, x.client_id LIMIT 1
        ) mapping ON true
        ORDER BY o.id
        """,
        variant: clusteredDebts
    )

    /// The same as sub-selects, which a cluster sends to all servers at once.
    private static let clusteredDebts = """
        SELECT o.id, \(shrunkUntil) AS shrunk_until, p.shrunk_user, p.shrunk_id, p.mapping_user, p.mapping_client,
            \(oldestRow("synced_at", of: "mutations", where: """
                x.synced_at >= coalesce(\(shrunkUntil), '-infinity') AND (\(shrunkUntil) IS NULL
                        OR (x.synced_at, x.user_id, x.id) > (\(shrunkUntil), p.shrunk_user, p.shrunk_id))
                """)) AS payload,
            \(oldestRow("synced_at", of: "mutations", where: "x.synced_at IS NOT NULL")) AS record,
            \(oldestRow("accepted_at", of: "mutations", where: "x.error IS NOT NULL AND x.synced_at IS NULL")) AS trouble,
            \(oldestRow("rejected_at", of: "rejections", where: "x.rejected_at IS NOT NULL")) AS rejection,
            \(oldestRow("updated_at", of: "entities", where: "x.is_deleted")) AS tombstone,
            \(oldestRow("occurred_at", of: "webhook_deliveries", where: "x.status = 'delivered'")) AS delivered,
            \(oldestRow("occurred_at", of: "webhook_deliveries", where: "x.status <> 'delivered'")) AS undelivered,
            (SELECT coalesce(CASE WHEN p.mappings_seen_at <= $3 THEN p.mappings_seen_at END, x.resolved_at, x.created_at)
                FROM id_mappings x WHERE x.organization_id = o.id ORDER BY x.user_id, x.client_id LIMIT 1) AS mapping
        FROM organizations o
        LEFT JOIN retention_places p ON p.organization_id = o.id
        WHERE $1::uuid IS NULL OR o.id > $1
        ORDER BY o.id
        LIMIT $2
        """

    private static let shrunkUntil = "CASE WHEN p.shrunk_until <= $3 THEN p.shrunk_until END"

    private static func oldestRow(_ age: String, of table: String, where condition: String) -> String {
        """
        (SELECT x.\(age) FROM \(table) x WHERE x.organization_id = o.id AND \(condition)
                ORDER BY x.\(age) LIMIT 1)
        """
    }

    private static let behindShrunk = """
        x.synced_at >= coalesce(p.shrunk_until, '-infinity')
                AND (p.shrunk_until IS NULL
                    OR (x.synced_at, x.user_id, x.id) > (p.shrunk_until, p.shrunk_user, p.shrunk_id))
        """

    /// The age of an organization's oldest row of a table that meets a condition.
    private static func oldest(_ name: String, _ age: String, of table: String, where condition: String) -> String {
        """
        LEFT JOIN LATERAL (
            SELECT x.\(age) AS at FROM \(table) x
            WHERE x.organization_id = o.id AND \(condition)
            ORDER BY x.\(age) LIMIT 1
        ) \(name) ON true
        """
    }

    static let all = [claim, renew, release, ask, opening, debts]
}
