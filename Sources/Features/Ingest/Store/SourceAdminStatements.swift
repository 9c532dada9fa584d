import Postgres
import SyncStore

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

    /// A worker that has the source loses its lease, which it detects at its next statement.
    private static let interrupt = "lease_token = s.lease_token + 1, leased_until = NULL"

    /// What failed before still counts: only a success resets it.
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
