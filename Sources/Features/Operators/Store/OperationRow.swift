package import FoundationEssentials
package import Postgres
package import SyncModel
import SyncStore

/// An operation as it is stored and as operators see it.
package struct OperationRow: WorkItem {
    package let organization: UUID
    package let id: UUID
    package let kind: OperationKind
    package let filter: FailureFilter
    /// The ids to which the operation is limited; nil for all mutations that match the other conditions of the filter.
    package let ids: [UUID]?
    package let dependants: DependantsChoice?
    package let strategy: ResolveRequest.Strategy?
    package let reason: String
    /// The operator who requested the operation.
    package let actor: String
    package let perSecond: Int32
    package let state: OperationState
    /// The number of mutations that the operation has read: the sum of the numbers in `tally`.
    package let matched: Int64
    /// The number of mutations that matched when the operation was created; nil for operations that an earlier version
    /// created.
    package let total: BoundedCount?
    package let tally: (done: Int64, skipped: Int64, failed: Int64)
    /// The reasons for skipped and failed mutations, by the problem's code.
    package let reasons: [ByteExactString: Int64]
    /// The reason why the operation failed.
    package let error: String?
    /// The last mutation that the operation read.
    let place: FailureQuery.Place?
    /// The last entity that the operation evaluated.
    let entityPlace: String?
    /// The gateway that processes the operation.
    package let gateway: UUID?
    let token: Int64
    package let createdAt: Timestamp
    package let startedAt: Timestamp?
    package let changedAt: Timestamp
    package let endedAt: Timestamp?

    /// The columns of the row, for a table with the alias `o`.
    static let list = """
        o.organization_id, o.id, o.kind, o.statuses, o.entity_type, o.error_code, o.error_status, o.user_id, o.ids,
            o.dependents, o.strategy, o.reason, o.actor, o.per_second, o.state, o.matched, o.done, o.skipped, o.failed,
            o.reasons, o.error, o.place_at, o.place_user, o.place_id, o.place_entity, o.lease_owner, o.lease_token,
            o.created_at, o.started_at, o.changed_at, o.ended_at, o.total, o.total_is_more
        """

    init(_ row: inout RowReader) throws {
        organization = try row.read("organization_id")
        id = try row.read("id")
        kind = try row.choice("kind")
        var filter = FailureFilter()
        filter.statuses = try row.read("statuses", as: [String].self).compactMap(MutationStatus.init(rawValue:))
        filter.entityType = try row.read("entity_type")
        filter.errorCode = try row.read("error_code")
        filter.responseStatus = try row.read("error_status")
        filter.user = try row.read("user_id")
        self.filter = filter
        ids = try row.read("ids")
        dependants = try row.optionalChoice("dependents")
        strategy = try row.optionalChoice("strategy")
        reason = try row.read("reason")
        actor = try row.read("actor")
        perSecond = try row.read("per_second")
        state = try row.choice("state")
        matched = try row.read("matched")
        tally = (
            try row.read("done", as: Int64.self), try row.read("skipped", as: Int64.self),
            try row.read("failed", as: Int64.self)
        )
        reasons = OperationTally.reasons(stored: try row.read("reasons"))
        error = try row.read("error")
        let at: Timestamp? = try row.read("place_at")
        let user: UUID? = try row.read("place_user")
        let mutation: UUID? = try row.read("place_id")
        place = at.map { FailureQuery.Place(at: $0, user: user ?? UUID.least, id: mutation ?? UUID.least) }
        entityPlace = try row.read("place_entity")
        gateway = try row.read("lease_owner")
        token = try row.read("lease_token")
        createdAt = try row.read("created_at")
        startedAt = try row.read("started_at")
        changedAt = try row.read("changed_at")
        endedAt = try row.read("ended_at")
        let (total, isMore) = (try row.read("total", as: Int64?.self), try row.read("total_is_more", as: Bool.self))
        // mutations that matched only after the operation was created also count
        let matched = matched
        self.total = total.map {
            isMore ? BoundedCount(found: $0 + 1, limit: $0) : BoundedCount(found: max($0, matched))
        }
    }

    /// The parameters that identify the lease under which the operation's progress is written.
    var lease: Parameters { Parameters(of: organization, id, token) }
}

/// Once a lane is locked, selects its mutations that an operation still covers.
///
/// The operation omits a mutation that was settled or failed again after the operation had found it. If another gateway
/// has claimed the operation, or if the operation has ended, all mutations are omitted.
package struct OperationDisplay: SettlementGuard {
    let organization: UUID
    let operation: UUID
    let lease: Int64
    let found: [FailureQuery.Place]

    package init(organization: UUID, operation: UUID, lease: Int64, found: [FailureQuery.Place]) {
        self.organization = organization
        self.operation = operation
        self.lease = lease
        self.found = found
    }

    /// - Parameter user: the user whose lane is locked.
    package func query(of user: UUID) -> Query {
        var parameters = Parameters(of: organization, user, found.map(\.id))
        parameters.add(found.map(\.at))
        parameters.add(operation)
        parameters.add(lease)
        return Query(Self.statement, parameters)
    }

    static let statement = Statement(
        "operation_screen",
        ["organization", "user", "ids", "stuck_at", "id", "token"],
        """
        SELECT m.id
        FROM unnest(:ids::uuid[], :stuck_at::timestamptz[]) AS k (id, stuck_at)
        \(SettleStatements.byID("k", as: "m"))
        WHERE m.stuck_at = k.stuck_at
            AND EXISTS (
                SELECT 1 FROM operations o
                WHERE o.organization_id = :organization AND o.id = :id AND o.lease_token = :token AND o.state = 'running')
        """
    )
}

// MARK: - The table

extension StoredTable {
    static let operations = StoredTable("operations", key: ["id"], purge: .last, isShown: true)
        .naming(
            "user_id",
            "place_user",
            erase: .first(OperationUsers.erase),
            merge: .update(OperationUsers.merge, [.now], .dependent)
        )
        .plain(
            "kind",
            "statuses",
            "entity_type",
            "error_code",
            "error_status",
            "ids",
            "dependents",
            "strategy",
            "reason",
            "actor",
            "per_second",
            "state",
            "matched",
            "done",
            "skipped",
            "failed",
            "error",
            "place_at",
            "place_id",
            "place_entity",
            "lease_owner",
            "lease_token",
            "due_at",
            "created_at",
            "started_at",
            "changed_at",
            "ended_at",
            "total",
            "total_is_more"
        )
        .open("reasons")
}

/// Changes operations whose users are erased or merged.
enum OperationUsers {
    /// Removes the user and the ids of the user's mutations from operations. The operations themselves stay.
    ///
    /// The parameters are described in ``StoredTable/Erase/batches(_:keep:)``.
    static let erase = Statement(
        "erase_operations",
        ["organization", "user", "user_hash", "limit"],
        """
        WITH own AS MATERIALIZED (
            SELECT o.id, ARRAY(
                SELECT i.id FROM unnest(o.ids) i (id)
                CROSS JOIN LATERAL (
                    SELECT 1 FROM mutations m
                    WHERE m.organization_id = :organization AND m.user_id = :user AND m.id = i.id
                    OFFSET 0
                ) m
            ) AS ids
            FROM operations o WHERE o.organization_id = :organization
        ), gone AS (
            UPDATE operations AS o
            SET user_id = CASE WHEN o.user_id = :user THEN \(nilUser) ELSE o.user_id END,
                place_user = CASE WHEN o.place_user = :user THEN \(nilUser) ELSE o.place_user END,
                place_id = CASE WHEN o.place_user = :user THEN \(nilUser) ELSE o.place_id END,
                ids = CASE WHEN o.ids IS NOT NULL THEN
                    ARRAY(SELECT i.id FROM unnest(o.ids) i (id) WHERE i.id <> ALL (w.ids)) END
            FROM own w
            WHERE o.organization_id = :organization AND o.id = w.id
                AND (o.user_id = :user OR o.place_user = :user OR cardinality(w.ids) > 0)
            RETURNING 1
        )
        SELECT count(*) FILTER (WHERE :user_hash::bytea IS NOT NULL AND :limit::int8 > 0) AS count FROM gone
        """
    )

    private static let nilUser = "'00000000-0000-0000-0000-000000000000'::uuid"

    /// Replaces the user in operations by the target user.
    ///
    /// A running operation on the joined user's mutations (`user_id`) ends. These mutations now belong to the target
    /// user, and the operation must not cover the target's own mutations.
    static let merge = Statement(
        "join_operations",
        ["organization", "user", "into", "now"],
        """
        UPDATE operations AS o
        SET user_id = CASE WHEN o.user_id = :user THEN :into ELSE o.user_id END,
            place_user = CASE WHEN o.place_user = :user THEN :into ELSE o.place_user END,
            state = CASE WHEN \(endsWithUser) THEN 'failed' ELSE o.state END,
            error = CASE WHEN \(endsWithUser)
                THEN 'given up: the user became part of another; make a new one for what is left' ELSE o.error END,
            due_at = CASE WHEN \(endsWithUser) THEN NULL ELSE o.due_at END,
            lease_owner = CASE WHEN \(endsWithUser) THEN NULL ELSE o.lease_owner END,
            ended_at = CASE WHEN \(endsWithUser) THEN :now ELSE o.ended_at END,
            changed_at = :now
        WHERE o.organization_id = :organization AND (o.user_id = :user OR o.place_user = :user)
        """
    )

    private static let endsWithUser = "o.user_id = :user AND o.state = 'running'"
}
