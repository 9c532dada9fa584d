import Postgres
import SyncModel
import SyncStore

/// The statements that erase a user of an organization.
enum ErasureStatements {
    // MARK: - Closing

    /// Reads the facts about a user that an erasure requires. The parameters `migration` and `seconds` have the same
    /// meaning as in ``JoinStatements/facts``.
    static let facts = Statement(
        "erase_facts",
        ["organization", "user", "migration", "seconds"],
        """
        SELECT \(UserFacts.isKnown(":user")) AS is_known,
            \(UserFacts.hasOldGateway(":migration", within: ":seconds")) AS has_old_gateway
        """
    )

    static let find = Statement(
        "erase_find",
        ["organization", "user_hash"],
        "SELECT \(UserErasureRow.list) FROM user_erasures e WHERE e.organization_id = :organization AND e.user_hash = :user_hash"
    )

    /// - Parameter due_at: the time at which a gateway continues the erasure.
    static let close = Statement(
        "erase_close",
        ["organization", "user_hash", "users", "now", "due_at"],
        """
        INSERT INTO user_erasures AS e (organization_id, user_hash, user_ids, started_at, state, due_at)
        VALUES (:organization, :user_hash, :users, :now, 'closing', :due_at)
        ON CONFLICT (organization_id, user_hash) DO NOTHING
        RETURNING \(UserErasureRow.list)
        """
    )

    // MARK: - Entities

    /// Locks entities in the given order, if the user owns them or wrote them last. For each entity, it returns whether
    /// the erasure deletes the entity.
    ///
    /// For entities that are not deleted, also returns the documents that are sealed with the user's key. Such a
    /// document was written while the visibility of its type was `user`, and the visibility was changed later.
    ///
    /// - Parameters:
    ///   - own_channels: the user's own channels. An entity in no other channel is deleted, like an entity of a type
    ///     with the visibility `user`.
    ///   - bytes: the limit of the total size of the returned documents. Entities after the document that reaches the
    ///     limit are marked, and a later transaction writes them.
    static let lockEntities = Statement(
        "erase_lock_entities",
        ["organization", "user", "types", "ids", "own_channels", "bytes"],
        """
        SELECT r.entity_type, r.id, r.goes, CASE WHEN NOT r.is_beyond_bytes THEN r.document END AS document,
            r.is_beyond_bytes
        FROM (
            SELECT s.*, coalesce(sum(\(RowBytes.of("s.document"))) OVER (
                ORDER BY s.place ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0) >= :bytes AS is_beyond_bytes
            FROM (
                SELECT e.entity_type, e.id, g.goes, k.place,
                    CASE WHEN NOT g.goes AND e.owner_id = :user AND e.document::text ~ '^"sluice-sealed:1:[0-9]+[.]'
                        THEN e.document END AS document
                FROM unnest(:types::text[], :ids::text[]) WITH ORDINALITY AS k (entity_type, id, place)
                CROSS JOIN LATERAL (
                    SELECT x.entity_type, x.id, x.owner_id, x.is_deleted, x.document, x.channels FROM entities x
                    WHERE x.organization_id = :organization AND x.entity_type = k.entity_type AND x.id = k.id
                        AND (x.owner_id = :user OR x.updated_by = :user)
                    FOR UPDATE
                ) e
                CROSS JOIN LATERAL (
                    SELECT e.owner_id = :user AND NOT e.is_deleted AND coalesce((
                        SELECT t.on_erase = 'delete' OR t.visibility = 'user' OR t.visibility = 'channels'
                            AND coalesce(cardinality(e.channels) > 0 AND e.channels <@ :own_channels::uuid[], false)
                        FROM entity_types t
                        WHERE t.organization_id = :organization AND t.name = e.entity_type), true) AS goes
                ) g
                OFFSET 0
            ) s
        ) r
        ORDER BY r.place
        """
    )

    /// Deletes locked entities, or removes the user from them. It moves all of them to the feed's end, so that devices
    /// receive the change.
    ///
    /// - Parameters:
    ///   - goes: whether each entity is deleted.
    ///   - feed_end: the feed's last position after it was increased by the number of these entities.
    ///   - no_user: the id that means "no user".
    static let writeEntities = Statement(
        "erase_write_entities",
        ["organization", "user", "types", "ids", "goes", "feed_end", "no_user", "now"],
        """
        UPDATE entities AS e
        SET is_deleted = e.is_deleted OR k.goes,
            document = CASE WHEN NOT k.goes THEN e.document END,
            etag = CASE WHEN NOT k.goes THEN e.etag END,
            version = e.version + k.goes::int,
            run_base = CASE WHEN k.goes OR e.updated_by = :user THEN e.version ELSE e.run_base END,
            updated_at = CASE WHEN k.goes THEN :now::timestamptz ELSE e.updated_at END,
            owner_id = CASE WHEN e.owner_id = :user THEN :no_user::uuid ELSE e.owner_id END,
            client_id = CASE WHEN e.owner_id <> :user THEN e.client_id END,
            updated_by = CASE WHEN k.goes OR e.updated_by = :user THEN :no_user::uuid ELSE e.updated_by END,
            updated_on = CASE WHEN k.goes OR e.updated_by = :user THEN :no_user::uuid ELSE e.updated_on END,
            feed_position = :feed_end - cardinality(:types::text[]) + k.place
        FROM unnest(:types::text[], :ids::text[], :goes::bool[]) WITH ORDINALITY AS k (entity_type, id, goes, place)
        WHERE e.organization_id = :organization AND e.entity_type = k.entity_type AND e.id = k.id
        """
    )

    // MARK: - The erasure

    /// Records the next step, and the position up to which the feed was read.
    static let move = Statement(
        "erase_move",
        ["organization", "user_hash", "state", "walked_position", "due_at"],
        """
        UPDATE user_erasures AS e
        SET state = :state, walked_position = greatest(e.walked_position, :walked_position), due_at = :due_at
        WHERE e.organization_id = :organization AND e.user_hash = :user_hash AND e.state <> 'done'
        RETURNING \(UserErasureRow.list)
        """
    )

    /// Returns a row if the upstream must be notified of erasures.
    static let endpoint = Statement(
        "erase_endpoint",
        ["organization"],
        "SELECT 1 FROM upstreams WHERE organization_id = :organization AND erase_endpoint IS NOT NULL"
    )

    /// Records that the upstream could not be notified.
    ///
    /// - Parameter due_at: the time of the next attempt.
    static let fail = Statement(
        "erase_fail",
        ["organization", "user_hash", "reason", "due_at"],
        """
        UPDATE user_erasures AS e SET attempts = e.attempts + 1, last_error = :reason, due_at = :due_at
        WHERE e.organization_id = :organization AND e.user_hash = :user_hash AND e.state = 'telling'
        RETURNING \(UserErasureRow.list)
        """
    )

    static let lock = Statement(
        "erase_lock",
        ["organization", "user_hash"],
        """
        SELECT \(UserErasureRow.list) FROM user_erasures e
        WHERE e.organization_id = :organization AND e.user_hash = :user_hash AND e.state <> 'done' FOR UPDATE
        """
    )

    /// Completes the erasure. After that, no stored data identify the user.
    static let finish = Statement(
        "erase_finish",
        ["organization", "user_hash", "now"],
        """
        UPDATE user_erasures AS e
        SET state = 'done', user_ids = NULL, last_error = NULL, due_at = NULL, finished_at = :now
        WHERE e.organization_id = :organization AND e.user_hash = :user_hash
        RETURNING \(UserErasureRow.list)
        """
    )

    /// Records the erasure of each user who was joined into the erased user, because joined users are erased together
    /// with that user.
    static let followers = Statement(
        "erase_followers",
        ["organization", "users", "started_at", "finished_at"],
        """
        INSERT INTO user_erasures AS e (organization_id, user_hash, started_at, state, finished_at)
        SELECT :organization::uuid, sha256(uuid_send(:organization::uuid) || uuid_send(k.id)), :started_at, 'done', :finished_at
        FROM unnest(:users::uuid[]) AS k (id)
        ON CONFLICT (organization_id, user_hash) DO NOTHING
        """
    )

    /// Reads the due erasures of all organizations, beginning with the erasure that has been due longest. If an erasure
    /// is due, no gateway is processing it at present. The statement takes no locks.
    ///
    /// Erasures that wait only for the upstream's response are omitted for the given organizations. If `asks_upstream`
    /// is false, they are omitted for all organizations.
    static let due = Statement(
        "erase_due",
        ["now", "limit", "organizations", "asks_upstream"],
        """
        SELECT x.organization_id, x.user_hash, x.due_at FROM user_erasures x
        WHERE x.due_at <= :now AND (x.state <> 'telling' OR :asks_upstream::bool AND x.organization_id <> ALL (:organizations::uuid[]))
        ORDER BY x.due_at LIMIT :limit
        """
    )

    /// Claims a due erasure for this gateway until `claimed_until`, unless another gateway has just claimed it.
    static let claim = Statement(
        "erase_claim",
        ["organization", "user_hash", "due_at", "claimed_until"],
        """
        UPDATE user_erasures AS e SET due_at = :claimed_until
        WHERE e.organization_id = :organization AND e.user_hash = :user_hash AND e.due_at = :due_at
        RETURNING \(UserErasureRow.list)
        """
    )

    /// The number of erasures in progress, counted up to 1,000, and the time at which the first of them began.
    static let backlog = Statement(
        "erase_backlog",
        """
        SELECT count(*) AS count, min(y.started_at) AS since FROM (
            SELECT x.started_at FROM user_erasures x WHERE x.due_at IS NOT NULL ORDER BY x.due_at LIMIT 1000) y
        """
    )

    static let all = [
        facts, find, close, lockEntities, writeEntities, move, fail, lock, finish, followers, due, claim, backlog,
        endpoint,
    ]
}
