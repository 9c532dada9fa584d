package import Postgres
import SyncModel

/// The statements of the audit log.
///
/// An erased user is recorded as a hash, even if the user is erased after the action.
package enum AuditStatements {
    private static func hash(_ user: String) -> String {
        "sha256(uuid_send(:organization::uuid) || uuid_send(\(user)::uuid))"
    }

    package static let begin = Statement(
        "audit_begin",
        [
            "organization", "id", "now", "actor", "scope", "action", "reason", "target", "user", "into", "request",
            "outcome",
        ],
        """
        INSERT INTO audit AS a (organization_id, id, at, actor, scope, action, reason, target, user_id, user_hash, into_id,
            into_hash, request_id, outcome)
        SELECT :organization::uuid, :id::uuid, :now::timestamptz, :actor::text, :scope::text, :action::text, :reason::text, :target::json,
            CASE WHEN NOT k.user_goes THEN :user::uuid END, CASE WHEN k.user_goes THEN \(hash(":user")) END,
            CASE WHEN NOT k.into_goes THEN :into::uuid END, CASE WHEN k.into_goes THEN \(hash(":into")) END,
            :request::text, :outcome::json
        FROM (
            SELECT (\(ErasedUsers.isErased(":organization::uuid", ":user::uuid"))) AS user_goes,
                (\(ErasedUsers.isErased(":organization::uuid", ":into::uuid"))) AS into_goes
        ) k
        """,
        // on Citus, inserted rows are usually joined with `organizations`; here all values are parameters instead,
        // because an action that concerns no organization has no row in that table
        variant: """
            INSERT INTO audit AS a (organization_id, id, at, actor, scope, action, reason, target, user_id, user_hash, into_id,
                into_hash, request_id, outcome)
            VALUES (:organization::uuid, :id::uuid, :now::timestamptz, :actor::text, :scope::text, :action::text, :reason::text, :target::json,
                CASE WHEN NOT \(isErased(":user")) THEN :user::uuid END, CASE WHEN \(isErased(":user")) THEN \(hash(":user")) END,
                CASE WHEN NOT \(isErased(":into")) THEN :into::uuid END,
                CASE WHEN \(isErased(":into")) THEN \(hash(":into")) END, :request::text, :outcome::json)
            """
    )

    /// SQL for whether a user was erased, by a function that only `sql/citus.sql` creates.
    private static func isErased(_ user: String) -> String { "is_erased(:organization::uuid, \(user)::uuid)" }

    package static let end = Statement(
        "audit_end",
        ["organization", "id", "outcome", "user", "into", "reason"],
        """
        UPDATE audit AS a
        SET outcome = :outcome::json, reason = coalesce(a.reason, :reason::text),
            user_id = coalesce(a.user_id, CASE WHEN NOT k.user_goes THEN :user::uuid END),
            user_hash = coalesce(a.user_hash, CASE WHEN k.user_goes THEN \(hash(":user")) END),
            into_id = coalesce(a.into_id, CASE WHEN NOT k.into_goes THEN :into::uuid END),
            into_hash = coalesce(a.into_hash, CASE WHEN k.into_goes THEN \(hash(":into")) END)
        FROM (
            SELECT (\(ErasedUsers.isErased(":organization::uuid", ":user::uuid"))) AS user_goes,
                (\(ErasedUsers.isErased(":organization::uuid", ":into::uuid"))) AS into_goes
        ) k
        WHERE a.organization_id = :organization AND a.id = :id
        """
    )

    // MARK: - Reading

    /// Reads actions on an organization.
    package static let page = reading("audit_page", ["organization"], of: "a.organization_id = :organization AND ")
    /// Reads actions on all organizations and on no organization.
    package static let pageOfAll = reading("audit_page_of_all", [], of: "")

    /// Reads a limited number of rows by the index, and returns the rows that match.
    ///
    /// The limit applies to the rows that are read. Therefore a search for rare actions is also limited.
    private static func reading(_ name: String, _ key: [String], of organization: String) -> Statement {
        Statement(
            name,
            key + ["first", "end", "window", "actor", "action", "limit"],
            """
            WITH looked AS MATERIALIZED (
                SELECT \(AuditRow.list) FROM audit a
                WHERE \(organization)a.id >= :first::uuid AND a.id < :end::uuid
                ORDER BY a.id DESC
                LIMIT :window
            )
            SELECT e.looked, e.last, coalesce(a.has_more, false) AS has_more, \(AuditRow.list)
            FROM (
                SELECT (SELECT count(*) FROM looked) AS looked, (SELECT l.id FROM looked l ORDER BY l.id LIMIT 1) AS last
            ) e
            LEFT JOIN LATERAL (
                SELECT q.* FROM (
                    SELECT p.*, row_number() OVER w AS place, row_number() OVER w < count(*) OVER () AS has_more,
                        sum(1024 + \(RowBytes.of("p.target")) + \(RowBytes.of("p.outcome"))) OVER w AS bytes_to
                    FROM (
                        SELECT l.* FROM looked l
                        WHERE (:actor::text IS NULL OR l.actor = :actor)
                            AND (:action::text IS NULL OR l.action = :action)
                        ORDER BY l.id DESC
                        LIMIT :limit + 1
                    ) p
                    WINDOW w AS (ORDER BY p.id DESC)
                ) q
                WHERE q.place = 1 OR q.bytes_to <= \(WorkBounds.answer)
            ) a ON true
            ORDER BY a.id DESC
            """
        )
    }

    // MARK: - Deletion

    /// Reads actions between two ids, the oldest first.
    ///
    /// The actions may concern any organization.
    package static let old = Statement(
        "audit_old",
        ["before", "after", "limit"],
        """
        SELECT a.organization_id, a.id, a.at FROM audit a
        WHERE a.id < :before::uuid AND a.id > :after::uuid
        ORDER BY a.id
        LIMIT :limit
        """
    )

    package static let drop = Statement(
        "audit_drop",
        ["organizations", "ids"],
        """
        DELETE FROM audit AS a
        USING unnest(:organizations::uuid[], :ids::uuid[]) AS k (organization_id, id)
        WHERE a.organization_id = k.organization_id AND a.id = k.id
        """
    )

    /// Replaces erased users by their hashes, and removes the targets of actions on these users, because targets may
    /// name the users' rows.
    ///
    /// The target of the erasure itself remains.
    package static let erase = Statement(
        "audit_erase_user",
        ["organization", "users"],
        """
        UPDATE audit AS a
        SET user_hash = \(hash("a.user_id")), user_id = NULL,
            target = CASE WHEN a.action = 'deleteUser' THEN a.target ELSE '{}' END
        WHERE a.organization_id = :organization AND a.user_id = ANY (:users::uuid[])
        """
    )
    package static let eraseInto = Statement(
        "audit_erase_into",
        ["organization", "users"],
        """
        UPDATE audit AS a
        SET into_hash = \(hash("a.into_id")), into_id = NULL
        WHERE a.organization_id = :organization AND a.into_id = ANY (:users::uuid[])
        """
    )

    /// Removes all users of a purged organization from the recorded actions, `limit` rows at a time.
    package static let purge = Statement(
        "audit_purge_users",
        ["organization", "limit"],
        """
        UPDATE audit AS a
        SET user_id = NULL, user_hash = NULL, into_id = NULL, into_hash = NULL
        WHERE a.organization_id = :organization
            AND (a.user_id IS NOT NULL OR a.user_hash IS NOT NULL OR a.into_id IS NOT NULL OR a.into_hash IS NOT NULL)
            AND a.id <= (
                SELECT k.id FROM (
                    SELECT x.id FROM audit x
                    WHERE x.organization_id = :organization AND (
                        x.user_id IS NOT NULL OR x.user_hash IS NOT NULL
                        OR x.into_id IS NOT NULL OR x.into_hash IS NOT NULL)
                    ORDER BY x.id LIMIT :limit
                ) k
                ORDER BY k.id DESC LIMIT 1)
        """
    )

    /// All statements except the statements in the list of tables (``StoredTable``).
    package static let all = [begin, end, page, pageOfAll, old, drop]
}
