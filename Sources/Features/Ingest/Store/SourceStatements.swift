import Postgres
import SyncStore

/// The statements of the workers that fetch from sources.
enum SourceStatements {
    /// Finds the due sources of active organizations, the longest waiting first.
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
        RETURNING s.settings, s.secret, s.state, s.lease_token, s.failure_count, s.last_success_at,
            (SELECT u.updated_at FROM upstreams u WHERE u.organization_id = :organization) AS upstream_changed_at
        """
    )

    /// The condition that the worker still has the lease. A worker's report is valid only under this condition.
    private static let held = """
        s.organization_id = :organization AND s.name = :name AND s.lease_token = :token AND s.leased_until IS NOT NULL
        """

    /// The condition that the organization's upstream has not changed since the lease began. For a source that uses no
    /// upstream, the parameter is null, and the condition is true.
    private static let isSameUpstream = """
        coalesce(
                (SELECT u.updated_at FROM upstreams u WHERE u.organization_id = :organization) = :upstream_changed_at,
                :upstream_changed_at IS NULL)
        """

    static let renew = Statement(
        "sources_renew",
        ["organization", "name", "token", "until"],
        "UPDATE sources AS s SET leased_until = :until, next_run_at = :until WHERE \(held)"
    )

    /// Returns a row if the lease is valid, the source enabled, the organization active, and the upstream unchanged.
    static let isHeld = Statement(
        "sources_is_held",
        ["organization", "name", "token", "upstream_changed_at"],
        """
        SELECT 1
        FROM sources s
        CROSS JOIN LATERAL (
            SELECT x.status FROM organizations x WHERE x.id = s.organization_id AND x.status = 'active' OFFSET 0
        ) o
        WHERE \(held) AND s.status = 'enabled'
            AND \(isSameUpstream)
        """
    )

    /// Writes the position of a worker, without recording a success.
    static let note = Statement(
        "sources_note",
        ["organization", "name", "token", "until", "state"],
        "UPDATE sources AS s SET leased_until = :until, next_run_at = :until, state = :state WHERE \(held)"
    )

    static let progress = Statement(
        "sources_progress",
        [
            "organization", "name", "token", "until", "state", "last_event_at", "last_success_at",
            "upstream_changed_at",
        ],
        """
        UPDATE sources AS s
        SET leased_until = :until, next_run_at = :until, state = :state, last_event_at = coalesce(:last_event_at, s.last_event_at),
            failure_count = 0, failing_since = NULL, last_error = NULL, last_success_at = :last_success_at
        WHERE \(held)
            AND \(isSameUpstream)
        """
    )

    static let succeed = Statement(
        "sources_succeed",
        [
            "organization", "name", "token", "next_run_at", "state", "last_event_at", "last_success_at", "error",
            "upstream_changed_at",
        ],
        """
        UPDATE sources AS s
        SET leased_until = NULL, next_run_at = :next_run_at, state = coalesce(:state, s.state),
            last_event_at = coalesce(:last_event_at, s.last_event_at), failure_count = 0, failing_since = NULL, last_error = :error,
            last_success_at = :last_success_at
        WHERE \(held)
            AND \(isSameUpstream)
        """
    )

    static let fail = Statement(
        "sources_fail",
        ["organization", "name", "token", "next_run_at", "error", "now", "state", "upstream_changed_at"],
        """
        UPDATE sources AS s
        SET leased_until = NULL, next_run_at = :next_run_at, failure_count = least(s.failure_count, 1000000) + 1,
            failing_since = coalesce(s.failing_since, :now), last_error = :error, state = coalesce(:state, s.state)
        WHERE \(held)
            AND \(isSameUpstream)
        """
    )

    static let release = Statement(
        "sources_release",
        ["organization", "name", "token", "next_run_at"],
        "UPDATE sources AS s SET leased_until = NULL, next_run_at = :next_run_at WHERE \(held)"
    )

    /// Selects the enabled sources that follow databases, for an examination.
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

    /// Counts the sources of all active organizations, for metrics.
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

// MARK: - SourceAdminStatements

/// The statements of ``SourceAdministration``.
enum SourceAdminStatements {
    static let list = Statement(
        "sources_list",
        ["organization", "now"],
        """
        SELECT \(SourceRow.list(now: ":now")) FROM sources s
        WHERE s.organization_id = :organization
        ORDER BY s.name
        """
    )

    static let get = Statement(
        "sources_get",
        ["organization", "name", "now"],
        "SELECT \(SourceRow.list(now: ":now")) FROM sources s WHERE s.organization_id = :organization AND s.name = :name"
    )

    static let add = Statement(
        "sources_add",
        ["organization", "name", "now", "kind", "status", "settings", "secret", "next_run_at"],
        """
        INSERT INTO sources AS s (
            organization_id, name, kind, status, settings, secret, next_run_at, created_at, updated_at)
        VALUES (:organization, :name, :kind, :status, :settings, :secret, :next_run_at, :now, :now)
        RETURNING \(SourceRow.list(now: ":now"))
        """
    )

    /// Ends the lease of a worker that has the source. The worker's next statement shows that the lease was lost.
    private static let interrupt = "lease_token = s.lease_token + 1, leased_until = NULL"

    /// Changes a source. The count of earlier failures stays unchanged, because only a success resets it.
    static let change = Statement(
        "sources_change",
        ["organization", "name", "now", "status", "settings", "secret", "next_run_at"],
        """
        UPDATE sources AS s
        SET status = :status, settings = :settings, secret = coalesce(:secret, s.secret),
            previous_secret = CASE WHEN :secret IS NULL THEN s.previous_secret END,
            previous_until = CASE WHEN :secret IS NULL THEN s.previous_until END,
            next_run_at = :next_run_at, \(interrupt), updated_at = :now
        WHERE s.organization_id = :organization AND s.name = :name
        RETURNING \(SourceRow.list(now: ":now"))
        """
    )

    static let run = Statement(
        "sources_run",
        ["organization", "name", "now", "resets", "state"],
        """
        UPDATE sources AS s
        SET next_run_at = :now, \(interrupt), state = CASE WHEN :resets THEN :state ELSE s.state END
        WHERE s.organization_id = :organization AND s.name = :name AND s.status = 'enabled' AND s.kind <> 'webhook'
        RETURNING \(SourceRow.list(now: ":now"))
        """
    )

    static let lockSecret = Statement(
        "sources_lock_secret",
        ["organization", "name"],
        "SELECT s.secret FROM sources s WHERE s.organization_id = :organization AND s.name = :name FOR NO KEY UPDATE"
    )

    static let rotate = Statement(
        "sources_rotate",
        ["organization", "name", "now", "secret", "previous_secret", "previous_until"],
        """
        UPDATE sources AS s
        SET secret = :secret, previous_secret = :previous_secret, previous_until = :previous_until, updated_at = :now
        WHERE s.organization_id = :organization AND s.name = :name
        RETURNING \(SourceRow.list(now: ":now"))
        """
    )

    static let delete = Statement(
        "sources_delete",
        ["organization", "name"],
        "DELETE FROM sources WHERE organization_id = :organization AND name = :name"
    )

    static let all = [list, get, add, change, run, lockSecret, rotate, delete]
}
