package import Postgres

/// The statements of the audit.
///
/// Erased users are written as their hashes, independent of the time of the erasure.
package enum AuditStatements {
    private static func hash(_ user: String) -> String { "sha256(uuid_send($1::uuid) || uuid_send(\(user)::uuid))" }

    /// - Parameters: organization, id, moment, actor, scope, action, reason, target, user, into, request, outcome.
    package static let begin = Statement(
        "audit_begin",
        """
        INSERT INTO audit AS a (organization_id, id, at, actor, scope, action, reason, target, user_id, user_hash, into_id,
            into_hash, request_id, outcome)
        SELECT $1::uuid, $2::uuid, $3::timestamptz, $4::text, $5::text, $6::text, $7::text, $8::json,
            CASE WHEN NOT k.user_goes THEN $9::uuid END, CASE WHEN k.user_goes THEN \(hash("$9")) END,
            CASE WHEN NOT k.into_goes THEN $10::uuid END, CASE WHEN k.into_goes THEN \(hash("$10")) END,
            $11::text, $12::json
        FROM (
            SELECT (\(ErasedUsers.isErased("$1::uuid", "$9::uuid"))) AS user_goes,
                (\(ErasedUsers.isErased("$1::uuid", "$10::uuid"))) AS into_goes
        ) k
        """,
        // values alone: an act may concern no organization, from whose row the value could come
        variant: """
            INSERT INTO audit AS a (organization_id, id, at, actor, scope, action, reason, target, user_id, user_hash, into_id,
                into_hash, request_id, outcome)
            VALUES ($1::uuid, $2::uuid, $3::timestamptz, $4::text, $5::text, $6::text, $7::text, $8::json,
                CASE WHEN NOT \(isErased("$9")) THEN $9::uuid END, CASE WHEN \(isErased("$9")) THEN \(hash("$9")) END,
                CASE WHEN NOT \(isErased("$10")) THEN $10::uuid END,
                CASE WHEN \(isErased("$10")) THEN \(hash("$10")) END, $11::text, $12::json)
            """
    )

    /// By the cluster's function of `sql/citus.sql`.
    private static func isErased(_ user: String) -> String { "is_erased($1::uuid, \(user)::uuid)" }

    /// - Parameters: organization, id, outcome, and the users concerned, as known at the end.
    package static let end = Statement(
        "audit_end",
        """
        UPDATE audit AS a
        SET outcome = $3::json, reason = coalesce(a.reason, $6::text),
            user_id = coalesce(a.user_id, CASE WHEN NOT k.user_goes THEN $4::uuid END),
            user_hash = coalesce(a.user_hash, CASE WHEN k.user_goes THEN \(hash("$4")) END),
            into_id = coalesce(a.into_id, CASE WHEN NOT k.into_goes THEN $5::uuid END),
            into_hash = coalesce(a.into_hash, CASE WHEN k.into_goes THEN \(hash("$5")) END)
        FROM (
            SELECT (\(ErasedUsers.isErased("$1::uuid", "$4::uuid"))) AS user_goes,
                (\(ErasedUsers.isErased("$1::uuid", "$5::uuid"))) AS into_goes
        ) k
        WHERE a.organization_id = $1 AND a.id = $2
        """
    )

    // MARK: - Reading

    /// Acts of an organization ($1).
    ///
    /// Further parameters: the first id and the end of the ids, rows to read, actor, action, rows to show.
    package static let page = page("audit_page", of: "a.organization_id = $1 AND ", first: 2)
    /// Of all, and of none.
    package static let pageOfAll = page("audit_page_of_all", of: "", first: 1)

    /// Reads so many rows by the index, and filters these.
    ///
    /// However rare the matches are, no page reads more.
    private static func page(_ name: String, of organization: String, first: Int) -> Statement {
        func parameter(_ offset: Int) -> String { "$\(first + offset)" }
        return Statement(
            name,
            """
            WITH looked AS MATERIALIZED (
                SELECT \(AuditRow.list) FROM audit a
                WHERE \(organization)a.id >= \(parameter(0))::uuid AND a.id < \(parameter(1))::uuid
                ORDER BY a.id DESC
                LIMIT \(parameter(2))
            )
            SELECT e.looked, e.last, \(AuditRow.list)
            FROM (
                SELECT (SELECT count(*) FROM looked) AS looked, (SELECT l.id FROM looked l ORDER BY l.id LIMIT 1) AS last
            ) e
            LEFT JOIN LATERAL (
                SELECT l.* FROM looked l
                WHERE (\(parameter(3))::text IS NULL OR l.actor = \(parameter(3)))
                    AND (\(parameter(4))::text IS NULL OR l.action = \(parameter(4)))
                ORDER BY l.id DESC
                LIMIT \(parameter(5)) + 1
            ) a ON true
            ORDER BY a.id DESC
            """
        )
    }

    // MARK: - What goes

    /// Acts before an id ($1) and after another ($2), the oldest first; up to $3.
    ///
    /// The acts are of any organization.
    package static let old = Statement(
        "audit_old",
        """
        SELECT a.organization_id, a.id, a.at FROM audit a
        WHERE a.id < $1::uuid AND a.id > $2::uuid
        ORDER BY a.id
        LIMIT $3
        """
    )

    /// By organizations ($1) and ids ($2).
    package static let drop = Statement(
        "audit_drop",
        """
        DELETE FROM audit AS a
        USING unnest($1::uuid[], $2::uuid[]) AS k (organization_id, id)
        WHERE a.organization_id = k.organization_id AND a.id = k.id
        """
    )

    /// Takes erased users ($2) out of it, and which rows of theirs it was about. That an act erased them stays.
    package static let erase = Statement(
        "audit_erase_user",
        """
        UPDATE audit AS a
        SET user_hash = \(hash("a.user_id")), user_id = NULL,
            target = CASE WHEN a.action = 'deleteUser' THEN a.target ELSE '{}' END
        WHERE a.organization_id = $1 AND a.user_id = ANY ($2::uuid[])
        """
    )
    package static let eraseInto = Statement(
        "audit_erase_into",
        """
        UPDATE audit AS a
        SET into_hash = \(hash("a.into_id")), into_id = NULL
        WHERE a.organization_id = $1 AND a.into_id = ANY ($2::uuid[])
        """
    )

    /// Takes all users of a purged organization out of it, $2 rows at a time.
    package static let purge = Statement(
        "audit_purge_users",
        """
        UPDATE audit AS a
        SET user_id = NULL, user_hash = NULL, into_id = NULL, into_hash = NULL
        WHERE a.organization_id = $1
            AND (a.user_id IS NOT NULL OR a.user_hash IS NOT NULL OR a.into_id IS NOT NULL OR a.into_hash IS NOT NULL)
            AND a.id <= (
                SELECT k.id FROM (
                    SELECT x.id FROM audit x
                    WHERE x.organization_id = $1 AND (
                        x.user_id IS NOT NULL OR x.user_hash IS NOT NULL
                        OR x.into_id IS NOT NULL OR x.into_hash IS NOT NULL)
                    ORDER BY x.id LIMIT $2
                ) k
                ORDER BY k.id DESC LIMIT 1)
        """
    )

    /// All statements except those of the catalogue of tables.
    package static let all = [begin, end, page, pageOfAll, old, drop]
}
