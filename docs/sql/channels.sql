-- channels_raise_feed
-- Raises a feed by one position, for a change of grants
-- $1 organization
UPDATE feeds AS f SET last_position = f.last_position + 1 WHERE f.organization_id = $1;

-- channels_move_stays
-- Updates the channel rows of written entities, for each channel in which an entity remains
-- $1 organization_id, $2 channel, $3 changed_at, $4 before_end, $5 entity_type, $6 id, $7 id_is_integer
UPDATE entity_channels AS s
SET changed_at = (SELECT f.last_position FROM feeds f WHERE f.organization_id = k.organization_id) - k.before_end
FROM unnest($1::uuid[], $2::uuid[], $3::int8[], $4::int8[], $5::text[], $6::text[], $7::bool[]) AS k (organization_id, channel, changed_at, before_end, entity_type, id, id_is_integer)
WHERE s.organization_id = k.organization_id AND s.channel = k.channel AND s.changed_at = k.changed_at;

-- channels_begin_stays
-- $1 organization_id, $2 channel, $3 changed_at, $4 before_end, $5 entity_type, $6 id, $7 id_is_integer
INSERT INTO entity_channels AS s (organization_id, channel, changed_at, joined_at)
SELECT k.organization_id, k.channel, (SELECT f.last_position FROM feeds f WHERE f.organization_id = k.organization_id) - k.before_end, (SELECT f.last_position FROM feeds f WHERE f.organization_id = k.organization_id)
FROM unnest($1::uuid[], $2::uuid[], $3::int8[], $4::int8[], $5::text[], $6::text[], $7::bool[]) AS k (organization_id, channel, changed_at, before_end, entity_type, id, id_is_integer);

-- channels_record_ends
-- Records the channels that entities leave.
-- $1 organization_id, $2 channel, $3 changed_at, $4 before_end, $5 entity_type, $6 id, $7 id_is_integer
INSERT INTO ended_stays AS e (organization_id, channel, left_at, joined_at, entity_type, id, id_is_integer)
SELECT k.organization_id, k.channel, (SELECT f.last_position FROM feeds f WHERE f.organization_id = k.organization_id) - k.before_end, coalesce((
        SELECT s.joined_at FROM entity_channels s
        WHERE s.organization_id = k.organization_id AND s.channel = k.channel AND s.changed_at = k.changed_at), 0),
    k.entity_type, k.id, k.id_is_integer
FROM unnest($1::uuid[], $2::uuid[], $3::int8[], $4::int8[], $5::text[], $6::text[], $7::bool[]) AS k (organization_id, channel, changed_at, before_end, entity_type, id, id_is_integer);

-- channels_end_stays
-- $1 organization_id, $2 channel, $3 changed_at, $4 before_end, $5 entity_type, $6 id, $7 id_is_integer
DELETE FROM entity_channels AS s
USING unnest($1::uuid[], $2::uuid[], $3::int8[], $4::int8[], $5::text[], $6::text[], $7::bool[]) AS k (organization_id, channel, changed_at, before_end, entity_type, id, id_is_integer)
WHERE s.organization_id = k.organization_id AND s.channel = k.channel AND s.changed_at = k.changed_at;

-- channels_follow
-- Updates the channel rows of locked entities that move to the feed's end without being written.
-- $1 organization, $2 types, $3 ids, $4 feed_end
UPDATE entity_channels AS s
SET changed_at = $4 - cardinality($2::text[]) + e.place
FROM (
    SELECT k.place, x.channels, x.feed_position
    FROM unnest($2::text[], $3::text[]) WITH ORDINALITY AS k (entity_type, id, place)
    CROSS JOIN LATERAL (
        SELECT y.channels, y.feed_position FROM entities y
        WHERE y.organization_id = $1 AND y.entity_type = k.entity_type AND y.id = k.id
            AND y.channels IS NOT NULL
        OFFSET 0
    ) x
) e
WHERE s.organization_id = $1 AND s.channel = ANY (e.channels) AND s.changed_at = e.feed_position;

-- channels_end_grants
-- Ends the grants that entities no longer make.
-- $1 of_organization_id, $2 of_source, $3 organization_id, $4 source, $5 user_id, $6 issuer, $7 subject, $8 channel, $9 name, $10 role
UPDATE channel_grants AS g
SET until = (SELECT f.last_position FROM feeds f WHERE f.organization_id = e.organization_id), changed_at = (SELECT f.last_position FROM feeds f WHERE f.organization_id = e.organization_id)
FROM (
    SELECT x.organization_id, x.user_id, x.channel, x.source, x.since
    FROM unnest($1::uuid[], $2::text[]) AS k (organization_id, source)
    CROSS JOIN LATERAL (
        SELECT * FROM channel_grants y
        WHERE y.organization_id = k.organization_id AND y.source = k.source AND y.until IS NULL
        OFFSET 0
    ) x
    WHERE (x.organization_id, x.source, x.channel, x.role, x.user_id) NOT IN (
        SELECT n.organization_id, n.source, n.channel, n.role, w.user_id
        FROM unnest($3::uuid[], $4::text[], $5::uuid[], $6::text[], $7::text[], $8::uuid[], $9::text[], $10::text[]) AS n (organization_id, source, user_id, issuer, subject, channel, name, role)
        CROSS JOIN LATERAL (SELECT coalesce((
    SELECT j.into_id FROM user_joins j
    WHERE j.organization_id = n.organization_id AND j.user_id = i.user_id
        AND j.closed_until IS NULL), i.user_id) AS user_id
FROM (
    SELECT coalesce(n.user_id, (
        SELECT s.user_id FROM user_subjects s
        WHERE s.organization_id = n.organization_id AND s.issuer = n.issuer
            AND s.subject = n.subject), (
        SELECT overlay(overlay(encode(substring(sha256(z.salt || '\x01'::bytea || convert_to(n.issuer::text, 'UTF8') || '\x00'::bytea || convert_to(n.subject::text, 'UTF8')) FOR 16), 'hex') PLACING '8' FROM 13) PLACING '8' FROM 17)::uuid
        FROM erasure_salts z WHERE z.organization_id = n.organization_id)) AS user_id
    OFFSET 0
) i
OFFSET 0) w
        WHERE w.user_id IS NOT NULL)
    OFFSET 0
) e
WHERE g.organization_id = e.organization_id AND g.user_id = e.user_id AND g.channel = e.channel
    AND g.source = e.source AND g.since = e.since;

-- channels_begin_grants
-- Begins the grants that entities make, except grants that already exist, and grants to erased users.
-- $1 organization_id, $2 source, $3 user_id, $4 issuer, $5 subject, $6 channel, $7 name, $8 role
INSERT INTO channel_grants AS g (
    organization_id, user_id, channel, source, since, name, role, changed_at)
SELECT k.organization_id, u.user_id, k.channel, k.source, p.position, max(k.name), max(k.role), p.position
FROM unnest($1::uuid[], $2::text[], $3::uuid[], $4::text[], $5::text[], $6::uuid[], $7::text[], $8::text[]) AS k (organization_id, source, user_id, issuer, subject, channel, name, role)
CROSS JOIN LATERAL (SELECT coalesce((
    SELECT j.into_id FROM user_joins j
    WHERE j.organization_id = k.organization_id AND j.user_id = i.user_id
        AND j.closed_until IS NULL), i.user_id) AS user_id
FROM (
    SELECT coalesce(k.user_id, (
        SELECT s.user_id FROM user_subjects s
        WHERE s.organization_id = k.organization_id AND s.issuer = k.issuer
            AND s.subject = k.subject), (
        SELECT overlay(overlay(encode(substring(sha256(z.salt || '\x01'::bytea || convert_to(k.issuer::text, 'UTF8') || '\x00'::bytea || convert_to(k.subject::text, 'UTF8')) FOR 16), 'hex') PLACING '8' FROM 13) PLACING '8' FROM 17)::uuid
        FROM erasure_salts z WHERE z.organization_id = k.organization_id)) AS user_id
    OFFSET 0
) i
OFFSET 0) u
CROSS JOIN LATERAL (SELECT (SELECT f.last_position FROM feeds f WHERE f.organization_id = k.organization_id) AS position) p
WHERE (
        SELECT true FROM channel_grants x
        WHERE x.organization_id = k.organization_id AND x.user_id = u.user_id AND x.channel = k.channel
            AND x.source = k.source AND x.until IS NULL LIMIT 1) IS NULL
    AND u.user_id IS NOT NULL
    AND NOT ((SELECT e.user_hash FROM user_erasures e
     WHERE e.organization_id = k.organization_id
        AND e.user_hash = sha256(uuid_send(k.organization_id) || uuid_send(u.user_id))) IS NOT NULL
    OR k.subject IS NOT NULL AND EXISTS (
        SELECT FROM erased_subjects d
        WHERE d.organization_id = k.organization_id AND d.subject_hash = (
            SELECT sha256(z.salt || convert_to(k.issuer::text, 'UTF8') || '\x00'::bytea || convert_to(k.subject::text, 'UTF8')) FROM erasure_salts z WHERE z.organization_id = k.organization_id)))
    AND (k.organization_id, u.user_id) NOT IN (
        SELECT h.organization_id, h.user_id
        FROM (
            SELECT DISTINCT n.organization_id, w.user_id FROM unnest($1::uuid[], $2::text[], $3::uuid[], $4::text[], $5::text[], $6::uuid[], $7::text[], $8::text[]) AS n (organization_id, source, user_id, issuer, subject, channel, name, role)
            CROSS JOIN LATERAL (SELECT coalesce((
    SELECT j.into_id FROM user_joins j
    WHERE j.organization_id = n.organization_id AND j.user_id = i.user_id
        AND j.closed_until IS NULL), i.user_id) AS user_id
FROM (
    SELECT coalesce(n.user_id, (
        SELECT s.user_id FROM user_subjects s
        WHERE s.organization_id = n.organization_id AND s.issuer = n.issuer
            AND s.subject = n.subject), (
        SELECT overlay(overlay(encode(substring(sha256(z.salt || '\x01'::bytea || convert_to(n.issuer::text, 'UTF8') || '\x00'::bytea || convert_to(n.subject::text, 'UTF8')) FOR 16), 'hex') PLACING '8' FROM 13) PLACING '8' FROM 17)::uuid
        FROM erasure_salts z WHERE z.organization_id = n.organization_id)) AS user_id
    OFFSET 0
) i
OFFSET 0) w
            WHERE w.user_id IS NOT NULL
        ) h
        WHERE (SELECT count(*) FROM (
                SELECT FROM channel_grants y
                WHERE y.organization_id = h.organization_id AND y.user_id = h.user_id AND coalesce(y.until, 0) = 0
                LIMIT 10000) z) >= 10000)
-- if one source makes several grants, max(k.role) is 'write' if any of them is 'write'
GROUP BY 1, 2, 3, 4, 5
ON CONFLICT (organization_id, user_id, channel, source, since) DO UPDATE
SET role = excluded.role, until = NULL;

-- channels_end_grants_of_deleted
-- Ends all grants of entities that were deleted neither by a push nor by an event.
-- $1 organization, $2 sources, $3 feed_end
UPDATE channel_grants AS g
SET until = $3, changed_at = $3
WHERE g.organization_id = $1 AND g.source = ANY ($2::text[]) AND g.until IS NULL;

-- channels_holders
-- Reads the user who holds the grants, for each given user or subject to whom entities grant channels
-- $1 organization_id, $2 user_id, $3 issuer, $4 subject
SELECT k.user_id, k.issuer, k.subject, u.user_id AS holder_id
FROM unnest($1::uuid[], $2::uuid[], $3::text[], $4::text[]) AS k (organization_id, user_id, issuer, subject)
CROSS JOIN LATERAL (SELECT coalesce((
    SELECT j.into_id FROM user_joins j
    WHERE j.organization_id = k.organization_id AND j.user_id = i.user_id
        AND j.closed_until IS NULL), i.user_id) AS user_id
FROM (
    SELECT coalesce(k.user_id, (
        SELECT s.user_id FROM user_subjects s
        WHERE s.organization_id = k.organization_id AND s.issuer = k.issuer
            AND s.subject = k.subject), (
        SELECT overlay(overlay(encode(substring(sha256(z.salt || '\x01'::bytea || convert_to(k.issuer::text, 'UTF8') || '\x00'::bytea || convert_to(k.subject::text, 'UTF8')) FOR 16), 'hex') PLACING '8' FROM 13) PLACING '8' FROM 17)::uuid
        FROM erasure_salts z WHERE z.organization_id = k.organization_id)) AS user_id
    OFFSET 0
) i
OFFSET 0) u
WHERE u.user_id IS NOT NULL AND NOT ((SELECT e.user_hash FROM user_erasures e
     WHERE e.organization_id = k.organization_id
        AND e.user_hash = sha256(uuid_send(k.organization_id) || uuid_send(u.user_id))) IS NOT NULL
    OR k.subject IS NOT NULL AND EXISTS (
        SELECT FROM erased_subjects d
        WHERE d.organization_id = k.organization_id AND d.subject_hash = (
            SELECT sha256(z.salt || convert_to(k.issuer::text, 'UTF8') || '\x00'::bytea || convert_to(k.subject::text, 'UTF8')) FROM erasure_salts z WHERE z.organization_id = k.organization_id)));

-- channels_access
-- Reads the channels that users hold now, without each user's own channel.
-- $1 organization_id, $2 user_id
SELECT g.organization_id, g.user_id, g.channel, g.role, g.source
FROM unnest($1::uuid[], $2::uuid[]) AS k (organization_id, user_id)
CROSS JOIN LATERAL (
    SELECT * FROM channel_grants x
    WHERE x.organization_id = k.organization_id AND x.user_id = k.user_id AND coalesce(x.until, 0) = 0
    OFFSET 0
) g;

-- channels_access_of_few
-- Reads the same grants as ``access``, but for each user at most one more than ``ChannelAccess/mostTogether``.
-- $1 organization_id, $2 user_id
SELECT g.organization_id, g.user_id, g.channel, g.role, g.source
FROM unnest($1::uuid[], $2::uuid[]) AS k (organization_id, user_id)
CROSS JOIN LATERAL (
    SELECT * FROM channel_grants x
    WHERE x.organization_id = k.organization_id AND x.user_id = k.user_id AND coalesce(x.until, 0) = 0
    LIMIT 201
) g;

-- channels_access_to
-- Reads which of the given channels the users hold.
-- $1 organization_id, $2 user_id, $3 channel
SELECT g.organization_id, g.user_id, g.channel, g.role, g.source
FROM unnest($1::uuid[], $2::uuid[], $3::uuid[]) AS k (organization_id, user_id, channel)
CROSS JOIN LATERAL (
    SELECT * FROM channel_grants x
    WHERE x.organization_id = k.organization_id AND x.user_id = k.user_id AND x.channel = k.channel AND x.until IS NULL
    OFFSET 0
) g;

-- channels_subjects
-- Reads the subjects by which documents may name users
-- $1 organization_id, $2 user_id
SELECT k.organization_id, k.user_id, s.issuer, s.subject
FROM unnest($1::uuid[], $2::uuid[]) AS k (organization_id, user_id)
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
) s;

-- channels_history
-- Reads the grants of a user at one position of the feed, including grants that have ended.
-- $1 organization, $2 user
SELECT f.epoch, f.last_position, g.channel, g.role, g.since, g.until, g.is_of_joined_user
FROM feeds f
LEFT JOIN LATERAL (
    SELECT x.channel, x.role, x.since, x.until, x.source LIKE 'user %' AS is_of_joined_user
    FROM channel_grants x
    WHERE x.organization_id = $1 AND x.user_id = $2
    OFFSET 0
) g ON true
WHERE f.organization_id = $1;

-- channels_start_evaluation
-- Starts a bulk operation that evaluates the entities of a type.
-- $1 organization, $2 type, $3 actor, $4 now, $5 due_at
WITH replaced AS (
    UPDATE operations AS o
    SET state = 'cancelled', due_at = NULL, lease_owner = NULL, ended_at = $4, changed_at = $4
    WHERE o.organization_id = $1 AND o.kind = 'evaluate' AND o.entity_type = $2 AND o.state = 'running'
), counted AS (
    SELECT count(*) AS count FROM (
        SELECT FROM entities e
        WHERE e.organization_id = $1 AND e.entity_type = $2 AND NOT e.is_deleted LIMIT 10001) x
)
INSERT INTO operations AS o (
    organization_id, id, kind, statuses, entity_type, reason, actor, per_second, state, due_at, created_at,
    changed_at, total, total_is_more)
SELECT $1::uuid, gen_random_uuid(), 'evaluate', '{}', $2::text, 'the settings of its channels have changed',
    $3::text, 1000, 'running', $5, $4, $4, least(c.count, 10000), c.count > 10000
FROM counted c;

-- channels_last_evaluation
-- Reads whether the last evaluation of a type has processed all entities.
-- $1 organization, $2 type
SELECT o.state = 'done' AS is_done FROM operations o
WHERE o.organization_id = $1 AND o.kind = 'evaluate' AND o.entity_type = $2
ORDER BY o.created_at DESC, o.id DESC LIMIT 1;

-- changes_page_of_channels
-- Reads the rows of each channel, and the entities that are visible without channels, in the order of positions.
-- $1 organization, $2 owner, $3 as_of, $4 channels, $5 after, $6 up_to, $7 ended_after, $8 scan, $9 entity_types, $10 room, $11 limit, $12 bytes, $13 is_loss
SELECT f.epoch, f.horizon, f.last_position, g.is_stale, b.bound, q.position, q.is_cut, q.is_asked, q.channel,
    q.joined_at, q.is_ended, q.is_stored, q.channels, q.is_seen_without, q.is_gone, q.entity_type, q.server_id,
    q.server_id_is_integer, q.client_id, q.version, q.is_deleted, q.document, q.updated_at, q.updated_by, q.etag
FROM feeds f
CROSS JOIN LATERAL (
    SELECT EXISTS (
        SELECT FROM channel_grants x
        WHERE x.organization_id = $1 AND x.user_id = $2 AND x.changed_at > $3) AS is_stale
) g
CROSS JOIN LATERAL (
    SELECT array_agg(v.name) FILTER (WHERE v.visibility = 'user') AS private,
        array_agg(v.name) FILTER (WHERE v.visibility = 'channels') AS in_channels
    FROM entity_types v WHERE v.organization_id = $1
) t
LEFT JOIN LATERAL (
    -- each list that may have more rows was read up to some position; the lowest of these positions is the
    -- bound
    SELECT min(c.position) AS bound
    FROM (
        SELECT (
    SELECT y.changed_at FROM entity_channels y
    WHERE y.organization_id = $1 AND y.channel = k.channel AND y.changed_at > $5
        AND y.changed_at <= $6
    ORDER BY y.changed_at OFFSET $10::int8 - 1 LIMIT 1) AS position
FROM unnest($4::uuid[]) AS k (channel)
UNION ALL
SELECT (
    SELECT y.left_at FROM ended_stays y
    WHERE y.organization_id = $1 AND y.channel = k.channel AND y.left_at > $7
    ORDER BY y.left_at OFFSET $10::int8 - 1 LIMIT 1)
FROM unnest($4::uuid[]) AS k (channel)
        UNION ALL
        SELECT (
            SELECT y.feed_position FROM entities y
            WHERE y.organization_id = $1 AND y.channels IS NULL AND y.feed_position > $5
            ORDER BY y.feed_position OFFSET greatest($8::int8 - 1, 0) LIMIT 1)
        WHERE $8::int8 > 0
    ) c
) b ON NOT g.is_stale
LEFT JOIN LATERAL (
    SELECT p.*, p.bytes_to > $12 OR p.place = $11 AS is_cut
    FROM (
        SELECT v.*, count(*) FILTER (WHERE v.bytes_to > $12) OVER (ORDER BY v.position, v.is_ended, v.channel ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS past
        FROM (
            -- only the first row of a position has the document; therefore a page may end after this row
            SELECT r.*, sum(coalesce(CASE WHEN pg_column_compression(r.document) IS NULL THEN pg_column_size(r.document) ELSE octet_length(r.document::text) END, 0)) OVER w AS bytes_to
            FROM (
                WITH d AS MATERIALIZED (
    SELECT p.*
    FROM (
        SELECT s.*, dense_rank() OVER (ORDER BY s.position) AS place
FROM (
    -- if an entity is in several of the user's channels, the row of one channel suffices
    (SELECT DISTINCT ON (i.position) i.position, i.channel, i.joined_at, false AS is_ended,
        NULL::text AS entity_type, NULL::text AS id, NULL::bool AS id_is_integer
     FROM (
        SELECT x.position, k.channel, x.joined_at
FROM unnest($4::uuid[]) AS k (channel)
CROSS JOIN LATERAL (
    SELECT y.changed_at AS position, y.joined_at FROM entity_channels y
    WHERE y.organization_id = $1 AND y.channel = k.channel AND y.changed_at > $5
        AND y.changed_at <= $6
    ORDER BY y.changed_at LIMIT $10
) x
     ) i
     ORDER BY i.position, i.channel)
    UNION ALL
    SELECT i.position, i.channel, i.joined_at, true, i.entity_type, i.id, i.id_is_integer
    FROM (
        SELECT x.position, k.channel, x.joined_at, x.entity_type, x.id, x.id_is_integer
FROM unnest($4::uuid[]) AS k (channel)
CROSS JOIN LATERAL (
    SELECT y.left_at AS position, y.joined_at, y.entity_type, y.id, y.id_is_integer FROM ended_stays y
    WHERE y.organization_id = $1 AND y.channel = k.channel AND y.left_at > $7
    ORDER BY y.left_at LIMIT $10
) x
    ) i
    UNION ALL
    SELECT x.feed_position, NULL, NULL, false, NULL, NULL, NULL
    FROM (
        SELECT y.feed_position, y.entity_type, y.owner_id FROM entities y
        WHERE y.organization_id = $1 AND y.channels IS NULL
            AND y.feed_position > $5
        ORDER BY y.feed_position LIMIT $8
    ) x
    WHERE x.entity_type <> ALL (coalesce(t.in_channels, '{}'))
        AND (x.owner_id = $2 OR x.entity_type <> ALL (coalesce(t.private, '{}')))
) s
WHERE b.bound IS NULL OR s.position <= b.bound
    ) p
    WHERE p.place <= $11
)
SELECT d.position, d.place, d.channel, d.joined_at, d.is_ended, e.id IS NOT NULL AS is_stored,
    CASE WHEN d.is_ended OR $13 THEN e.channels END AS channels,
    coalesce(e.channels IS NULL AND e.entity_type <> ALL (coalesce(t.in_channels, '{}'))
        AND (e.owner_id = $2 OR e.entity_type <> ALL (coalesce(t.private, '{}'))), false)
        AS is_seen_without,
    coalesce(e.is_deleted, true) AS is_gone, coalesce(e.entity_type, d.entity_type) AS entity_type,
    coalesce(e.id, d.id) AS server_id, coalesce(e.id_is_integer, d.id_is_integer) AS server_id_is_integer,
    CASE WHEN e.owner_id = $2 THEN e.client_id END AS client_id, e.version, e.is_deleted,
    CASE WHEN NOT d.is_ended AND w.is_asked THEN e.document END AS document, e.updated_at, e.updated_by,
    e.etag, w.is_asked
FROM d
-- OFFSET prevents a plan, made on a small table, that joins all entities
LEFT JOIN LATERAL (
    SELECT z.* FROM entities z
    WHERE z.organization_id = $1 AND z.feed_position = d.position AND z.channels IS NULL
    OFFSET 0
) e ON true
CROSS JOIN LATERAL (
    SELECT cardinality($9::text[]) = 0
        OR coalesce(e.entity_type, d.entity_type) = ANY ($9) AS is_asked
) w
WHERE d.channel IS NULL
UNION ALL
SELECT d.position, d.place, d.channel, d.joined_at, d.is_ended, e.id IS NOT NULL AS is_stored,
    CASE WHEN d.is_ended OR $13 THEN e.channels END AS channels,
    coalesce(e.channels IS NULL AND e.entity_type <> ALL (coalesce(t.in_channels, '{}'))
        AND (e.owner_id = $2 OR e.entity_type <> ALL (coalesce(t.private, '{}'))), false)
        AS is_seen_without,
    coalesce(e.is_deleted, true) AS is_gone, coalesce(e.entity_type, d.entity_type) AS entity_type,
    coalesce(e.id, d.id) AS server_id, coalesce(e.id_is_integer, d.id_is_integer) AS server_id_is_integer,
    CASE WHEN e.owner_id = $2 THEN e.client_id END AS client_id, e.version, e.is_deleted,
    CASE WHEN NOT d.is_ended AND w.is_asked THEN e.document END AS document, e.updated_at, e.updated_by,
    e.etag, w.is_asked
FROM d
-- OFFSET prevents a plan, made on a small table, that joins all entities
LEFT JOIN LATERAL (
    SELECT z.* FROM entities z
    WHERE z.organization_id = $1 AND z.feed_position = d.position AND z.channels IS NOT NULL
    OFFSET 0
) e ON true
CROSS JOIN LATERAL (
    SELECT cardinality($9::text[]) = 0
        OR coalesce(e.entity_type, d.entity_type) = ANY ($9) AS is_asked
) w
WHERE d.channel IS NOT NULL AND NOT d.is_ended
UNION ALL
SELECT d.position, d.place, d.channel, d.joined_at, d.is_ended, e.id IS NOT NULL AS is_stored,
    CASE WHEN d.is_ended OR $13 THEN e.channels END AS channels,
    coalesce(e.channels IS NULL AND e.entity_type <> ALL (coalesce(t.in_channels, '{}'))
        AND (e.owner_id = $2 OR e.entity_type <> ALL (coalesce(t.private, '{}'))), false)
        AS is_seen_without,
    coalesce(e.is_deleted, true) AS is_gone, coalesce(e.entity_type, d.entity_type) AS entity_type,
    coalesce(e.id, d.id) AS server_id, coalesce(e.id_is_integer, d.id_is_integer) AS server_id_is_integer,
    CASE WHEN e.owner_id = $2 THEN e.client_id END AS client_id, e.version, e.is_deleted,
    CASE WHEN NOT d.is_ended AND w.is_asked THEN e.document END AS document, e.updated_at, e.updated_by,
    e.etag, w.is_asked
FROM d
-- OFFSET prevents a plan, made on a small table, that joins all entities
LEFT JOIN LATERAL (
    SELECT z.* FROM entities z
    WHERE z.organization_id = $1 AND z.entity_type = d.entity_type AND z.id = d.id
    OFFSET 0
) e ON true
CROSS JOIN LATERAL (
    SELECT cardinality($9::text[]) = 0
        OR coalesce(e.entity_type, d.entity_type) = ANY ($9) AS is_asked
) w
WHERE d.is_ended
            ) r
            WINDOW w AS (ORDER BY r.position, r.is_ended, r.channel ROWS UNBOUNDED PRECEDING)
        ) v
    ) p
    WHERE p.past < 1
) q ON NOT g.is_stale
WHERE f.organization_id = $1
ORDER BY q.position, q.is_ended, q.channel;

-- changes_scan_of_channels
-- Reads the same rows as ``merge`` from all changes after a position.
-- $1 organization, $2 owner, $3 as_of, $4 channels, $5 after, $6 up_to, $7 ended_after, $8 scan, $9 entity_types, $10 room, $11 limit, $12 bytes, $13 is_loss
SELECT f.epoch, f.horizon, f.last_position, g.is_stale, b.bound, q.position, q.is_cut, q.is_asked, q.channel,
    q.joined_at, q.is_ended, q.is_stored, q.channels, q.is_seen_without, q.is_gone, q.entity_type, q.server_id,
    q.server_id_is_integer, q.client_id, q.version, q.is_deleted, q.document, q.updated_at, q.updated_by, q.etag
FROM feeds f
CROSS JOIN LATERAL (
    SELECT EXISTS (
        SELECT FROM channel_grants x
        WHERE x.organization_id = $1 AND x.user_id = $2 AND x.changed_at > $3) AS is_stale
) g
CROSS JOIN LATERAL (
    SELECT array_agg(v.name) FILTER (WHERE v.visibility = 'user') AS private,
        array_agg(v.name) FILTER (WHERE v.visibility = 'channels') AS in_channels
    FROM entity_types v WHERE v.organization_id = $1
) t
LEFT JOIN LATERAL (
    -- each list that may have more rows was read up to some position; the lowest of these positions is the
    -- bound
    SELECT min(c.position) AS bound
    FROM (
        SELECT (
    SELECT y.feed_position FROM entities y
    WHERE y.organization_id = $1 AND y.channels IS NOT NULL
        AND y.feed_position > $5 AND y.feed_position <= $6
    ORDER BY y.feed_position OFFSET $10::int8 - 1 LIMIT 1) AS position
UNION ALL
SELECT (
    SELECT y.left_at FROM ended_stays y
    WHERE y.organization_id = $1 AND y.left_at + 0 > $7
    ORDER BY y.left_at + 0 OFFSET $10::int8 - 1 LIMIT 1)
        UNION ALL
        SELECT (
            SELECT y.feed_position FROM entities y
            WHERE y.organization_id = $1 AND y.channels IS NULL AND y.feed_position > $5
            ORDER BY y.feed_position OFFSET greatest($8::int8 - 1, 0) LIMIT 1)
        WHERE $8::int8 > 0
    ) c
) b ON NOT g.is_stale
LEFT JOIN LATERAL (
    SELECT p.*, p.bytes_to > $12 OR p.place = $11 AS is_cut
    FROM (
        SELECT v.*, count(*) FILTER (WHERE v.bytes_to > $12) OVER (ORDER BY v.position, v.is_ended, v.channel ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS past
        FROM (
            -- only the first row of a position has the document; therefore a page may end after this row
            SELECT r.*, sum(coalesce(CASE WHEN pg_column_compression(r.document) IS NULL THEN pg_column_size(r.document) ELSE octet_length(r.document::text) END, 0)) OVER w AS bytes_to
            FROM (
                WITH d AS MATERIALIZED (
    SELECT p.*
    FROM (
        SELECT s.*, dense_rank() OVER (ORDER BY s.position) AS place
FROM (
    -- if an entity is in several of the user's channels, the row of one channel suffices
    (SELECT DISTINCT ON (i.position) i.position, i.channel, i.joined_at, false AS is_ended,
        NULL::text AS entity_type, NULL::text AS id, NULL::bool AS id_is_integer
     FROM (
        SELECT y.feed_position AS position, z.channel, z.joined_at
FROM entities y
CROSS JOIN LATERAL unnest(y.channels) AS u (channel)
CROSS JOIN LATERAL (
    SELECT v.channel, v.joined_at FROM entity_channels v
    WHERE v.organization_id = $1 AND v.channel = u.channel AND v.changed_at = y.feed_position
    OFFSET 0
) z
WHERE y.organization_id = $1 AND y.feed_position > $5
    AND y.feed_position <= coalesce(b.bound, $6) AND y.channels IS NOT NULL
    AND (u.channel IN (SELECT k.channel FROM unnest($4::uuid[]) AS k (channel))) IS TRUE
     ) i
     ORDER BY i.position, i.channel)
    UNION ALL
    SELECT i.position, i.channel, i.joined_at, true, i.entity_type, i.id, i.id_is_integer
    FROM (
        SELECT y.left_at AS position, y.channel, y.joined_at, y.entity_type, y.id, y.id_is_integer
FROM ended_stays y
WHERE y.organization_id = $1 AND y.left_at + 0 > $7
    AND y.left_at + 0 <= coalesce(b.bound, $6)
    AND (y.channel IN (SELECT k.channel FROM unnest($4::uuid[]) AS k (channel))) IS TRUE
    ) i
    UNION ALL
    SELECT x.feed_position, NULL, NULL, false, NULL, NULL, NULL
    FROM (
        SELECT y.feed_position, y.entity_type, y.owner_id FROM entities y
        WHERE y.organization_id = $1 AND y.channels IS NULL
            AND y.feed_position > $5
        ORDER BY y.feed_position LIMIT $8
    ) x
    WHERE x.entity_type <> ALL (coalesce(t.in_channels, '{}'))
        AND (x.owner_id = $2 OR x.entity_type <> ALL (coalesce(t.private, '{}')))
) s
WHERE b.bound IS NULL OR s.position <= b.bound
    ) p
    WHERE p.place <= $11
)
SELECT d.position, d.place, d.channel, d.joined_at, d.is_ended, e.id IS NOT NULL AS is_stored,
    CASE WHEN d.is_ended OR $13 THEN e.channels END AS channels,
    coalesce(e.channels IS NULL AND e.entity_type <> ALL (coalesce(t.in_channels, '{}'))
        AND (e.owner_id = $2 OR e.entity_type <> ALL (coalesce(t.private, '{}'))), false)
        AS is_seen_without,
    coalesce(e.is_deleted, true) AS is_gone, coalesce(e.entity_type, d.entity_type) AS entity_type,
    coalesce(e.id, d.id) AS server_id, coalesce(e.id_is_integer, d.id_is_integer) AS server_id_is_integer,
    CASE WHEN e.owner_id = $2 THEN e.client_id END AS client_id, e.version, e.is_deleted,
    CASE WHEN NOT d.is_ended AND w.is_asked THEN e.document END AS document, e.updated_at, e.updated_by,
    e.etag, w.is_asked
FROM d
-- OFFSET prevents a plan, made on a small table, that joins all entities
LEFT JOIN LATERAL (
    SELECT z.* FROM entities z
    WHERE z.organization_id = $1 AND z.feed_position = d.position AND z.channels IS NULL
    OFFSET 0
) e ON true
CROSS JOIN LATERAL (
    SELECT cardinality($9::text[]) = 0
        OR coalesce(e.entity_type, d.entity_type) = ANY ($9) AS is_asked
) w
WHERE d.channel IS NULL
UNION ALL
SELECT d.position, d.place, d.channel, d.joined_at, d.is_ended, e.id IS NOT NULL AS is_stored,
    CASE WHEN d.is_ended OR $13 THEN e.channels END AS channels,
    coalesce(e.channels IS NULL AND e.entity_type <> ALL (coalesce(t.in_channels, '{}'))
        AND (e.owner_id = $2 OR e.entity_type <> ALL (coalesce(t.private, '{}'))), false)
        AS is_seen_without,
    coalesce(e.is_deleted, true) AS is_gone, coalesce(e.entity_type, d.entity_type) AS entity_type,
    coalesce(e.id, d.id) AS server_id, coalesce(e.id_is_integer, d.id_is_integer) AS server_id_is_integer,
    CASE WHEN e.owner_id = $2 THEN e.client_id END AS client_id, e.version, e.is_deleted,
    CASE WHEN NOT d.is_ended AND w.is_asked THEN e.document END AS document, e.updated_at, e.updated_by,
    e.etag, w.is_asked
FROM d
-- OFFSET prevents a plan, made on a small table, that joins all entities
LEFT JOIN LATERAL (
    SELECT z.* FROM entities z
    WHERE z.organization_id = $1 AND z.feed_position = d.position AND z.channels IS NOT NULL
    OFFSET 0
) e ON true
CROSS JOIN LATERAL (
    SELECT cardinality($9::text[]) = 0
        OR coalesce(e.entity_type, d.entity_type) = ANY ($9) AS is_asked
) w
WHERE d.channel IS NOT NULL AND NOT d.is_ended
UNION ALL
SELECT d.position, d.place, d.channel, d.joined_at, d.is_ended, e.id IS NOT NULL AS is_stored,
    CASE WHEN d.is_ended OR $13 THEN e.channels END AS channels,
    coalesce(e.channels IS NULL AND e.entity_type <> ALL (coalesce(t.in_channels, '{}'))
        AND (e.owner_id = $2 OR e.entity_type <> ALL (coalesce(t.private, '{}'))), false)
        AS is_seen_without,
    coalesce(e.is_deleted, true) AS is_gone, coalesce(e.entity_type, d.entity_type) AS entity_type,
    coalesce(e.id, d.id) AS server_id, coalesce(e.id_is_integer, d.id_is_integer) AS server_id_is_integer,
    CASE WHEN e.owner_id = $2 THEN e.client_id END AS client_id, e.version, e.is_deleted,
    CASE WHEN NOT d.is_ended AND w.is_asked THEN e.document END AS document, e.updated_at, e.updated_by,
    e.etag, w.is_asked
FROM d
-- OFFSET prevents a plan, made on a small table, that joins all entities
LEFT JOIN LATERAL (
    SELECT z.* FROM entities z
    WHERE z.organization_id = $1 AND z.entity_type = d.entity_type AND z.id = d.id
    OFFSET 0
) e ON true
CROSS JOIN LATERAL (
    SELECT cardinality($9::text[]) = 0
        OR coalesce(e.entity_type, d.entity_type) = ANY ($9) AS is_asked
) w
WHERE d.is_ended
            ) r
            WINDOW w AS (ORDER BY r.position, r.is_ended, r.channel ROWS UNBOUNDED PRECEDING)
        ) v
    ) p
    WHERE p.past < 1
) q ON NOT g.is_stale
WHERE f.organization_id = $1
ORDER BY q.position, q.is_ended, q.channel;

-- channels_evaluation_page
-- $1 organization, $2 type, $3 after, $4 limit
SELECT e.id::text AS id FROM entities e
WHERE e.organization_id = $1 AND e.entity_type = $2 AND e.id > $3::text
ORDER BY e.id LIMIT $4;

-- channels_evaluation_count
-- $1 organization, $2 type, $3 limit
SELECT count(*) AS count FROM (
    SELECT FROM entities e
    WHERE e.organization_id = $1 AND e.entity_type = $2 AND NOT e.is_deleted LIMIT $3) x;

-- channels_granted
-- Reads the grants that entities make at present.
-- $1 organization, $2 sources
SELECT g.source, g.user_id, g.name, g.role FROM channel_grants g
WHERE g.organization_id = $1 AND g.source = ANY ($2::text[]) AND g.until IS NULL;

-- token_channels_find
-- $1 organization, $2 user, $3 source
SELECT t.issued_at, t.digest FROM token_channels t
WHERE t.organization_id = $1 AND t.user_id = $2 AND t.source = $3;

-- token_channels_lock
-- Reads the newest token and locks it
-- $1 organization, $2 user, $3 source
SELECT t.issued_at, t.digest FROM token_channels t
WHERE t.organization_id = $1 AND t.user_id = $2 AND t.source = $3
FOR UPDATE;

-- token_channels_renew
-- Replaces the time of the newest recorded token by the time of a newer token that has the same channels, unless another token was recorded in the meantime.
-- $1 organization, $2 user, $3 source, $4 issued_at, $5 digest
UPDATE token_channels AS t SET issued_at = $4
WHERE t.organization_id = $1 AND t.user_id = $2 AND t.source = $3 AND t.digest = $5
    AND t.issued_at <= $4;

-- token_channels_record
-- Records a token, unless a newer token was recorded or the user was erased.
-- $1 organization, $2 user, $3 source, $4 issued_at, $5 digest
INSERT INTO token_channels AS t (organization_id, user_id, source, issued_at, digest)
SELECT $1::uuid, $2::uuid, $3::text, $4::int8, $5::uuid
WHERE NOT ((SELECT e.user_hash FROM user_erasures e
     WHERE e.organization_id = $1::uuid
        AND e.user_hash = sha256(uuid_send($1::uuid) || uuid_send($2::uuid))) IS NOT NULL)
ON CONFLICT (organization_id, user_id, source) DO UPDATE
SET issued_at = excluded.issued_at, digest = excluded.digest
WHERE (t.issued_at, t.digest) < (excluded.issued_at, excluded.digest);

-- token_channels_end
-- $1 organization, $2 user, $3 source, $4 channels, $5 role
UPDATE channel_grants AS g
SET until = (SELECT f.last_position FROM feeds f WHERE f.organization_id = $1), changed_at = (SELECT f.last_position FROM feeds f WHERE f.organization_id = $1)
WHERE g.organization_id = $1 AND g.user_id = $2 AND g.source = $3 AND g.until IS NULL
    AND (g.role <> $5 OR g.channel <> ALL ($4::uuid[]));

-- token_channels_begin
-- Begins the grants that do not exist yet, up to the maximum number of channels of a user.
-- $1 organization, $2 user, $3 source, $4 channels, $5 names, $6 role
INSERT INTO channel_grants AS g (organization_id, user_id, channel, source, since, name, role, changed_at)
SELECT f.organization_id, $2::uuid, k.channel, $3::text, f.last_position, k.name, $6::text,
    f.last_position
FROM feeds f
CROSS JOIN LATERAL (
    SELECT n.channel, n.name FROM unnest($4::uuid[], $5::text[]) AS n (channel, name)
    WHERE NOT EXISTS (
        SELECT FROM channel_grants x
        WHERE x.organization_id = $1 AND x.user_id = $2 AND x.channel = n.channel
            AND x.source = $3 AND x.until IS NULL)
    LIMIT (
        SELECT 10000 - count(*) FROM (
            SELECT FROM channel_grants y
            WHERE y.organization_id = $1 AND y.user_id = $2 AND y.until IS NULL
            LIMIT 10000) z)
) k
WHERE f.organization_id = $1 AND NOT ((SELECT e.user_hash FROM user_erasures e
     WHERE e.organization_id = $1::uuid
        AND e.user_hash = sha256(uuid_send($1::uuid) || uuid_send($2::uuid))) IS NOT NULL);
