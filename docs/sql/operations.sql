-- operation_page
SELECT m.stuck_at, m.user_id, m.id
FROM (
        SELECT x.stuck_at, x.user_id, x.id, x.status, x.entity_type, x.error_code, x.error_status
        FROM mutations x
        WHERE x.organization_id = $1 AND (x.stuck_at, x.user_id, x.id) > ($2, $3, $4) AND x.stuck_at <= $5 AND x.stuck_at IS NOT NULL AND x.error IS NOT NULL AND x.synced_at IS NULL AND x.position > 0
        ORDER BY x.stuck_at, x.user_id, x.id
        LIMIT $6
    ) m
WHERE m.status IN ('failed', 'conflict') AND (cardinality($7::text[]) = 0
        OR CASE WHEN m.error_code = 'conflict' THEN 'conflict' ELSE 'failed' END = ANY ($7))
        AND ($8::text IS NULL OR m.entity_type = $8)
        AND ($9::text IS NULL OR m.error_code = $9)
        AND ($10::int2 IS NULL OR m.error_status = $10)
ORDER BY m.stuck_at, m.user_id, m.id
LIMIT $11;

-- operation_edge
 SELECT x.stuck_at, x.user_id, x.id
FROM mutations x
WHERE x.organization_id = $1 AND (x.stuck_at, x.user_id, x.id) > ($2, $3, $4) AND x.stuck_at <= $5 AND x.stuck_at IS NOT NULL AND x.error IS NOT NULL AND x.synced_at IS NULL AND x.position > 0
ORDER BY x.stuck_at, x.user_id, x.id
OFFSET $6 - 1 LIMIT 1;

-- operation_page_of_group
SELECT m.stuck_at, m.user_id, m.id
FROM (
        SELECT x.stuck_at, x.user_id, x.id, x.status, x.entity_type, x.error_code, x.error_status
        FROM mutations x
        WHERE x.organization_id = $1 AND (x.stuck_at, x.user_id, x.id) > ($2, $3, $4) AND x.stuck_at <= $5 AND x.entity_type = $6 AND x.error_code = $7 AND x.error_status = $8 AND x.stuck_at IS NOT NULL AND x.error IS NOT NULL AND x.synced_at IS NULL
        ORDER BY x.stuck_at, x.user_id, x.id
        LIMIT $9
    ) m
WHERE m.status IN ('failed', 'conflict') AND (cardinality($10::text[]) = 0
        OR CASE WHEN m.error_code = 'conflict' THEN 'conflict' ELSE 'failed' END = ANY ($10))
        AND ($11::text IS NULL OR m.entity_type = $11)
        AND ($12::text IS NULL OR m.error_code = $12)
        AND ($13::int2 IS NULL OR m.error_status = $13)
ORDER BY m.stuck_at, m.user_id, m.id
LIMIT $14;

-- operation_edge_of_group
 SELECT x.stuck_at, x.user_id, x.id
FROM mutations x
WHERE x.organization_id = $1 AND (x.stuck_at, x.user_id, x.id) > ($2, $3, $4) AND x.stuck_at <= $5 AND x.entity_type = $6 AND x.error_code = $7 AND x.error_status = $8 AND x.stuck_at IS NOT NULL AND x.error IS NOT NULL AND x.synced_at IS NULL
ORDER BY x.stuck_at, x.user_id, x.id
OFFSET $9 - 1 LIMIT 1;

-- operation_page_of_some_groups
-- The next of the groups that are meant: among those whose first is next, for a page has no more groups than rows
-- $1 organization, $2 after, $3 after_user, $4 after_id, $5 until, $6 scan, $7 statuses, $8 entity_type, $9 error_code, $10 error_status, $11 limit
WITH RECURSIVE w AS (
    SELECT s.* FROM (
        SELECT x.entity_type, x.error_code, x.error_status
        FROM mutations x
        WHERE x.organization_id = $1 AND x.stuck_at IS NOT NULL AND x.error IS NOT NULL AND x.synced_at IS NULL
        ORDER BY x.entity_type, x.error_code, x.error_status
        LIMIT 1
    ) s
    UNION ALL
    SELECT n.* FROM w CROSS JOIN LATERAL (
        SELECT x.entity_type, x.error_code, x.error_status
        FROM mutations x
        WHERE x.organization_id = $1 AND x.stuck_at IS NOT NULL AND x.error IS NOT NULL AND x.synced_at IS NULL AND (x.entity_type, x.error_code, x.error_status) > (w.entity_type, w.error_code, w.error_status)
        ORDER BY x.entity_type, x.error_code, x.error_status
        LIMIT 1
    ) n
), g AS MATERIALIZED (SELECT * FROM w LIMIT 10000)
SELECT p.stuck_at, p.user_id, p.id
FROM (
    SELECT r.*
    FROM (
        SELECT g.entity_type, g.error_code, g.error_status
        FROM g CROSS JOIN LATERAL (
            SELECT x.stuck_at, x.user_id, x.id
            FROM mutations x
            WHERE x.organization_id = $1 AND x.entity_type = g.entity_type AND x.error_code = g.error_code
            AND x.error_status = g.error_status AND x.stuck_at IS NOT NULL AND x.error IS NOT NULL AND x.synced_at IS NULL AND (x.stuck_at, x.user_id, x.id) > ($2, $3, $4) AND x.stuck_at <= $5
                AND x.status IN ('failed', 'conflict')
            ORDER BY x.stuck_at, x.user_id, x.id
            LIMIT 1
        ) x
        WHERE (cardinality($7::text[]) = 0
        OR CASE WHEN g.error_code = 'conflict' THEN 'conflict' ELSE 'failed' END = ANY ($7))
        AND ($8::text IS NULL OR g.entity_type = $8)
        AND ($9::text IS NULL OR g.error_code = $9)
        AND ($10::int2 IS NULL OR g.error_status = $10) AND (SELECT count(*) FROM g) < 10000
        ORDER BY x.stuck_at, x.user_id, x.id
        LIMIT $11
    ) f
    CROSS JOIN LATERAL (
        SELECT x.stuck_at, x.user_id, x.id
            FROM mutations x
            WHERE x.organization_id = $1 AND x.entity_type = f.entity_type AND x.error_code = f.error_code
            AND x.error_status = f.error_status AND x.stuck_at IS NOT NULL AND x.error IS NOT NULL AND x.synced_at IS NULL AND (x.stuck_at, x.user_id, x.id) > ($2, $3, $4) AND x.stuck_at <= $5
                AND x.status IN ('failed', 'conflict')
            ORDER BY x.stuck_at, x.user_id, x.id
            LIMIT $11
    ) r
    UNION ALL
    SELECT m.stuck_at, m.user_id, m.id
    FROM (
        SELECT x.stuck_at, x.user_id, x.id, x.status, x.entity_type, x.error_code, x.error_status
        FROM mutations x
        WHERE x.organization_id = $1 AND (x.stuck_at, x.user_id, x.id) > ($2, $3, $4) AND x.stuck_at <= $5 AND x.stuck_at IS NOT NULL AND x.error IS NOT NULL AND x.synced_at IS NULL AND x.position > 0 AND (SELECT count(*) FROM g) >= 10000
        ORDER BY x.stuck_at, x.user_id, x.id
        LIMIT $6
    ) m
    WHERE m.status IN ('failed', 'conflict') AND (cardinality($7::text[]) = 0
        OR CASE WHEN m.error_code = 'conflict' THEN 'conflict' ELSE 'failed' END = ANY ($7))
        AND ($8::text IS NULL OR m.entity_type = $8)
        AND ($9::text IS NULL OR m.error_code = $9)
        AND ($10::int2 IS NULL OR m.error_status = $10)
) p
ORDER BY p.stuck_at, p.user_id, p.id
LIMIT $11;

-- operation_edge_of_some_groups
WITH RECURSIVE w AS (
    SELECT s.* FROM (
        SELECT x.entity_type, x.error_code, x.error_status
        FROM mutations x
        WHERE x.organization_id = $1 AND x.stuck_at IS NOT NULL AND x.error IS NOT NULL AND x.synced_at IS NULL
        ORDER BY x.entity_type, x.error_code, x.error_status
        LIMIT 1
    ) s
    UNION ALL
    SELECT n.* FROM w CROSS JOIN LATERAL (
        SELECT x.entity_type, x.error_code, x.error_status
        FROM mutations x
        WHERE x.organization_id = $1 AND x.stuck_at IS NOT NULL AND x.error IS NOT NULL AND x.synced_at IS NULL AND (x.entity_type, x.error_code, x.error_status) > (w.entity_type, w.error_code, w.error_status)
        ORDER BY x.entity_type, x.error_code, x.error_status
        LIMIT 1
    ) n
), g AS MATERIALIZED (SELECT * FROM w LIMIT 10000) SELECT x.stuck_at, x.user_id, x.id
FROM mutations x
WHERE x.organization_id = $1 AND (x.stuck_at, x.user_id, x.id) > ($2, $3, $4) AND x.stuck_at <= $5 AND x.stuck_at IS NOT NULL AND x.error IS NOT NULL AND x.synced_at IS NULL AND x.position > 0 AND (SELECT count(*) FROM g) >= 10000
ORDER BY x.stuck_at, x.user_id, x.id
OFFSET $6 - 1 LIMIT 1;

-- operation_page_of_ids
SELECT m.stuck_at, m.user_id, m.id
FROM (SELECT DISTINCT i.id FROM unnest($6::uuid[]) AS i (id)) k
    CROSS JOIN LATERAL (
        SELECT x.stuck_at, x.user_id, x.id, x.status, x.entity_type, x.error_code, x.error_status
        FROM mutations x
        WHERE x.organization_id = $1 AND x.id BETWEEN k.id AND k.id AND x.stuck_at IS NOT NULL AND x.error IS NOT NULL AND x.synced_at IS NULL
        ORDER BY x.id
        OFFSET 0
    ) m
WHERE (m.stuck_at, m.user_id, m.id) > ($2, $3, $4) AND m.stuck_at <= $5 AND m.status IN ('failed', 'conflict') AND (cardinality($7::text[]) = 0
        OR CASE WHEN m.error_code = 'conflict' THEN 'conflict' ELSE 'failed' END = ANY ($7))
        AND ($8::text IS NULL OR m.entity_type = $8)
        AND ($9::text IS NULL OR m.error_code = $9)
        AND ($10::int2 IS NULL OR m.error_status = $10) AND ($11::uuid IS NULL OR m.user_id = $11)
ORDER BY m.stuck_at, m.user_id, m.id
LIMIT $12;

-- operation_page_of_user
SELECT m.stuck_at, m.user_id, m.id
FROM (
        SELECT x.stuck_at, x.user_id, x.id, x.status, x.entity_type, x.error_code, x.error_status, x.error, x.synced_at
        FROM mutations x
        WHERE x.organization_id = $1 AND x.user_id = $6 AND x.synced_at IS NULL
        ORDER BY x.position
        OFFSET 0
    ) m
WHERE m.stuck_at IS NOT NULL AND m.error IS NOT NULL AND m.synced_at IS NULL AND (m.stuck_at, m.user_id, m.id) > ($2, $3, $4) AND m.stuck_at <= $5 AND m.status IN ('failed', 'conflict') AND (cardinality($7::text[]) = 0
        OR CASE WHEN m.error_code = 'conflict' THEN 'conflict' ELSE 'failed' END = ANY ($7))
        AND ($8::text IS NULL OR m.entity_type = $8)
        AND ($9::text IS NULL OR m.error_code = $9)
        AND ($10::int2 IS NULL OR m.error_status = $10)
ORDER BY m.stuck_at, m.user_id, m.id
LIMIT $11;

-- operation_no_edge
-- Where nothing is left behind a page.
SELECT NULL::timestamptz AS stuck_at, NULL::uuid AS user_id, NULL::uuid AS id WHERE false;

-- operation_count
 SELECT least(count(*), 10000) AS count, count(DISTINCT c.user_id) AS users,
    count(*) > 10000 OR false AS is_cut
FROM (
    SELECT x.user_id FROM mutations x
    WHERE x.organization_id = $1 AND x.stuck_at <= $2 AND x.stuck_at IS NOT NULL AND x.error IS NOT NULL AND x.synced_at IS NULL AND x.position > 0
        AND (cardinality($3::text[]) = 0
        OR CASE WHEN x.error_code = 'conflict' THEN 'conflict' ELSE 'failed' END = ANY ($3))
        AND ($4::text IS NULL OR x.entity_type = $4)
        AND ($5::text IS NULL OR x.error_code = $5)
        AND ($6::int2 IS NULL OR x.error_status = $6)
    ORDER BY x.stuck_at, x.user_id, x.id
    LIMIT 10001
) c;

-- operation_count_of_group
 SELECT least(count(*), 10000) AS count, count(DISTINCT c.user_id) AS users,
    count(*) > 10000 OR false AS is_cut
FROM (
    SELECT x.user_id FROM mutations x
    WHERE x.organization_id = $1 AND x.stuck_at <= $2 AND x.entity_type = $3 AND x.error_code = $4 AND x.error_status = $5 AND x.stuck_at IS NOT NULL AND x.error IS NOT NULL AND x.synced_at IS NULL
        AND (cardinality($6::text[]) = 0
        OR CASE WHEN x.error_code = 'conflict' THEN 'conflict' ELSE 'failed' END = ANY ($6))
        AND ($7::text IS NULL OR x.entity_type = $7)
        AND ($8::text IS NULL OR x.error_code = $8)
        AND ($9::int2 IS NULL OR x.error_status = $9)
    ORDER BY x.stuck_at, x.user_id, x.id
    LIMIT 10001
) c;

-- operation_count_of_some_groups
WITH RECURSIVE w AS (
    SELECT s.* FROM (
        SELECT x.entity_type, x.error_code, x.error_status
        FROM mutations x
        WHERE x.organization_id = $1 AND x.stuck_at IS NOT NULL AND x.error IS NOT NULL AND x.synced_at IS NULL
        ORDER BY x.entity_type, x.error_code, x.error_status
        LIMIT 1
    ) s
    UNION ALL
    SELECT n.* FROM w CROSS JOIN LATERAL (
        SELECT x.entity_type, x.error_code, x.error_status
        FROM mutations x
        WHERE x.organization_id = $1 AND x.stuck_at IS NOT NULL AND x.error IS NOT NULL AND x.synced_at IS NULL AND (x.entity_type, x.error_code, x.error_status) > (w.entity_type, w.error_code, w.error_status)
        ORDER BY x.entity_type, x.error_code, x.error_status
        LIMIT 1
    ) n
), g AS MATERIALIZED (SELECT * FROM w LIMIT 10000) SELECT least(count(*), 10000) AS count, count(DISTINCT c.user_id) AS users,
    count(*) > 10000 OR (SELECT count(*) FROM g) >= 10000 AS is_cut
FROM (
    SELECT r.user_id FROM g CROSS JOIN LATERAL (
        SELECT x.user_id FROM mutations x
        WHERE x.organization_id = $1 AND x.entity_type = g.entity_type AND x.error_code = g.error_code
            AND x.error_status = g.error_status AND x.stuck_at IS NOT NULL AND x.error IS NOT NULL AND x.synced_at IS NULL AND x.stuck_at <= $2
        ORDER BY x.stuck_at, x.user_id, x.id
        LIMIT 10001
    ) r
    WHERE (cardinality($3::text[]) = 0
        OR CASE WHEN g.error_code = 'conflict' THEN 'conflict' ELSE 'failed' END = ANY ($3))
        AND ($4::text IS NULL OR g.entity_type = $4)
        AND ($5::text IS NULL OR g.error_code = $5)
        AND ($6::int2 IS NULL OR g.error_status = $6)
    LIMIT 10001
) c;

-- operation_count_of_ids
 SELECT least(count(*), 10000) AS count, count(DISTINCT c.user_id) AS users,
    count(*) > 10000 OR false AS is_cut
FROM (
    SELECT m.user_id FROM (SELECT DISTINCT i.id FROM unnest($3::uuid[]) AS i (id)) k
    CROSS JOIN LATERAL (
        SELECT x.stuck_at, x.user_id, x.id, x.status, x.entity_type, x.error_code, x.error_status
        FROM mutations x
        WHERE x.organization_id = $1 AND x.id BETWEEN k.id AND k.id AND x.stuck_at IS NOT NULL AND x.error IS NOT NULL AND x.synced_at IS NULL
        ORDER BY x.id
        OFFSET 0
    ) m
    WHERE m.stuck_at <= $2 AND m.status IN ('failed', 'conflict') AND (cardinality($4::text[]) = 0
        OR CASE WHEN m.error_code = 'conflict' THEN 'conflict' ELSE 'failed' END = ANY ($4))
        AND ($5::text IS NULL OR m.entity_type = $5)
        AND ($6::text IS NULL OR m.error_code = $6)
        AND ($7::int2 IS NULL OR m.error_status = $7) AND ($8::uuid IS NULL OR m.user_id = $8)
    LIMIT 10001
) c;

-- operation_count_of_user
 SELECT least(count(*), 10000) AS count, count(DISTINCT c.user_id) AS users,
    count(*) > 10000 OR false AS is_cut
FROM (
    SELECT m.user_id FROM (
        SELECT x.stuck_at, x.user_id, x.id, x.status, x.entity_type, x.error_code, x.error_status, x.error, x.synced_at
        FROM mutations x
        WHERE x.organization_id = $1 AND x.user_id = $3 AND x.synced_at IS NULL
        ORDER BY x.position
        OFFSET 0
    ) m
    WHERE m.stuck_at IS NOT NULL AND m.error IS NOT NULL AND m.synced_at IS NULL AND m.stuck_at <= $2 AND m.status IN ('failed', 'conflict') AND (cardinality($4::text[]) = 0
        OR CASE WHEN m.error_code = 'conflict' THEN 'conflict' ELSE 'failed' END = ANY ($4))
        AND ($5::text IS NULL OR m.entity_type = $5)
        AND ($6::text IS NULL OR m.error_code = $6)
        AND ($7::int2 IS NULL OR m.error_status = $7)
    LIMIT 10001
) c;

-- operation_screen
-- $1 organization, $2 user, $3 ids, $4 stuck_at, $5 id, $6 token
SELECT m.id
FROM unnest($3::uuid[], $4::timestamptz[]) AS k (id, stuck_at)
CROSS JOIN LATERAL (
        SELECT * FROM mutations x
        WHERE x.organization_id = $1 AND x.user_id = $2 AND x.id = k.id
        OFFSET 0
    ) m
WHERE m.stuck_at = k.stuck_at
    AND EXISTS (
        SELECT 1 FROM operations o
        WHERE o.organization_id = $1 AND o.id = $5 AND o.lease_token = $6 AND o.state = 'running');

-- operation_make
-- $1 organization, $2 id, $3 kind, $4 statuses, $5 entity_type, $6 error_code, $7 error_status, $8 user, $9 ids, $10 dependents, $11 strategy, $12 reason, $13 actor, $14 per_second, $15 now, $16 has_ids, $17 total, $18 total_is_more
INSERT INTO operations AS o (
    organization_id, id, kind, statuses, entity_type, error_code, error_status, user_id, ids, dependents, strategy,
    reason, actor, per_second, state, due_at, created_at, changed_at, total, total_is_more)
SELECT g.id, $2, $3, $4, $5, $6, $7, $8, CASE WHEN $16::bool THEN $9::uuid[] END, $10, $11, $12, $13, $14,
    'running', $15, $15, $15, $17, $18
FROM organizations g WHERE g.id = $1 AND g.status <> 'purging'
RETURNING o.organization_id, o.id, o.kind, o.statuses, o.entity_type, o.error_code, o.error_status, o.user_id, o.ids,
    o.dependents, o.strategy, o.reason, o.actor, o.per_second, o.state, o.matched, o.done, o.skipped, o.failed,
    o.reasons, o.error, o.place_at, o.place_user, o.place_id, o.lease_owner, o.lease_token, o.created_at,
    o.started_at, o.changed_at, o.ended_at, o.total, o.total_is_more;

-- operation_lock_organization
-- $1 organization
SELECT 1 FROM organizations g WHERE g.id = $1 FOR NO KEY UPDATE;

-- operation_of_erased
-- A row where the user (`user`) was erased.
-- $1 organization, $2 user
SELECT 1 WHERE (SELECT e.user_hash FROM user_erasures e
     WHERE e.organization_id = $1::uuid
        AND e.user_hash = sha256(uuid_send($1::uuid) || uuid_send($2::uuid))) IS NOT NULL;

-- operation_running
-- Those of an organization that run, counted up to `limit`.
-- $1 organization, $2 limit
SELECT count(*) AS count
FROM (SELECT 1 FROM operations o WHERE o.organization_id = $1 AND o.ended_at IS NULL LIMIT $2) x;

-- operation_find
-- $1 organization, $2 id
SELECT o.organization_id, o.id, o.kind, o.statuses, o.entity_type, o.error_code, o.error_status, o.user_id, o.ids,
    o.dependents, o.strategy, o.reason, o.actor, o.per_second, o.state, o.matched, o.done, o.skipped, o.failed,
    o.reasons, o.error, o.place_at, o.place_user, o.place_id, o.lease_owner, o.lease_token, o.created_at,
    o.started_at, o.changed_at, o.ended_at, o.total, o.total_is_more FROM operations o WHERE o.organization_id = $1 AND o.id = $2;

-- operation_list
SELECT o.organization_id, o.id, o.kind, o.statuses, o.entity_type, o.error_code, o.error_status, o.user_id, o.ids,
    o.dependents, o.strategy, o.reason, o.actor, o.per_second, o.state, o.matched, o.done, o.skipped, o.failed,
    o.reasons, o.error, o.place_at, o.place_user, o.place_id, o.lease_owner, o.lease_token, o.created_at,
    o.started_at, o.changed_at, o.ended_at, o.total, o.total_is_more
FROM operations o
WHERE o.organization_id = $1 AND (o.created_at, o.id) < ($2, $4) AND $3::uuid IS NOT NULL AND ($5::text IS NULL OR o.state = $5)
ORDER BY o.created_at DESC, o.id DESC
LIMIT $6;

-- operation_list_of_all
SELECT o.organization_id, o.id, o.kind, o.statuses, o.entity_type, o.error_code, o.error_status, o.user_id, o.ids,
    o.dependents, o.strategy, o.reason, o.actor, o.per_second, o.state, o.matched, o.done, o.skipped, o.failed,
    o.reasons, o.error, o.place_at, o.place_user, o.place_id, o.lease_owner, o.lease_token, o.created_at,
    o.started_at, o.changed_at, o.ended_at, o.total, o.total_is_more
FROM operations o
WHERE (o.created_at, o.organization_id, o.id) < ($2, $3, $4) AND $1::uuid IS NOT NULL AND ($5::text IS NULL OR o.state = $5)
ORDER BY o.created_at DESC, o.organization_id DESC, o.id DESC
LIMIT $6;

-- operations_due
-- Of any organization except some (`except`), the longest due first: a plain read.
-- $1 now, $2 limit, $3 except
SELECT x.organization_id, x.id, x.due_at FROM operations x
WHERE x.due_at <= $1 AND x.organization_id <> ALL ($3::uuid[]) ORDER BY x.due_at LIMIT $2;

-- operation_claim
-- Claims an operation that was due at `due_at` for a gateway (`owner`) until `until`, unless another has claimed it since; `now`: now.
-- $1 organization, $2 id, $3 due_at, $4 owner, $5 until, $6 now
UPDATE operations AS o
SET lease_owner = $4, lease_token = o.lease_token + 1, due_at = $5, started_at = coalesce(o.started_at, $6)
WHERE o.organization_id = $1 AND o.id = $2 AND o.due_at = $3
RETURNING o.organization_id, o.id, o.kind, o.statuses, o.entity_type, o.error_code, o.error_status, o.user_id, o.ids,
    o.dependents, o.strategy, o.reason, o.actor, o.per_second, o.state, o.matched, o.done, o.skipped, o.failed,
    o.reasons, o.error, o.place_at, o.place_user, o.place_id, o.lease_owner, o.lease_token, o.created_at,
    o.started_at, o.changed_at, o.ended_at, o.total, o.total_is_more;

-- operation_held
-- Whether the lease is valid: no other gateway has claimed the operation, and it has not ended.
-- $1 organization, $2 id, $3 token
SELECT 1 FROM operations o
WHERE o.organization_id = $1 AND o.id = $2 AND o.lease_token = $3 AND o.state = 'running';

-- operation_count_done
-- Counts the mutations that a transaction has settled (`count`), in the same transaction.
-- $1 organization, $2 id, $3 count, $4 now
UPDATE operations AS o SET done = o.done + $3, matched = o.matched + $3, changed_at = $4
WHERE o.organization_id = $1 AND o.id = $2;

-- operation_advance
-- Ends a step: records the numbers of skipped and failed mutations and the place, and renews the lease.
-- $1 organization, $2 id, $3 token, $4 skipped, $5 failed, $6 reasons, $7 at, $8 user, $9 mutation, $10 due_at, $11 now
UPDATE operations AS o
SET matched = o.matched + $4 + $5, skipped = o.skipped + $4, failed = o.failed + $5, reasons = $6,
    place_at = $7, place_user = $8, place_id = $9, due_at = $10, changed_at = $11
WHERE o.organization_id = $1 AND o.id = $2 AND o.lease_token = $3 AND o.state = 'running'
RETURNING o.organization_id, o.id, o.kind, o.statuses, o.entity_type, o.error_code, o.error_status, o.user_id, o.ids,
    o.dependents, o.strategy, o.reason, o.actor, o.per_second, o.state, o.matched, o.done, o.skipped, o.failed,
    o.reasons, o.error, o.place_at, o.place_user, o.place_id, o.lease_owner, o.lease_token, o.created_at,
    o.started_at, o.changed_at, o.ended_at, o.total, o.total_is_more;

-- operation_end
-- `state`: how it ended; `error`: why.
-- $1 organization, $2 id, $3 token, $4 state, $5 error, $6 now
UPDATE operations AS o
SET state = $4, error = $5, due_at = NULL, lease_owner = NULL, ended_at = $6, changed_at = $6
WHERE o.organization_id = $1 AND o.id = $2 AND o.lease_token = $3 AND o.state = 'running'
RETURNING o.organization_id, o.id, o.kind, o.statuses, o.entity_type, o.error_code, o.error_status, o.user_id, o.ids,
    o.dependents, o.strategy, o.reason, o.actor, o.per_second, o.state, o.matched, o.done, o.skipped, o.failed,
    o.reasons, o.error, o.place_at, o.place_user, o.place_id, o.lease_owner, o.lease_token, o.created_at,
    o.started_at, o.changed_at, o.ended_at, o.total, o.total_is_more;

-- operation_release
-- Releases the lease: another gateway may continue from `due_at`.
-- $1 organization, $2 id, $3 token, $4 due_at
UPDATE operations AS o SET due_at = $4, lease_owner = NULL
WHERE o.organization_id = $1 AND o.id = $2 AND o.lease_token = $3 AND o.state = 'running';

-- operation_cancel
-- The gateway that works on the operation detects it in its next step.
-- $1 organization, $2 id, $3 now
UPDATE operations AS o
SET state = 'cancelled', due_at = NULL, lease_owner = NULL, ended_at = $3, changed_at = $3
WHERE o.organization_id = $1 AND o.id = $2 AND o.state = 'running';

-- operation_prune
-- Of any organization: what ended before `before`.
-- $1 before, $2 limit
DELETE FROM operations AS o
USING (
    SELECT x.organization_id, x.id FROM operations x WHERE x.ended_at < $1 ORDER BY x.ended_at LIMIT $2
) k
WHERE o.organization_id = k.organization_id AND o.id = k.id;
