import Postgres

/// The statements for the lease and for overdue rows.
///
/// Retention is one job for all organizations, so the lease's statements name no organization.
enum RetentionStatements {
    static let claim = Statement(
        "retention_claim",
        ["owner", "now", "expires_at", "is_due", "latest_expiry", "latest_due"],
        """
        UPDATE retention_runs AS r
        SET owner = :owner, token = r.token + 1, expires_at = :expires_at, started_at = :now
        -- times that are too late are ignored: the clock was wrong when they were written, or the interval was longer
        WHERE r.name = 'retention' AND (r.expires_at IS NULL OR r.expires_at <= :now OR r.expires_at > :latest_expiry)
            AND (:is_due OR r.due_at IS NULL OR r.due_at <= :now OR r.due_at > :latest_due)
        RETURNING r.token
        """
    )

    static let renew = Statement(
        "retention_renew",
        ["owner", "token", "expires_at"],
        """
        UPDATE retention_runs AS r SET expires_at = :expires_at
        WHERE r.name = 'retention' AND r.owner = :owner AND r.token = :token
        """
    )

    /// Releases the lease. A run that was requested since the claim remains requested.
    static let release = Statement(
        "retention_release",
        ["owner", "token", "finished_at", "report", "due_at"],
        """
        UPDATE retention_runs AS r
        SET owner = NULL, expires_at = NULL, finished_at = coalesce(:finished_at, r.finished_at),
            last_report = coalesce(:report, r.last_report),
            due_at = CASE WHEN r.due_at > r.started_at THEN least(r.due_at, :due_at) ELSE :due_at END
        WHERE r.name = 'retention' AND r.owner = :owner AND r.token = :token
        """
    )

    static let requestRun = Statement(
        "retention_ask",
        ["now"],
        "UPDATE retention_runs AS r SET due_at = :now WHERE r.name = 'retention'"
    )

    /// Sets a transaction's time limit for locking a lane, and disables plans without indexes, as in
    /// `Query.planByIndex`.
    ///
    /// It also disables materialization. If the organization is a plain parameter, the planner could otherwise
    /// materialize all of the organization's rows.
    static let opening = Statement(
        "retention_opening",
        ["lock_timeout"],
        """
        SELECT set_config('lock_timeout', :lock_timeout, true), set_config('plan_cache_mode', 'force_generic_plan', true),
            set_config('enable_hashjoin', 'off', true), set_config('enable_mergejoin', 'off', true),
            set_config('enable_seqscan', 'off', true), set_config('enable_material', 'off', true),
            set_config('enable_bitmapscan', 'off', true)
        """
    )

    /// The positions of retention in each organization, and the age of the oldest row of each kind.
    ///
    /// Each age is read by one index look-up in one partition. The column `aged` has an age for each of the tables, in
    /// microseconds.
    static func debts(_ tables: [AgedTable]) -> Statement {
        let aged = tables.map { oldest("aged_\($0.name)", $0.age, of: $0.name, where: "x.\($0.age) IS NOT NULL") }
        return Statement(
            "retention_debts",
            ["after", "limit", "now"],
            """
            SELECT o.id, p.shrunk_until, p.shrunk_user, p.shrunk_id, p.mapping_user, p.mapping_client,
                payload.at AS payload, record.at AS record, trouble.at AS trouble, tombstone.at AS tombstone,
                delivered.at AS delivered, undelivered.at AS undelivered, mapping.at AS mapping,
                p.feed_noted_at, \(hasEnds) AS has_ends, \(ages(tables.map { "aged_\($0.name).at" })) AS aged
            FROM (
                SELECT x.id FROM organizations x
                WHERE :after::uuid IS NULL OR x.id > :after
                ORDER BY x.id
                LIMIT :limit
            ) o
            LEFT JOIN LATERAL (
                SELECT x.shrunk_user, x.shrunk_id, x.mapping_user, x.mapping_client,
                    -- a time in the future is ignored, because it was written while a clock was wrong
                    CASE WHEN x.shrunk_until <= :now THEN x.shrunk_until END AS shrunk_until,
                    CASE WHEN x.mappings_seen_at <= :now THEN x.mappings_seen_at END AS mappings_seen_at,
                    \(feedNotedAt("x")) AS feed_noted_at
                FROM retention_places x
                WHERE x.organization_id = o.id
                OFFSET 0
            ) p ON true
            \(oldest("payload", "synced_at", of: "mutations", where: behindShrunk))
            \(oldest("record", "synced_at", of: "mutations", where: "x.synced_at IS NOT NULL"))
            \(oldest("trouble", "accepted_at", of: "mutations", where: "x.error IS NOT NULL AND x.synced_at IS NULL"))
            \(oldest("tombstone", "updated_at", of: "entities", where: "x.is_deleted"))
            \(oldest("delivered", "occurred_at", of: "webhook_deliveries", where: "x.status = 'delivered'"))
            \(oldest("undelivered", "occurred_at", of: "webhook_deliveries", where: "x.status <> 'delivered'"))
            \(aged.joined(separator: "\n"))
            LEFT JOIN LATERAL (
                SELECT coalesce(p.mappings_seen_at, x.resolved_at, x.created_at) AS at FROM id_mappings x
                WHERE x.organization_id = o.id
                ORDER BY x.user_id, x.client_id LIMIT 1
            ) mapping ON true
            ORDER BY o.id
            """,
            variant: clusteredDebts(tables)
        )
    }

    /// The statement for a Citus cluster. It has sub-selects, because Citus sends these to all servers concurrently.
    private static func clusteredDebts(_ tables: [AgedTable]) -> String {
        let aged = tables.map { oldestRow($0.age, of: $0.name, where: "x.\($0.age) IS NOT NULL") }
        return """
            SELECT o.id, \(shrunkUntil) AS shrunk_until, p.shrunk_user, p.shrunk_id, p.mapping_user, p.mapping_client,
                \(oldestRow("synced_at", of: "mutations", where: """
                    x.synced_at >= coalesce(\(shrunkUntil), '-infinity') AND (\(shrunkUntil) IS NULL
                            OR (x.synced_at, x.user_id, x.id) > (\(shrunkUntil), p.shrunk_user, p.shrunk_id))
                    """)) AS payload,
                \(oldestRow("synced_at", of: "mutations", where: "x.synced_at IS NOT NULL")) AS record,
                \(oldestRow("accepted_at", of: "mutations", where: "x.error IS NOT NULL AND x.synced_at IS NULL")) AS trouble,
                \(oldestRow("updated_at", of: "entities", where: "x.is_deleted")) AS tombstone,
                \(oldestRow("occurred_at", of: "webhook_deliveries", where: "x.status = 'delivered'")) AS delivered,
                \(oldestRow("occurred_at", of: "webhook_deliveries", where: "x.status <> 'delivered'")) AS undelivered,
                (SELECT coalesce(CASE WHEN p.mappings_seen_at <= :now THEN p.mappings_seen_at END, x.resolved_at, x.created_at)
                    FROM id_mappings x WHERE x.organization_id = o.id ORDER BY x.user_id, x.client_id LIMIT 1) AS mapping,
                \(feedNotedAt("p")) AS feed_noted_at, \(hasEnds) AS has_ends,
                \(ages(aged)) AS aged
            FROM organizations o
            LEFT JOIN retention_places p ON p.organization_id = o.id
            WHERE :after::uuid IS NULL OR o.id > :after
            ORDER BY o.id
            LIMIT :limit
            """
    }

    /// The last time at which the feed's position was noted. The times are in order. A time in the future is ignored.
    private static func feedNotedAt(_ places: String) -> String {
        let last = "\(places).feed_noted_at[cardinality(\(places).feed_noted_at)]"
        return "CASE WHEN \(last) <= :now THEN \(last) END"
    }

    /// Whether an organization `o` has ends of stays or grants.
    private static let hasEnds = """
        coalesce(
                    (SELECT true FROM ended_stays x WHERE x.organization_id = o.id ORDER BY x.left_at + 0 LIMIT 1),
                    (SELECT true FROM channel_grants x WHERE x.organization_id = o.id AND x.until IS NOT NULL
                        ORDER BY x.until LIMIT 1), false)
        """

    private static func ages(_ values: [String]) -> String {
        let ages = values.map { "coalesce((extract(epoch FROM \($0)) * 1000000)::int8, \(Int64.max))" }
        return "ARRAY[\(ages.joined(separator: ", "))]::int8[]"
    }

    private static let shrunkUntil = "CASE WHEN p.shrunk_until <= :now THEN p.shrunk_until END"

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

    /// Returns SQL for the age of an organization's oldest row in a table, among the rows that meet a condition.
    private static func oldest(_ name: String, _ age: String, of table: String, where condition: String) -> String {
        """
        LEFT JOIN LATERAL (
            SELECT x.\(age) AS at FROM \(table) x
            WHERE x.organization_id = o.id AND \(condition)
            ORDER BY x.\(age) LIMIT 1
        ) \(name) ON true
        """
    }

    static let all = [claim, renew, release, requestRun, opening]
}
