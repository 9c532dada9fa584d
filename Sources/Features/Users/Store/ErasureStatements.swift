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

    static let all = [
        facts, find, salt, close, lockEntities, writeEntities, move, fail, lock, finish, followers, due, claim, backlog,
        endpoint,
    ]
}
