import Postgres
import SyncModel
import SyncStore

/// The statements that join a user ($2) into another ($3) of an organization ($1).
enum JoinStatements {
    // MARK: - Closing

    /// Joins of an organization are begun one after another, so that each sees those before it; a purge comes before or
    /// after them.
    static let lockOrganization = Statement(
        "join_lock_organization",
        "SELECT o.status FROM organizations o WHERE o.id = $1 FOR NO KEY UPDATE"
    )

    /// - Parameters: the name of the migration that gateways must support, and the seconds after which a gateway
    ///   without a sign of life no longer counts as running.
    static let facts = Statement(
        "join_facts",
        """
        SELECT \(isKnown("$2")) AS is_user_known, \(isKnown("$3")) AS is_target_known,
            (SELECT count(*) FROM (
                SELECT 1 FROM user_joins j WHERE j.organization_id = $1 LIMIT \(JoinSituation.limit)) x) AS joins,
            \(UserFacts.hasOldGateway("$4", within: "$5")) AS has_old_gateway,
            \(isOneShutOut) AS is_one_shut_out
        """
    )

    /// Whether an operator provisions users, and provisioned only one of the two.
    static let isOneShutOut = """
        coalesce((SELECT o.settings ->> 'provisioning' FROM organizations o WHERE o.id = $1), '') = 'explicit'
                AND (SELECT count(*) FROM users u WHERE u.organization_id = $1 AND u.user_id IN ($2, $3)) = 1
        """

    /// Whether the organization has a record of a user who is not being erased.
    private static func isKnown(_ user: String) -> String {
        "\(UserFacts.isKnown(user)) AND NOT (\(ErasedUsers.isErased("$1", user)))"
    }

    /// The joins that name either of the two.
    static let related = Statement(
        "join_related",
        """
        SELECT \(UserJoinRow.list) FROM user_joins j WHERE j.organization_id = $1 AND j.user_id = ANY ($2::uuid[])
        UNION ALL
        SELECT \(UserJoinRow.list) FROM user_joins j
        WHERE j.organization_id = $1 AND j.into_id = ANY ($2::uuid[]) AND j.user_id <> ALL ($2::uuid[])
        """
    )

    /// Begins or continues a join. A join that was given up, or had another target, begins again.
    static let close = Statement(
        "join_close",
        """
        INSERT INTO user_joins AS j (organization_id, user_id, into_id, started_at, closed_until)
        VALUES ($1, $2, $3, $4, $5)
        ON CONFLICT (organization_id, user_id) DO UPDATE
        SET into_id = excluded.into_id, closed_until = excluded.closed_until,
            started_at = CASE
                WHEN j.closed_until > excluded.started_at AND j.into_id = excluded.into_id THEN j.started_at
                ELSE excluded.started_at END
        WHERE j.closed_until IS NOT NULL
        RETURNING \(UserJoinRow.list)
        """
    )

    /// Gives a join up whose rows have not moved.
    static let open = Statement(
        "join_open",
        """
        DELETE FROM user_joins j
        WHERE j.organization_id = $1 AND j.user_id = $2 AND j.into_id = $3 AND j.closed_until IS NOT NULL
        """
    )

    // MARK: - Moving

    static let lock = Statement(
        "join_lock",
        """
        SELECT \(UserJoinRow.list) FROM user_joins j
        WHERE j.organization_id = $1 AND j.user_id = $2 AND j.into_id = $3 FOR UPDATE
        """
    )

    /// The lane goes once all rows are the target's.
    static let leaveLanes = Statement(
        "join_leave_lanes",
        "DELETE FROM lanes WHERE organization_id = $1 AND user_id = $2"
    )

    /// Those who were joined into the user are part of the target now.
    static let followers = Statement(
        "join_followers",
        """
        UPDATE user_joins AS j SET into_id = $3
        WHERE j.organization_id = $1 AND j.into_id = $2 AND j.closed_until IS NULL
        """
    )

    static let markMoved = Statement(
        "join_mark_moved",
        """
        UPDATE user_joins AS j
        SET closed_until = NULL,
            feed_end = coalesce((SELECT f.last_position FROM feeds f WHERE f.organization_id = $1), 0)
        WHERE j.organization_id = $1 AND j.user_id = $2 AND j.into_id = $3
        RETURNING \(UserJoinRow.list)
        """
    )

    static let finish = Statement(
        "join_finish",
        """
        UPDATE user_joins AS j SET finished_at = $4
        WHERE j.organization_id = $1 AND j.user_id = $2 AND j.into_id = $3 AND j.finished_at IS NULL
        RETURNING \(UserJoinRow.list)
        """
    )

    // MARK: - Entities

    /// Locks entities, in the order given, of which a user is the owner or the last writer.
    ///
    /// - Parameters: organization, user, types, ids.
    static let lockEntities = Statement(
        "join_lock_entities",
        """
        SELECT e.entity_type, e.id
        FROM unnest($3::text[], $4::text[]) AS k (entity_type, id)
        CROSS JOIN LATERAL (
            SELECT x.entity_type, x.id FROM entities x
            WHERE x.organization_id = $1 AND x.entity_type = k.entity_type AND x.id = k.id
                AND (x.owner_id = $2 OR x.updated_by = $2)
            FOR UPDATE
        ) e
        """
    )

    /// $4 and $5: types and ids of locked entities. Readers need not learn of it: who wrote last is the same person.
    static let ownEntities = Statement(
        "join_own_entities",
        """
        UPDATE entities AS e
        SET owner_id = CASE WHEN e.owner_id = $2 THEN $3 ELSE e.owner_id END,
            updated_by = CASE WHEN e.updated_by = $2 THEN $3 ELSE e.updated_by END
        FROM unnest($4::text[], $5::text[]) AS k (entity_type, id)
        WHERE e.organization_id = $1 AND e.entity_type = k.entity_type AND e.id = k.id
        """
    )

    /// Locks those of the entities whose place in the feed has not changed since the join found them.
    ///
    /// - Parameters: organization, owner, types, ids, the feed's end of then.
    static let lockUnseen = Statement(
        "join_lock_unseen",
        """
        SELECT e.entity_type, e.id
        FROM unnest($3::text[], $4::text[]) AS k (entity_type, id)
        CROSS JOIN LATERAL (
            SELECT x.entity_type, x.id FROM entities x
            WHERE x.organization_id = $1 AND x.entity_type = k.entity_type AND x.id = k.id
                AND x.owner_id = $2 AND NOT x.is_deleted AND x.feed_position <= $5
            FOR UPDATE
        ) e
        """
    )

    /// The feed's counter, the last lock of a transaction.
    static let raiseFeed = Statement(
        "join_raise_feed",
        """
        UPDATE feeds AS f SET last_position = f.last_position + $2 WHERE f.organization_id = $1
        RETURNING f.last_position
        """
    )

    /// Moves locked entities to the feed's end, so that devices with a later cursor receive them.
    ///
    /// - Parameters: organization, types, ids, the feed's raised end.
    static let show = Statement(
        "join_show",
        """
        UPDATE entities AS e
        SET feed_position = $4 - cardinality($2::text[]) + k.place
        FROM unnest($2::text[], $3::text[]) WITH ORDINALITY AS k (entity_type, id, place)
        WHERE e.organization_id = $1 AND e.entity_type = k.entity_type AND e.id = k.id
        """
    )

    static let all = [
        lockOrganization, facts, related, close, open, lock, leaveLanes, followers, markMoved, finish, lockEntities,
        ownEntities, lockUnseen, raiseFeed, show,
    ]
}
