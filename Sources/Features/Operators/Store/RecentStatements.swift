import Postgres
import SyncModel
import SyncStore

/// The statements of ``RecentMutations``: pages, and the last row that each page reads (the edge).
enum RecentStatements {
    private static let match = """
        (cardinality(:statuses::text[]) = 0 OR m.status = ANY (:statuses))
                AND (:entity_type::text IS NULL OR m.entity_type = :entity_type)
                AND (:entity_id::text IS NULL OR m.server_id = :entity_id)
                AND (:device::uuid IS NULL OR m.device_id = :device)
        """

    /// SQL: whether the filter permits at least one of the given statuses. The condition is the same for all rows. If
    /// it is false, PostgreSQL does not execute this part of the query.
    private static func permitsAny(_ statuses: String) -> String {
        "(cardinality(:statuses::text[]) = 0 OR :statuses::text[] && '{\(statuses)}')"
    }

    /// SQL: the condition that a row `m` belongs to one part of the list and follows the cursor. PostgreSQL finds these
    /// rows by the index on the part's time.
    private static func rows(_ moment: String, _ condition: String, permitting statuses: String) -> String {
        """
        m.organization_id = :organization AND (\(moment), m.user_id, m.id) < (:at, :user, :id)
                AND \(condition) AND \(permitsAny(statuses))
        """
    }

    /// The separate bound on `synced_at` is required. Without it, the planner would not use the index by time for the
    /// order, because this index has no further column.
    private static let final = rows("m.synced_at", "m.synced_at <= :at", permitting: "succeeded,discarded")
    private static let stuck = rows("m.stuck_at", StuckRows.areInTime("m"), permitting: "failed,conflict")

    private static func order(_ moment: String) -> String { "\(moment) DESC, m.user_id DESC, m.id DESC" }

    private static func edge(_ moment: String, _ rows: String) -> String {
        """
        (
                SELECT \(moment) AS at, m.user_id, m.id FROM mutations m
                WHERE \(rows)
                ORDER BY \(order(moment))
                OFFSET :scan - 1 LIMIT 1
            )
        """
    }

    /// Selects the edge: the last row that a page may list.
    ///
    /// A page reads up to `scan` rows from each of two indexes, newest first. The edge is the last row read from one of
    /// the indexes: the one with the later time. If neither index has that many rows, there is no edge, and the result
    /// is empty.
    static let edge = Statement(
        "recent_edge",
        ["organization", "at", "user", "id", "statuses", "scan"],
        """
        SELECT m.at, m.user_id, m.id
        FROM (
            \(edge("m.synced_at", final))
            UNION ALL
            \(edge("m.stuck_at", stuck))
        ) m
        ORDER BY \(order("m.at"))
        LIMIT 1
        """
    )

    private static func part(_ moment: String, from table: String, _ rows: String) -> String {
        """
        (
                SELECT m.*, \(moment) AS at FROM \(table) m
                WHERE \(rows)
                    AND (\(moment), m.user_id, m.id) >= (:to_at, :to_user, :to_id)
                    AND \(match)
                ORDER BY \(order(moment))
                LIMIT :limit
            )
        """
    }

    /// The first open mutations, in the order of users and lanes.
    private static let open = """
        (
                    SELECT * FROM mutations x
                    WHERE x.organization_id = :organization AND x.synced_at IS NULL
                        AND \(permitsAny("pending,blocked,in_flight"))
                    ORDER BY x.user_id, x.position
                    LIMIT :scan
                )
        """

    /// Selects a page of the list. It has three parts: final, stuck and open mutations. The statement reads at most
    /// `limit` rows of each part, and merges them.
    static let page = Statement(
        "recent_page",
        [
            "organization", "at", "user", "id", "to_at", "to_user", "to_id", "scan", "statuses", "entity_type",
            "entity_id", "device", "limit",
        ],
        """
        SELECT \(RecentMutation.list)
        FROM (
            \(part("m.synced_at", from: "mutations", final))
            UNION ALL
            \(part("m.stuck_at", from: "mutations", stuck))
            UNION ALL
            \(part("m.accepted_at", from: open, "m.stuck_at IS NULL AND (m.accepted_at, m.user_id, m.id) < (:at, :user, :id)"))
        ) m
        ORDER BY \(order("m.at"))
        LIMIT :limit
        """
    )

    private static let moment = "coalesce(m.synced_at, m.stuck_at, m.accepted_at) AS at"

    static let edgeOfUser = Statement(
        "recent_edge_of_user",
        ["organization", "user", "position", "scan"],
        """
        SELECT m.position FROM mutations m
        WHERE m.organization_id = :organization AND m.user_id = :user AND m.position > 0 AND m.position < :position
        ORDER BY m.position DESC
        OFFSET :scan - 1 LIMIT 1
        """
    )

    static let pageOfUser = Statement(
        "recent_page_of_user",
        ["organization", "user", "position", "scan", "statuses", "entity_type", "entity_id", "device", "limit"],
        """
        SELECT \(RecentMutation.list)
        FROM (
            SELECT m.*, \(moment) FROM mutations m
            WHERE m.organization_id = :organization AND m.user_id = :user AND m.position > 0 AND m.position < :position
            ORDER BY m.position DESC
            LIMIT :scan
        ) m
        WHERE \(match)
        ORDER BY m.position DESC
        LIMIT :limit
        """
    )

    static let one = Statement(
        "recent_one",
        ["organization", "user", "id"],
        """
        SELECT \(RecentMutation.list)
        FROM (
            SELECT m.*, \(moment) FROM mutations m
            WHERE m.organization_id = :organization AND m.user_id = :user AND m.id = :id
        ) m
        """
    )

    static let edgeOfLanes = Statement(
        "recent_edge_of_lanes",
        ["organization", "user", "scan"],
        """
        SELECT l.user_id FROM lanes l
        WHERE l.organization_id = :organization AND l.user_id > :user
        ORDER BY l.user_id
        OFFSET :scan - 1 LIMIT 1
        """
    )

    /// Searches for an id in one lane after another, because no index has ids without users.
    static let pageOfID = Statement(
        "recent_page_of_id",
        ["organization", "user", "scan", "id", "limit"],
        """
        SELECT \(RecentMutation.list)
        FROM (
            SELECT l.user_id FROM lanes l
            WHERE l.organization_id = :organization AND l.user_id > :user
            ORDER BY l.user_id
            LIMIT :scan
        ) k
        CROSS JOIN LATERAL (
            SELECT m.*, \(moment) FROM mutations m
            WHERE m.organization_id = :organization AND m.user_id = k.user_id AND m.id = :id
            OFFSET 0
        ) m
        ORDER BY k.user_id
        LIMIT :limit
        """
    )

    static let all = [edge, page, edgeOfUser, pageOfUser, one, edgeOfLanes, pageOfID]
}
