import Postgres

/// The statements of the workers that fetch what sources have.
enum SourceStatements {
    /// Sources that a worker is to look at, those that have waited longest first.
    ///
    /// Of organizations that are not served none is found.
    static let due = Statement(
        "sources_due",
        """
        SELECT s.organization_id, s.name, s.next_run_at
        FROM sources s
        CROSS JOIN LATERAL (
            SELECT x.status FROM organizations x WHERE x.id = s.organization_id AND x.status = 'active' OFFSET 0
        ) o
        WHERE s.kind = $1 AND s.status = 'enabled' AND s.next_run_at <= $2
            AND (s.next_run_at, s.organization_id, s.name) > ($3, $4, $5)
        ORDER BY s.next_run_at, s.organization_id, s.name
        LIMIT $6
        """
    )

    static let claim = Statement(
        "sources_claim",
        """
        UPDATE sources AS s
        SET lease_token = s.lease_token + 1, leased_until = $5, next_run_at = $5
        WHERE s.organization_id = $1 AND s.name = $2 AND s.kind = $3 AND s.status = 'enabled' AND s.next_run_at <= $4
            AND coalesce(s.leased_until <= $4, true)
        RETURNING s.settings, s.secret, s.state, s.lease_token, s.failure_count, s.last_success_at
        """
    )

    /// A worker's report counts only under its present lease.
    private static let held = """
        s.organization_id = $1 AND s.name = $2 AND s.lease_token = $3 AND s.leased_until IS NOT NULL
        """

    static let renew = Statement(
        "sources_renew",
        "UPDATE sources AS s SET leased_until = $4, next_run_at = $4 WHERE \(held)"
    )

    /// Whether a worker still has its source: no operator has changed or disabled it, and its organization is served.
    static let isHeld = Statement(
        "sources_is_held",
        """
        SELECT 1
        FROM sources s
        CROSS JOIN LATERAL (
            SELECT x.status FROM organizations x WHERE x.id = s.organization_id AND x.status = 'active' OFFSET 0
        ) o
        WHERE \(held) AND s.status = 'enabled'
        """
    )

    /// Writes how far a worker is without a success.
    static let note = Statement(
        "sources_note",
        "UPDATE sources AS s SET leased_until = $4, next_run_at = $4, state = $5 WHERE \(held)"
    )

    static let progress = Statement(
        "sources_progress",
        """
        UPDATE sources AS s
        SET leased_until = $4, next_run_at = $4, state = $5, last_event_at = coalesce($6, s.last_event_at),
            failure_count = 0, failing_since = NULL, last_error = NULL, last_success_at = $7
        WHERE \(held)
        """
    )

    static let succeed = Statement(
        "sources_succeed",
        """
        UPDATE sources AS s
        SET leased_until = NULL, next_run_at = $4, state = coalesce($5, s.state),
            last_event_at = coalesce($6, s.last_event_at), failure_count = 0, failing_since = NULL, last_error = $8,
            last_success_at = $7
        WHERE \(held)
        """
    )

    static let fail = Statement(
        "sources_fail",
        """
        UPDATE sources AS s
        SET leased_until = NULL, next_run_at = $4, failure_count = least(s.failure_count, 1000000) + 1,
            failing_since = coalesce(s.failing_since, $6), last_error = $5, state = coalesce($7, s.state)
        WHERE \(held)
        """
    )

    static let release = Statement(
        "sources_release",
        "UPDATE sources AS s SET leased_until = NULL, next_run_at = $4 WHERE \(held)"
    )

    /// Sources that follow databases, for an examination.
    static let followed = Statement(
        "sources_followed",
        """
        SELECT s.organization_id, s.name, s.settings, s.secret
        FROM sources s
        CROSS JOIN LATERAL (
            SELECT x.status FROM organizations x WHERE x.id = s.organization_id AND x.status = 'active' OFFSET 0
        ) o
        WHERE s.kind = 'postgres' AND s.status = 'enabled'
        ORDER BY s.organization_id, s.name
        LIMIT $1
        """
    )

    /// Counts sources, over all organizations that are served, for metrics.
    static let census = Statement(
        "sources_census",
        """
        SELECT s.kind, count(*) FILTER (WHERE s.status = 'enabled' AND s.failing_since IS NULL) AS ok,
            count(*) FILTER (WHERE s.status = 'enabled' AND s.failing_since IS NOT NULL) AS failing,
            count(*) FILTER (WHERE s.status = 'disabled') AS disabled,
            min(coalesce(s.last_success_at, s.created_at)) FILTER (WHERE s.status = 'enabled') AS oldest_success
        FROM sources s
        CROSS JOIN LATERAL (
            SELECT x.status FROM organizations x WHERE x.id = s.organization_id AND x.status = 'active' OFFSET 0
        ) o
        GROUP BY s.kind
        """
    )

    static let all = [due, claim, renew, isHeld, note, progress, succeed, fail, release, followed, census]
}
