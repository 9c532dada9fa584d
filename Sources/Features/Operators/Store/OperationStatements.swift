import Postgres
import SyncModel
import SyncStore

/// The statements about operations. $1 and $2 are the organization and the operation, where it is about one; progress is
/// written under the token of a lease ($3).
enum OperationStatements {
    static let make = Statement(
        "operation_make",
        """
        INSERT INTO operations AS o (
            organization_id, id, kind, statuses, entity_type, error_code, error_status, user_id, ids, dependents, strategy,
            reason, actor, per_second, state, due_at, created_at, changed_at, total, total_is_more)
        SELECT g.id, $2, $3, $4, $5, $6, $7, $8, CASE WHEN $16::bool THEN $9::uuid[] END, $10, $11, $12, $13, $14,
            'running', $15, $15, $15, $17, $18
        FROM organizations g WHERE g.id = $1 AND g.status <> 'purging'
        RETURNING \(OperationRow.list)
        """
    )

    static let lockOrganization = Statement(
        "operation_lock_organization",
        "SELECT 1 FROM organizations g WHERE g.id = $1 FOR NO KEY UPDATE"
    )

    /// A row where the user ($2) was erased.
    static let isErased = Statement(
        "operation_of_erased",
        "SELECT 1 WHERE \(ErasedUsers.isErased("$1::uuid", "$2::uuid"))"
    )

    /// Those of an organization that run, counted up to $2.
    static let running = Statement(
        "operation_running",
        """
        SELECT count(*) AS count
        FROM (SELECT 1 FROM operations o WHERE o.organization_id = $1 AND o.ended_at IS NULL LIMIT $2) x
        """
    )

    static let find = Statement(
        "operation_find",
        "SELECT \(OperationRow.list) FROM operations o WHERE o.organization_id = $1 AND o.id = $2"
    )

    /// Newest first, after a place ($2 to $4); $5: only of this state; $6: maximum number of rows.
    ///
    /// For all organizations, $1 is an id that no organization has.
    private static func list(_ name: String, _ rows: String, _ order: String) -> Statement {
        Statement(
            name,
            """
            SELECT \(OperationRow.list)
            FROM operations o
            WHERE \(rows) AND ($5::text IS NULL OR o.state = $5)
            ORDER BY \(order)
            LIMIT $6
            """
        )
    }

    static let listOfOrganization = list(
        "operation_list",
        "o.organization_id = $1 AND (o.created_at, o.id) < ($2, $4) AND $3::uuid IS NOT NULL",
        "o.created_at DESC, o.id DESC"
    )

    static let listOfAll = list(
        "operation_list_of_all",
        "(o.created_at, o.organization_id, o.id) < ($2, $3, $4) AND $1::uuid IS NOT NULL",
        "o.created_at DESC, o.organization_id DESC, o.id DESC"
    )

    /// Of any organization except some ($3), the longest due first: a plain read.
    static let due = Statement(
        "operations_due",
        """
        SELECT x.organization_id, x.id, x.due_at FROM operations x
        WHERE x.due_at <= $1 AND x.organization_id <> ALL ($3::uuid[]) ORDER BY x.due_at LIMIT $2
        """
    )

    /// Claims an operation that was due at $3 for a gateway ($4) until $5, unless another has claimed it since; $6:
    /// now.
    static let claim = Statement(
        "operation_claim",
        """
        UPDATE operations AS o
        SET lease_owner = $4, lease_token = o.lease_token + 1, due_at = $5, started_at = coalesce(o.started_at, $6)
        WHERE o.organization_id = $1 AND o.id = $2 AND o.due_at = $3
        RETURNING \(OperationRow.list)
        """
    )

    /// Whether the lease is valid: no other gateway has claimed the operation, and it has not ended.
    static let held = Statement(
        "operation_held",
        """
        SELECT 1 FROM operations o
        WHERE o.organization_id = $1 AND o.id = $2 AND o.lease_token = $3 AND o.state = 'running'
        """
    )

    /// Counts the mutations that a transaction has settled ($3), in the same transaction.
    ///
    /// It does so without checking the lease, because a settled mutation is not found again.
    static let count = Statement(
        "operation_count_done",
        """
        UPDATE operations AS o SET done = o.done + $3, matched = o.matched + $3, changed_at = $4
        WHERE o.organization_id = $1 AND o.id = $2
        """
    )

    /// Ends a step: records the numbers of skipped and failed mutations and the place, and renews the lease.
    ///
    /// Returns no row if the lease was lost, or if the operation ended.
    static let advance = Statement(
        "operation_advance",
        """
        UPDATE operations AS o
        SET matched = o.matched + $4 + $5, skipped = o.skipped + $4, failed = o.failed + $5, reasons = $6,
            place_at = $7, place_user = $8, place_id = $9, due_at = $10, changed_at = $11
        WHERE o.organization_id = $1 AND o.id = $2 AND o.lease_token = $3 AND o.state = 'running'
        RETURNING \(OperationRow.list)
        """
    )

    /// $4: how it ended; $5: why.
    static let end = Statement(
        "operation_end",
        """
        UPDATE operations AS o
        SET state = $4, error = $5, due_at = NULL, lease_owner = NULL, ended_at = $6, changed_at = $6
        WHERE o.organization_id = $1 AND o.id = $2 AND o.lease_token = $3 AND o.state = 'running'
        RETURNING \(OperationRow.list)
        """
    )

    /// Releases the lease: another gateway may continue from $4.
    static let release = Statement(
        "operation_release",
        """
        UPDATE operations AS o SET due_at = $4, lease_owner = NULL
        WHERE o.organization_id = $1 AND o.id = $2 AND o.lease_token = $3 AND o.state = 'running'
        """
    )

    /// The gateway that works on the operation detects it in its next step.
    static let cancel = Statement(
        "operation_cancel",
        """
        UPDATE operations AS o
        SET state = 'cancelled', due_at = NULL, lease_owner = NULL, ended_at = $3, changed_at = $3
        WHERE o.organization_id = $1 AND o.id = $2 AND o.state = 'running'
        """
    )

    /// Of any organization: what ended before $1.
    static let prune = Statement(
        "operation_prune",
        """
        DELETE FROM operations AS o
        USING (
            SELECT x.organization_id, x.id FROM operations x WHERE x.ended_at < $1 ORDER BY x.ended_at LIMIT $2
        ) k
        WHERE o.organization_id = k.organization_id AND o.id = k.id
        """
    )

    static let all = [
        make, lockOrganization, isErased, running, find, listOfOrganization, listOfAll, due, claim, held, count,
        advance, end, release, cancel, prune,
    ]
}
