-- pull_numbers
-- Reads the local ids (numbers) by which the device identifies some entities.
-- $1 organization, $2 user, $3 device, $4 entity_types, $5 firsts, $6 lasts, $7 ids
SELECT array_agg(x.place) AS places, array_agg(x.local_id) AS local_ids
FROM unnest($4::text[], $5::int4[], $6::int4[]) AS k (entity_type, first, last)
CROSS JOIN LATERAL (
    SELECT e.place + k.first - 2 AS place, y.local_id
    FROM unnest(($7::text[])[k.first : k.last]) WITH ORDINALITY AS e (server_id, place)
    -- each id has its own look-up: PostgreSQL keeps the plan, and with `= ANY` a plan that was made on a small
    -- table would always read all ids of the device
    CROSS JOIN LATERAL (SELECT s.* FROM (
            SELECT z.* FROM local_ids z
            WHERE z.organization_id = $1 AND z.server_id IS NOT NULL
                AND (z.user_id, z.device_id, z.entity_type, z.server_id) >= ($2, $3, k.entity_type, e.server_id)
            ORDER BY z.user_id, z.device_id, z.entity_type, z.server_id
            LIMIT 1
        ) s
        WHERE s.user_id = $2 AND s.device_id = $3 AND s.entity_type = k.entity_type
            AND s.server_id = e.server_id
        OFFSET 0)
        y
    OFFSET 0
) x;

-- pull_all_numbers
-- Reads all local ids of a device, by type.
-- $1 organization, $2 user, $3 device, $4 limit
SELECT x.entity_type, array_agg(x.server_id::text) AS server_ids, array_agg(x.local_id) AS local_ids
FROM (
    SELECT y.entity_type, y.server_id, y.local_id
    FROM local_ids y
    WHERE y.organization_id = $1 AND y.user_id = $2 AND y.device_id = $3 AND y.server_id IS NOT NULL
    LIMIT $4
) x
GROUP BY x.entity_type;

-- pull_taken
-- Reads, for each type, the highest local id in use, and the first local ids in use from a base on.
-- $1 organization, $2 user, $3 device, $4 entity_types, $5 bases, $6 counts
SELECT k.entity_type, h.highest, ARRAY(
    SELECT y.local_id
    FROM local_ids y
    WHERE y.organization_id = $1 AND y.user_id = $2 AND y.device_id = $3 AND y.entity_type = k.entity_type
        AND y.local_id >= k.base
    ORDER BY y.local_id
    LIMIT k.count
) AS taken
FROM unnest($4::text[], $5::int8[], $6::int8[]) AS k (entity_type, base, count)
CROSS JOIN LATERAL (
    SELECT (
        SELECT z.local_id FROM local_ids z
        WHERE z.organization_id = $1 AND z.user_id = $2 AND z.device_id = $3 AND z.entity_type = k.entity_type
        ORDER BY z.local_id DESC LIMIT 1
    ) AS highest
    OFFSET 0
) h;

-- pull_pages
-- Reads the outstanding pages of a device, and its last confirmed page.
-- $1 organization, $2 user, $3 device
SELECT p.page, p.entity_types IS NOT NULL AS is_outstanding
FROM local_id_pages p
WHERE p.organization_id = $1 AND p.user_id = $2 AND p.device_id = $3;

-- pull_rivals
-- Reads the assignments of the outstanding pages that are not superseded.
-- $1 organization, $2 user, $3 device
SELECT p.page, p.since_page, p.counters, p.entity_types, p.local_ids, p.server_ids, p.are_integers
FROM local_id_pages p
WHERE p.organization_id = $1 AND p.user_id = $2 AND p.device_id = $3 AND p.entity_types IS NOT NULL
    AND NOT p.is_superseded;

-- pull_keep_page
-- Stores a page's assignments.
-- $1 organization, $2 user, $3 device, $4 page, $5 since_page, $6 ranges, $7 entity_types, $8 local_ids, $9 server_ids, $10 are_integers
INSERT INTO local_id_pages AS p (
    organization_id, user_id, device_id, page, since_page, counters, entity_types, local_ids, server_ids,
    are_integers)
SELECT $1::uuid, $2::uuid, $3::uuid, $4::int8, $5::int8, $6::text::json, $7::text[], $8::int8[], $9::text[],
    $10::bool[]
WHERE (SELECT o.status FROM organizations o WHERE o.id = $1 FOR SHARE) = 'active'
    AND (SELECT d.device_id FROM devices d
         WHERE d.organization_id = $1 AND d.user_id = $2 AND d.device_id = $3 FOR KEY SHARE) IS NOT NULL
ON CONFLICT (organization_id, user_id, device_id, page) DO NOTHING;

-- pull_supersede
-- $1 organization, $2 user, $3 device, $4 pages
UPDATE local_id_pages AS p
SET is_superseded = true
WHERE p.organization_id = $1 AND p.user_id = $2 AND p.device_id = $3 AND p.page = ANY ($4::int8[]);

-- pull_drop_pages
-- Drops the oldest outstanding pages beyond the limit.
-- $1 organization, $2 user, $3 device, $4 limit
DELETE FROM local_id_pages p
WHERE p.organization_id = $1 AND p.user_id = $2 AND p.device_id = $3 AND p.entity_types IS NOT NULL
    AND p.page <= (
        SELECT x.page FROM local_id_pages x
        WHERE x.organization_id = $1 AND x.user_id = $2 AND x.device_id = $3 AND x.entity_types IS NOT NULL
        ORDER BY x.page DESC OFFSET $4 LIMIT 1);

-- pull_organization
-- $1 organization
SELECT o.status FROM organizations o WHERE o.id = $1;

-- pull_lock_pages
-- Locks a device's pages, and the organization's row.
-- $1 organization, $2 user, $3 device
SELECT p.page, p.entity_types IS NOT NULL AS is_outstanding, coalesce(cardinality(p.local_ids), 0) AS given
FROM local_id_pages p
WHERE p.organization_id = $1 AND p.user_id = $2 AND p.device_id = $3
    AND (SELECT o.status FROM organizations o WHERE o.id = $1 FOR SHARE) = 'active'
ORDER BY p.page
FOR UPDATE OF p;

-- pull_confirm
-- Confirms a page's assignments.
-- $1 organization, $2 user, $3 device, $4 page, $5 first, $6 last
INSERT INTO local_ids AS l (
    organization_id, user_id, device_id, entity_type, local_id, server_id, server_id_is_integer)
SELECT p.organization_id, p.user_id, p.device_id, k.entity_type, k.local_id, k.server_id, k.is_integer
FROM local_id_pages p
CROSS JOIN LATERAL unnest(
    p.entity_types[$5::int4 : $6::int4], p.local_ids[$5::int4 : $6::int4],
    p.server_ids[$5::int4 : $6::int4], p.are_integers[$5::int4 : $6::int4]
) AS k (entity_type, local_id, server_id, is_integer)
WHERE p.organization_id = $1 AND p.user_id = $2 AND p.device_id = $3 AND p.page = $4
ORDER BY k.entity_type COLLATE "C", k.local_id
ON CONFLICT  DO NOTHING;

-- pull_confirm_second
-- Confirms local ids of entities for which the device already has another local id.
-- $1 organization, $2 user, $3 device, $4 page, $5 first, $6 last
INSERT INTO local_ids AS l (
    organization_id, user_id, device_id, entity_type, local_id, same_as, server_id_is_integer)
SELECT p.organization_id, p.user_id, p.device_id, k.entity_type, k.local_id, k.server_id, k.is_integer
FROM local_id_pages p
CROSS JOIN LATERAL unnest(
    p.entity_types[$5::int4 : $6::int4], p.local_ids[$5::int4 : $6::int4],
    p.server_ids[$5::int4 : $6::int4], p.are_integers[$5::int4 : $6::int4]
) AS k (entity_type, local_id, server_id, is_integer)
WHERE p.organization_id = $1 AND p.user_id = $2 AND p.device_id = $3 AND p.page = $4
ORDER BY k.entity_type COLLATE "C", k.local_id
ON CONFLICT (organization_id, user_id, device_id, entity_type, local_id) DO NOTHING;

-- pull_mark
-- $1 organization, $2 user, $3 device, $4 page
UPDATE local_id_pages AS p
SET entity_types = NULL, local_ids = NULL, server_ids = NULL, are_integers = NULL
WHERE p.organization_id = $1 AND p.user_id = $2 AND p.device_id = $3 AND p.page = $4;

-- pull_drop_others
-- $1 organization, $2 user, $3 device, $4 page
DELETE FROM local_id_pages p
WHERE p.organization_id = $1 AND p.user_id = $2 AND p.device_id = $3 AND p.page <> $4;

-- devices_highest_ids
-- Reads the highest local id of a device for each type.
-- $1 organization, $2 user, $3 device, $4 entity_types
SELECT k.entity_type, (
    SELECT x.local_id FROM local_ids x
    WHERE x.organization_id = $1 AND x.user_id = $2 AND x.device_id = $3 AND x.entity_type = k.entity_type
    ORDER BY x.local_id DESC LIMIT 1) AS highest
FROM unnest($4::text[]) AS k (entity_type);

-- devices_touch
-- $1 organization, $2 user, $3 device, $4 now
UPDATE devices AS d
SET last_seen_at = $4
WHERE d.organization_id = $1 AND d.user_id = $2 AND d.device_id = $3
RETURNING d.accepted_sequence, d.created_at, d.last_seen_at;

-- devices_make_user
-- Creates the user if it is missing, as a first push does.
-- $1 organization, $2 user, $3 now
INSERT INTO users AS u (organization_id, user_id, created_at)
SELECT $1::uuid, $2::uuid, $3::timestamptz
WHERE CASE
    WHEN NOT EXISTS (SELECT 1 FROM users x WHERE x.organization_id = $1 AND x.user_id = $2)
    THEN (SELECT o.status FROM organizations o WHERE o.id = $1 FOR SHARE) = 'active'
        AND (SELECT l.user_id FROM lanes l WHERE l.organization_id = $1 AND l.user_id = $2) IS NOT NULL
END
ON CONFLICT (organization_id, user_id) DO NOTHING;

-- devices_make
-- $1 organization, $2 user, $3 device, $4 now, $5 limit
INSERT INTO devices AS d (organization_id, user_id, device_id, accepted_sequence, created_at, last_seen_at)
SELECT $1::uuid, $2::uuid, $3::uuid, 0, $4::timestamptz, $4
WHERE CASE
    WHEN EXISTS (SELECT 1 FROM users u WHERE u.organization_id = $1 AND u.user_id = $2)
        AND EXISTS (SELECT 1 FROM lanes l WHERE l.organization_id = $1 AND l.user_id = $2)
        AND (SELECT count(*) FROM (
            SELECT 1 FROM devices x WHERE x.organization_id = $1 AND x.user_id = $2 LIMIT $5) k) < $5
    THEN (SELECT o.status FROM organizations o WHERE o.id = $1 FOR SHARE) = 'active'
END
ON CONFLICT (organization_id, user_id, device_id) DO NOTHING
RETURNING d.accepted_sequence, d.created_at, d.last_seen_at;

-- devices_state
-- Reads the reason why a device was not created.
-- $1 organization, $2 user, $3 device
SELECT o.status,
    EXISTS (SELECT 1 FROM users u WHERE u.organization_id = $1 AND u.user_id = $2) AS is_user_known,
    d.accepted_sequence, d.created_at, d.last_seen_at
FROM organizations o
LEFT JOIN devices d ON d.organization_id = $1 AND d.user_id = $2 AND d.device_id = $3
WHERE o.id = $1;

-- feed_news
-- Reads the state of a feed, and its first changes after a position.
-- $1 organization, $2 after, $3 limit
SELECT f.epoch, f.last_position, EXISTS (
        SELECT FROM entity_types t WHERE t.organization_id = $1 AND t.visibility = 'channels')
        AS has_channels, CASE WHEN NOT e.is_in_channels THEN e.feed_position END AS feed_position, e.entity_type,
    CASE WHEN e.is_private THEN e.owner_id END AS only_for
FROM feeds f
LEFT JOIN LATERAL (
    SELECT x.feed_position, x.entity_type, x.owner_id,
        x.entity_type = ANY (ARRAY(
            SELECT t.name FROM entity_types t
            WHERE t.organization_id = $1 AND t.visibility = 'user')) AS is_private,
        x.channels IS NOT NULL OR x.entity_type = ANY (ARRAY(
            SELECT t.name FROM entity_types t
            WHERE t.organization_id = $1 AND t.visibility = 'channels')) AS is_in_channels
    FROM (SELECT * FROM (
    (SELECT e.feed_position, e.entity_type, e.owner_id, e.channels FROM entities e
 WHERE e.channels IS NULL AND e.organization_id = $1 AND e.feed_position > $2
 ORDER BY e.feed_position LIMIT $3)
    UNION ALL
    (SELECT e.feed_position, e.entity_type, e.owner_id, e.channels FROM entities e
 WHERE e.channels IS NOT NULL AND e.organization_id = $1 AND e.feed_position > $2
 ORDER BY e.feed_position LIMIT $3)
) e
ORDER BY e.feed_position LIMIT $3) x
) e ON true
WHERE f.organization_id = $1;

-- feed_news_readers
-- Finds the users who may see a change in channels
-- $1 organization, $2 after, $3 users, $4 own, $5 everyone, $6 limit
WITH changed AS (
    SELECT DISTINCT c.channel
    FROM (
        SELECT x.channels FROM entities x
        WHERE x.organization_id = $1 AND x.feed_position > $2 AND x.channels IS NOT NULL
        ORDER BY x.feed_position LIMIT $6
    ) e
    CROSS JOIN LATERAL unnest(e.channels) AS c (channel)
    UNION
    SELECT x.channel FROM (
        SELECT y.channel FROM ended_stays y
        WHERE y.organization_id = $1 AND y.left_at + 0 > $2
        ORDER BY y.left_at + 0 LIMIT $6
    ) x
)
SELECT k.user_id
FROM unnest($3::uuid[], $4::uuid[]) AS k (user_id, own)
WHERE EXISTS (SELECT FROM changed c WHERE c.channel IN (k.own, $5))
    OR EXISTS (
        SELECT FROM channel_grants g
        WHERE g.organization_id = $1 AND g.user_id = k.user_id AND g.changed_at > $2)
    OR EXISTS (
        SELECT FROM changed c
        CROSS JOIN LATERAL (
            SELECT FROM channel_grants g
            WHERE g.organization_id = $1 AND g.channel = c.channel AND g.user_id = k.user_id
                AND g.until IS NULL
            LIMIT 1
        ) h)
    -- if as many changes as the limit were found, further changes may exist
    OR (SELECT count(*) FROM (
        SELECT FROM entities x
        WHERE x.organization_id = $1 AND x.feed_position > $2 AND x.channels IS NOT NULL
        LIMIT $6
    ) x) >= $6::int8;

-- changes_page
-- Reads the feed
-- $1 organization, $2 after, $3 entity_types, $4 owner, $5 scan, $6 limit, $7 bytes
SELECT f.epoch, f.horizon, f.last_position, s.scanned, s.scanned_to, w.looked_at, w.has_channels, e.feed_position,
    e.is_cut,
    e.entity_type, e.id AS server_id, e.id_is_integer AS server_id_is_integer,
    CASE WHEN e.owner_id = $4 THEN e.client_id END AS client_id, e.version, e.is_deleted, e.document,
    e.updated_at, e.updated_by, e.etag
FROM feeds f
-- if the filter or the visibility can exclude entities, more entities are read than a page contains
CROSS JOIN LATERAL (
    SELECT CASE WHEN cardinality($3::text[]) > 0 OR EXISTS (
        SELECT FROM entity_types t WHERE t.organization_id = $1 AND t.visibility = 'user')
    THEN $5::int8 ELSE $6::int8 END AS looked_at, EXISTS (
        SELECT FROM entity_types t WHERE t.organization_id = $1 AND t.visibility = 'channels')
        AS has_channels
) w
CROSS JOIN LATERAL (
    SELECT count(*) AS scanned, max(x.feed_position) AS scanned_to
    FROM (SELECT * FROM (
    (SELECT e.feed_position FROM entities e
 WHERE e.channels IS NULL AND e.organization_id = $1 AND e.feed_position > $2
 ORDER BY e.feed_position LIMIT w.looked_at)
    UNION ALL
    (SELECT e.feed_position FROM entities e
 WHERE e.channels IS NOT NULL AND e.organization_id = $1 AND e.feed_position > $2
 ORDER BY e.feed_position LIMIT w.looked_at)
) e
ORDER BY e.feed_position LIMIT w.looked_at) x
) s
LEFT JOIN LATERAL (
    SELECT r.*, r.bytes_to > $7 OR r.place = $6 AS is_cut
    FROM (
        SELECT q.*, count(*) FILTER (WHERE q.bytes_to > $7) OVER (ORDER BY q.feed_position ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS past
        FROM (
            SELECT p.*, row_number() OVER w AS place, sum(coalesce(CASE WHEN pg_column_compression(p.document) IS NULL THEN pg_column_size(p.document) ELSE octet_length(p.document::text) END, 0)) OVER w AS bytes_to
            FROM (SELECT * FROM (
    (SELECT e.* FROM entities e
 WHERE e.channels IS NULL AND e.organization_id = $1 AND e.feed_position > $2
    AND e.feed_position <= s.scanned_to AND NOT w.has_channels
    AND (cardinality($3::text[]) = 0 OR e.entity_type = ANY ($3))
    AND (e.owner_id = $4 OR e.entity_type <> ALL (ARRAY(
            SELECT t.name FROM entity_types t
            WHERE t.organization_id = $1 AND t.visibility = 'user')))
 ORDER BY e.feed_position LIMIT $6)
    UNION ALL
    (SELECT e.* FROM entities e
 WHERE e.channels IS NOT NULL AND e.organization_id = $1 AND e.feed_position > $2
    AND e.feed_position <= s.scanned_to AND NOT w.has_channels
    AND (cardinality($3::text[]) = 0 OR e.entity_type = ANY ($3))
    AND (e.owner_id = $4 OR e.entity_type <> ALL (ARRAY(
            SELECT t.name FROM entity_types t
            WHERE t.organization_id = $1 AND t.visibility = 'user')))
 ORDER BY e.feed_position LIMIT $6)
) e
ORDER BY e.feed_position LIMIT $6) p
            WINDOW w AS (ORDER BY p.feed_position ROWS UNBOUNDED PRECEDING)
        ) q
    ) r
    WHERE r.past < 1
) e ON true
WHERE f.organization_id = $1
ORDER BY e.feed_position;
