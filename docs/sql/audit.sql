-- audit_begin
-- $1 organization, $2 id, $3 now, $4 actor, $5 scope, $6 action, $7 reason, $8 target, $9 user, $10 into, $11 request, $12 outcome
INSERT INTO audit AS a (organization_id, id, at, actor, scope, action, reason, target, user_id, user_hash, into_id,
    into_hash, request_id, outcome)
SELECT $1::uuid, $2::uuid, $3::timestamptz, $4::text, $5::text, $6::text, $7::text, $8::json,
    CASE WHEN NOT k.user_goes THEN $9::uuid END, CASE WHEN k.user_goes THEN sha256(uuid_send($1::uuid) || uuid_send($9::uuid)) END,
    CASE WHEN NOT k.into_goes THEN $10::uuid END, CASE WHEN k.into_goes THEN sha256(uuid_send($1::uuid) || uuid_send($10::uuid)) END,
    $11::text, $12::json
FROM (
    SELECT ((SELECT e.user_hash FROM user_erasures e
     WHERE e.organization_id = $1::uuid
        AND e.user_hash = sha256(uuid_send($1::uuid) || uuid_send($9::uuid))) IS NOT NULL) AS user_goes,
        ((SELECT e.user_hash FROM user_erasures e
     WHERE e.organization_id = $1::uuid
        AND e.user_hash = sha256(uuid_send($1::uuid) || uuid_send($10::uuid))) IS NOT NULL) AS into_goes
) k;

-- audit_end
-- $1 organization, $2 id, $3 outcome, $4 user, $5 into, $6 reason
UPDATE audit AS a
SET outcome = $3::json, reason = coalesce(a.reason, $6::text),
    user_id = coalesce(a.user_id, CASE WHEN NOT k.user_goes THEN $4::uuid END),
    user_hash = coalesce(a.user_hash, CASE WHEN k.user_goes THEN sha256(uuid_send($1::uuid) || uuid_send($4::uuid)) END),
    into_id = coalesce(a.into_id, CASE WHEN NOT k.into_goes THEN $5::uuid END),
    into_hash = coalesce(a.into_hash, CASE WHEN k.into_goes THEN sha256(uuid_send($1::uuid) || uuid_send($5::uuid)) END)
FROM (
    SELECT ((SELECT e.user_hash FROM user_erasures e
     WHERE e.organization_id = $1::uuid
        AND e.user_hash = sha256(uuid_send($1::uuid) || uuid_send($4::uuid))) IS NOT NULL) AS user_goes,
        ((SELECT e.user_hash FROM user_erasures e
     WHERE e.organization_id = $1::uuid
        AND e.user_hash = sha256(uuid_send($1::uuid) || uuid_send($5::uuid))) IS NOT NULL) AS into_goes
) k
WHERE a.organization_id = $1 AND a.id = $2;

-- audit_page
-- Reads actions on an organization.
-- $1 organization, $2 first, $3 end, $4 window, $5 actor, $6 action, $7 limit
WITH looked AS MATERIALIZED (
    SELECT a.id, a.organization_id, a.at, a.actor, a.scope, a.action, a.reason, a.target, a.user_id, a.user_hash, a.into_id,
    a.into_hash, a.request_id, a.outcome FROM audit a
    WHERE a.organization_id = $1 AND a.id >= $2::uuid AND a.id < $3::uuid
    ORDER BY a.id DESC
    LIMIT $4
)
SELECT e.looked, e.last, coalesce(a.has_more, false) AS has_more, a.id, a.organization_id, a.at, a.actor, a.scope, a.action, a.reason, a.target, a.user_id, a.user_hash, a.into_id,
    a.into_hash, a.request_id, a.outcome
FROM (
    SELECT (SELECT count(*) FROM looked) AS looked, (SELECT l.id FROM looked l ORDER BY l.id LIMIT 1) AS last
) e
LEFT JOIN LATERAL (
    SELECT q.* FROM (
        SELECT p.*, row_number() OVER w AS place, row_number() OVER w < count(*) OVER () AS has_more,
            sum(1024 + coalesce(CASE WHEN pg_column_compression(p.target) IS NULL THEN pg_column_size(p.target) ELSE octet_length(p.target::text) END, 0) + coalesce(CASE WHEN pg_column_compression(p.outcome) IS NULL THEN pg_column_size(p.outcome) ELSE octet_length(p.outcome::text) END, 0)) OVER w AS bytes_to
        FROM (
            SELECT l.* FROM looked l
            WHERE ($5::text IS NULL OR l.actor = $5)
                AND ($6::text IS NULL OR l.action = $6)
            ORDER BY l.id DESC
            LIMIT $7 + 1
        ) p
        WINDOW w AS (ORDER BY p.id DESC)
    ) q
    WHERE q.place = 1 OR q.bytes_to <= 2097152
) a ON true
ORDER BY a.id DESC;

-- audit_page_of_all
-- Reads actions on all organizations and on no organization.
-- $1 first, $2 end, $3 window, $4 actor, $5 action, $6 limit
WITH looked AS MATERIALIZED (
    SELECT a.id, a.organization_id, a.at, a.actor, a.scope, a.action, a.reason, a.target, a.user_id, a.user_hash, a.into_id,
    a.into_hash, a.request_id, a.outcome FROM audit a
    WHERE a.id >= $1::uuid AND a.id < $2::uuid
    ORDER BY a.id DESC
    LIMIT $3
)
SELECT e.looked, e.last, coalesce(a.has_more, false) AS has_more, a.id, a.organization_id, a.at, a.actor, a.scope, a.action, a.reason, a.target, a.user_id, a.user_hash, a.into_id,
    a.into_hash, a.request_id, a.outcome
FROM (
    SELECT (SELECT count(*) FROM looked) AS looked, (SELECT l.id FROM looked l ORDER BY l.id LIMIT 1) AS last
) e
LEFT JOIN LATERAL (
    SELECT q.* FROM (
        SELECT p.*, row_number() OVER w AS place, row_number() OVER w < count(*) OVER () AS has_more,
            sum(1024 + coalesce(CASE WHEN pg_column_compression(p.target) IS NULL THEN pg_column_size(p.target) ELSE octet_length(p.target::text) END, 0) + coalesce(CASE WHEN pg_column_compression(p.outcome) IS NULL THEN pg_column_size(p.outcome) ELSE octet_length(p.outcome::text) END, 0)) OVER w AS bytes_to
        FROM (
            SELECT l.* FROM looked l
            WHERE ($4::text IS NULL OR l.actor = $4)
                AND ($5::text IS NULL OR l.action = $5)
            ORDER BY l.id DESC
            LIMIT $6 + 1
        ) p
        WINDOW w AS (ORDER BY p.id DESC)
    ) q
    WHERE q.place = 1 OR q.bytes_to <= 2097152
) a ON true
ORDER BY a.id DESC;

-- audit_old
-- Reads actions between two ids, the oldest first.
-- $1 before, $2 after, $3 limit
SELECT a.organization_id, a.id, a.at FROM audit a
WHERE a.id < $1::uuid AND a.id > $2::uuid
ORDER BY a.id
LIMIT $3;

-- audit_drop
-- $1 organizations, $2 ids
DELETE FROM audit AS a
USING unnest($1::uuid[], $2::uuid[]) AS k (organization_id, id)
WHERE a.organization_id = k.organization_id AND a.id = k.id;

-- sessions_end
-- $1 digest, $2 ends_at
INSERT INTO ended_sessions AS s (digest, ends_at) VALUES ($1, $2) ON CONFLICT (digest) DO NOTHING;

-- sessions_ended
-- Reads the ended sessions that have not expired at `now`, up to `limit`.
-- $1 now, $2 limit
SELECT s.digest, s.ends_at FROM ended_sessions s WHERE s.ends_at > $1 ORDER BY s.ends_at DESC LIMIT $2;

-- sessions_expire
-- $1 now
DELETE FROM ended_sessions WHERE ends_at <= $1;
