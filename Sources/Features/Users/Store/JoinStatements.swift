import Postgres
import SyncModel
import SyncStore

/// The statements that join a user (`user`) of an organization into another user (`into`).
enum JoinStatements {
    // MARK: - Closing

    /// Locks the organization, so that its joins begin one after another, and each join reads the earlier joins.
    ///
    /// A purge takes the same lock. Therefore a purge cannot begin while a join begins.
    static let lockOrganization = Statement(
        "join_lock_organization",
        ["organization"],
        "SELECT o.status FROM organizations o WHERE o.id = :organization FOR NO KEY UPDATE"
    )

    /// - Parameters:
    ///   - migration: the name of the migration that gateways must support.
    ///   - seconds: the time without a heartbeat after which a gateway no longer counts as running.
    static let facts = Statement(
        "join_facts",
        ["organization", "user", "into", "migration", "seconds"],
        """
        SELECT \(isKnown(":user")) AS is_user_known, \(isKnown(":into")) AS is_target_known,
            (SELECT count(*) FROM (
                SELECT 1 FROM user_joins j WHERE j.organization_id = :organization LIMIT \(MergePreconditions.limit)) x) AS joins,
            \(UserFacts.hasOldGateway(":migration", within: ":seconds")) AS has_old_gateway,
            \(isOneShutOut) AS is_one_shut_out
        """
    )

    /// Whether the organization requires provisioning, and an operator has provisioned only one of the two users.
    static let isOneShutOut = """
        coalesce((SELECT o.settings ->> 'provisioning' FROM organizations o WHERE o.id = :organization), '') = 'explicit'
                AND (SELECT count(*) FROM users u WHERE u.organization_id = :organization AND u.user_id IN (:user, :into)) = 1
        """

    /// Whether the organization has a record of a user who is not being erased.
    private static func isKnown(_ user: String) -> String {
        "\(UserFacts.isKnown(user)) AND NOT (\(ErasedUsers.isErased(":organization", user)))"
    }

    /// The joins that name either of the two users.
    static let related = Statement(
        "join_related",
        ["organization", "users"],
        """
        SELECT \(UserJoinRow.list) FROM user_joins j WHERE j.organization_id = :organization AND j.user_id = ANY (:users::uuid[])
        UNION ALL
        SELECT \(UserJoinRow.list) FROM user_joins j
        WHERE j.organization_id = :organization AND j.into_id = ANY (:users::uuid[]) AND j.user_id <> ALL (:users::uuid[])
        """
    )

    /// Begins or continues a join. If an earlier join was given up or had another target, the join begins again.
    static let close = Statement(
        "join_close",
        ["organization", "user", "into", "now", "closed_until"],
        """
        INSERT INTO user_joins AS j (organization_id, user_id, into_id, started_at, closed_until)
        VALUES (:organization, :user, :into, :now, :closed_until)
        ON CONFLICT (organization_id, user_id) DO UPDATE
        SET into_id = excluded.into_id, closed_until = excluded.closed_until,
            started_at = CASE
                WHEN j.closed_until > excluded.started_at AND j.into_id = excluded.into_id THEN j.started_at
                ELSE excluded.started_at END
        WHERE j.closed_until IS NOT NULL
        RETURNING \(UserJoinRow.list)
        """
    )

    /// Gives up a join whose rows have not moved.
    static let open = Statement(
        "join_open",
        ["organization", "user", "into"],
        """
        DELETE FROM user_joins j
        WHERE j.organization_id = :organization AND j.user_id = :user AND j.into_id = :into AND j.closed_until IS NOT NULL
        """
    )

    // MARK: - Moving

    static let lock = Statement(
        "join_lock",
        ["organization", "user", "into"],
        """
        SELECT \(UserJoinRow.list) FROM user_joins j
        WHERE j.organization_id = :organization AND j.user_id = :user AND j.into_id = :into FOR UPDATE
        """
    )

    /// Deletes the user's lane after all rows have moved to the target.
    static let leaveLanes = Statement(
        "join_leave_lanes",
        ["organization", "user"],
        "DELETE FROM lanes WHERE organization_id = :organization AND user_id = :user"
    )

    /// Changes the target of the users who were joined into the user.
    static let followers = Statement(
        "join_followers",
        ["organization", "user", "into"],
        """
        UPDATE user_joins AS j SET into_id = :into
        WHERE j.organization_id = :organization AND j.into_id = :user AND j.closed_until IS NULL
        """
    )

    static let markMoved = Statement(
        "join_mark_moved",
        ["organization", "user", "into"],
        """
        UPDATE user_joins AS j
        SET closed_until = NULL,
            feed_end = coalesce((SELECT f.last_position FROM feeds f WHERE f.organization_id = :organization), 0)
        WHERE j.organization_id = :organization AND j.user_id = :user AND j.into_id = :into
        RETURNING \(UserJoinRow.list)
        """
    )

    static let finish = Statement(
        "join_finish",
        ["organization", "user", "into", "now"],
        """
        UPDATE user_joins AS j SET finished_at = :now
        WHERE j.organization_id = :organization AND j.user_id = :user AND j.into_id = :into AND j.finished_at IS NULL
        RETURNING \(UserJoinRow.list)
        """
    )

    // MARK: - Entities

    /// Locks entities in the given order, if the user is their owner or their last writer.
    static let lockEntities = Statement(
        "join_lock_entities",
        ["organization", "user", "types", "ids"],
        """
        SELECT e.entity_type, e.id
        FROM unnest(:types::text[], :ids::text[]) AS k (entity_type, id)
        CROSS JOIN LATERAL (
            SELECT x.entity_type, x.id FROM entities x
            WHERE x.organization_id = :organization AND x.entity_type = k.entity_type AND x.id = k.id
                AND (x.owner_id = :user OR x.updated_by = :user)
            FOR UPDATE
        ) e
        """
    )

    /// Changes the owner and the last writer of locked entities. Devices do not receive this change, because the new
    /// last writer is the same person.
    static let ownEntities = Statement(
        "join_own_entities",
        ["organization", "user", "into", "types", "ids"],
        """
        UPDATE entities AS e
        SET owner_id = CASE WHEN e.owner_id = :user THEN :into ELSE e.owner_id END,
            updated_by = CASE WHEN e.updated_by = :user THEN :into ELSE e.updated_by END
        FROM unnest(:types::text[], :ids::text[]) AS k (entity_type, id)
        WHERE e.organization_id = :organization AND e.entity_type = k.entity_type AND e.id = k.id
        """
    )

    /// Locks the entities whose position in the feed has not changed since the join moved the rows.
    ///
    /// - Parameter feed_end: the end of the feed when the rows moved.
    static let lockUnseen = Statement(
        "join_lock_unseen",
        ["organization", "user", "types", "ids", "feed_end"],
        """
        SELECT e.entity_type, e.id
        FROM unnest(:types::text[], :ids::text[]) AS k (entity_type, id)
        CROSS JOIN LATERAL (
            SELECT x.entity_type, x.id FROM entities x
            WHERE x.organization_id = :organization AND x.entity_type = k.entity_type AND x.id = k.id
                AND x.owner_id = :user AND NOT x.is_deleted AND x.feed_position <= :feed_end
            FOR UPDATE
        ) e
        """
    )

    /// Locks and raises the feed's counter, which is always the last lock of a transaction.
    static let raiseFeed = Statement(
        "join_raise_feed",
        ["organization", "count"],
        """
        UPDATE feeds AS f SET last_position = f.last_position + :count WHERE f.organization_id = :organization
        RETURNING f.last_position
        """
    )

    /// Moves locked entities to the feed's end, so that devices with a later cursor receive them.
    ///
    /// - Parameter feed_end: the feed's last position after it was increased by the number of these entities.
    static let show = Statement(
        "join_show",
        ["organization", "types", "ids", "feed_end"],
        """
        UPDATE entities AS e
        SET feed_position = :feed_end - cardinality(:types::text[]) + k.place
        FROM unnest(:types::text[], :ids::text[]) WITH ORDINALITY AS k (entity_type, id, place)
        WHERE e.organization_id = :organization AND e.entity_type = k.entity_type AND e.id = k.id
        """
    )

    static let all = [
        lockOrganization, facts, related, close, open, lock, leaveLanes, followers, markMoved, finish, lockEntities,
        ownEntities, lockUnseen, raiseFeed, show,
    ]
}
