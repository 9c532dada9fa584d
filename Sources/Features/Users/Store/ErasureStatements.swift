import Postgres
import SyncModel
import SyncStore

/// The statements that erase a user of an organization ($1).
enum ErasureStatements {
    // MARK: - Closing

    /// The facts about a user ($2) that are required before an erasure; $3 and $4 as in ``JoinStatements/facts``.
    static let facts = Statement(
        "erase_facts",
        """
        SELECT \(UserFacts.isKnown("$2")) AS is_known,
            \(UserFacts.hasOldGateway("$3", within: "$4")) AS has_old_gateway
        """
    )

    static let find = Statement(
        "erase_find",
        "SELECT \(UserErasureRow.list) FROM user_erasures e WHERE e.organization_id = $1 AND e.user_hash = $2"
    )

    /// $2: random bytes.
    static let salt = Statement(
        "erase_salt",
        "INSERT INTO erasure_salts AS s (organization_id, salt) VALUES ($1, $2) ON CONFLICT (organization_id) DO NOTHING"
    )

    /// - Parameters: hash, ids, the moment, and when a gateway continues the erasure.
    static let close = Statement(
        "erase_close",
        """
        INSERT INTO user_erasures AS e (organization_id, user_hash, user_ids, started_at, state, due_at)
        VALUES ($1, $2, $3, $4, 'closing', $5)
        ON CONFLICT (organization_id, user_hash) DO NOTHING
        RETURNING \(UserErasureRow.list)
        """
    )

    // MARK: - A lane's rows

    /// How rows of a table are deleted.
    ///
    /// Two statements and not one: on a cluster, rows that one statement deletes and inserts elsewhere would be copied,
    /// which no role under row-level security may.
    struct Deletion: Sendable {
        /// $2: the user; $3: the hash; $4: rows at most.
        ///
        /// Returns the number of rows or, if a part of them stays, a row with hashes for each.
        let delete: Statement
        /// Keeps these hashes.
        var keep: Statement?
    }

    /// A transaction deletes so many rows of one of them.
    static let rows = [
        // devices before what pulls gave them: a pull holds the device's row while it writes
        deleting("devices", ["device_id"], keeping: "device_id"),
        Deletion(delete: operations),
        deleting("attempts", ["mutation_id", "slot"]),
        deleting("mutations", ["id"], keeping: "idempotency_key", fingerprint: "fingerprint"),
        deleting("rejections", ["idempotency_key"], keeping: "idempotency_key"),
        deleting("id_mappings", ["client_id", "entity_type"]),
        deleting("local_id_pages", ["device_id", "page"]),
        deleting("local_ids", ["device_id", "entity_type", "local_id"]),
        Deletion(delete: subjects, keep: keepSubjects),
    ]

    /// - Parameters: organization, the user's hash, hashes of names, and of the values known by them.
    static let keepNames = Statement(
        "erase_keep_names",
        """
        INSERT INTO erased_names AS n (organization_id, user_hash, name_hash, fingerprint_hash)
        SELECT $1::uuid, $2::bytea, k.name_hash, k.fingerprint_hash
        FROM unnest($3::bytea[], $4::bytea[]) AS k (name_hash, fingerprint_hash)
        ON CONFLICT (organization_id, user_hash, name_hash) DO NOTHING
        """
    )

    /// The same of subjects, of which nothing else is known.
    static let keepSubjects = Statement(
        "erase_keep_subjects",
        """
        INSERT INTO erased_subjects AS s (organization_id, subject_hash, user_hash)
        SELECT $1::uuid, k.subject_hash, $2::bytea
        FROM unnest($3::bytea[], $4::bytea[]) AS k (subject_hash, nothing)
        ON CONFLICT (organization_id, subject_hash) DO NOTHING
        """
    )

    /// Rows are matched by the values read, organization and user included: matched by $1 and $2, PostgreSQL would read
    /// all of the user's rows for each.
    ///
    /// - Parameters:
    ///   - keys: the key behind organization and user.
    ///   - name: the id that stays as a hash.
    private static func deleting(
        _ table: String,
        _ keys: [String],
        keeping name: String? = nil,
        fingerprint: String? = nil
    ) -> Deletion {
        let isIt = keys.map { "x.\($0) = k.\($0)" }.joined(separator: " AND ")
        let gone = """
            gone AS (
                DELETE FROM \(table) AS x
                USING (
                    SELECT y.organization_id, y.user_id, \(keys.map { "y.\($0)" }.joined(separator: ", ")) FROM \(table) y
                    WHERE y.organization_id = $1 AND y.user_id = $2
                    LIMIT $4
                ) k
                WHERE x.organization_id = k.organization_id AND x.user_id = k.user_id AND \(isIt)
                RETURNING x.*
            )
            """
        guard let name else {
            // all of them have the same parameters
            let count = "count(*) FILTER (WHERE $3::bytea IS NOT NULL) AS count"
            return Deletion(delete: Statement("erase_\(table)", "WITH \(gone) SELECT \(count) FROM gone"))
        }
        let delete = Statement(
            "erase_\(table)",
            """
            WITH \(gone)
            SELECT sha256($3::bytea || uuid_send(g.\(name))) AS hash,
                \(fingerprint.map { "sha256(g.\($0))" } ?? "NULL::bytea") AS known_hash
            FROM gone g
            """
        )
        return Deletion(delete: delete, keep: keepNames)
    }

    /// Operations that name the user or one of the user's mutations: they stay, without any user.
    ///
    /// All of these statements have the same parameters.
    private static let operations = Statement(
        "erase_operations",
        """
        WITH own AS MATERIALIZED (
            SELECT o.id, ARRAY(
                SELECT i.id FROM unnest(o.ids) i (id)
                CROSS JOIN LATERAL (
                    SELECT 1 FROM mutations m
                    WHERE m.organization_id = $1 AND m.user_id = $2 AND m.id = i.id
                    OFFSET 0
                ) m
            ) AS ids
            FROM operations o WHERE o.organization_id = $1
        ), gone AS (
            UPDATE operations AS o
            SET user_id = CASE WHEN o.user_id = $2 THEN \(nobody) ELSE o.user_id END,
                place_user = CASE WHEN o.place_user = $2 THEN \(nobody) ELSE o.place_user END,
                place_id = CASE WHEN o.place_user = $2 THEN \(nobody) ELSE o.place_id END,
                ids = CASE WHEN o.ids IS NOT NULL THEN
                    ARRAY(SELECT i.id FROM unnest(o.ids) i (id) WHERE i.id <> ALL (w.ids)) END
            FROM own w
            WHERE o.organization_id = $1 AND o.id = w.id
                AND (o.user_id = $2 OR o.place_user = $2 OR cardinality(w.ids) > 0)
            RETURNING 1
        )
        SELECT count(*) FILTER (WHERE $3::bytea IS NOT NULL AND $4::int8 > 0) AS count FROM gone
        """
    )

    private static let nobody = "'00000000-0000-0000-0000-000000000000'::uuid"

    private static let subjects = Statement(
        "erase_user_subjects",
        """
        WITH gone AS (
            DELETE FROM user_subjects AS x
            USING (
                SELECT y.organization_id, y.issuer, y.subject FROM user_subjects y
                WHERE y.organization_id = $1 AND y.user_id = $2
                LIMIT $4
            ) k
            WHERE x.organization_id = k.organization_id AND x.issuer = k.issuer AND x.subject = k.subject
            RETURNING x.issuer, x.subject
        )
        SELECT \(ErasedUsers.subjectHash(salt: "z.salt", issuer: "g.issuer", subject: "g.subject")) AS hash,
            CASE WHEN $3::bytea IS NULL THEN $3::bytea END AS known_hash
        FROM gone g
        CROSS JOIN (SELECT y.salt FROM erasure_salts y WHERE y.organization_id = $1) z
        """
    )

    /// $2: the user. The tables with one row for each user, and last the lane, under whose lock all of this is done.
    static let last = ["mutation_quotas", "users", "lanes"].map { table in
        Statement("erase_\(table)", "DELETE FROM \(table) WHERE organization_id = $1 AND user_id = $2")
    }

    /// Retention records its progress by a user's id: it reads some rows again.
    static let places = Statement(
        "erase_retention_places",
        """
        UPDATE retention_places AS p
        SET mapping_client = CASE WHEN p.mapping_user = ANY ($2::uuid[]) THEN NULL ELSE p.mapping_client END,
            mapping_user = CASE WHEN p.mapping_user = ANY ($2::uuid[]) THEN NULL ELSE p.mapping_user END,
            shrunk_id = CASE WHEN p.shrunk_user = ANY ($2::uuid[]) THEN $3 ELSE p.shrunk_id END,
            shrunk_user = CASE WHEN p.shrunk_user = ANY ($2::uuid[]) THEN $3 ELSE p.shrunk_user END
        WHERE p.organization_id = $1
        """
    )

    // MARK: - Entities

    /// Locks entities, in the order given, that a user ($2) owns or wrote last, and returns which of them are deleted.
    ///
    /// A document that stays and is sealed with a user's key is read: at one time only its owner saw it.
    static let lockEntities = Statement(
        "erase_lock_entities",
        """
        SELECT e.entity_type, e.id, g.goes,
            CASE WHEN NOT g.goes AND e.owner_id = $2 AND e.document::text ~ '^"sluice-sealed:1:[0-9]+[.]' THEN e.document END
                AS document
        FROM unnest($3::text[], $4::text[]) AS k (entity_type, id)
        CROSS JOIN LATERAL (
            SELECT x.entity_type, x.id, x.owner_id, x.is_deleted, x.document FROM entities x
            WHERE x.organization_id = $1 AND x.entity_type = k.entity_type AND x.id = k.id
                AND (x.owner_id = $2 OR x.updated_by = $2)
            FOR UPDATE
        ) e
        CROSS JOIN LATERAL (
            SELECT e.owner_id = $2 AND NOT e.is_deleted AND coalesce((
                SELECT t.on_erase = 'delete' OR t.visibility = 'user' FROM entity_types t
                WHERE t.organization_id = $1 AND t.name = e.entity_type), true) AS goes
        ) g
        """
    )

    /// Deletes locked entities, or removes their owner, and moves them to the feed's end, so that devices receive them.
    ///
    /// - Parameters: organization, user, types, ids, whether each is deleted, the feed's raised end, the id without a
    ///   user, the moment.
    static let writeEntities = Statement(
        "erase_write_entities",
        """
        UPDATE entities AS e
        SET is_deleted = e.is_deleted OR k.goes,
            document = CASE WHEN NOT k.goes THEN e.document END,
            etag = CASE WHEN NOT k.goes THEN e.etag END,
            version = e.version + k.goes::int,
            run_base = CASE WHEN k.goes OR e.updated_by = $2 THEN e.version ELSE e.run_base END,
            updated_at = CASE WHEN k.goes THEN $8::timestamptz ELSE e.updated_at END,
            owner_id = CASE WHEN e.owner_id = $2 THEN $7::uuid ELSE e.owner_id END,
            client_id = CASE WHEN e.owner_id <> $2 THEN e.client_id END,
            updated_by = CASE WHEN k.goes OR e.updated_by = $2 THEN $7::uuid ELSE e.updated_by END,
            updated_on = CASE WHEN k.goes OR e.updated_by = $2 THEN $7::uuid ELSE e.updated_on END,
            feed_position = $6 - cardinality($3::text[]) + k.place
        FROM unnest($3::text[], $4::text[], $5::bool[]) WITH ORDINALITY AS k (entity_type, id, goes, place)
        WHERE e.organization_id = $1 AND e.entity_type = k.entity_type AND e.id = k.id
        """
    )

    // MARK: - The erasure

    /// Records the next step ($3), and how far the feed was read ($4).
    static let move = Statement(
        "erase_move",
        """
        UPDATE user_erasures AS e
        SET state = $3, walked_position = greatest(e.walked_position, $4), due_at = $5
        WHERE e.organization_id = $1 AND e.user_hash = $2 AND e.state <> 'done'
        RETURNING \(UserErasureRow.list)
        """
    )

    /// Whether the upstream requires a notification.
    static let endpoint = Statement(
        "erase_endpoint",
        "SELECT 1 FROM upstreams WHERE organization_id = $1 AND erase_endpoint IS NOT NULL"
    )

    /// The upstream could not be notified ($3: why); $4: the time of the next attempt.
    static let fail = Statement(
        "erase_fail",
        """
        UPDATE user_erasures AS e SET attempts = e.attempts + 1, last_error = $3, due_at = $4
        WHERE e.organization_id = $1 AND e.user_hash = $2 AND e.state = 'telling'
        RETURNING \(UserErasureRow.list)
        """
    )

    static let lock = Statement(
        "erase_lock",
        """
        SELECT \(UserErasureRow.list) FROM user_erasures e
        WHERE e.organization_id = $1 AND e.user_hash = $2 AND e.state <> 'done' FOR UPDATE
        """
    )

    /// From here on, nothing names the user. $3: the moment.
    static let finish = Statement(
        "erase_finish",
        """
        UPDATE user_erasures AS e
        SET state = 'done', user_ids = NULL, last_error = NULL, due_at = NULL, finished_at = $3
        WHERE e.organization_id = $1 AND e.user_hash = $2
        RETURNING \(UserErasureRow.list)
        """
    )

    /// Those who were joined into the user ($2) are erased with it.
    ///
    /// - Parameters: organization, users, the moment the erasure began, and the one it ends.
    static let followers = Statement(
        "erase_followers",
        """
        INSERT INTO user_erasures AS e (organization_id, user_hash, started_at, state, finished_at)
        SELECT $1::uuid, sha256(uuid_send($1::uuid) || uuid_send(k.id)), $3, 'done', $4
        FROM unnest($2::uuid[]) AS k (id)
        ON CONFLICT (organization_id, user_hash) DO NOTHING
        """
    )

    static let joins = Statement(
        "erase_joins",
        """
        DELETE FROM user_joins AS j
        WHERE j.organization_id = $1 AND (j.user_id = ANY ($2::uuid[]) OR j.into_id = ANY ($2::uuid[]))
        """
    )

    /// Erasures of any organization that no gateway works on, those due longest first: a plain read.
    ///
    /// Those that only wait for the upstream's response are left out for some organizations ($3), or for all if $4 is
    /// false.
    static let due = Statement(
        "erase_due",
        """
        SELECT x.organization_id, x.user_hash, x.due_at FROM user_erasures x
        WHERE x.due_at <= $1 AND (x.state <> 'telling' OR $4::bool AND x.organization_id <> ALL ($3::uuid[]))
        ORDER BY x.due_at LIMIT $2
        """
    )

    /// Claims one of them for this gateway until $4, unless another has claimed it since.
    static let claim = Statement(
        "erase_claim",
        """
        UPDATE user_erasures AS e SET due_at = $4
        WHERE e.organization_id = $1 AND e.user_hash = $2 AND e.due_at = $3
        RETURNING \(UserErasureRow.list)
        """
    )

    /// Erasures that are in progress, counted up to 1,000, and when the first of them began.
    static let backlog = Statement(
        "erase_backlog",
        """
        SELECT count(*) AS count, min(y.started_at) AS since FROM (
            SELECT x.started_at FROM user_erasures x WHERE x.due_at IS NOT NULL ORDER BY x.due_at LIMIT 1000) y
        """
    )

    static let all =
        [
            facts, find, salt, close, places, lockEntities, writeEntities, move, fail, lock, finish, followers, joins,
            due, claim, backlog, endpoint, keepNames, keepSubjects,
        ] + rows.map(\.delete) + last + ErasureWalk.all.flatMap { [$0.walk.look, $0.delete] }
}
