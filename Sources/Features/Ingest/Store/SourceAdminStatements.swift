import Postgres
import SyncStore

/// The statements of ``SourceAdministration``.
enum SourceAdminStatements {
    static let list = Statement(
        "sources_list",
        """
        SELECT \(SourceRow.list(now: "$2")) FROM sources s
        WHERE s.organization_id = $1
        ORDER BY s.name
        """
    )

    static let get = Statement(
        "sources_get",
        "SELECT \(SourceRow.list(now: "$3")) FROM sources s WHERE s.organization_id = $1 AND s.name = $2"
    )

    static let add = Statement(
        "sources_add",
        """
        INSERT INTO sources AS s (
            organization_id, name, kind, status, settings, secret, next_run_at, created_at, updated_at)
        VALUES ($1, $2, $4, $5, $6, $7, $8, $3, $3)
        RETURNING \(SourceRow.list(now: "$3"))
        """
    )

    /// A worker that has the source loses its lease, which it detects at its next statement.
    private static let interrupt = "lease_token = s.lease_token + 1, leased_until = NULL"

    /// What failed before still counts: only a success resets it.
    static let change = Statement(
        "sources_change",
        """
        UPDATE sources AS s
        SET status = $4, settings = $5, secret = coalesce($6, s.secret),
            previous_secret = CASE WHEN $6 IS NULL THEN s.previous_secret END,
            previous_until = CASE WHEN $6 IS NULL THEN s.previous_until END,
            next_run_at = $7, \(interrupt), updated_at = $3
        WHERE s.organization_id = $1 AND s.name = $2
        RETURNING \(SourceRow.list(now: "$3"))
        """
    )

    static let run = Statement(
        "sources_run",
        """
        UPDATE sources AS s
        SET next_run_at = $3, \(interrupt), state = CASE WHEN $4 THEN $5 ELSE s.state END
        WHERE s.organization_id = $1 AND s.name = $2 AND s.status = 'enabled' AND s.kind <> 'webhook'
        RETURNING \(SourceRow.list(now: "$3"))
        """
    )

    static let lockSecret = Statement(
        "sources_lock_secret",
        "SELECT s.secret FROM sources s WHERE s.organization_id = $1 AND s.name = $2 FOR NO KEY UPDATE"
    )

    static let rotate = Statement(
        "sources_rotate",
        """
        UPDATE sources AS s
        SET secret = $4, previous_secret = $5, previous_until = $6, updated_at = $3
        WHERE s.organization_id = $1 AND s.name = $2
        RETURNING \(SourceRow.list(now: "$3"))
        """
    )

    static let delete = Statement(
        "sources_delete",
        "DELETE FROM sources WHERE organization_id = $1 AND name = $2"
    )

    static let all = [list, get, add, change, run, lockSecret, rotate, delete]
}
