import Postgres

/// The statements of the workers that fetch what sources have.
enum SourceStatements {
    /// Sources that a worker is to look at, those that have waited longest first.
    ///
    /// Of organizations that are not served none is found.
    static let due = Statement(
        "sources_due",
        ["kind", "now", "after", "after_organization", "after_name", "limit"],
        """
        SELECT s.organization_id, s.name, s.next_run_at
        FROM sources s
        CROSS JOIN LATERAL (
            SELECT x.status FROM organizations x WHERE x.id = s.organization_id AND x.status = 'active' OFFSET 0
        ) o
        WHERE s.kind = :kind AND s.status = 'enabled' AND s.next_run_at <= :now
            AND (s.next_run_at, s.organization_id, s.name) > (:after, :after_organization, :after_name)
        ORDER BY s.next_run_at, s.organization_id, s.name
        LIMIT :limit
        """
    )

    static let claim = Statement(
        "sources_claim",
        ["organization", "name", "kind", "now", "until"],
        """
        UPDATE sources AS s
        SET lease_token = s.lease_token + 1, leased_until = :until, next_run_at = :until
        WHERE s.organization_id = :organization AND s.name = :name AND s.kind = :kind AND s.status = 'enabled' AND s.next_run_at <= :now
            AND coalesce(s.leased_until <= :now, true)
        RETURNING s.settings, s.secret, s.state, s.lease_token, s.failure_count, s.last_success_at
        """
    )

    /// A worker's report counts only under its present lease.
    private static let held = """
        s.organization_id = :organization AND s.name = :name AND s.lease_token = :token AND s.leased_until IS NOT NULL
        """

    static let renew = Statement(
        "sources_renew",
        ["organization", "name", "token", "until"],
        "UPDATE sources AS s SET leased_until = :until, next_run_at = :until WHERE \(held)"
    )

    /// Whether a worker still has its source: no operator has changed or disabled it, and its organization is served.
    static let isHeld = Statement(
        "sources_is_held",
        ["organization", "name", "token"],
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
        ["organization", "name", "token", "until", "state"],
        "UPDATE sources AS s SET leased_until = :until, next_run_at = :until, state = :state WHERE \(held)"
    )

    static let progress = Statement(
        "sources_progress",
        ["organization", "name", "token", "until", "state", "last_event_at", "last_success_at"],
        """
        UPDATE sources AS s
        SET leased_until = :until, next_run_at = :until, state = :state, last_event_at = coalesce(:last_event_at, s.last_event_at),
            failure_count = 0, failing_since = NULL, last_error = NULL, last_success_at = :last_success_at
        WHERE \(held)
        """
    )

    static let succeed = Statement(
        "sources_succeed",
        ["organization", "name", "token", "next_run_at", "state", "last_event_at", "last_success_at", "error"],
        """
        UPDATE sources AS s
        SET leased_until = NULL, next_run_at = :next_run_at, state = coalesce(:state, s.state),
            last_event_at = coalesce(:last_event_at, s.last_event_at), failure_count = 0, failing_since = NULL, last_error = :error,
            last_success_at = :last_success_at
        WHERE \(held)
        """
    )

    static let fail = Statement(
        "sources_fail",
        ["organization", "name", "token", "next_run_at", "error", "now", "state"],
        """
        UPDATE sources AS s
        SET leased_until = NULL, next_run_at = :next_run_at, failure_count = least(s.failure_count, 1000000) + 1,
            failing_since = coalesce(s.failing_since, :now), last_error = :error, state = coalesce(:state, s.state)
        WHERE \(held)
        """
    )

    static let release = Statement(
        "sources_release",
        ["organization", "name", "token", "next_run_at"],
        "UPDATE sources AS s SET leased_until = NULL, next_run_at = :next_run_at WHERE \(held)"
    )

    /// Sources that follow databases, for an examination.
    static let followed = Statement(
        "sources_followed",
        ["limit"],
        """
        SELECT s.organization_id, s.name, s.settings, s.secret, s.state
        FROM sources s
        CROSS JOIN LATERAL (
            SELECT x.status FROM organizations x WHERE x.id = s.organization_id AND x.status = 'active' OFFSET 0
        ) o
        WHERE s.kind = 'postgres' AND s.status = 'enabled'
        ORDER BY s.organization_id, s.name
        LIMIT :limit
        """
    )

    /// Counts sources, over all organizations that are served, for metrics.
    static let stats = Statement(
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

    static let all = [due, claim, renew, isHeld, note, progress, succeed, fail, release, followed, stats]
}
