-- mutations_by_id
-- $1 organization, $2 user, $3 ids
SELECT m.id, m.endpoint, m.payload, m.headers, m.dependency_ids, m.priority, m.max_attempts, m.conflict_resolution,
    m.base_version, m.last_error, m.last_error_code, m.created_at,
    ARRAY[coalesce(to_json(m.order_key)::text, 'null')] AS shown, m.id, m.accepted_at, m.idempotency_key, m.device_id, m.sequence_number, m.position, m.operation, m.entity_type, m.local_id, m.local_number, m.server_id, m.server_id_is_integer, m.status, m.revision, m.version, m.etag, m.attempt_count, m.next_retry_at, CASE WHEN cardinality(m.depends_on) > 32
        THEN m.depends_on[coalesce(array_position(m.depends_on, m.blocked_on), 1):]
        ELSE m.depends_on END AS depends_on, m.resolution, m.response_status, m.response_body, m.error, m.fingerprint, m.fingerprint_places, m.synced_at, false AS has_more
FROM mutations m
WHERE m.organization_id = $1 AND m.user_id = $2 AND m.id = ANY ($3::uuid[]);

-- mutations_list
-- Lists a user's mutations.
-- $1 organization, $2 user, $3 after, $4 statuses, $5 device, $6 entity_type, $7 limit, $8 bytes
SELECT m.id, m.endpoint, m.payload, m.headers, m.dependency_ids, m.priority, m.max_attempts, m.conflict_resolution,
    m.base_version, m.last_error, m.last_error_code, m.created_at,
    ARRAY[coalesce(to_json(m.order_key)::text, 'null')] AS shown, m.id, m.accepted_at, m.idempotency_key, m.device_id, m.sequence_number, m.position, m.operation, m.entity_type, m.local_id, m.local_number, m.server_id, m.server_id_is_integer, m.status, m.revision, m.version, m.etag, m.attempt_count, m.next_retry_at, CASE WHEN cardinality(m.depends_on) > 32
        THEN m.depends_on[coalesce(array_position(m.depends_on, m.blocked_on), 1):]
        ELSE m.depends_on END AS depends_on, m.resolution, m.response_status, m.response_body, m.error, m.fingerprint, m.fingerprint_places, m.synced_at, m.has_more
FROM (
    SELECT r.*, r.place < r.found AS has_more, count(*) FILTER (WHERE r.place > 1 AND r.bytes_to > $8) OVER (ORDER BY r.position ROWS UNBOUNDED PRECEDING) AS past
    FROM (
        SELECT p.*, row_number() OVER w AS place, sum(1024 + coalesce(octet_length(p.entity_type), 0) + coalesce(octet_length(p.endpoint), 0) + coalesce(CASE WHEN pg_column_compression(p.payload) IS NULL THEN pg_column_size(p.payload) ELSE octet_length(p.payload::text) END, 0) + coalesce(CASE WHEN pg_column_compression(p.headers) IS NULL THEN pg_column_size(p.headers) ELSE octet_length(p.headers::text) END, 0) + 39 * coalesce(cardinality(p.dependency_ids), 0) + coalesce(octet_length(p.order_key), 0) + coalesce(octet_length(p.etag), 0) + 39 * coalesce(cardinality(p.depends_on), 0) + coalesce(CASE WHEN pg_column_compression(p.response_body) IS NULL THEN pg_column_size(p.response_body) ELSE octet_length(p.response_body::text) END, 0) + coalesce(CASE WHEN pg_column_compression(p.error) IS NULL THEN pg_column_size(p.error) ELSE octet_length(p.error::text) END, 0) + coalesce(octet_length(p.last_error), 0) + coalesce(pg_column_size(p.fingerprint_places), 0)) OVER w AS bytes_to
        FROM (
            SELECT y.*, count(*) OVER () AS found
            FROM (
                SELECT x.* FROM mutations x
                WHERE x.organization_id = $1 AND x.user_id = $2 AND x.position > $3
                    AND (cardinality($4::text[]) = 0 OR x.status = ANY ($4))
                    AND ($5::uuid IS NULL OR x.device_id = $5)
                    AND ($6::text IS NULL OR x.entity_type = $6)
                ORDER BY x.position
                LIMIT $7
            ) y
        ) p
        WINDOW w AS (ORDER BY p.position ROWS UNBOUNDED PRECEDING)
    ) r
) m
WHERE m.past < 1
ORDER BY m.position;

-- order_shape
-- Disables sorting, because an index already has the required order.
SELECT set_config('enable_sort', 'off', true), set_config('enable_incremental_sort', 'off', true);

-- mutations_organization_edge
-- Finds the last mutation that a page reads
-- $1 organization, $2 after_user, $3 after_position, $4 scan
SELECT x.user_id, x.position
FROM mutations x
WHERE x.organization_id = $1 AND (x.user_id, x.position) > ($2, $3) AND x.position > 0
ORDER BY x.user_id, x.position
OFFSET $4 - 1 LIMIT 1;

-- mutations_organization_list
-- Lists mutations over all users, in the same form as a user's list.
-- $1 organization, $2 after_user, $3 after_position, $4 to_user, $5 to_position, $6 statuses, $7 device, $8 entity_type, $9 user, $10 limit, $11 bytes
SELECT m.user_id, m.id, m.endpoint, m.payload, m.headers, m.dependency_ids, m.priority, m.max_attempts, m.conflict_resolution,
    m.base_version, m.last_error, m.last_error_code, m.created_at,
    ARRAY[coalesce(to_json(m.order_key)::text, 'null')] AS shown, m.id, m.accepted_at, m.idempotency_key, m.device_id, m.sequence_number, m.position, m.operation, m.entity_type, m.local_id, m.local_number, m.server_id, m.server_id_is_integer, m.status, m.revision, m.version, m.etag, m.attempt_count, m.next_retry_at, CASE WHEN cardinality(m.depends_on) > 32
        THEN m.depends_on[coalesce(array_position(m.depends_on, m.blocked_on), 1):]
        ELSE m.depends_on END AS depends_on, m.resolution, m.response_status, m.response_body, m.error, m.fingerprint, m.fingerprint_places, m.synced_at, m.has_more
FROM (
    SELECT r.*, r.place < r.found AS has_more, count(*) FILTER (WHERE r.place > 1 AND r.bytes_to > $11) OVER (ORDER BY r.user_id, r.position ROWS UNBOUNDED PRECEDING) AS past
    FROM (
        SELECT p.*, row_number() OVER w AS place, sum(1024 + coalesce(octet_length(p.entity_type), 0) + coalesce(octet_length(p.endpoint), 0) + coalesce(CASE WHEN pg_column_compression(p.payload) IS NULL THEN pg_column_size(p.payload) ELSE octet_length(p.payload::text) END, 0) + coalesce(CASE WHEN pg_column_compression(p.headers) IS NULL THEN pg_column_size(p.headers) ELSE octet_length(p.headers::text) END, 0) + 39 * coalesce(cardinality(p.dependency_ids), 0) + coalesce(octet_length(p.order_key), 0) + coalesce(octet_length(p.etag), 0) + 39 * coalesce(cardinality(p.depends_on), 0) + coalesce(CASE WHEN pg_column_compression(p.response_body) IS NULL THEN pg_column_size(p.response_body) ELSE octet_length(p.response_body::text) END, 0) + coalesce(CASE WHEN pg_column_compression(p.error) IS NULL THEN pg_column_size(p.error) ELSE octet_length(p.error::text) END, 0) + coalesce(octet_length(p.last_error), 0) + coalesce(pg_column_size(p.fingerprint_places), 0)) OVER w AS bytes_to
        FROM (
            SELECT y.*, count(*) OVER () AS found
            FROM (
                SELECT x.* FROM mutations x
                WHERE x.organization_id = $1 AND (x.user_id, x.position) > ($2, $3)
                    AND (x.user_id, x.position) <= ($4, $5) AND x.position > 0
                    AND (cardinality($6::text[]) = 0 OR x.status = ANY ($6))
                    AND ($7::uuid IS NULL OR x.device_id = $7)
                    AND ($8::text IS NULL OR x.entity_type = $8)
                    AND ($9::uuid IS NULL OR x.user_id = $9)
                ORDER BY x.user_id, x.position
                LIMIT $10
            ) y
        ) p
        WINDOW w AS (ORDER BY p.user_id, p.position ROWS UNBOUNDED PRECEDING)
    ) r
) m
WHERE m.past < 1
ORDER BY m.user_id, m.position;

-- mutations_records
-- Reads records
-- $1 organization, $2 user, $3 ids, $4 bytes, $5 all_bytes
WITH found AS MATERIALIZED (
    SELECT x.id, x.accepted_at, x.idempotency_key, x.device_id, x.sequence_number, x.position, x.operation, x.entity_type, x.local_id, x.local_number, x.server_id, x.server_id_is_integer, x.status, x.revision, x.version, x.etag, x.attempt_count, x.next_retry_at, x.depends_on, x.resolution, x.response_status, x.response_body, x.error, x.fingerprint, x.fingerprint_places, x.synced_at, x.blocked_on
    FROM mutations x
    WHERE x.organization_id = $1 AND x.user_id = $2 AND x.id = ANY ($3::uuid[])
)
SELECT m.id, m.accepted_at, m.idempotency_key, m.device_id, m.sequence_number, m.position, m.operation, m.entity_type, m.local_id, m.local_number, m.server_id, m.server_id_is_integer, m.status, m.revision, m.version, m.etag, m.attempt_count, m.next_retry_at, CASE WHEN (m.bytes <= 2048
    OR (m.bytes_to - m.bytes < $4::int8 AND m.all_to - m.bytes < $5::int8)) THEN CASE WHEN cardinality(m.depends_on) > 32
        THEN m.depends_on[coalesce(array_position(m.depends_on, m.blocked_on), 1):]
        ELSE m.depends_on END ELSE (CASE WHEN cardinality(m.depends_on) > 32
        THEN m.depends_on[coalesce(array_position(m.depends_on, m.blocked_on), 1):]
        ELSE m.depends_on END)[1:32] END AS depends_on, m.resolution, m.response_status, CASE WHEN (m.bytes <= 2048
    OR (m.bytes_to - m.bytes < $4::int8 AND m.all_to - m.bytes < $5::int8)) THEN m.response_body END AS response_body, CASE WHEN (m.bytes <= 2048
    OR (m.bytes_to - m.bytes < $4::int8 AND m.all_to - m.bytes < $5::int8)) THEN m.error END AS error, m.fingerprint, m.fingerprint_places, m.synced_at, NOT (m.bytes <= 2048
    OR (m.bytes_to - m.bytes < $4::int8 AND m.all_to - m.bytes < $5::int8)) AND m.response_body IS NOT NULL AS lacks_response, NOT (m.bytes <= 2048
    OR (m.bytes_to - m.bytes < $4::int8 AND m.all_to - m.bytes < $5::int8)) AND m.error IS NOT NULL AS lacks_error, NOT (m.bytes <= 2048
    OR (m.bytes_to - m.bytes < $4::int8 AND m.all_to - m.bytes < $5::int8)) AND m.status = 'blocked' AND cardinality(CASE WHEN cardinality(m.depends_on) > 32
        THEN m.depends_on[coalesce(array_position(m.depends_on, m.blocked_on), 1):]
        ELSE m.depends_on END) > 32
    AS lacks_blockers
FROM (
    SELECT r.*, (sum(r.bytes) OVER (ORDER BY r.position))::int8 AS bytes_to, 0::int8 AS all_to
    FROM (
        SELECT x.*, (CASE WHEN (pg_column_compression(x.response_body) IS NOT NULL AND pg_column_size(x.response_body) > 2048 OR pg_column_compression(x.error) IS NOT NULL AND pg_column_size(x.error) > 2048)
    AND ((x.position) > (
        SELECT s.position
        FROM (
            SELECT t.position, sum(coalesce(CASE WHEN pg_column_compression(t.response_body) IS NULL THEN pg_column_size(t.response_body) ELSE octet_length(t.response_body::text) END, 0) + coalesce(CASE WHEN pg_column_compression(t.error) IS NULL THEN pg_column_size(t.error) ELSE octet_length(t.error::text) END, 0)) OVER (
                ORDER BY t.position ROWS UNBOUNDED PRECEDING) AS bytes_to
            FROM found t
        ) s
        WHERE s.bytes_to >= $4::int8
        ORDER BY s.position
        LIMIT 1
    ))
THEN coalesce(pg_column_size(x.response_body), 0) + coalesce(pg_column_size(x.error), 0) ELSE coalesce(CASE WHEN pg_column_compression(x.response_body) IS NULL THEN pg_column_size(x.response_body) ELSE octet_length(x.response_body::text) END, 0) + coalesce(CASE WHEN pg_column_compression(x.error) IS NULL THEN pg_column_size(x.error) ELSE octet_length(x.error::text) END, 0) END + 39 * coalesce(cardinality(x.depends_on), 0))::int8 AS bytes
        FROM found x
        OFFSET 0
    ) r
) m;

-- mappings_lookup
-- $1 organization, $2 user, $3 client_ids, $4 entity_type
SELECT i.entity_type, i.client_id, i.server_id, i.server_id_is_integer, i.status, i.mutation_id
FROM id_mappings i
WHERE i.organization_id = $1 AND i.user_id = $2 AND i.client_id = ANY ($3::uuid[])
    AND ($4::text IS NULL OR i.entity_type = $4)
ORDER BY i.client_id, i.entity_type;

-- mappings_lookup_numbers
-- Reads the server ids of local ids.
-- $1 organization, $2 user, $3 device, $4 entity_type, $5 local_ids
SELECT k.local_id, coalesce(l.server_id, l.same_as) AS server_id, l.server_id_is_integer,
    CASE WHEN coalesce(l.server_id, l.same_as) IS NOT NULL THEN 'resolved'
    ELSE coalesce((
        SELECT CASE WHEN m.status IN ('failed', 'discarded') THEN 'failed' ELSE 'pending' END FROM mutations m
        WHERE m.organization_id = $1 AND m.user_id = $2 AND m.id = l.mutation_id), 'failed')
    END AS status
FROM unnest($5::int8[]) AS k (local_id)
CROSS JOIN LATERAL (
    SELECT * FROM local_ids x
    WHERE x.organization_id = $1 AND x.user_id = $2 AND x.device_id = $3 AND x.entity_type = $4
        AND x.local_id = k.local_id
    OFFSET 0
) l
ORDER BY k.local_id;

-- mappings_list
-- Lists mappings
-- $1 organization, $2 user, $3 position, $4 client, $5 entity_type, $6 statuses, $7 scan, $8 limit
WITH s AS MATERIALIZED (
    SELECT x.client_id, x.entity_type, x.server_id, x.server_id_is_integer, x.status, x.mutation_id,
        x.change_position
    FROM id_mappings x
    WHERE x.organization_id = $1 AND x.user_id = $2 AND x.change_position >= $3
        AND (x.change_position, x.client_id, x.entity_type) > ($3, $4, $5)
    ORDER BY x.change_position, x.client_id, x.entity_type
    LIMIT $7
)
SELECT f.epoch, coalesce(l.change_position, 0) AS head, e.change_position AS seen_to,
    e.client_id AS seen_client_id, e.entity_type AS seen_type, i.change_position, i.entity_type, i.client_id, i.server_id, i.server_id_is_integer, i.status, i.mutation_id
FROM feeds f
LEFT JOIN lanes l ON l.organization_id = $1 AND l.user_id = $2
LEFT JOIN LATERAL (
    SELECT y.change_position, y.client_id, y.entity_type
    FROM s y
    ORDER BY y.change_position, y.client_id, y.entity_type
    OFFSET $7 - 1
) e ON true
LEFT JOIN LATERAL (
    SELECT z.*
    FROM s z
    WHERE cardinality($6::text[]) = 0 OR z.status = ANY ($6)
    ORDER BY z.change_position, z.client_id, z.entity_type
    LIMIT $8
) i ON true
WHERE f.organization_id = $1
ORDER BY i.change_position, i.client_id, i.entity_type;

-- backlog_lane
-- Reads the lane, and its head.
-- $1 organization, $2 user
SELECT x.organization_id, x.user_id, x.next_position, x.change_position, x.queued_count, x.open_count, x.halted_by, x.ready_at, x.lease_owner, x.lease_token, x.lease_step, x.in_flight_id, x.head_position, x.queued_since,
    EXISTS (SELECT 1 FROM upstreams u WHERE u.organization_id = $1) AS has_upstream,
    coalesce((
        SELECT u.is_paused FROM upstreams u WHERE u.organization_id = $1), false) AS is_paused,
    coalesce((
        SELECT u.requests_per_second IS NOT NULL FROM upstreams u
        WHERE u.organization_id = $1), false) AS is_rate_limited,
    (SELECT u.paused_until FROM upstreams u WHERE u.organization_id = $1) AS paused_until,
    coalesce((
        SELECT t.is_forwarded FROM entity_types t
        WHERE t.organization_id = $1 AND t.name = m.entity_type), false) AS is_forwarded,
    m.id, m.device_id, m.sequence_number, m.position, m.status, m.operation, m.entity_type, m.accepted_at,
    m.created_at, m.attempt_count, m.next_retry_at, (CASE WHEN cardinality(m.depends_on) > 32
        THEN m.depends_on[coalesce(array_position(m.depends_on, m.blocked_on), 1):]
        ELSE m.depends_on END)[1:100] AS depends_on
FROM lanes x
LEFT JOIN LATERAL (
    SELECT * FROM (
        (SELECT * FROM mutations a
         WHERE a.organization_id = $1 AND a.user_id = $2 AND a.id = x.halted_by)
        UNION ALL
        (SELECT * FROM mutations b
         WHERE b.organization_id = $1 AND b.user_id = $2 AND b.position >= x.head_position
            AND b.blocked_on IS NULL AND b.stuck_at IS NULL AND b.synced_at IS NULL AND b.status IN ('pending', 'in_flight')
            AND x.halted_by IS NULL AND x.queued_count > 0
         ORDER BY b.position
         LIMIT 1)
    ) y
    LIMIT 1
) m ON true
WHERE x.organization_id = $1 AND x.user_id = $2;

-- backlog_devices
-- $1 organization, $2 user, $3 limit
SELECT d.device_id, d.accepted_sequence, d.last_seen_at
FROM devices d
WHERE d.organization_id = $1 AND d.user_id = $2
ORDER BY d.last_seen_at DESC, d.device_id
LIMIT $3;

-- backlog_counts
-- Counts the mutations by device and status, and returns the first mutation of each device and status.
-- $1 organization, $2 user, $3 limit
WITH o AS MATERIALIZED (
    SELECT x.device_id, x.status, x.position
    FROM mutations x
    WHERE x.organization_id = $1 AND x.user_id = $2 AND x.synced_at IS NULL
    ORDER BY x.position
    LIMIT $3
)
SELECT o.device_id, o.status, count(*) AS count, min(o.position) AS first, (
    SELECT EXISTS (
        SELECT 1 FROM mutations y
        WHERE y.organization_id = $1 AND y.user_id = $2 AND y.synced_at IS NULL
            AND y.position > (SELECT max(z.position) FROM o z))) AS is_truncated
FROM o
GROUP BY o.device_id, o.status;

-- backlog_positions
-- Reads mutations by their positions, and the dependencies of the mutation at `head`.
-- $1 organization, $2 user, $3 positions, $4 head
SELECT m.id, m.device_id, m.sequence_number, m.position, m.status, m.operation, m.entity_type, m.accepted_at,
    m.created_at, m.attempt_count, m.next_retry_at, CASE WHEN m.position = $4 THEN (CASE WHEN cardinality(m.depends_on) > 32
        THEN m.depends_on[coalesce(array_position(m.depends_on, m.blocked_on), 1):]
        ELSE m.depends_on END)[1:100] ELSE '{}' END
    AS depends_on
FROM unnest($3::int8[]) AS k (position)
CROSS JOIN LATERAL (
    SELECT * FROM mutations x
    WHERE x.organization_id = $1 AND x.user_id = $2 AND x.position = k.position
    OFFSET 0
) m;

-- settledness_walk
-- Follows dependencies from one blocked mutation to the next, each by its key.
-- $1 organization, $2 user, $3 ids, $4 limit
WITH RECURSIVE walk (
    id, status, position, entity_type, local_id, local_number, server_id, server_id_is_integer,
    depends_on, is_cut
) AS (
    SELECT m.id, m.status::text, m.position, m.entity_type, m.local_id, m.local_number, m.server_id::text,
    m.server_id_is_integer, CASE WHEN m.status = 'blocked' THEN (CASE WHEN cardinality(m.depends_on) > 32
        THEN m.depends_on[coalesce(array_position(m.depends_on, m.blocked_on), 1):]
        ELSE m.depends_on END)[1:32] ELSE '{}'::uuid[] END
        AS depends_on,
    m.status = 'blocked' AND cardinality(CASE WHEN cardinality(m.depends_on) > 32
        THEN m.depends_on[coalesce(array_position(m.depends_on, m.blocked_on), 1):]
        ELSE m.depends_on END) > 32 AS is_cut
    FROM unnest($3::uuid[]) AS k (id)
    CROSS JOIN LATERAL (
        SELECT * FROM mutations x
        WHERE x.organization_id = $1 AND x.user_id = $2 AND x.id = k.id
        OFFSET 0
    ) m
    UNION
    SELECT m.id, m.status::text, m.position, m.entity_type, m.local_id, m.local_number, m.server_id::text,
    m.server_id_is_integer, CASE WHEN m.status = 'blocked' THEN (CASE WHEN cardinality(m.depends_on) > 32
        THEN m.depends_on[coalesce(array_position(m.depends_on, m.blocked_on), 1):]
        ELSE m.depends_on END)[1:32] ELSE '{}'::uuid[] END
        AS depends_on,
    m.status = 'blocked' AND cardinality(CASE WHEN cardinality(m.depends_on) > 32
        THEN m.depends_on[coalesce(array_position(m.depends_on, m.blocked_on), 1):]
        ELSE m.depends_on END) > 32 AS is_cut
    FROM walk w
    CROSS JOIN LATERAL unnest(w.depends_on) AS k (id)
    CROSS JOIN LATERAL (
        SELECT * FROM mutations x
        WHERE x.organization_id = $1 AND x.user_id = $2 AND x.id = k.id
        OFFSET 0
    ) m
)
SELECT * FROM walk LIMIT $4;

-- settledness_front
-- Reads failed and conflicting mutations at the front of the lane.
-- $1 organization, $2 user
SELECT m.id, m.status::text, m.position, m.entity_type, m.local_id, m.local_number, m.server_id::text,
    m.server_id_is_integer, CASE WHEN m.status = 'blocked' THEN (CASE WHEN cardinality(m.depends_on) > 32
        THEN m.depends_on[coalesce(array_position(m.depends_on, m.blocked_on), 1):]
        ELSE m.depends_on END)[1:32] ELSE '{}'::uuid[] END
        AS depends_on,
    m.status = 'blocked' AND cardinality(CASE WHEN cardinality(m.depends_on) > 32
        THEN m.depends_on[coalesce(array_position(m.depends_on, m.blocked_on), 1):]
        ELSE m.depends_on END) > 32 AS is_cut
FROM (
    SELECT * FROM mutations x
    WHERE x.organization_id = $1 AND x.user_id = $2 AND x.synced_at IS NULL
    ORDER BY x.position
    LIMIT 500
) m
WHERE m.status IN ('failed', 'conflict');

-- now_of_organizations
-- Reads the counts of the organizations in `organizations`, each up to `limit`.
-- $1 organizations, $2 limit
SELECT k.organization_id, m.failed, m.conflict, m.looked, h.halted
FROM unnest($1::uuid[]) AS k (organization_id)
CROSS JOIN LATERAL (
    WITH RECURSIVE w AS (
    SELECT s.* FROM (
        SELECT x.entity_type
        FROM mutations x
        WHERE x.organization_id = k.organization_id AND x.stuck_at IS NOT NULL AND x.error IS NOT NULL AND x.synced_at IS NULL
        ORDER BY x.entity_type
        LIMIT 1
    ) s
    UNION ALL
    SELECT n.* FROM w CROSS JOIN LATERAL (
        SELECT x.entity_type
        FROM mutations x
        WHERE x.organization_id = k.organization_id AND x.stuck_at IS NOT NULL AND x.error IS NOT NULL AND x.synced_at IS NULL AND (x.entity_type) > (w.entity_type)
        ORDER BY x.entity_type
        LIMIT 1
    ) n
),
        t AS MATERIALIZED (SELECT k.organization_id AS organization_id, w.entity_type FROM w LIMIT $2)
    SELECT (SELECT count(*) FROM (
        SELECT 1 FROM t CROSS JOIN LATERAL (
            (
                SELECT 1 FROM mutations x
                WHERE x.organization_id = t.organization_id AND x.entity_type = t.entity_type
                    AND x.error_code < 'conflict' AND x.stuck_at IS NOT NULL AND x.error IS NOT NULL AND x.synced_at IS NULL
                ORDER BY x.error_code
                LIMIT $2
            ) UNION ALL (
                SELECT 1 FROM mutations x
                WHERE x.organization_id = t.organization_id AND x.entity_type = t.entity_type
                    AND x.error_code > 'conflict' AND x.stuck_at IS NOT NULL AND x.error IS NOT NULL AND x.synced_at IS NULL
                ORDER BY x.error_code
                LIMIT $2
            )
        ) r
        LIMIT $2
    ) y) AS failed,
    (SELECT count(*) FROM (
        SELECT 1 FROM t CROSS JOIN LATERAL (
            (
                SELECT 1 FROM mutations x
                WHERE x.organization_id = t.organization_id AND x.entity_type = t.entity_type
                    AND x.error_code = 'conflict' AND x.stuck_at IS NOT NULL AND x.error IS NOT NULL AND x.synced_at IS NULL
                ORDER BY x.error_code
                LIMIT $2
            )
        ) r
        LIMIT $2
    ) y) AS conflict,
    (SELECT count(*) FROM t) AS looked
) m
CROSS JOIN LATERAL (
    SELECT count(*) AS halted
    FROM (SELECT 1 FROM lanes l WHERE l.organization_id = k.organization_id AND l.halted_by IS NOT NULL LIMIT $2) z
) h;
