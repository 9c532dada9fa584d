import Postgres

/// The statements that lock, read and write entities.
///
/// Groups of pushes, groups of lane steps, and settling use these statements. A group consists of the jobs that a
/// committer executes in one transaction.
enum EntityStatements {
    /// Locks the entities that a group names, by server id or by a mapped client id.
    static let lockEntities = Statement("group_lock_entities", names, reading(fence: "FOR UPDATE"))

    /// Reads the entities of ``lockEntities`` without waiting for row locks.
    static let readEntities = Statement("group_look_at_entities", names, reading(fence: "OFFSET 0"))

    /// Locks the entities that pushes name, and reads their documents up to a number of bytes.
    ///
    /// Further documents are omitted.
    static let lockBounded = Statement(
        "push_lock_entities",
        names + ["bytes"],
        bounded(reading(fence: "FOR UPDATE"))
    )

    /// Reads the entities of ``lockBounded`` without waiting for row locks.
    static let readBounded = Statement(
        "push_look_at_entities",
        names + ["bytes"],
        bounded(reading(fence: "OFFSET 0"))
    )

    /// Locks the entities of ``lockBounded``, and entities that are named by a device's local id.
    ///
    /// Only groups that name local ids use this statement. It also reads `local_ids`, and each further table adds a
    /// cost for each of its partitions to the start of the plan.
    static let lockOwnEntities = Statement(
        "push_lock_own_entities",
        names + own.inputs + ["bytes"],
        bounded(reading(fence: "FOR UPDATE", namedByDevices))
    )

    /// Reads the entities of ``lockOwnEntities`` without waiting for row locks.
    static let readOwnEntities = Statement(
        "push_look_at_own_entities",
        names + own.inputs + ["bytes"],
        bounded(reading(fence: "OFFSET 0", namedByDevices))
    )

    /// Locks entities that are written, and the entities to which they refer.
    ///
    /// The documents of the entities that are only referred to are not read. All entities are locked in one order, so
    /// that two groups never wait for each other.
    static let lockRelated = Statement(
        "group_lock_related_entities",
        relatedNames + ["bytes"],
        bounded(related(fence: "FOR UPDATE"), more: ", q.is_target")
    )

    /// Reads the entities of ``lockRelated`` without waiting for row locks.
    static let readRelated = Statement(
        "group_look_at_related_entities",
        relatedNames + ["bytes"],
        bounded(related(fence: "OFFSET 0"), more: ", q.is_target")
    )

    /// Limits the bytes of documents that a statement reads. The limit is the statement's last parameter.
    ///
    /// The limit counts documents in key order, because `sql` reads them in this order, and sorting them again would
    /// slow down pushes. For an omitted document, `bytes` may be the compressed size in the table instead of the length
    /// of the text (``RowBytes``).
    private static func bounded(_ sql: String, more: String = "") -> String {
        let document = "CASE WHEN q.bytes_to - q.bytes < :bytes::int8 THEN q.document END"
        let rows = RowBytes.Rows(table: "found", columns: ["document"], limit: ":bytes::int8")
        return """
            WITH found AS MATERIALIZED (
                SELECT r.*, row_number() OVER () AS place
                FROM (
            \(sql)
                ) r
            )
            SELECT \(EntityRows.list(of: "q", document: document)), q.bytes\(more)
            FROM (
                SELECT p.*, (sum(p.bytes) OVER (ROWS UNBOUNDED PRECEDING))::int8 AS bytes_to
                FROM (
                    SELECT r.*, (\(RowBytes.of(rows, in: "r")))::int8 AS bytes
                    FROM found r
                    OFFSET 0
                ) p
            ) q
            """
    }

    private static let direct = EntityRows.keys
    private static let mapped = PushEntityRow.mapped.inputs(prefixed: "mapped_")
    private static let own = PushEntityRow.own.inputs(prefixed: "own_")
    private static let names = direct.inputs + mapped.inputs
    private static let targets = EntityRows.keys.inputs(prefixed: "target_")
    private static let mappedTargets = PushEntityRow.mapped.inputs(prefixed: "target_mapped_")
    private static let ownTargets = PushEntityRow.own.inputs(prefixed: "target_own_")
    private static let relatedNames =
        names + own.inputs + targets.inputs + mappedTargets.inputs + ownTargets.inputs

    private static let namedByDevices = """
        UNION
                SELECT n.organization_id, n.entity_type, l.server_id
                FROM \(own.unnested(as: "n"))
                CROSS JOIN LATERAL (
                    SELECT coalesce(x.server_id, x.same_as) AS server_id
                    FROM local_ids x
                    WHERE x.organization_id = n.organization_id AND x.user_id = n.user_id
                        AND x.device_id = n.device_id AND x.entity_type = n.entity_type AND x.local_id = n.local_id
                    OFFSET 0
                ) l
                WHERE l.server_id IS NOT NULL
        """

    private static func reading(fence: String, _ more: String = "") -> String {
        """
        SELECT e.*
        FROM (
            SELECT d.organization_id, d.entity_type, d.id
            FROM \(direct.unnested(as: "d"))
            UNION
            SELECT c.organization_id, c.entity_type, i.server_id
            FROM \(mapped.unnested(as: "c"))
            CROSS JOIN LATERAL (
                SELECT x.server_id FROM id_mappings x
                WHERE x.organization_id = c.organization_id AND x.user_id = c.user_id AND x.client_id = c.client_id
                    AND x.entity_type = c.entity_type AND x.server_id IS NOT NULL
                OFFSET 0
            ) i
            \(more)
            ORDER BY 1, 2, 3
        ) k
        CROSS JOIN LATERAL (
            SELECT \(EntityRows.list(of: "x"))
            FROM entities x
            WHERE x.organization_id = k.organization_id AND x.entity_type = k.entity_type AND x.id = k.id
            \(fence)
        ) e
        """
    }

    private static func related(fence: String) -> String {
        """
        SELECT e.*, k.is_target
        FROM (
            SELECT n.organization_id, n.entity_type, n.id, bool_and(n.is_target) AS is_target
            FROM (
                \(keys(direct, mapped, own, areTargets: false))
                UNION ALL
                \(keys(targets, mappedTargets, ownTargets, areTargets: true))
            ) n
            GROUP BY n.organization_id, n.entity_type, n.id
            ORDER BY 1, 2, 3
        ) k
        CROSS JOIN LATERAL (
            SELECT \(EntityRows.list(of: "x", document: "CASE WHEN NOT k.is_target THEN x.document END"))
            FROM entities x
            WHERE x.organization_id = k.organization_id AND x.entity_type = k.entity_type AND x.id = k.id
            \(fence)
        ) e
        """
    }

    /// SQL for the keys of entities that are named by server ids, client ids and local ids.
    private static func keys(
        _ direct: Columns<EntityRows.Key>,
        _ mapped: Columns<PushEntityRow>,
        _ own: Columns<PushEntityRow>,
        areTargets: Bool
    ) -> String {
        """
        SELECT d.organization_id, d.entity_type, d.id, \(areTargets) AS is_target
                FROM \(direct.unnested(as: "d"))
                UNION ALL
                SELECT c.organization_id, c.entity_type, i.server_id, \(areTargets)
                FROM \(mapped.unnested(as: "c"))
                CROSS JOIN LATERAL (
                    SELECT x.server_id FROM id_mappings x
                    WHERE x.organization_id = c.organization_id AND x.user_id = c.user_id AND x.client_id = c.client_id
                        AND x.entity_type = c.entity_type AND x.server_id IS NOT NULL
                    OFFSET 0
                ) i
                UNION ALL
                SELECT o.organization_id, o.entity_type, l.server_id, \(areTargets)
                FROM \(own.unnested(as: "o"))
                CROSS JOIN LATERAL (
                    SELECT coalesce(x.server_id, x.same_as) AS server_id
                    FROM local_ids x
                    WHERE x.organization_id = o.organization_id AND x.user_id = o.user_id
                        AND x.device_id = o.device_id AND x.entity_type = o.entity_type AND x.local_id = o.local_id
                    OFFSET 0
                ) l
                WHERE l.server_id IS NOT NULL
        """
    }

    /// Raises the feeds' counters.
    ///
    /// The rows remain locked until the commit. Therefore positions are in commit order. The statement uses the
    /// parameter for the epoch only if a feed's row is missing, which does not occur.
    static let raiseFeeds = Statement(
        "group_raise_feeds",
        EntityRows.raises.inputs,
        """
        INSERT INTO feeds AS f (organization_id, last_position, epoch)
        SELECT k.organization_id, k.writes, 1
        FROM \(EntityRows.raises.unnested(as: "k"))
        ON CONFLICT (organization_id) DO UPDATE SET last_position = f.last_position + excluded.last_position
        RETURNING f.organization_id, f.epoch, f.last_position
        """
    )

    /// Inserts new entities.
    ///
    /// The entities get the last positions of the raised feed, in the order of execution. If another replica inserts an
    /// entity with the same id after the group has read the entities, the primary key is violated, and the group is
    /// planned again.
    static let makeEntities = Statement(
        "group_make_entities",
        EntityRow.columns.inputs + ["now"],
        """
        INSERT INTO entities AS e (\(entityColumns))
        \(entityRows)
        """
    )

    /// Writes existing, locked entities.
    ///
    /// The statement is an upsert, because an upsert finds rows by key, independent of the tables' size.
    static let changeEntities = Statement(
        "group_change_entities",
        EntityRow.columns.inputs + ["now"],
        """
        INSERT INTO entities AS e (\(entityColumns))
        \(entityRows)
        ON CONFLICT (organization_id, entity_type, id) DO UPDATE
        SET version = excluded.version, is_deleted = excluded.is_deleted, document = excluded.document,
            feed_position = excluded.feed_position, updated_by = excluded.updated_by, updated_on = excluded.updated_on,
            run_base = excluded.run_base, updated_at = excluded.updated_at, etag = excluded.etag,
            owner_id = excluded.owner_id
        """
    )

    /// Inserts new entities with their channels. Apart from the channels, the statement is equal to ``makeEntities``.
    static let makeEntitiesInChannels = Statement(
        "group_make_entities_in_channels",
        EntityRow.inChannels.inputs + ["now"],
        """
        INSERT INTO entities AS e (\(entityColumns), channels)
        \(entityRowsInChannels)
        """
    )

    static let changeEntitiesInChannels = Statement(
        "group_change_entities_in_channels",
        EntityRow.inChannels.inputs + ["now"],
        """
        INSERT INTO entities AS e (\(entityColumns), channels)
        \(entityRowsInChannels)
        ON CONFLICT (organization_id, entity_type, id) DO UPDATE
        SET version = excluded.version, is_deleted = excluded.is_deleted, document = excluded.document,
            feed_position = excluded.feed_position, updated_by = excluded.updated_by, updated_on = excluded.updated_on,
            run_base = excluded.run_base, updated_at = excluded.updated_at, etag = excluded.etag,
            owner_id = excluded.owner_id, channels = excluded.channels
        """
    )

    private static let entityColumns = """
        organization_id, entity_type, id, id_is_integer, version, is_deleted, document, feed_position, owner_id,
            client_id, updated_by, updated_on, run_base, created_at, updated_at, etag
        """

    private static let entityRows = """
        SELECT k.organization_id, k.entity_type, k.id, k.id_is_integer, k.version, k.is_deleted, k.document,
            (SELECT f.last_position FROM feeds f WHERE f.organization_id = k.organization_id) - k.before_end, k.owner_id,
            k.client_id, k.updated_by, k.updated_on, k.run_base, :now,
            :now, k.etag
        FROM \(EntityRow.columns.unnested(as: "k"))
        """

    private static let entityRowsInChannels = """
        SELECT k.organization_id, k.entity_type, k.id, k.id_is_integer, k.version, k.is_deleted, k.document,
            (SELECT f.last_position FROM feeds f WHERE f.organization_id = k.organization_id) - k.before_end, k.owner_id,
            k.client_id, k.updated_by, k.updated_on, k.run_base, :now,
            :now, k.etag, k.channels::uuid[]
        FROM \(EntityRow.inChannels.unnested(as: "k"))
        """

    static let all = [
        lockEntities, readEntities, lockBounded, readBounded, lockOwnEntities, readOwnEntities, lockRelated,
        readRelated, raiseFeeds, makeEntities, changeEntities, makeEntitiesInChannels, changeEntitiesInChannels,
    ]
}

/// SQL that reads an organization's entities in the order of the feed.
package enum FeedOrder {
    /// Returns a query for the first entities in the order of the feed, in parentheses.
    ///
    /// One index by position contains the entities in channels, and another index contains all other entities. With
    /// separate indexes, a query for only one of these kinds does not scan the other kind. This query reads both kinds.
    /// Its two parts use one index each, and have a limit each, so that every plan merges two short scans.
    ///
    /// - Parameters:
    ///   - columns: columns of an entity `e`. They must include `e.feed_position`.
    ///   - condition: a condition on `e` that bounds `e.organization_id` and `e.feed_position`.
    ///   - limit: an SQL expression.
    ///   - isDescending: whether the latest change comes first.
    package static func entities(
        _ columns: String,
        where condition: String,
        limit: String,
        isDescending: Bool = false
    ) -> String {
        let order = "e.feed_position\(isDescending ? " DESC" : "")"
        func part(_ isInChannels: String) -> String {
            """
            (SELECT \(columns) FROM entities e
             WHERE e.channels IS \(isInChannels) AND \(condition)
             ORDER BY \(order) LIMIT \(limit))
            """
        }
        return """
            (SELECT * FROM (
                \(part("NULL"))
                UNION ALL
                \(part("NOT NULL"))
            ) e
            ORDER BY \(order) LIMIT \(limit))
            """
    }
}
