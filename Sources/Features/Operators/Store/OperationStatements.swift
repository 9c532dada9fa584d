import Postgres
import SyncModel
import SyncStore

/// The statements about operations. Progress is written only with the token of a valid lease.
enum OperationStatements {
    static let make = Statement(
        "operation_make",
        [
            "organization", "id", "kind", "statuses", "entity_type", "error_code", "error_status", "user", "ids",
            "dependents", "strategy", "reason", "actor", "per_second", "now", "has_ids", "total", "total_is_more",
        ],
        """
        INSERT INTO operations AS o (
            organization_id, id, kind, statuses, entity_type, error_code, error_status, user_id, ids, dependents, strategy,
            reason, actor, per_second, state, due_at, created_at, changed_at, total, total_is_more)
        SELECT g.id, :id, :kind, :statuses, :entity_type, :error_code, :error_status, :user, CASE WHEN :has_ids::bool THEN :ids::uuid[] END, :dependents, :strategy, :reason, :actor, :per_second,
            'running', :now, :now, :now, :total, :total_is_more
        FROM organizations g WHERE g.id = :organization AND g.status <> 'purging'
        RETURNING \(OperationRow.list)
        """
    )

    static let lockOrganization = Statement(
        "operation_lock_organization",
        ["organization"],
        "SELECT 1 FROM organizations g WHERE g.id = :organization FOR NO KEY UPDATE"
    )

    /// Returns a row if the user (`user`) was erased.
    static let isErased = Statement(
        "operation_of_erased",
        ["organization", "user"],
        "SELECT 1 WHERE \(ErasedUsers.isErased(":organization::uuid", ":user::uuid"))"
    )

    /// The number of an organization's running operations, counted up to `limit`.
    static let running = Statement(
        "operation_running",
        ["organization", "limit"],
        """
        SELECT count(*) AS count
        FROM (SELECT 1 FROM operations o WHERE o.organization_id = :organization AND o.ended_at IS NULL LIMIT :limit) x
        """
    )

    static let find = Statement(
        "operation_find",
        ["organization", "id"],
        "SELECT \(OperationRow.list) FROM operations o WHERE o.organization_id = :organization AND o.id = :id"
    )

    /// Operations after a position, newest first.
    ///
    /// A page ends early if its operations have many ids in their filters. For a list of all organizations,
    /// `organization` is an id that no organization has.
    private static func list(_ name: String, _ rows: String, _ order: String) -> Statement {
        Statement(
            name,
            ["organization", "after", "after_organization", "after_id", "state", "limit"],
            """
            SELECT \(OperationRow.list), o.has_more
            FROM (
                SELECT o.*, row_number() OVER w AS place, row_number() OVER w < count(*) OVER () AS has_more,
                    sum(1024 + \(WorkBounds.listedID) * coalesce(cardinality(o.ids), 0)) OVER w AS bytes_to
                FROM (
                    SELECT o.*
                    FROM operations o
                    WHERE \(rows) AND (:state::text IS NULL OR o.state = :state)
                    ORDER BY \(order)
                    LIMIT :limit
                ) o
                WINDOW w AS (ORDER BY \(order))
            ) o
            WHERE o.place = 1 OR o.bytes_to <= \(WorkBounds.answer)
            ORDER BY \(order)
            """
        )
    }

    static let listOfOrganization = list(
        "operation_list",
        "o.organization_id = :organization AND (o.created_at, o.id) < (:after, :after_id)"
            + " AND :after_organization::uuid IS NOT NULL",
        "o.created_at DESC, o.id DESC"
    )

    static let listOfAll = list(
        "operation_list_of_all",
        "(o.created_at, o.organization_id, o.id) < (:after, :after_organization, :after_id)"
            + " AND :organization::uuid IS NOT NULL",
        "o.created_at DESC, o.organization_id DESC, o.id DESC"
    )

    /// The due operations of all organizations, except the organizations in `except`. The operation that has been due
    /// longest comes first. The statement takes no locks.
    static let due = Statement(
        "operations_due",
        ["now", "limit", "except"],
        """
        SELECT x.organization_id, x.id, x.due_at FROM operations x
        WHERE x.due_at <= :now AND x.organization_id <> ALL (:except::uuid[]) ORDER BY x.due_at LIMIT :limit
        """
    )

    /// Claims an operation for a gateway (`owner`) until `until`. Returns no row if another gateway has claimed the
    /// operation since this gateway found it with the time `due_at`. `now` is the present time.
    static let claim = Statement(
        "operation_claim",
        ["organization", "id", "due_at", "owner", "until", "now"],
        """
        UPDATE operations AS o
        SET lease_owner = :owner, lease_token = o.lease_token + 1, due_at = :until, started_at = coalesce(o.started_at, :now)
        WHERE o.organization_id = :organization AND o.id = :id AND o.due_at = :due_at
        RETURNING \(OperationRow.list)
        """
    )

    /// Returns a row if the lease is valid: no other gateway has claimed the operation, and the operation has not
    /// ended.
    static let held = Statement(
        "operation_held",
        ["organization", "id", "token"],
        """
        SELECT 1 FROM operations o
        WHERE o.organization_id = :organization AND o.id = :id AND o.lease_token = :token AND o.state = 'running'
        """
    )

    /// Adds the number of mutations that a transaction has settled (`count`), in the same transaction.
    ///
    /// The statement does not check the lease, because a settled mutation is not found again and is counted only once.
    static let count = Statement(
        "operation_count_done",
        ["organization", "id", "count", "now"],
        """
        UPDATE operations AS o SET done = o.done + :count, matched = o.matched + :count, changed_at = :now
        WHERE o.organization_id = :organization AND o.id = :id
        """
    )

    /// Ends a step: records the numbers of skipped and failed mutations and the position, and renews the lease.
    ///
    /// Returns no row if the lease was lost, or if the operation ended.
    static let advance = Statement(
        "operation_advance",
        ["organization", "id", "token", "skipped", "failed", "reasons", "at", "user", "mutation", "due_at", "now"],
        """
        UPDATE operations AS o
        SET matched = o.matched + :skipped + :failed, skipped = o.skipped + :skipped, failed = o.failed + :failed, reasons = :reasons,
            place_at = :at, place_user = :user, place_id = :mutation, due_at = :due_at, changed_at = :now
        WHERE o.organization_id = :organization AND o.id = :id AND o.lease_token = :token AND o.state = 'running'
        RETURNING \(OperationRow.list)
        """
    )

    /// Ends a step of an evaluation: records the numbers of evaluated and skipped entities and the position, and renews
    /// the lease.
    static let advanceEntities = Statement(
        "operation_advance_entities",
        ["organization", "id", "token", "done", "skipped", "reasons", "entity", "due_at", "now"],
        """
        UPDATE operations AS o
        SET matched = o.matched + :done + :skipped, done = o.done + :done, skipped = o.skipped + :skipped, reasons = :reasons,
            place_entity = :entity, due_at = :due_at, changed_at = :now
        WHERE o.organization_id = :organization AND o.id = :id AND o.lease_token = :token AND o.state = 'running'
        RETURNING \(OperationRow.list)
        """
    )

    /// Ends an operation. `state` is its final state, and `error` is the reason of a failure.
    static let end = Statement(
        "operation_end",
        ["organization", "id", "token", "state", "error", "now"],
        """
        UPDATE operations AS o
        SET state = :state, error = :error, due_at = NULL, lease_owner = NULL, ended_at = :now, changed_at = :now
        WHERE o.organization_id = :organization AND o.id = :id AND o.lease_token = :token AND o.state = 'running'
        RETURNING \(OperationRow.list)
        """
    )

    /// Releases the lease, so that another gateway can continue from `due_at` on.
    static let release = Statement(
        "operation_release",
        ["organization", "id", "token", "due_at"],
        """
        UPDATE operations AS o SET due_at = :due_at, lease_owner = NULL
        WHERE o.organization_id = :organization AND o.id = :id AND o.lease_token = :token AND o.state = 'running'
        """
    )

    /// Ends an operation. The gateway that processes the operation detects this in its next step.
    static let cancel = Statement(
        "operation_cancel",
        ["organization", "id", "now"],
        """
        UPDATE operations AS o
        SET state = 'cancelled', due_at = NULL, lease_owner = NULL, ended_at = :now, changed_at = :now
        WHERE o.organization_id = :organization AND o.id = :id AND o.state = 'running'
        """
    )

    /// Deletes operations of all organizations that ended before `before`.
    static let prune = Statement(
        "operation_prune",
        ["before", "limit"],
        """
        DELETE FROM operations AS o
        USING (
            SELECT x.organization_id, x.id FROM operations x WHERE x.ended_at < :before ORDER BY x.ended_at LIMIT :limit
        ) k
        WHERE o.organization_id = k.organization_id AND o.id = k.id
        """
    )

    static let all = [
        make, lockOrganization, isErased, running, find, listOfOrganization, listOfAll, due, claim, held, count,
        advance, advanceEntities, end, release, cancel, prune,
    ]
}
