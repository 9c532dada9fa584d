import Postgres

/// The statements of ``ChannelFeedReader``: two ways to find the same rows.
enum ChannelFeedStatements {
    /// Reads the rows of each channel, and the entities that are visible without channels, in the order of positions.
    ///
    /// The statement reads a few rows of each channel. If a channel may have more rows, the position of its last read
    /// row is a bound. The page ends at the lowest bound, because all rows up to there are known. If several rows are
    /// about one entity, only the first of them has the document.
    static let merge = statement(
        "changes_page_of_channels",
        bounds: """
            SELECT (
                SELECT y.changed_at FROM entity_channels y
                WHERE y.organization_id = :organization AND y.channel = k.channel AND y.changed_at > :after
                    AND y.changed_at <= :up_to
                ORDER BY y.changed_at OFFSET :room::int8 - 1 LIMIT 1) AS position
            FROM unnest(:channels::uuid[]) AS k (channel)
            UNION ALL
            SELECT (
                SELECT y.left_at FROM ended_stays y
                WHERE y.organization_id = :organization AND y.channel = k.channel AND y.left_at > :ended_after
                ORDER BY y.left_at OFFSET :room::int8 - 1 LIMIT 1)
            FROM unnest(:channels::uuid[]) AS k (channel)
            """,
        stays: """
            SELECT x.position, k.channel, x.joined_at
            FROM unnest(:channels::uuid[]) AS k (channel)
            CROSS JOIN LATERAL (
                SELECT y.changed_at AS position, y.joined_at FROM entity_channels y
                WHERE y.organization_id = :organization AND y.channel = k.channel AND y.changed_at > :after
                    AND y.changed_at <= :up_to
                ORDER BY y.changed_at LIMIT :room
            ) x
            """,
        ends: """
            SELECT x.position, k.channel, x.joined_at, x.entity_type, x.id, x.id_is_integer
            FROM unnest(:channels::uuid[]) AS k (channel)
            CROSS JOIN LATERAL (
                SELECT y.left_at AS position, y.joined_at, y.entity_type, y.id, y.id_is_integer FROM ended_stays y
                WHERE y.organization_id = :organization AND y.channel = k.channel AND y.left_at > :ended_after
                ORDER BY y.left_at LIMIT :room
            ) x
            """
    )

    /// Reads the same rows as ``merge`` from all changes after a position.
    ///
    /// The statement is used for a user of many channels, if there are few changes after the cursor. The channels are
    /// compared by an expression, `(x IN (SELECT …)) IS TRUE`. PostgreSQL evaluates the subquery with a hash table,
    /// even if hash joins are disabled.
    static let scan = statement(
        "changes_scan_of_channels",
        bounds: """
            SELECT (
                SELECT y.feed_position FROM entities y
                WHERE y.organization_id = :organization AND y.channels IS NOT NULL
                    AND y.feed_position > :after AND y.feed_position <= :up_to
                ORDER BY y.feed_position OFFSET :room::int8 - 1 LIMIT 1) AS position
            UNION ALL
            SELECT (
                SELECT y.left_at FROM ended_stays y
                WHERE y.organization_id = :organization AND y.left_at + 0 > :ended_after
                ORDER BY y.left_at + 0 OFFSET :room::int8 - 1 LIMIT 1)
            """,
        stays: """
            SELECT y.feed_position AS position, z.channel, z.joined_at
            FROM entities y
            CROSS JOIN LATERAL unnest(y.channels) AS u (channel)
            CROSS JOIN LATERAL (
                SELECT v.channel, v.joined_at FROM entity_channels v
                WHERE v.organization_id = :organization AND v.channel = u.channel AND v.changed_at = y.feed_position
                OFFSET 0
            ) z
            WHERE y.organization_id = :organization AND y.feed_position > :after
                AND y.feed_position <= coalesce(b.bound, :up_to) AND y.channels IS NOT NULL
                AND (u.channel IN (SELECT k.channel FROM unnest(:channels::uuid[]) AS k (channel))) IS TRUE
            """,
        ends: """
            SELECT y.left_at AS position, y.channel, y.joined_at, y.entity_type, y.id, y.id_is_integer
            FROM ended_stays y
            WHERE y.organization_id = :organization AND y.left_at + 0 > :ended_after
                AND y.left_at + 0 <= coalesce(b.bound, :up_to)
                AND (y.channel IN (SELECT k.channel FROM unnest(:channels::uuid[]) AS k (channel))) IS TRUE
            """
    )

    private static func statement(_ name: String, bounds: String, stays: String, ends: String) -> Statement {
        Statement(name, inputs, sql(bounds: bounds, entities: entities(positions(stays: stays, ends: ends))))
    }

    private static let inputs = [
        "organization", "owner", "as_of", "channels", "after", "up_to", "ended_after", "scan", "entity_types", "room",
        "limit", "bytes", "is_loss",
    ]

    private static let past = RowBytes.stop(
        when: "v.bytes_to > :bytes",
        by: "v.position, v.is_ended, v.channel",
        includesExceeding: true
    )

    /// - Parameters:
    ///   - bounds: the position of the last row that was read, for each list that may have more rows.
    ///   - entities: the rows of the page with their entities.
    private static func sql(bounds: String, entities: String) -> String {
        """
        SELECT f.epoch, f.horizon, f.last_position, g.is_stale, b.bound, q.position, q.is_cut, q.is_asked, q.channel,
            q.joined_at, q.is_ended, q.is_stored, q.channels, q.is_seen_without, q.is_gone, q.entity_type, q.server_id,
            q.server_id_is_integer, q.client_id, q.version, q.is_deleted, q.document, q.updated_at, q.updated_by, q.etag
        FROM feeds f
        CROSS JOIN LATERAL (
            SELECT EXISTS (
                SELECT FROM channel_grants x
                WHERE x.organization_id = :organization AND x.user_id = :owner AND x.changed_at > :as_of) AS is_stale
        ) g
        CROSS JOIN LATERAL (
            SELECT array_agg(v.name) FILTER (WHERE v.visibility = 'user') AS private,
                array_agg(v.name) FILTER (WHERE v.visibility = 'channels') AS in_channels
            FROM entity_types v WHERE v.organization_id = :organization
        ) t
        LEFT JOIN LATERAL (
            -- each list that may have more rows was read up to some position; the lowest of these positions is the
            -- bound
            SELECT min(c.position) AS bound
            FROM (
                \(bounds)
                UNION ALL
                SELECT (
                    SELECT y.feed_position FROM entities y
                    WHERE y.organization_id = :organization AND y.channels IS NULL AND y.feed_position > :after
                    ORDER BY y.feed_position OFFSET greatest(:scan::int8 - 1, 0) LIMIT 1)
                WHERE :scan::int8 > 0
            ) c
        ) b ON NOT g.is_stale
        LEFT JOIN LATERAL (
            SELECT p.*, p.bytes_to > :bytes OR p.place = :limit AS is_cut
            FROM (
                SELECT v.*, \(past) AS past
                FROM (
                    -- only the first row of a position has the document; therefore a page may end after this row
                    SELECT r.*, sum(\(RowBytes.of("r.document"))) OVER w AS bytes_to
                    FROM (
                        \(entities)
                    ) r
                    WINDOW w AS (ORDER BY r.position, r.is_ended, r.channel ROWS UNBOUNDED PRECEDING)
                ) v
            ) p
            WHERE p.past < 1
        ) q ON NOT g.is_stale
        WHERE f.organization_id = :organization
        ORDER BY q.position, q.is_ended, q.channel
        """
    }

    /// SQL that finds the entities at some positions, in the state that the user sees.
    ///
    /// Rows of different kinds are found by different indexes. Each kind has its own join, because one join that
    /// contains all kinds executes the nodes of each kind for each row.
    private static func entities(_ positions: String) -> String {
        """
        WITH d AS MATERIALIZED (
            SELECT p.*
            FROM (
                \(positions)
            ) p
            WHERE p.place <= :limit
        )
        \(entities(where: "d.channel IS NULL", by: "z.feed_position = d.position AND z.channels IS NULL"))
        UNION ALL
        \(entities(
            where: "d.channel IS NOT NULL AND NOT d.is_ended",
            by: "z.feed_position = d.position AND z.channels IS NOT NULL"
        ))
        UNION ALL
        \(entities(where: "d.is_ended", by: "z.entity_type = d.entity_type AND z.id = d.id"))
        """
    }

    private static func entities(where condition: String, by key: String) -> String {
        """
        SELECT d.position, d.place, d.channel, d.joined_at, d.is_ended, e.id IS NOT NULL AS is_stored,
            CASE WHEN d.is_ended OR :is_loss THEN e.channels END AS channels,
            coalesce(e.channels IS NULL AND e.entity_type <> ALL (coalesce(t.in_channels, '{}'))
                AND (e.owner_id = :owner OR e.entity_type <> ALL (coalesce(t.private, '{}'))), false)
                AS is_seen_without,
            coalesce(e.is_deleted, true) AS is_gone, coalesce(e.entity_type, d.entity_type) AS entity_type,
            coalesce(e.id, d.id) AS server_id, coalesce(e.id_is_integer, d.id_is_integer) AS server_id_is_integer,
            CASE WHEN e.owner_id = :owner THEN e.client_id END AS client_id, e.version, e.is_deleted,
            CASE WHEN NOT d.is_ended AND w.is_asked THEN e.document END AS document, e.updated_at, e.updated_by,
            e.etag, w.is_asked
        FROM d
        -- OFFSET prevents a plan, made on a small table, that joins all entities
        LEFT JOIN LATERAL (
            SELECT z.* FROM entities z
            WHERE z.organization_id = :organization AND \(key)
            OFFSET 0
        ) e ON true
        CROSS JOIN LATERAL (
            SELECT cardinality(:entity_types::text[]) = 0
                OR coalesce(e.entity_type, d.entity_type) = ANY (:entity_types) AS is_asked
        ) w
        WHERE \(condition)
        """
    }

    /// - Parameters:
    ///   - stays: the columns position, channel and start of stays that have not ended.
    ///   - ends: the columns position, channel, start and entity of ended stays.
    private static func positions(stays: String, ends: String) -> String {
        """
        SELECT s.*, dense_rank() OVER (ORDER BY s.position) AS place
        FROM (
            -- if an entity is in several of the user's channels, the row of one channel suffices
            (SELECT DISTINCT ON (i.position) i.position, i.channel, i.joined_at, false AS is_ended,
                NULL::text AS entity_type, NULL::text AS id, NULL::bool AS id_is_integer
             FROM (
                \(stays)
             ) i
             ORDER BY i.position, i.channel)
            UNION ALL
            SELECT i.position, i.channel, i.joined_at, true, i.entity_type, i.id, i.id_is_integer
            FROM (
                \(ends)
            ) i
            UNION ALL
            SELECT x.feed_position, NULL, NULL, false, NULL, NULL, NULL
            FROM (
                SELECT y.feed_position, y.entity_type, y.owner_id FROM entities y
                WHERE y.organization_id = :organization AND y.channels IS NULL
                    AND y.feed_position > :after
                ORDER BY y.feed_position LIMIT :scan
            ) x
            WHERE x.entity_type <> ALL (coalesce(t.in_channels, '{}'))
                AND (x.owner_id = :owner OR x.entity_type <> ALL (coalesce(t.private, '{}')))
        ) s
        WHERE b.bound IS NULL OR s.position <= b.bound
        """
    }

    static let all = [merge, scan]
}
