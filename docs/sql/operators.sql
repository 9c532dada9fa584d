-- now_troubled
-- Counts the failed and the conflicting mutations
-- $1 limit
WITH RECURSIVE t AS MATERIALIZED (
    SELECT o.id AS organization_id, z.entity_type
    FROM organizations o
    CROSS JOIN LATERAL (
        WITH RECURSIVE w AS (
    SELECT s.* FROM (
        SELECT x.entity_type
        FROM mutations x
        WHERE x.organization_id = o.id AND x.stuck_at IS NOT NULL AND x.error IS NOT NULL AND x.synced_at IS NULL
        ORDER BY x.entity_type
        LIMIT 1
    ) s
    UNION ALL
    SELECT n.* FROM w CROSS JOIN LATERAL (
        SELECT x.entity_type
        FROM mutations x
        WHERE x.organization_id = o.id AND x.stuck_at IS NOT NULL AND x.error IS NOT NULL AND x.synced_at IS NULL AND (x.entity_type) > (w.entity_type)
        ORDER BY x.entity_type
        LIMIT 1
    ) n
)
        SELECT * FROM w LIMIT $1
    ) z
    LIMIT $1
)
SELECT (SELECT count(*) FROM (
        SELECT 1 FROM t CROSS JOIN LATERAL (
            (
                SELECT 1 FROM mutations x
                WHERE x.organization_id = t.organization_id AND x.entity_type = t.entity_type
                    AND x.error_code < 'conflict' AND x.stuck_at IS NOT NULL AND x.error IS NOT NULL AND x.synced_at IS NULL
                ORDER BY x.error_code
                LIMIT $1
            ) UNION ALL (
                SELECT 1 FROM mutations x
                WHERE x.organization_id = t.organization_id AND x.entity_type = t.entity_type
                    AND x.error_code > 'conflict' AND x.stuck_at IS NOT NULL AND x.error IS NOT NULL AND x.synced_at IS NULL
                ORDER BY x.error_code
                LIMIT $1
            )
        ) r
        LIMIT $1
    ) y) AS failed,
    (SELECT count(*) FROM (
        SELECT 1 FROM t CROSS JOIN LATERAL (
            (
                SELECT 1 FROM mutations x
                WHERE x.organization_id = t.organization_id AND x.entity_type = t.entity_type
                    AND x.error_code = 'conflict' AND x.stuck_at IS NOT NULL AND x.error IS NOT NULL AND x.synced_at IS NULL
                ORDER BY x.error_code
                LIMIT $1
            )
        ) r
        LIMIT $1
    ) y) AS conflict,
    (SELECT count(*) FROM t) AS looked;

-- now_lanes
-- Counts the halted lanes, and the lanes that wait for a time after `now`
-- $1 limit, $2 now
SELECT (SELECT count(*) FROM (SELECT 1 FROM lanes l WHERE l.halted_by IS NOT NULL LIMIT $1) x) AS halted,
    (SELECT count(*) FROM (
        SELECT 1 FROM lanes l WHERE l.ready_at > $2 AND l.lease_owner IS NULL LIMIT $1) y) AS waiting;

-- now_oldest
-- Among the `limit` lanes that are due next, selects the lane whose mutations have waited longest.
-- $1 limit
SELECT x.organization_id, x.user_id, x.queued_since
FROM (
    SELECT l.organization_id, l.user_id, l.queued_since FROM lanes l
    WHERE l.ready_at IS NOT NULL
    ORDER BY l.ready_at
    LIMIT $1
) x
WHERE x.queued_since IS NOT NULL
ORDER BY x.queued_since
LIMIT 1;

-- now_first_waiting
-- The first waiting mutation of a lane (`organization`, `user`).
-- $1 organization, $2 user
SELECT y.id
FROM (
    SELECT z.id, z.status FROM mutations z
    WHERE z.organization_id = $1 AND z.user_id = $2 AND z.synced_at IS NULL
    ORDER BY z.position
    LIMIT 1000
) y
WHERE y.status IN ('pending', 'in_flight')
LIMIT 1;

-- now_replicas
-- The gateways with a heartbeat in the last `seconds` seconds, beginning with the latest heartbeat.
-- $1 seconds
SELECT g.id, g.seen_at FROM gateways g
WHERE g.seen_at > clock_timestamp() - $1::int8 * interval '1 second'
ORDER BY g.seen_at DESC, g.id
LIMIT 100;

-- stuck_owners
-- Selects the organizations with stuck mutations, ordered by id.
-- $1 first, $2 last, $3 limit
SELECT o.id, o.name
FROM organizations o
CROSS JOIN LATERAL (
    SELECT 1 FROM mutations x WHERE x.organization_id = o.id AND x.stuck_at IS NOT NULL AND x.error IS NOT NULL AND x.synced_at IS NULL AND x.position > 0
    ORDER BY x.stuck_at LIMIT 1
) s
WHERE o.id >= $1 AND o.id <= $2
ORDER BY o.id
LIMIT $3;

-- stuck_groups
-- Finds the groups of a page, each by one look-up, and counts their mutations.
-- $1 organizations, $2 after_types, $3 after_codes, $4 after_statuses, $5 walk, $6 limit, $7 counted, $8 statuses, $9 entity_type, $10 error_code, $11 error_status
SELECT p.organization_id, p.entity_type, p.error_code, p.error_status, c.count, f.first_at, l.stuck_at, l.user_id,
    l.id, l.error, p.number
FROM (
    SELECT k.organization_id, k.place, g.entity_type, g.error_code, g.error_status, g.number
    FROM unnest($1::uuid[], $2::text[], $3::text[], $4::int2[])
        WITH ORDINALITY AS k (organization_id, entity_type, error_code, error_status, place)
    CROSS JOIN LATERAL (
        WITH RECURSIVE w AS (
            SELECT s.*, 1::int8 AS number
            FROM (
                SELECT x.entity_type, x.error_code, x.error_status
            FROM mutations x
            WHERE x.organization_id = k.organization_id AND x.stuck_at IS NOT NULL AND x.error IS NOT NULL AND x.synced_at IS NULL
                AND (x.entity_type, x.error_code, x.error_status) > (k.entity_type, k.error_code, k.error_status)
            ORDER BY x.entity_type, x.error_code, x.error_status
            LIMIT 1
            ) s
            UNION ALL
            SELECT n.*, w.number + 1
            FROM w CROSS JOIN LATERAL (
                SELECT x.entity_type, x.error_code, x.error_status
            FROM mutations x
            WHERE x.organization_id = k.organization_id AND x.stuck_at IS NOT NULL AND x.error IS NOT NULL AND x.synced_at IS NULL
                AND (x.entity_type, x.error_code, x.error_status) > (w.entity_type, w.error_code, w.error_status)
            ORDER BY x.entity_type, x.error_code, x.error_status
            LIMIT 1
            ) n
        )
        SELECT * FROM w LIMIT $5
    ) g
    WHERE (cardinality($8::text[]) = 0
        OR CASE WHEN g.error_code = 'conflict' THEN 'conflict' ELSE 'failed' END = ANY ($8))
        AND ($9::text IS NULL OR g.entity_type = $9)
        AND ($10::text IS NULL OR g.error_code = $10)
        AND ($11::int2 IS NULL OR g.error_status = $11)
    LIMIT $6
) p
CROSS JOIN LATERAL (
    SELECT count(*) AS count FROM (SELECT 1 FROM mutations x WHERE x.organization_id = p.organization_id AND x.entity_type = p.entity_type AND x.error_code = p.error_code
        AND x.error_status = p.error_status AND x.stuck_at IS NOT NULL AND x.error IS NOT NULL AND x.synced_at IS NULL LIMIT $7) y
) c
CROSS JOIN LATERAL (
    SELECT x.stuck_at AS first_at FROM mutations x WHERE x.organization_id = p.organization_id AND x.entity_type = p.entity_type AND x.error_code = p.error_code
        AND x.error_status = p.error_status AND x.stuck_at IS NOT NULL AND x.error IS NOT NULL AND x.synced_at IS NULL
    ORDER BY x.stuck_at, x.user_id, x.id LIMIT 1
) f
CROSS JOIN LATERAL (
    SELECT x.stuck_at, x.user_id, x.id, x.error FROM mutations x WHERE x.organization_id = p.organization_id AND x.entity_type = p.entity_type AND x.error_code = p.error_code
        AND x.error_status = p.error_status AND x.stuck_at IS NOT NULL AND x.error IS NOT NULL AND x.synced_at IS NULL
    ORDER BY x.stuck_at DESC, x.user_id DESC, x.id DESC LIMIT 1
) l
ORDER BY p.place, p.number;

-- stuck_page_of_all
-- $1 after, $2 after_organization, $3 after_user, $4 after_id, $5 scan, $6 statuses, $7 entity_type, $8 error_code, $9 error_status, $10 limit
SELECT m.organization_id, m.user_id, m.id, m.device_id, m.operation, m.entity_type, m.local_id, m.local_number, m.server_id, m.server_id_is_integer, m.status, m.error_code,
    m.error_status, m.attempt_count, m.accepted_at, m.error, m.stuck_at
FROM (
    SELECT * FROM mutations x
    WHERE (x.stuck_at, x.organization_id, x.user_id, x.id) < ($1, $2, $3, $4) AND x.stuck_at IS NOT NULL AND x.error IS NOT NULL AND x.synced_at IS NULL AND x.position > 0
    ORDER BY x.stuck_at DESC, x.organization_id DESC, x.user_id DESC, x.id DESC
    LIMIT $5
) m
WHERE m.status IN ('failed', 'conflict') AND (cardinality($6::text[]) = 0
        OR CASE WHEN m.error_code = 'conflict' THEN 'conflict' ELSE 'failed' END = ANY ($6))
        AND ($7::text IS NULL OR m.entity_type = $7)
        AND ($8::text IS NULL OR m.error_code = $8)
        AND ($9::int2 IS NULL OR m.error_status = $9)
ORDER BY m.stuck_at DESC, m.organization_id DESC, m.user_id DESC, m.id DESC
LIMIT $10;

-- stuck_page_of_group
-- $1 organization, $2 after, $3 after_user, $4 after_id, $5 until, $6 group_type, $7 group_code, $8 group_status, $9 scan, $10 statuses, $11 entity_type, $12 error_code, $13 error_status, $14 limit
SELECT m.organization_id, m.user_id, m.id, m.device_id, m.operation, m.entity_type, m.local_id, m.local_number, m.server_id, m.server_id_is_integer, m.status, m.error_code,
    m.error_status, m.attempt_count, m.accepted_at, m.error, m.stuck_at
FROM (
    SELECT * FROM mutations x
    WHERE x.organization_id = $1 AND x.entity_type = $6 AND x.error_code = $7 AND x.error_status = $8 AND (x.stuck_at, x.user_id, x.id) < ($2, $3, $4) AND $5::timestamptz IS NOT NULL AND x.stuck_at IS NOT NULL AND x.error IS NOT NULL AND x.synced_at IS NULL
    ORDER BY x.stuck_at DESC, x.user_id DESC, x.id DESC
    LIMIT $9
) m
WHERE m.status IN ('failed', 'conflict') AND (cardinality($10::text[]) = 0
        OR CASE WHEN m.error_code = 'conflict' THEN 'conflict' ELSE 'failed' END = ANY ($10))
        AND ($11::text IS NULL OR m.entity_type = $11)
        AND ($12::text IS NULL OR m.error_code = $12)
        AND ($13::int2 IS NULL OR m.error_status = $13)
ORDER BY m.stuck_at DESC, m.user_id DESC, m.id DESC
LIMIT $14;

-- stuck_page_of_organization
-- $1 organization, $2 after, $3 after_user, $4 after_id, $5 until, $6 scan, $7 statuses, $8 entity_type, $9 error_code, $10 error_status, $11 limit
SELECT m.organization_id, m.user_id, m.id, m.device_id, m.operation, m.entity_type, m.local_id, m.local_number, m.server_id, m.server_id_is_integer, m.status, m.error_code,
    m.error_status, m.attempt_count, m.accepted_at, m.error, m.stuck_at
FROM (
    SELECT * FROM mutations x
    WHERE x.organization_id = $1 AND (x.stuck_at, x.user_id, x.id) < ($2, $3, $4) AND $5::timestamptz IS NOT NULL AND x.stuck_at IS NOT NULL AND x.error IS NOT NULL AND x.synced_at IS NULL AND x.position > 0
    ORDER BY x.stuck_at DESC, x.user_id DESC, x.id DESC
    LIMIT $6
) m
WHERE m.status IN ('failed', 'conflict') AND (cardinality($7::text[]) = 0
        OR CASE WHEN m.error_code = 'conflict' THEN 'conflict' ELSE 'failed' END = ANY ($7))
        AND ($8::text IS NULL OR m.entity_type = $8)
        AND ($9::text IS NULL OR m.error_code = $9)
        AND ($10::int2 IS NULL OR m.error_status = $10)
ORDER BY m.stuck_at DESC, m.user_id DESC, m.id DESC
LIMIT $11;

-- stuck_page_of_some_groups
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
SELECT m.organization_id, m.user_id, m.id, m.device_id, m.operation, m.entity_type, m.local_id, m.local_number, m.server_id, m.server_id_is_integer, m.status, m.error_code,
    m.error_status, m.attempt_count, m.accepted_at, m.error, m.stuck_at
FROM (
    SELECT * FROM (
        SELECT r.*
        FROM (
            SELECT g.*
            FROM g CROSS JOIN LATERAL (
                SELECT x.stuck_at, x.organization_id, x.user_id, x.id
                FROM mutations x
                WHERE x.organization_id = $1
                    AND (x.stuck_at, x.user_id, x.id) < ($2, $3, $4) AND $5::timestamptz IS NOT NULL AND x.entity_type = g.entity_type AND x.error_code = g.error_code
            AND x.error_status = g.error_status AND x.stuck_at IS NOT NULL AND x.error IS NOT NULL AND x.synced_at IS NULL
                    AND x.status IN ('failed', 'conflict')
                ORDER BY x.stuck_at DESC, x.user_id DESC, x.id DESC
                LIMIT 1
            ) x
            WHERE (cardinality($7::text[]) = 0
        OR CASE WHEN g.error_code = 'conflict' THEN 'conflict' ELSE 'failed' END = ANY ($7))
        AND ($8::text IS NULL OR g.entity_type = $8)
        AND ($9::text IS NULL OR g.error_code = $9)
        AND ($10::int2 IS NULL OR g.error_status = $10) AND (SELECT count(*) FROM g) < 10000
            ORDER BY x.stuck_at DESC, x.user_id DESC, x.id DESC
            LIMIT $11
        ) f
        CROSS JOIN LATERAL (
            SELECT x.stuck_at, x.organization_id, x.user_id, x.id
                FROM mutations x
                WHERE x.organization_id = $1
                    AND (x.stuck_at, x.user_id, x.id) < ($2, $3, $4) AND $5::timestamptz IS NOT NULL AND x.entity_type = f.entity_type AND x.error_code = f.error_code
            AND x.error_status = f.error_status AND x.stuck_at IS NOT NULL AND x.error IS NOT NULL AND x.synced_at IS NULL
                    AND x.status IN ('failed', 'conflict')
                ORDER BY x.stuck_at DESC, x.user_id DESC, x.id DESC
                LIMIT $11
        ) r
        UNION ALL
        SELECT m.stuck_at, m.organization_id, m.user_id, m.id
        FROM (
            SELECT x.stuck_at, x.organization_id, x.user_id, x.id, x.status, x.entity_type, x.error_code, x.error_status
            FROM mutations x
            WHERE x.organization_id = $1 AND (x.stuck_at, x.user_id, x.id) < ($2, $3, $4) AND $5::timestamptz IS NOT NULL AND x.stuck_at IS NOT NULL AND x.error IS NOT NULL AND x.synced_at IS NULL AND x.position > 0 AND (SELECT count(*) FROM g) >= 10000
            ORDER BY x.stuck_at DESC, x.user_id DESC, x.id DESC
            LIMIT $6
        ) m
        WHERE m.status IN ('failed', 'conflict') AND (cardinality($7::text[]) = 0
        OR CASE WHEN m.error_code = 'conflict' THEN 'conflict' ELSE 'failed' END = ANY ($7))
        AND ($8::text IS NULL OR m.entity_type = $8)
        AND ($9::text IS NULL OR m.error_code = $9)
        AND ($10::int2 IS NULL OR m.error_status = $10)
    ) x
    ORDER BY x.stuck_at DESC, x.user_id DESC, x.id DESC
    LIMIT $11
) p
CROSS JOIN LATERAL (
    SELECT * FROM mutations x
    WHERE x.organization_id = p.organization_id AND x.user_id = p.user_id AND x.id = p.id
    OFFSET 0
) m
ORDER BY p.stuck_at DESC, p.user_id DESC, p.id DESC;

-- stuck_page_of_some_groups_of_all
-- $1 after, $2 after_organization, $3 after_user, $4 after_id, $5 scan, $6 statuses, $7 entity_type, $8 error_code, $9 error_status, $10 limit
WITH RECURSIVE g AS MATERIALIZED (
    SELECT o.id AS organization_id, t.*
    FROM organizations o
    CROSS JOIN LATERAL (
        WITH RECURSIVE w AS (
    SELECT s.* FROM (
        SELECT x.entity_type, x.error_code, x.error_status
        FROM mutations x
        WHERE x.organization_id = o.id AND x.stuck_at IS NOT NULL AND x.error IS NOT NULL AND x.synced_at IS NULL
        ORDER BY x.entity_type, x.error_code, x.error_status
        LIMIT 1
    ) s
    UNION ALL
    SELECT n.* FROM w CROSS JOIN LATERAL (
        SELECT x.entity_type, x.error_code, x.error_status
        FROM mutations x
        WHERE x.organization_id = o.id AND x.stuck_at IS NOT NULL AND x.error IS NOT NULL AND x.synced_at IS NULL AND (x.entity_type, x.error_code, x.error_status) > (w.entity_type, w.error_code, w.error_status)
        ORDER BY x.entity_type, x.error_code, x.error_status
        LIMIT 1
    ) n
)
        SELECT * FROM w LIMIT 10000
    ) t
    LIMIT 10000
)
SELECT m.organization_id, m.user_id, m.id, m.device_id, m.operation, m.entity_type, m.local_id, m.local_number, m.server_id, m.server_id_is_integer, m.status, m.error_code,
    m.error_status, m.attempt_count, m.accepted_at, m.error, m.stuck_at
FROM (
    SELECT * FROM (
        SELECT r.*
        FROM (
            SELECT g.*
            FROM g CROSS JOIN LATERAL (
                SELECT x.stuck_at, x.organization_id, x.user_id, x.id
                FROM mutations x
                WHERE x.organization_id = g.organization_id
                    AND (x.stuck_at, x.organization_id, x.user_id, x.id) < ($1, $2, $3, $4) AND x.entity_type = g.entity_type AND x.error_code = g.error_code
            AND x.error_status = g.error_status AND x.stuck_at IS NOT NULL AND x.error IS NOT NULL AND x.synced_at IS NULL
                    AND x.status IN ('failed', 'conflict')
                ORDER BY x.stuck_at DESC, x.user_id DESC, x.id DESC
                LIMIT 1
            ) x
            WHERE (cardinality($6::text[]) = 0
        OR CASE WHEN g.error_code = 'conflict' THEN 'conflict' ELSE 'failed' END = ANY ($6))
        AND ($7::text IS NULL OR g.entity_type = $7)
        AND ($8::text IS NULL OR g.error_code = $8)
        AND ($9::int2 IS NULL OR g.error_status = $9) AND (SELECT count(*) FROM g) < 10000
            ORDER BY x.stuck_at DESC, x.organization_id DESC, x.user_id DESC, x.id DESC
            LIMIT $10
        ) f
        CROSS JOIN LATERAL (
            SELECT x.stuck_at, x.organization_id, x.user_id, x.id
                FROM mutations x
                WHERE x.organization_id = f.organization_id
                    AND (x.stuck_at, x.organization_id, x.user_id, x.id) < ($1, $2, $3, $4) AND x.entity_type = f.entity_type AND x.error_code = f.error_code
            AND x.error_status = f.error_status AND x.stuck_at IS NOT NULL AND x.error IS NOT NULL AND x.synced_at IS NULL
                    AND x.status IN ('failed', 'conflict')
                ORDER BY x.stuck_at DESC, x.user_id DESC, x.id DESC
                LIMIT $10
        ) r
        UNION ALL
        SELECT m.stuck_at, m.organization_id, m.user_id, m.id
        FROM (
            SELECT x.stuck_at, x.organization_id, x.user_id, x.id, x.status, x.entity_type, x.error_code, x.error_status
            FROM mutations x
            WHERE (x.stuck_at, x.organization_id, x.user_id, x.id) < ($1, $2, $3, $4) AND x.stuck_at IS NOT NULL AND x.error IS NOT NULL AND x.synced_at IS NULL AND x.position > 0 AND (SELECT count(*) FROM g) >= 10000
            ORDER BY x.stuck_at DESC, x.organization_id DESC, x.user_id DESC, x.id DESC
            LIMIT $5
        ) m
        WHERE m.status IN ('failed', 'conflict') AND (cardinality($6::text[]) = 0
        OR CASE WHEN m.error_code = 'conflict' THEN 'conflict' ELSE 'failed' END = ANY ($6))
        AND ($7::text IS NULL OR m.entity_type = $7)
        AND ($8::text IS NULL OR m.error_code = $8)
        AND ($9::int2 IS NULL OR m.error_status = $9)
    ) x
    ORDER BY x.stuck_at DESC, x.organization_id DESC, x.user_id DESC, x.id DESC
    LIMIT $10
) p
CROSS JOIN LATERAL (
    SELECT * FROM mutations x
    WHERE x.organization_id = p.organization_id AND x.user_id = p.user_id AND x.id = p.id
    OFFSET 0
) m
ORDER BY p.stuck_at DESC, p.organization_id DESC, p.user_id DESC, p.id DESC;

-- stuck_page_of_user
-- $1 organization, $2 after, $3 after_user, $4 after_id, $5 until, $6 user, $7 scan, $8 statuses, $9 entity_type, $10 error_code, $11 error_status, $12 limit
SELECT m.organization_id, m.user_id, m.id, m.device_id, m.operation, m.entity_type, m.local_id, m.local_number, m.server_id, m.server_id_is_integer, m.status, m.error_code,
    m.error_status, m.attempt_count, m.accepted_at, m.error, m.stuck_at
FROM (
        SELECT * FROM mutations x
        WHERE x.organization_id = $1 AND x.user_id = $6 AND x.synced_at IS NULL
        ORDER BY x.position
        LIMIT $7
    ) m
WHERE m.stuck_at IS NOT NULL AND m.error IS NOT NULL AND m.synced_at IS NULL AND (m.stuck_at, m.user_id, m.id) < ($2, $3, $4) AND $5::timestamptz IS NOT NULL AND m.status IN ('failed', 'conflict') AND (cardinality($8::text[]) = 0
        OR CASE WHEN m.error_code = 'conflict' THEN 'conflict' ELSE 'failed' END = ANY ($8))
        AND ($9::text IS NULL OR m.entity_type = $9)
        AND ($10::text IS NULL OR m.error_code = $10)
        AND ($11::int2 IS NULL OR m.error_status = $11)
ORDER BY m.stuck_at DESC, m.user_id DESC, m.id DESC
LIMIT $12;

-- stuck_edge_of_all
-- $1 after, $2 after_organization, $3 after_user, $4 after_id, $5 scan
 SELECT x.stuck_at, x.organization_id, x.user_id, x.id
FROM mutations x
WHERE (x.stuck_at, x.organization_id, x.user_id, x.id) < ($1, $2, $3, $4) AND x.stuck_at IS NOT NULL AND x.error IS NOT NULL AND x.synced_at IS NULL AND x.position > 0
ORDER BY x.stuck_at DESC, x.organization_id DESC, x.user_id DESC, x.id DESC
OFFSET $5 - 1 LIMIT 1;

-- stuck_edge_of_group
-- $1 organization, $2 after, $3 after_user, $4 after_id, $5 until, $6 group_type, $7 group_code, $8 group_status, $9 scan
 SELECT x.stuck_at, x.organization_id, x.user_id, x.id
FROM mutations x
WHERE x.organization_id = $1 AND x.entity_type = $6 AND x.error_code = $7 AND x.error_status = $8 AND (x.stuck_at, x.user_id, x.id) < ($2, $3, $4) AND $5::timestamptz IS NOT NULL AND x.stuck_at IS NOT NULL AND x.error IS NOT NULL AND x.synced_at IS NULL
ORDER BY x.stuck_at DESC, x.user_id DESC, x.id DESC
OFFSET $9 - 1 LIMIT 1;

-- stuck_edge_of_organization
-- $1 organization, $2 after, $3 after_user, $4 after_id, $5 until, $6 scan
 SELECT x.stuck_at, x.organization_id, x.user_id, x.id
FROM mutations x
WHERE x.organization_id = $1 AND (x.stuck_at, x.user_id, x.id) < ($2, $3, $4) AND $5::timestamptz IS NOT NULL AND x.stuck_at IS NOT NULL AND x.error IS NOT NULL AND x.synced_at IS NULL AND x.position > 0
ORDER BY x.stuck_at DESC, x.user_id DESC, x.id DESC
OFFSET $6 - 1 LIMIT 1;

-- stuck_edge_of_some_groups
-- $1 organization, $2 after, $3 after_user, $4 after_id, $5 until, $6 scan
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
), g AS MATERIALIZED (SELECT * FROM w LIMIT 10000) SELECT x.stuck_at, x.organization_id, x.user_id, x.id
FROM mutations x
WHERE x.organization_id = $1 AND (x.stuck_at, x.user_id, x.id) < ($2, $3, $4) AND $5::timestamptz IS NOT NULL AND x.stuck_at IS NOT NULL AND x.error IS NOT NULL AND x.synced_at IS NULL AND x.position > 0 AND (SELECT count(*) FROM g) >= 10000
ORDER BY x.stuck_at DESC, x.user_id DESC, x.id DESC
OFFSET $6 - 1 LIMIT 1;

-- stuck_edge_of_some_groups_of_all
-- $1 after, $2 after_organization, $3 after_user, $4 after_id, $5 scan
WITH RECURSIVE g AS MATERIALIZED (
    SELECT o.id AS organization_id, t.*
    FROM organizations o
    CROSS JOIN LATERAL (
        WITH RECURSIVE w AS (
    SELECT s.* FROM (
        SELECT x.entity_type, x.error_code, x.error_status
        FROM mutations x
        WHERE x.organization_id = o.id AND x.stuck_at IS NOT NULL AND x.error IS NOT NULL AND x.synced_at IS NULL
        ORDER BY x.entity_type, x.error_code, x.error_status
        LIMIT 1
    ) s
    UNION ALL
    SELECT n.* FROM w CROSS JOIN LATERAL (
        SELECT x.entity_type, x.error_code, x.error_status
        FROM mutations x
        WHERE x.organization_id = o.id AND x.stuck_at IS NOT NULL AND x.error IS NOT NULL AND x.synced_at IS NULL AND (x.entity_type, x.error_code, x.error_status) > (w.entity_type, w.error_code, w.error_status)
        ORDER BY x.entity_type, x.error_code, x.error_status
        LIMIT 1
    ) n
)
        SELECT * FROM w LIMIT 10000
    ) t
    LIMIT 10000
) SELECT x.stuck_at, x.organization_id, x.user_id, x.id
FROM mutations x
WHERE (x.stuck_at, x.organization_id, x.user_id, x.id) < ($1, $2, $3, $4) AND x.stuck_at IS NOT NULL AND x.error IS NOT NULL AND x.synced_at IS NULL AND x.position > 0 AND (SELECT count(*) FROM g) >= 10000
ORDER BY x.stuck_at DESC, x.organization_id DESC, x.user_id DESC, x.id DESC
OFFSET $5 - 1 LIMIT 1;

-- operation_page_of_group
-- $1 organization, $2 after, $3 after_user, $4 after_id, $5 until, $6 group_type, $7 group_code, $8 group_status, $9 scan, $10 statuses, $11 entity_type, $12 error_code, $13 error_status, $14 limit
SELECT m.stuck_at, m.user_id, m.id
FROM (
    SELECT * FROM mutations x
    WHERE x.organization_id = $1 AND x.entity_type = $6 AND x.error_code = $7 AND x.error_status = $8 AND (x.stuck_at, x.user_id, x.id) > ($2, $3, $4) AND x.stuck_at <= $5 AND x.stuck_at IS NOT NULL AND x.error IS NOT NULL AND x.synced_at IS NULL
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

-- operation_page_of_ids
-- $1 organization, $2 after, $3 after_user, $4 after_id, $5 until, $6 ids, $7 statuses, $8 entity_type, $9 error_code, $10 error_status, $11 only_user, $12 limit
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
        AND ($10::int2 IS NULL OR m.error_status = $10)
AND ($11::uuid IS NULL OR m.user_id = $11)
ORDER BY m.stuck_at, m.user_id, m.id
LIMIT $12;

-- operation_page_of_organization
-- $1 organization, $2 after, $3 after_user, $4 after_id, $5 until, $6 scan, $7 statuses, $8 entity_type, $9 error_code, $10 error_status, $11 limit
SELECT m.stuck_at, m.user_id, m.id
FROM (
    SELECT * FROM mutations x
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

-- operation_page_of_some_groups
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
SELECT m.stuck_at, m.user_id, m.id
FROM (
    SELECT * FROM (
        SELECT r.*
        FROM (
            SELECT g.*
            FROM g CROSS JOIN LATERAL (
                SELECT x.stuck_at, x.organization_id, x.user_id, x.id
                FROM mutations x
                WHERE x.organization_id = $1
                    AND (x.stuck_at, x.user_id, x.id) > ($2, $3, $4) AND x.stuck_at <= $5 AND x.entity_type = g.entity_type AND x.error_code = g.error_code
            AND x.error_status = g.error_status AND x.stuck_at IS NOT NULL AND x.error IS NOT NULL AND x.synced_at IS NULL
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
            SELECT x.stuck_at, x.organization_id, x.user_id, x.id
                FROM mutations x
                WHERE x.organization_id = $1
                    AND (x.stuck_at, x.user_id, x.id) > ($2, $3, $4) AND x.stuck_at <= $5 AND x.entity_type = f.entity_type AND x.error_code = f.error_code
            AND x.error_status = f.error_status AND x.stuck_at IS NOT NULL AND x.error IS NOT NULL AND x.synced_at IS NULL
                    AND x.status IN ('failed', 'conflict')
                ORDER BY x.stuck_at, x.user_id, x.id
                LIMIT $11
        ) r
        UNION ALL
        SELECT m.stuck_at, m.organization_id, m.user_id, m.id
        FROM (
            SELECT x.stuck_at, x.organization_id, x.user_id, x.id, x.status, x.entity_type, x.error_code, x.error_status
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
    ) x
    ORDER BY x.stuck_at, x.user_id, x.id
    LIMIT $11
) p
CROSS JOIN LATERAL (
    SELECT * FROM mutations x
    WHERE x.organization_id = p.organization_id AND x.user_id = p.user_id AND x.id = p.id
    OFFSET 0
) m
ORDER BY p.stuck_at, p.user_id, p.id;

-- operation_page_of_user
-- $1 organization, $2 after, $3 after_user, $4 after_id, $5 until, $6 user, $7 scan, $8 statuses, $9 entity_type, $10 error_code, $11 error_status, $12 limit
SELECT m.stuck_at, m.user_id, m.id
FROM (
        SELECT * FROM mutations x
        WHERE x.organization_id = $1 AND x.user_id = $6 AND x.synced_at IS NULL
        ORDER BY x.position
        LIMIT $7
    ) m
WHERE m.stuck_at IS NOT NULL AND m.error IS NOT NULL AND m.synced_at IS NULL AND (m.stuck_at, m.user_id, m.id) > ($2, $3, $4) AND m.stuck_at <= $5 AND m.status IN ('failed', 'conflict') AND (cardinality($8::text[]) = 0
        OR CASE WHEN m.error_code = 'conflict' THEN 'conflict' ELSE 'failed' END = ANY ($8))
        AND ($9::text IS NULL OR m.entity_type = $9)
        AND ($10::text IS NULL OR m.error_code = $10)
        AND ($11::int2 IS NULL OR m.error_status = $11)
ORDER BY m.stuck_at, m.user_id, m.id
LIMIT $12;

-- operation_edge_of_group
-- $1 organization, $2 after, $3 after_user, $4 after_id, $5 until, $6 group_type, $7 group_code, $8 group_status, $9 scan
 SELECT x.stuck_at, x.user_id, x.id
FROM mutations x
WHERE x.organization_id = $1 AND x.entity_type = $6 AND x.error_code = $7 AND x.error_status = $8 AND (x.stuck_at, x.user_id, x.id) > ($2, $3, $4) AND x.stuck_at <= $5 AND x.stuck_at IS NOT NULL AND x.error IS NOT NULL AND x.synced_at IS NULL
ORDER BY x.stuck_at, x.user_id, x.id
OFFSET $9 - 1 LIMIT 1;

-- operation_edge_of_organization
-- $1 organization, $2 after, $3 after_user, $4 after_id, $5 until, $6 scan
 SELECT x.stuck_at, x.user_id, x.id
FROM mutations x
WHERE x.organization_id = $1 AND (x.stuck_at, x.user_id, x.id) > ($2, $3, $4) AND x.stuck_at <= $5 AND x.stuck_at IS NOT NULL AND x.error IS NOT NULL AND x.synced_at IS NULL AND x.position > 0
ORDER BY x.stuck_at, x.user_id, x.id
OFFSET $6 - 1 LIMIT 1;

-- operation_edge_of_some_groups
-- $1 organization, $2 after, $3 after_user, $4 after_id, $5 until, $6 scan
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

-- operation_count
-- $1 organization, $2 until, $3 statuses, $4 entity_type, $5 error_code, $6 error_status
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
-- $1 organization, $2 until, $3 group_type, $4 group_code, $5 group_status, $6 statuses, $7 entity_type, $8 error_code, $9 error_status
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

-- operation_count_of_ids
-- $1 organization, $2 until, $3 ids, $4 statuses, $5 entity_type, $6 error_code, $7 error_status, $8 only_user
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
        AND ($7::int2 IS NULL OR m.error_status = $7)
        AND ($8::uuid IS NULL OR m.user_id = $8)
    LIMIT 10001
) c;

-- operation_count_of_some_groups
-- $1 organization, $2 until, $3 statuses, $4 entity_type, $5 error_code, $6 error_status
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

-- operation_count_of_user
-- $1 organization, $2 until, $3 user, $4 statuses, $5 entity_type, $6 error_code, $7 error_status
 SELECT least(count(*), 10000) AS count, count(DISTINCT c.user_id) AS users,
    count(*) > 10000 OR false AS is_cut
FROM (
    SELECT m.user_id FROM (
        SELECT * FROM mutations x
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

-- operation_no_edge
-- Selects no row
SELECT NULL::timestamptz AS stuck_at, NULL::uuid AS user_id, NULL::uuid AS id WHERE false;

-- stuck_by_id
-- $1 organization, $2 users, $3 ids
SELECT m.organization_id, m.user_id, m.id, m.device_id, m.operation, m.entity_type, m.local_id, m.local_number, m.server_id, m.server_id_is_integer, m.status, m.error_code,
    m.error_status, m.attempt_count, m.accepted_at, m.error, m.stuck_at
FROM unnest($2::uuid[], $3::uuid[]) WITH ORDINALITY AS k (user_id, id, place)
CROSS JOIN LATERAL (
    SELECT * FROM mutations x
    WHERE x.organization_id = $1 AND x.user_id = k.user_id AND x.id = k.id
    OFFSET 0
) m
WHERE m.stuck_at IS NOT NULL AND m.error IS NOT NULL AND m.synced_at IS NULL
ORDER BY k.place;

-- story_queued
-- $1 organization, $2 user, $3 id
SELECT m.changed_at, m.id, m.accepted_at, m.device_id, m.position, m.operation, m.entity_type, m.local_id, m.local_number, m.server_id, m.server_id_is_integer, m.max_attempts, m.conflict_resolution, m.endpoint, m.payload, m.headers, m.base_version, m.reference_ids, m.reference_types, m.revision, m.attempt_count, m.next_retry_at, m.resolution, m.is_outcome_unknown, m.conflict_retries, m.hold_count, m.held_since, m.sent_method, m.sent_endpoint, m.sent_payload, m.error, m.traceparent, m.key_user_id
FROM mutations m WHERE m.organization_id = $1 AND m.user_id = $2 AND m.id = $3;

-- story_attempts
-- $1 organization, $2 user, $3 id
SELECT a.ordinal, a.outcome, a.revision, a.number, a.sent_at, a.duration_ms, a.status, a.error
FROM attempts a WHERE a.organization_id = $1 AND a.user_id = $2 AND a.mutation_id = $3
ORDER BY a.ordinal;

-- story_waits_for
-- $1 organization, $2 user, $3 id
SELECT m.id, m.status, m.operation, m.entity_type, m.local_id, m.local_number, m.server_id, m.server_id_is_integer
FROM (
    SELECT * FROM mutations y
    WHERE y.organization_id = $1 AND y.user_id = $2 AND y.id = $3
    OFFSET 0
) o
CROSS JOIN LATERAL unnest(o.depends_on) AS k (id)
CROSS JOIN LATERAL (
    SELECT * FROM mutations x
    WHERE x.organization_id = $1 AND x.user_id = $2 AND x.id = k.id
    OFFSET 0
) m
LIMIT 50;

-- story_waiters
-- $1 organization, $2 user, $3 id
WITH behind AS MATERIALIZED (
    SELECT x.id, x.status, x.operation, x.entity_type, x.local_id, x.local_number, x.server_id,
        x.server_id_is_integer, x.position, x.status = 'blocked' AND o.id = ANY (x.depends_on) AS waits
    FROM (
    SELECT * FROM mutations y
    WHERE y.organization_id = $1 AND y.user_id = $2 AND y.id = $3
    OFFSET 0
) o
    CROSS JOIN LATERAL (
        SELECT * FROM mutations z
        WHERE z.organization_id = $1 AND z.user_id = $2 AND z.synced_at IS NULL AND z.position > o.position
        ORDER BY z.position
        LIMIT 5000
    ) x
)
SELECT (SELECT count(*) FROM behind b WHERE b.waits) AS count,
    (SELECT count(*) FROM behind) = 5000 AS is_cut, m.id, m.status, m.operation, m.entity_type, m.local_id, m.local_number, m.server_id, m.server_id_is_integer
FROM behind m
WHERE m.waits
ORDER BY m.position
LIMIT 50;

-- story_ahead
-- $1 organization, $2 user, $3 id
SELECT count(*) AS count
FROM (
    SELECT 1
    FROM (
    SELECT * FROM mutations y
    WHERE y.organization_id = $1 AND y.user_id = $2 AND y.id = $3
    OFFSET 0
) o
    CROSS JOIN LATERAL (
        SELECT 1 FROM mutations z
        WHERE z.organization_id = $1 AND z.user_id = $2 AND z.synced_at IS NULL AND z.position < o.position
        LIMIT 10001
    ) x
) y;

-- story_entity
-- $1 organization, $2 user, $3 id
SELECT e.organization_id, e.entity_type, e.id, e.id_is_integer, e.version, e.is_deleted, e.document, e.owner_id, e.client_id, e.updated_by, e.updated_on, e.run_base, e.etag, e.channels, e.feed_position, e.updated_at
FROM (
    SELECT * FROM mutations y
    WHERE y.organization_id = $1 AND y.user_id = $2 AND y.id = $3
    OFFSET 0
) m
CROSS JOIN LATERAL (
    SELECT * FROM entities x
    WHERE x.organization_id = $1 AND x.entity_type = m.entity_type AND x.id = coalesce(m.server_id, (
        SELECT z.server_id FROM id_mappings z
        WHERE z.organization_id = $1 AND z.user_id = $2 AND z.client_id = m.local_id
            AND z.entity_type = m.entity_type), (
        SELECT coalesce(z.server_id, z.same_as) FROM local_ids z
        WHERE m.local_number IS NOT NULL AND z.organization_id = $1 AND z.user_id = $2
            AND z.client_id = m.local_id))
    OFFSET 0
) e;

-- story_history
-- $1 organization, $2 user, $3 id
SELECT x.id, x.status, x.operation, x.version, x.changed_at
FROM (
    SELECT * FROM mutations y
    WHERE y.organization_id = $1 AND y.user_id = $2 AND y.id = $3
    OFFSET 0
) m
CROSS JOIN LATERAL (
    SELECT z.id, z.status, z.operation, z.version, z.changed_at, z.entity_type, z.local_id, z.server_id, z.position
    FROM mutations z
    WHERE z.organization_id = $1 AND z.user_id = $2 AND z.position > 0
    ORDER BY z.position DESC
    LIMIT 2000
) x
WHERE x.id <> $3 AND x.entity_type = m.entity_type
    AND (x.local_id = m.local_id OR x.server_id = m.server_id)
ORDER BY x.position DESC
LIMIT 20;

-- story_resolved
-- The permanent ids to which client ids (`client_ids`) are mapped.
-- $1 organization, $2 user, $3 client_ids
SELECT y.client_id, y.entity_type, y.server_id, y.server_id_is_integer
FROM unnest($3::uuid[]) AS r (client_id)
CROSS JOIN LATERAL (
    SELECT z.client_id, z.entity_type, z.server_id::text AS server_id, z.server_id_is_integer
    FROM id_mappings z
    WHERE z.organization_id = $1 AND z.user_id = $2 AND z.client_id = r.client_id AND z.status = 'resolved'
    UNION ALL
    SELECT z.client_id, z.entity_type, coalesce(z.server_id, z.same_as)::text, z.server_id_is_integer
    FROM local_ids z
    -- a UUID of version 8 represents a device's own id
    WHERE get_byte(uuid_send(r.client_id), 6) & 240 = 128 AND z.organization_id = $1 AND z.user_id = $2
        AND z.client_id = r.client_id AND coalesce(z.server_id, z.same_as) IS NOT NULL
    OFFSET 0
) y;

-- lane_listing_lane
-- $1 organization, $2 user
SELECT x.organization_id, x.user_id, x.next_position, x.change_position, x.queued_count, x.open_count, x.halted_by, x.ready_at, x.lease_owner, x.lease_token, x.lease_step, x.in_flight_id, x.head_position, x.queued_since FROM lanes x WHERE x.organization_id = $1 AND x.user_id = $2;

-- lane_listing
-- $1 organization, $2 user, $3 after, $4 limit
SELECT m.id, m.device_id, m.sequence_number, m.position, m.status, m.operation, m.attempt_count,
    m.next_retry_at, m.created_at, m.accepted_at, CASE WHEN cardinality(m.depends_on) > 32
        THEN m.depends_on[coalesce(array_position(m.depends_on, m.blocked_on), 1):]
        ELSE m.depends_on END AS depends_on, m.entity_type, m.local_id, m.local_number, m.server_id, m.server_id_is_integer,
    m.error_code, m.error_status, m.changed_at, m.has_more
FROM (
    SELECT p.*, row_number() OVER w AS place, sum(p.ids) OVER w AS ids_to,
        row_number() OVER w < count(*) OVER () AS has_more
    FROM (
        SELECT x.*, cardinality(x.depends_on) AS ids
        FROM mutations x
        WHERE x.organization_id = $1 AND x.user_id = $2 AND x.synced_at IS NULL
            AND x.position > $3
        ORDER BY x.position
        LIMIT $4
    ) p
    WINDOW w AS (ORDER BY p.position)
) m
WHERE m.place = 1 OR m.ids_to <= 26886
ORDER BY m.position;

-- lanes_halted
-- $1 organization, $2 user, $3 at, $4 limit
SELECT l.organization_id, l.user_id, l.halted_by, l.ready_at, l.queued_count, l.queued_since
FROM lanes l
WHERE l.organization_id = $1 AND l.halted_by IS NOT NULL AND l.user_id > $2 AND $3::timestamptz IS NOT NULL
ORDER BY l.user_id
LIMIT $4;

-- lanes_halted_of_all
-- $1 organization, $2 user, $3 at, $4 limit
SELECT l.organization_id, l.user_id, l.halted_by, l.ready_at, l.queued_count, l.queued_since
FROM lanes l
WHERE l.halted_by IS NOT NULL AND (l.organization_id, l.user_id) > ($1, $2) AND $3::timestamptz IS NOT NULL
ORDER BY l.organization_id, l.user_id
LIMIT $4;

-- lanes_waiting
-- $1 organization, $2 user, $3 at, $4 limit
SELECT l.organization_id, l.user_id, l.halted_by, l.ready_at, l.queued_count, l.queued_since
FROM lanes l
WHERE l.organization_id = $1 AND l.lease_owner IS NULL AND l.ready_at >= $3 AND (l.ready_at, l.user_id) > ($3, $2)
ORDER BY l.ready_at, l.user_id
LIMIT $4;

-- lanes_waiting_of_all
-- $1 organization, $2 user, $3 at, $4 limit
SELECT l.organization_id, l.user_id, l.halted_by, l.ready_at, l.queued_count, l.queued_since
FROM lanes l
WHERE l.lease_owner IS NULL AND l.ready_at >= $3 AND (l.ready_at, l.organization_id, l.user_id) > ($3, $1, $2)
ORDER BY l.ready_at, l.organization_id, l.user_id
LIMIT $4;

-- recent_edge
-- Selects the edge: the last row that a page may list.
-- $1 organization, $2 at, $3 user, $4 id, $5 statuses, $6 scan
SELECT m.at, m.user_id, m.id
FROM (
    (
        SELECT m.synced_at AS at, m.user_id, m.id FROM mutations m
        WHERE m.organization_id = $1 AND (m.synced_at, m.user_id, m.id) < ($2, $3, $4)
        AND m.synced_at <= $2 AND (cardinality($5::text[]) = 0 OR $5::text[] && '{succeeded,discarded}')
        ORDER BY m.synced_at DESC, m.user_id DESC, m.id DESC
        OFFSET $6 - 1 LIMIT 1
    )
    UNION ALL
    (
        SELECT m.stuck_at AS at, m.user_id, m.id FROM mutations m
        WHERE m.organization_id = $1 AND (m.stuck_at, m.user_id, m.id) < ($2, $3, $4)
        AND m.stuck_at IS NOT NULL AND m.error IS NOT NULL AND m.synced_at IS NULL AND m.position > 0 AND (cardinality($5::text[]) = 0 OR $5::text[] && '{failed,conflict}')
        ORDER BY m.stuck_at DESC, m.user_id DESC, m.id DESC
        OFFSET $6 - 1 LIMIT 1
    )
) m
ORDER BY m.at DESC, m.user_id DESC, m.id DESC
LIMIT 1;

-- recent_page
-- Selects a page of the list
-- $1 organization, $2 at, $3 user, $4 id, $5 to_at, $6 to_user, $7 to_id, $8 scan, $9 statuses, $10 entity_type, $11 entity_id, $12 device, $13 limit
SELECT m.organization_id, m.user_id, m.id, m.device_id, m.operation, m.entity_type, m.local_id, m.local_number, m.server_id, m.server_id_is_integer, m.status, m.error_code,
    m.error_status, m.attempt_count, m.accepted_at, m.sequence_number, m.version, m.at, m.position
FROM (
    (
        SELECT m.*, m.synced_at AS at FROM mutations m
        WHERE m.organization_id = $1 AND (m.synced_at, m.user_id, m.id) < ($2, $3, $4)
        AND m.synced_at <= $2 AND (cardinality($9::text[]) = 0 OR $9::text[] && '{succeeded,discarded}')
            AND (m.synced_at, m.user_id, m.id) >= ($5, $6, $7)
            AND (cardinality($9::text[]) = 0 OR m.status = ANY ($9))
        AND ($10::text IS NULL OR m.entity_type = $10)
        AND ($11::text IS NULL OR m.server_id = $11)
        AND ($12::uuid IS NULL OR m.device_id = $12)
        ORDER BY m.synced_at DESC, m.user_id DESC, m.id DESC
        LIMIT $13
    )
    UNION ALL
    (
        SELECT m.*, m.stuck_at AS at FROM mutations m
        WHERE m.organization_id = $1 AND (m.stuck_at, m.user_id, m.id) < ($2, $3, $4)
        AND m.stuck_at IS NOT NULL AND m.error IS NOT NULL AND m.synced_at IS NULL AND m.position > 0 AND (cardinality($9::text[]) = 0 OR $9::text[] && '{failed,conflict}')
            AND (m.stuck_at, m.user_id, m.id) >= ($5, $6, $7)
            AND (cardinality($9::text[]) = 0 OR m.status = ANY ($9))
        AND ($10::text IS NULL OR m.entity_type = $10)
        AND ($11::text IS NULL OR m.server_id = $11)
        AND ($12::uuid IS NULL OR m.device_id = $12)
        ORDER BY m.stuck_at DESC, m.user_id DESC, m.id DESC
        LIMIT $13
    )
    UNION ALL
    (
        SELECT m.*, m.accepted_at AS at FROM (
            SELECT * FROM mutations x
            WHERE x.organization_id = $1 AND x.synced_at IS NULL
                AND (cardinality($9::text[]) = 0 OR $9::text[] && '{pending,blocked,in_flight}')
            ORDER BY x.user_id, x.position
            LIMIT $8
        ) m
        WHERE m.stuck_at IS NULL AND (m.accepted_at, m.user_id, m.id) < ($2, $3, $4)
            AND (m.accepted_at, m.user_id, m.id) >= ($5, $6, $7)
            AND (cardinality($9::text[]) = 0 OR m.status = ANY ($9))
        AND ($10::text IS NULL OR m.entity_type = $10)
        AND ($11::text IS NULL OR m.server_id = $11)
        AND ($12::uuid IS NULL OR m.device_id = $12)
        ORDER BY m.accepted_at DESC, m.user_id DESC, m.id DESC
        LIMIT $13
    )
) m
ORDER BY m.at DESC, m.user_id DESC, m.id DESC
LIMIT $13;

-- recent_edge_of_user
-- $1 organization, $2 user, $3 position, $4 scan
SELECT m.position FROM mutations m
WHERE m.organization_id = $1 AND m.user_id = $2 AND m.position > 0 AND m.position < $3
ORDER BY m.position DESC
OFFSET $4 - 1 LIMIT 1;

-- recent_page_of_user
-- $1 organization, $2 user, $3 position, $4 scan, $5 statuses, $6 entity_type, $7 entity_id, $8 device, $9 limit
SELECT m.organization_id, m.user_id, m.id, m.device_id, m.operation, m.entity_type, m.local_id, m.local_number, m.server_id, m.server_id_is_integer, m.status, m.error_code,
    m.error_status, m.attempt_count, m.accepted_at, m.sequence_number, m.version, m.at, m.position
FROM (
    SELECT m.*, coalesce(m.synced_at, m.stuck_at, m.accepted_at) AS at FROM mutations m
    WHERE m.organization_id = $1 AND m.user_id = $2 AND m.position > 0 AND m.position < $3
    ORDER BY m.position DESC
    LIMIT $4
) m
WHERE (cardinality($5::text[]) = 0 OR m.status = ANY ($5))
        AND ($6::text IS NULL OR m.entity_type = $6)
        AND ($7::text IS NULL OR m.server_id = $7)
        AND ($8::uuid IS NULL OR m.device_id = $8)
ORDER BY m.position DESC
LIMIT $9;

-- recent_one
-- $1 organization, $2 user, $3 id
SELECT m.organization_id, m.user_id, m.id, m.device_id, m.operation, m.entity_type, m.local_id, m.local_number, m.server_id, m.server_id_is_integer, m.status, m.error_code,
    m.error_status, m.attempt_count, m.accepted_at, m.sequence_number, m.version, m.at, m.position
FROM (
    SELECT m.*, coalesce(m.synced_at, m.stuck_at, m.accepted_at) AS at FROM mutations m
    WHERE m.organization_id = $1 AND m.user_id = $2 AND m.id = $3
) m;

-- recent_edge_of_lanes
-- $1 organization, $2 user, $3 scan
SELECT l.user_id FROM lanes l
WHERE l.organization_id = $1 AND l.user_id > $2
ORDER BY l.user_id
OFFSET $3 - 1 LIMIT 1;

-- recent_page_of_id
-- Searches for an id in one lane after another, because no index has ids without users.
-- $1 organization, $2 user, $3 scan, $4 id, $5 limit
SELECT m.organization_id, m.user_id, m.id, m.device_id, m.operation, m.entity_type, m.local_id, m.local_number, m.server_id, m.server_id_is_integer, m.status, m.error_code,
    m.error_status, m.attempt_count, m.accepted_at, m.sequence_number, m.version, m.at, m.position
FROM (
    SELECT l.user_id FROM lanes l
    WHERE l.organization_id = $1 AND l.user_id > $2
    ORDER BY l.user_id
    LIMIT $3
) k
CROSS JOIN LATERAL (
    SELECT m.*, coalesce(m.synced_at, m.stuck_at, m.accepted_at) AS at FROM mutations m
    WHERE m.organization_id = $1 AND m.user_id = k.user_id AND m.id = $4
    OFFSET 0
) m
ORDER BY k.user_id
LIMIT $5;

-- entities_recent
-- $1 organization, $2 before, $3 limit
SELECT e.entity_type, e.id::text AS id, e.id_is_integer, e.version, e.is_deleted, e.owner_id, e.client_id, e.updated_by,
    e.updated_on, e.feed_position, e.created_at, e.updated_at
FROM (SELECT * FROM (
    (SELECT e.* FROM entities e
 WHERE e.channels IS NULL AND e.organization_id = $1 AND e.feed_position < $2
 ORDER BY e.feed_position DESC LIMIT $3)
    UNION ALL
    (SELECT e.* FROM entities e
 WHERE e.channels IS NOT NULL AND e.organization_id = $1 AND e.feed_position < $2
 ORDER BY e.feed_position DESC LIMIT $3)
) e
ORDER BY e.feed_position DESC LIMIT $3) e
ORDER BY e.feed_position DESC;

-- entities_of_type
-- $1 organization, $2 type, $3 before, $4 limit
SELECT e.entity_type, e.id::text AS id, e.id_is_integer, e.version, e.is_deleted, e.owner_id, e.client_id, e.updated_by,
    e.updated_on, e.feed_position, e.created_at, e.updated_at
FROM entities e
WHERE e.organization_id = $1 AND e.entity_type = $2 AND ($3::text IS NULL OR e.id < $3::text)
ORDER BY e.id DESC
LIMIT $4;

-- entities_one
-- $1 organization, $2 type, $3 id
SELECT e.entity_type, e.id::text AS id, e.id_is_integer, e.version, e.is_deleted, e.owner_id, e.client_id, e.updated_by,
    e.updated_on, e.feed_position, e.created_at, e.updated_at
FROM entities e
WHERE e.organization_id = $1 AND e.entity_type = $2 AND e.id = $3::text;

-- throughput_completed
-- $1 organization, $2 from, $3 steps, $4 step, $5 limit
SELECT c.count
FROM generate_series(0, $3::int8 - 1) AS b (number)
CROSS JOIN LATERAL (
    SELECT count(*) AS count
    FROM (
        SELECT x.synced_at FROM mutations x
        WHERE x.organization_id = $1
            AND x.synced_at > $2::timestamptz + b.number * $4::int8 * interval '1 second'
            AND x.synced_at <= $2::timestamptz + (b.number + 1) * $4::int8 * interval '1 second'
        ORDER BY x.synced_at
        LIMIT $5
    ) y
) c
ORDER BY b.number;

-- explain_is_known
-- Whether any data of the user exist, and whether an operator or a first push provisioned the user.
-- $1 organization, $2 user
SELECT (EXISTS (SELECT 1 FROM users x WHERE x.organization_id = $1 AND x.user_id = $2)
                OR EXISTS (SELECT 1 FROM lanes x WHERE x.organization_id = $1 AND x.user_id = $2)
                OR EXISTS (SELECT 1 FROM devices x WHERE x.organization_id = $1 AND x.user_id = $2)) AS is_known, (EXISTS (SELECT 1 FROM users x WHERE x.organization_id = $1 AND x.user_id = $2)) AS is_let_in;

-- explain_held
-- The grants through which a user holds any of the given channels.
-- $1 organization, $2 user, $3 channels
SELECT g.name, g.role, g.source FROM channel_grants g
WHERE g.organization_id = $1 AND g.user_id = $2 AND g.channel = ANY ($3::uuid[])
    AND g.until IS NULL
ORDER BY g.name, g.source LIMIT 20;
