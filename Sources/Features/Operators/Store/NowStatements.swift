import Postgres
import SyncStore

/// What operators see at a glance, over all organizations. Each statement ends after a bounded number of rows.
enum NowStatements {
    /// Failed and conflicting mutations, both up to `limit`, of as many types of organizations at most.
    static let failing = Statement(
        "now_troubled",
        ["limit"],
        """
        WITH RECURSIVE t AS MATERIALIZED (
            SELECT o.id AS organization_id, z.entity_type
            FROM organizations o
            CROSS JOIN LATERAL (
                WITH RECURSIVE \(FailureCounts.types(of: "o.id"))
                SELECT * FROM w LIMIT :limit
            ) z
            LIMIT :limit
        )
        \(FailureCounts.counts(upTo: ":limit"))
        """,
        // a cluster reads no list of organizations: it counts among the first stuck mutations
        variant: """
            SELECT count(*) FILTER (WHERE x.status = 'failed') AS failed,
                count(*) FILTER (WHERE x.status = 'conflict') AS conflict, count(*) AS looked
            FROM (SELECT m.status FROM mutations m WHERE \(StuckRows.are("m")) LIMIT :limit) x
            """
    )

    /// Lanes that are halted, and that wait for a moment behind `now`; both up to `limit`.
    static let lanes = Statement(
        "now_lanes",
        ["limit", "now"],
        """
        SELECT (SELECT count(*) FROM (SELECT 1 FROM lanes l WHERE l.halted_by IS NOT NULL LIMIT :limit) x) AS halted,
            (SELECT count(*) FROM (
                SELECT 1 FROM lanes l WHERE l.ready_at > :now AND l.lease_owner IS NULL LIMIT :limit) y) AS waiting
        """
    )

    /// The lane whose mutations have waited longest among the `limit` that are next.
    static let oldest = Statement(
        "now_oldest",
        ["limit"],
        """
        SELECT x.organization_id, x.user_id, x.queued_since
        FROM (
            SELECT l.organization_id, l.user_id, l.queued_since FROM lanes l
            WHERE l.ready_at IS NOT NULL
            ORDER BY l.ready_at
            LIMIT :limit
        ) x
        WHERE x.queued_since IS NOT NULL
        ORDER BY x.queued_since
        LIMIT 1
        """
    )

    /// The first mutation of a lane (`organization`, `user`) that waits.
    static let firstWaiting = Statement(
        "now_first_waiting",
        ["organization", "user"],
        """
        SELECT y.id
        FROM (
            SELECT z.id, z.status FROM mutations z
            WHERE z.organization_id = :organization AND z.user_id = :user AND z.synced_at IS NULL
            ORDER BY z.position
            LIMIT 1000
        ) y
        WHERE y.status IN ('pending', 'in_flight')
        LIMIT 1
        """
    )

    /// Gateways that have been there within `seconds` seconds, the latest first.
    static let replicas = Statement(
        "now_replicas",
        ["seconds"],
        """
        SELECT g.id, g.seen_at FROM gateways g
        WHERE g.seen_at > clock_timestamp() - :seconds::int8 * interval '1 second'
        ORDER BY g.seen_at DESC, g.id
        LIMIT 100
        """
    )

    static let all = [failing, lanes, oldest, firstWaiting, replicas]
}
