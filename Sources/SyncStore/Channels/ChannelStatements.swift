package import Postgres
import SyncModel

/// The statements on stays and grants. A stay is the time that an entity spends in a channel.
///
/// The writing statements run after the feed is raised, because the feed's counter determines the positions that they
/// write. Grants begin and end at the last position of their transaction, and stays begin there. Therefore a grant and
/// a stay overlap only if a user could see the entity after a commit.
package enum ChannelStatements {
    private static let (stays, sources, grants) = (StayRow.columns, GrantSourceRow.columns, GrantRow.columns)

    /// The position of a write in this transaction.
    private static func position(_ row: String) -> String { "\(last(row)) - \(row).before_end" }

    /// The last position of this transaction.
    private static func last(_ row: String) -> String {
        "(SELECT f.last_position FROM feeds f WHERE f.organization_id = \(row).organization_id)"
    }

    /// SQL for the end of the feed of `:organization`, after ``raiseFeed``.
    package static let feedEnd = "(SELECT f.last_position FROM feeds f WHERE f.organization_id = :organization)"

    /// Raises a feed by one position, for a change of grants. The statement also locks the feed until the commit.
    package static let raiseFeed = Statement(
        "channels_raise_feed",
        ["organization"],
        "UPDATE feeds AS f SET last_position = f.last_position + 1 WHERE f.organization_id = :organization"
    )

    /// SQL for whether the user `:user` of `:organization` holds one of the channels in an array.
    static func holdsOne(of channels: String) -> String {
        """
        (\(ownChannel(of: ":user::uuid")) = ANY (\(channels)) OR EXISTS (
            SELECT FROM channel_grants h
            WHERE h.organization_id = :organization AND h.user_id = :user AND h.channel = ANY (\(channels))
                AND h.until IS NULL))
        """
    }

    /// SQL for the channel that a user holds without a grant.
    static func ownChannel(of user: String) -> String {
        "encode(substring(sha256(convert_to('user/' || \(user), 'UTF8')) FOR 16), 'hex')::uuid"
    }

    // MARK: - Stays

    /// Updates the channel rows of written entities, for each channel in which an entity remains. The row gets the
    /// position of the entity's new version.
    static let moveStays = Statement(
        "channels_move_stays",
        stays.inputs,
        """
        UPDATE entity_channels AS s
        SET changed_at = \(position("k"))
        FROM \(stays.unnested(as: "k"))
        WHERE s.organization_id = k.organization_id AND s.channel = k.channel AND s.changed_at = k.changed_at
        """
    )

    static let beginStays = Statement(
        "channels_begin_stays",
        stays.inputs,
        """
        INSERT INTO entity_channels AS s (organization_id, channel, changed_at, joined_at)
        SELECT k.organization_id, k.channel, \(position("k")), \(last("k"))
        FROM \(stays.unnested(as: "k"))
        """
    )

    /// Records the channels that entities leave.
    ///
    /// If an entity was visible without channels, it has no stay to read, and 0 is recorded as the stay's beginning.
    static let recordEnds = Statement(
        "channels_record_ends",
        stays.inputs,
        """
        INSERT INTO ended_stays AS e (organization_id, channel, left_at, joined_at, entity_type, id, id_is_integer)
        SELECT k.organization_id, k.channel, \(position("k")), coalesce((
                SELECT s.joined_at FROM entity_channels s
                WHERE s.organization_id = k.organization_id AND s.channel = k.channel AND s.changed_at = k.changed_at), 0),
            k.entity_type, k.id, k.id_is_integer
        FROM \(stays.unnested(as: "k"))
        """
    )

    static let endStays = Statement(
        "channels_end_stays",
        stays.inputs,
        """
        DELETE FROM entity_channels AS s
        USING \(stays.unnested(as: "k"))
        WHERE s.organization_id = k.organization_id AND s.channel = k.channel AND s.changed_at = k.changed_at
        """
    )

    /// Updates the channel rows of locked entities that move to the feed's end without being written.
    ///
    /// The statement must run before the positions of these entities change.
    package static let follow = Statement(
        "channels_follow",
        ["organization", "types", "ids", "feed_end"],
        """
        UPDATE entity_channels AS s
        SET changed_at = :feed_end - cardinality(:types::text[]) + e.place
        FROM (
            SELECT k.place, x.channels, x.feed_position
            FROM unnest(:types::text[], :ids::text[]) WITH ORDINALITY AS k (entity_type, id, place)
            CROSS JOIN LATERAL (
                SELECT y.channels, y.feed_position FROM entities y
                WHERE y.organization_id = :organization AND y.entity_type = k.entity_type AND y.id = k.id
                    AND y.channels IS NOT NULL
                OFFSET 0
            ) x
        ) e
        WHERE s.organization_id = :organization AND s.channel = ANY (e.channels) AND s.changed_at = e.feed_position
        """
    )

    // MARK: - Grants

    /// SQL for the holder of a grant.
    ///
    /// If the user of a grant was joined into another user, the holder is that other user. For a subject without an id,
    /// the holder is the id that the subject will get.
    private static func holder(_ row: String) -> String {
        let id = Identities.id(salt: "z.salt", issuer: "\(row).issuer", subject: "\(row).subject")
        return """
            SELECT coalesce((
                SELECT j.into_id FROM user_joins j
                WHERE j.organization_id = \(row).organization_id AND j.user_id = i.user_id
                    AND j.closed_until IS NULL), i.user_id) AS user_id
            FROM (
                SELECT coalesce(\(row).user_id, (
                    SELECT s.user_id FROM user_subjects s
                    WHERE s.organization_id = \(row).organization_id AND s.issuer = \(row).issuer
                        AND s.subject = \(row).subject), (
                    SELECT \(id)
                    FROM erasure_salts z WHERE z.organization_id = \(row).organization_id)) AS user_id
                OFFSET 0
            ) i
            OFFSET 0
            """
    }

    /// SQL for whether the holder of a grant is an erased user.
    private static func isErased(_ row: String, holder: String) -> String {
        let hash = ErasedUsers.subjectHash(salt: "z.salt", issuer: "\(row).issuer", subject: "\(row).subject")
        return """
            (\(ErasedUsers.isErased("\(row).organization_id", "\(holder).user_id"))
                OR \(row).subject IS NOT NULL AND EXISTS (
                    SELECT FROM erased_subjects d
                    WHERE d.organization_id = \(row).organization_id AND d.subject_hash = (
                        SELECT \(hash) FROM erasure_salts z WHERE z.organization_id = \(row).organization_id)))
            """
    }

    /// Reads the user who holds the grants, for each given user or subject to whom entities grant channels. Erased
    /// users hold no grants.
    static let holders = Statement(
        "channels_holders",
        HolderRow.columns.inputs,
        """
        SELECT k.user_id, k.issuer, k.subject, u.user_id AS holder_id
        FROM \(HolderRow.columns.unnested(as: "k"))
        CROSS JOIN LATERAL (\(holder("k"))) u
        WHERE u.user_id IS NOT NULL AND NOT \(isErased("k", holder: "u"))
        """
    )

    /// Ends the grants that entities no longer make.
    ///
    /// PostgreSQL makes a hash table from the subquery of `NOT IN`. Therefore each present grant needs one look-up.
    static let endGrants = Statement(
        "channels_end_grants",
        sources.inputs + grants.inputs,
        """
        UPDATE channel_grants AS g
        SET until = \(last("e")), changed_at = \(last("e"))
        FROM (
            SELECT x.organization_id, x.user_id, x.channel, x.source, x.since
            FROM \(sources.unnested(as: "k"))
            CROSS JOIN LATERAL (
                SELECT * FROM channel_grants y
                WHERE y.organization_id = k.organization_id AND y.source = k.source AND y.until IS NULL
                OFFSET 0
            ) x
            WHERE (x.organization_id, x.source, x.channel, x.role, x.user_id) NOT IN (
                SELECT n.organization_id, n.source, n.channel, n.role, w.user_id
                FROM \(grants.unnested(as: "n"))
                CROSS JOIN LATERAL (\(holder("n"))) w
                WHERE w.user_id IS NOT NULL)
            OFFSET 0
        ) e
        WHERE g.organization_id = e.organization_id AND g.user_id = e.user_id AND g.channel = e.channel
            AND g.source = e.source AND g.since = e.since
        """
    )

    /// Begins the grants that entities make, except grants that already exist, and grants to erased users.
    ///
    /// If a user already holds the maximum number of channels, the user gets no further channels. The channels of each
    /// user are counted once.
    ///
    /// Each grant is looked up by a subquery that returns a value. `NOT EXISTS` would be planned as a join, which on
    /// small tables reads all present grants for each row.
    static let beginGrants = Statement(
        "channels_begin_grants",
        grants.inputs,
        """
        INSERT INTO channel_grants AS g (
            organization_id, user_id, channel, source, since, name, role, changed_at)
        SELECT k.organization_id, u.user_id, k.channel, k.source, p.position, max(k.name), max(k.role), p.position
        FROM \(grants.unnested(as: "k"))
        CROSS JOIN LATERAL (\(holder("k"))) u
        CROSS JOIN LATERAL (SELECT \(last("k")) AS position) p
        WHERE (
                SELECT true FROM channel_grants x
                WHERE x.organization_id = k.organization_id AND x.user_id = u.user_id AND x.channel = k.channel
                    AND x.source = k.source AND x.until IS NULL LIMIT 1) IS NULL
            AND u.user_id IS NOT NULL
            AND NOT \(isErased("k", holder: "u"))
            AND (k.organization_id, u.user_id) NOT IN (
                SELECT h.organization_id, h.user_id
                FROM (
                    SELECT DISTINCT n.organization_id, w.user_id FROM \(grants.unnested(as: "n"))
                    CROSS JOIN LATERAL (\(holder("n"))) w
                    WHERE w.user_id IS NOT NULL
                ) h
                WHERE (SELECT count(*) FROM (
                        SELECT FROM channel_grants y
                        WHERE y.organization_id = h.organization_id AND y.user_id = h.user_id AND \(lasts("y"))
                        LIMIT \(ChannelName.limitOfUser)) z) >= \(ChannelName.limitOfUser))
        -- if one source makes several grants, max(k.role) is 'write' if any of them is 'write'
        GROUP BY 1, 2, 3, 4, 5
        ON CONFLICT (organization_id, user_id, channel, source, since) DO UPDATE
        SET role = excluded.role, until = NULL
        """
    )

    /// Ends all grants of entities that were deleted neither by a push nor by an event.
    package static let endGrantsOfDeleted = Statement(
        "channels_end_grants_of_deleted",
        ["organization", "sources", "feed_end"],
        """
        UPDATE channel_grants AS g
        SET until = :feed_end, changed_at = :feed_end
        WHERE g.organization_id = :organization AND g.source = ANY (:sources::text[]) AND g.until IS NULL
        """
    )

    // MARK: - Reading

    /// Reads the channels that users hold now, without each user's own channel.
    static let access = Statement("channels_access", Columns.lanes.inputs, accessText(of: Columns.lanes))

    /// Reads the same grants as ``access``, but for each user at most one more than ``ChannelAccess/mostTogether``.
    static let accessOfFew = Statement(
        "channels_access_of_few",
        Columns.lanes.inputs,
        accessText(of: Columns.lanes, "LIMIT \(ChannelAccess.mostTogether + 1)")
    )

    /// Reads which of the given channels the users hold.
    static let accessTo = Statement(
        "channels_access_to",
        UserChannelRow.columns.inputs,
        accessText(of: UserChannelRow.columns, where: "x.channel = k.channel AND x.until IS NULL")
    )

    /// SQL for the present grants of users.
    ///
    /// - Parameter condition: the condition on a grant `x`. The default is written in a way that matches no partial
    ///   index. With a partial index, a plan that was made on small tables would read all present grants of an
    ///   organization in another order. For a condition with a channel, the partial index of the present grants is the
    ///   best.
    private static func accessText<Row>(
        of columns: Columns<Row>,
        where condition: String = lasts("x"),
        _ limit: String = "OFFSET 0"
    ) -> String {
        """
        SELECT g.organization_id, g.user_id, g.channel, g.role, g.source
        FROM \(columns.unnested(as: "k"))
        CROSS JOIN LATERAL (
            SELECT * FROM channel_grants x
            WHERE x.organization_id = k.organization_id AND x.user_id = k.user_id AND \(condition)
            \(limit)
        ) g
        """
    }

    /// SQL for whether a grant has not ended, for reads by user.
    private static func lasts(_ row: String) -> String { "coalesce(\(row).until, 0) = 0" }

    /// Reads the subjects by which documents may name users. Includes the subjects of users who were joined into these
    /// users.
    static let subjects = Statement(
        "channels_subjects",
        Columns.lanes.inputs,
        """
        SELECT k.organization_id, k.user_id, s.issuer, s.subject
        FROM \(Columns.lanes.unnested(as: "k"))
        CROSS JOIN LATERAL (
            (SELECT x.issuer, x.subject FROM user_subjects x
             WHERE x.organization_id = k.organization_id AND x.user_id = k.user_id LIMIT 1000)
            UNION ALL
            (SELECT y.issuer, y.subject FROM user_joins j
             CROSS JOIN LATERAL (
                SELECT z.issuer, z.subject FROM user_subjects z
                WHERE z.organization_id = j.organization_id AND z.user_id = j.user_id
                OFFSET 0
             ) y
             WHERE j.organization_id = k.organization_id AND j.into_id = k.user_id AND j.closed_until IS NULL LIMIT 1000)
        ) s
        """
    )

    /// Reads the grants of a user at one position of the feed, including grants that have ended.
    static let history = Statement(
        "channels_history",
        ["organization", "user"],
        """
        SELECT f.epoch, f.last_position, g.channel, g.role, g.since, g.until, g.is_of_joined_user
        FROM feeds f
        LEFT JOIN LATERAL (
            SELECT x.channel, x.role, x.since, x.until, x.source LIKE 'user %' AS is_of_joined_user
            FROM channel_grants x
            WHERE x.organization_id = :organization AND x.user_id = :user
            OFFSET 0
        ) g ON true
        WHERE f.organization_id = :organization
        """
    )

    // MARK: - Evaluations

    /// Starts a bulk operation that evaluates the entities of a type.
    ///
    /// The new operation replaces a running operation for the same type. It begins once all gateways use the type's new
    /// settings.
    package static let startEvaluation = Statement(
        "channels_start_evaluation",
        ["organization", "type", "actor", "now", "due_at"],
        """
        WITH replaced AS (
            UPDATE operations AS o
            SET state = 'cancelled', due_at = NULL, lease_owner = NULL, ended_at = :now, changed_at = :now
            WHERE o.organization_id = :organization AND o.kind = 'evaluate' AND o.entity_type = :type AND o.state = 'running'
        ), counted AS (
            SELECT count(*) AS count FROM (
                SELECT FROM entities e
                WHERE e.organization_id = :organization AND e.entity_type = :type AND NOT e.is_deleted LIMIT \(BoundedCount.limit + 1)) x
        )
        INSERT INTO operations AS o (
            organization_id, id, kind, statuses, entity_type, reason, actor, per_second, state, due_at, created_at,
            changed_at, total, total_is_more)
        SELECT :organization::uuid, gen_random_uuid(), 'evaluate', '{}', :type::text, 'the settings of its channels have changed',
            :actor::text, 1000, 'running', :due_at, :now, :now, least(c.count, \(BoundedCount.limit)), c.count > \(BoundedCount.limit)
        FROM counted c
        """
    )

    /// Reads whether the last evaluation of a type has processed all entities.
    package static let lastEvaluation = Statement(
        "channels_last_evaluation",
        ["organization", "type"],
        """
        SELECT o.state = 'done' AS is_done FROM operations o
        WHERE o.organization_id = :organization AND o.kind = 'evaluate' AND o.entity_type = :type
        ORDER BY o.created_at DESC, o.id DESC LIMIT 1
        """
    )

    static let all = [
        raiseFeed, moveStays, beginStays, recordEnds, endStays, follow, endGrants, beginGrants, endGrantsOfDeleted,
        holders, access, accessOfFew, accessTo, subjects, history, startEvaluation, lastEvaluation,
    ]
}
