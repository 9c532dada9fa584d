import Postgres
import SyncStore

/// What operators see at a glance, over all organizations. Each statement ends after a bounded number of rows.
enum NowStatements {
    /// Failed and conflicting mutations, both up to $1, of as many types of organizations at most.
    static let troubled = Statement(
        "now_troubled",
        """
        WITH RECURSIVE t AS MATERIALIZED (
            SELECT o.id AS organization_id, z.entity_type
            FROM organizations o
            CROSS JOIN LATERAL (
                WITH RECURSIVE \(StuckCounts.types(of: "o.id"))
                SELECT * FROM w LIMIT $1
            ) z
            LIMIT $1
        )
        \(StuckCounts.counts(upTo: "$1"))
        """,
        // a cluster reads no list of organizations: it counts among the first stuck mutations
        variant: """
            SELECT count(*) FILTER (WHERE x.status = 'failed') AS failed,
                count(*) FILTER (WHERE x.status = 'conflict') AS conflict, count(*) AS looked
            FROM (SELECT m.status FROM mutations m WHERE \(StuckRows.are("m")) LIMIT $1) x
            """
    )

    /// Lanes that are halted, and that wait for a moment behind $2; both up to $1.
    static let lanes = Statement(
        "now_lanes",
        """
        SELECT (SELECT count(*) FROM (SELECT 1 FROM lanes l WHERE l.halted_by IS NOT NULL LIMIT $1) x) AS halted,
            (SELECT count(*) FROM (
                SELECT 1 FROM lanes l WHERE l.ready_at > $2 AND l.lease_owner IS NULL LIMIT $1) y) AS waiting
        """
    )

    /// The lane whose mutations have waited longest among the $1 that are next.
    static let oldest = Statement(
        "now_oldest",
        """
        SELECT x.organization_id, x.user_id, x.queued_since
        FROM (
            SELECT l.organization_id, l.user_id, l.queued_since FROM lanes l
            WHERE l.ready_at IS NOT NULL
            ORDER BY l.ready_at
            LIMIT $1
        ) x
        WHERE x.queued_since IS NOT NULL
        ORDER BY x.queued_since
        LIMIT 1
        """
    )

    /// The first mutation of a lane ($1, $2) that waits.
    static let firstWaiting = Statement(
        "now_first_waiting",
        """
        SELECT y.id
        FROM (
            SELECT z.id, z.status FROM mutations z
            WHERE z.organization_id = $1 AND z.user_id = $2 AND z.synced_at IS NULL
            ORDER BY z.position
            LIMIT 1000
        ) y
        WHERE y.status IN ('pending', 'in_flight')
        LIMIT 1
        """
    )

    /// Gateways that have been there within $1 seconds, the latest first.
    static let replicas = Statement(
        "now_replicas",
        """
        SELECT g.id, g.seen_at FROM gateways g
        WHERE g.seen_at > clock_timestamp() - $1::int8 * interval '1 second'
        ORDER BY g.seen_at DESC, g.id
        LIMIT 100
        """
    )

    static let all = [troubled, lanes, oldest, firstWaiting, replicas]
}
