-- lane_in_flight
-- Reads the mutations in flight of lanes whose worker was lost
-- $1 job, $2 organization_id, $3 user_id, $4 head_position
SELECT k.job, m.id, m.accepted_at, m.device_id, m.position, m.operation, m.entity_type, m.local_id, m.local_number, m.server_id, m.server_id_is_integer, m.max_attempts, m.conflict_resolution, m.endpoint, m.payload, m.headers, m.base_version, m.reference_ids, m.reference_types, m.revision, m.attempt_count, m.next_retry_at, m.resolution, m.is_outcome_unknown, m.conflict_retries, m.hold_count, m.held_since, m.sent_method, m.sent_endpoint, m.sent_payload, m.error, m.traceparent, m.key_user_id
FROM unnest($1::int4[], $2::uuid[], $3::uuid[], $4::int8[]) AS k (job, organization_id, user_id, head_position)
CROSS JOIN LATERAL (
    SELECT * FROM mutations x
    WHERE x.organization_id = k.organization_id AND x.user_id = k.user_id
        AND x.position >= k.head_position AND x.blocked_on IS NULL AND x.stuck_at IS NULL AND x.synced_at IS NULL AND x.status = 'in_flight'
    OFFSET 0
) m
ORDER BY k.job, m.position;

-- lane_done_blockers
-- Finds done mutations for which other mutations still wait.
-- $1 job, $2 organization_id, $3 user_id
SELECT DISTINCT k.job, d.id
FROM unnest($1::int4[], $2::uuid[], $3::uuid[]) AS k (job, organization_id, user_id)
CROSS JOIN LATERAL (
    SELECT DISTINCT x.blocked_on FROM mutations x
    WHERE x.organization_id = k.organization_id AND x.user_id = k.user_id AND x.blocked_on IS NOT NULL
    OFFSET 0
) b
CROSS JOIN LATERAL (
    SELECT y.id FROM mutations y
    WHERE y.organization_id = k.organization_id AND y.user_id = k.user_id AND y.id = b.blocked_on
        AND (y.status = 'succeeded' OR (y.status = 'discarded' AND y.resolution = 'server_wins'))
    OFFSET 0
) d;

-- lane_write_outcomes
-- $1 organization_id, $2 user_id, $3 id, $4 status, $5 revision, $6 attempt_count, $7 server_id, $8 server_id_is_integer, $9 version, $10 response_status, $11 response_body, $12 change_position, $13 expected_status, $14 etag, $15 next_retry_at, $16 resolution, $17 error, $18 last_error, $19 last_error_code, $20 error_code, $21 error_status, $22 sent_method, $23 sent_endpoint, $24 sent_payload, $25 held_since, $26 is_outcome_unknown, $27 conflict_retries, $28 hold_count, $29 now
UPDATE mutations AS m
SET status = k.status, revision = k.revision, attempt_count = k.attempt_count,
    server_id = coalesce(k.server_id, m.server_id),
    server_id_is_integer = CASE
        WHEN k.server_id IS NULL THEN m.server_id_is_integer ELSE k.server_id_is_integer END,
    version = k.version, response_status = k.response_status, response_body = k.response_body, etag = k.etag,
    next_retry_at = k.next_retry_at, resolution = k.resolution, error = k.error, last_error = k.last_error, last_error_code = k.last_error_code, error_code = k.error_code, error_status = k.error_status, sent_method = k.sent_method, sent_endpoint = k.sent_endpoint, sent_payload = k.sent_payload, held_since = k.held_since, is_outcome_unknown = k.is_outcome_unknown,
    conflict_retries = k.conflict_retries, hold_count = k.hold_count,
    change_position = k.change_position, changed_at = $29::timestamptz,
    synced_at = CASE
        WHEN k.status IN ('succeeded', 'discarded') THEN $29::timestamptz END,
    stuck_at = CASE
        WHEN k.status IN ('failed', 'conflict') THEN $29::timestamptz END,
    reference_ids = CASE WHEN k.status IN ('succeeded', 'discarded') THEN NULL ELSE m.reference_ids END,
    reference_types = CASE WHEN k.status IN ('succeeded', 'discarded') THEN NULL ELSE m.reference_types END
FROM unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::text[], $5::int4[], $6::int2[], $7::text[], $8::bool[], $9::int8[], $10::int2[], $11::json[], $12::int8[], $13::text[], $14::text[], $15::timestamptz[], $16::text[], $17::json[], $18::text[], $19::int2[], $20::text[], $21::int2[], $22::text[], $23::text[], $24::json[], $25::timestamptz[], $26::bool[], $27::int2[], $28::int2[]) AS k (organization_id, user_id, id, status, revision, attempt_count, server_id, server_id_is_integer, version, response_status, response_body, change_position, expected_status, etag, next_retry_at, resolution, error, last_error, last_error_code, error_code, error_status, sent_method, sent_endpoint, sent_payload, held_since, is_outcome_unknown, conflict_retries, hold_count)
WHERE m.organization_id = k.organization_id AND m.user_id = k.user_id AND m.id = k.id
    AND m.status = k.expected_status;

-- lane_write_usual_outcomes
-- Writes outcomes that need only the columns of ``OutcomeRow/common``.
-- $1 organization_id, $2 user_id, $3 id, $4 status, $5 revision, $6 attempt_count, $7 server_id, $8 server_id_is_integer, $9 version, $10 response_status, $11 response_body, $12 change_position, $13 expected_status, $14 etag, $15 now
UPDATE mutations AS m
SET status = k.status, revision = k.revision, attempt_count = k.attempt_count,
    server_id = coalesce(k.server_id, m.server_id),
    server_id_is_integer = CASE
        WHEN k.server_id IS NULL THEN m.server_id_is_integer ELSE k.server_id_is_integer END,
    version = k.version, response_status = k.response_status, response_body = k.response_body, etag = k.etag,
    next_retry_at = NULL, resolution = NULL, error = NULL, last_error = NULL, last_error_code = NULL, error_code = NULL, error_status = NULL, sent_method = NULL, sent_endpoint = NULL, sent_payload = NULL, held_since = NULL, is_outcome_unknown = false, conflict_retries = 0, hold_count = 0,
    change_position = k.change_position, changed_at = $15::timestamptz,
    synced_at = CASE
        WHEN k.status IN ('succeeded', 'discarded') THEN $15::timestamptz END,
    stuck_at = CASE
        WHEN k.status IN ('failed', 'conflict') THEN $15::timestamptz END,
    reference_ids = CASE WHEN k.status IN ('succeeded', 'discarded') THEN NULL ELSE m.reference_ids END,
    reference_types = CASE WHEN k.status IN ('succeeded', 'discarded') THEN NULL ELSE m.reference_types END
FROM unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::text[], $5::int4[], $6::int2[], $7::text[], $8::bool[], $9::int8[], $10::int2[], $11::json[], $12::int8[], $13::text[], $14::text[]) AS k (organization_id, user_id, id, status, revision, attempt_count, server_id, server_id_is_integer, version, response_status, response_body, change_position, expected_status, etag)
WHERE m.organization_id = k.organization_id AND m.user_id = k.user_id AND m.id = k.id
    AND m.status = k.expected_status;

-- lane_write_mappings
-- Resolves the mappings of creates, marks them as failed, or counts a failed attempt.
-- $1 organization_id, $2 user_id, $3 client_id, $4 entity_type, $5 server_id, $6 server_id_is_integer, $7 fails, $8 tries, $9 last_error, $10 change_position, $11 now
UPDATE id_mappings AS i
SET server_id = coalesce(k.server_id, i.server_id),
    server_id_is_integer = CASE
        WHEN k.server_id IS NULL THEN i.server_id_is_integer ELSE k.server_id_is_integer END,
    status = CASE
        WHEN k.server_id IS NOT NULL THEN 'resolved'
        WHEN i.status = 'resolved' THEN 'resolved'
        WHEN k.fails OR i.retry_count + k.tries > 10 THEN 'failed'
        ELSE i.status END,
    resolved_at = CASE
        WHEN k.server_id IS NOT NULL THEN $11::timestamptz ELSE i.resolved_at END,
    retry_count = i.retry_count + k.tries, last_error = k.last_error, change_position = k.change_position
FROM unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::text[], $5::text[], $6::bool[], $7::bool[], $8::int8[], $9::text[], $10::int8[]) AS k (organization_id, user_id, client_id, entity_type, server_id, server_id_is_integer, fails, tries, last_error, change_position)
WHERE i.organization_id = k.organization_id AND i.user_id = k.user_id AND i.client_id = k.client_id
    AND i.entity_type = k.entity_type;

-- lane_write_local_ids
-- Records the server ids of the local ids of creates.
-- $1 organization_id, $2 user_id, $3 client_id, $4 mutation_id, $5 server_id, $6 server_id_is_integer
INSERT INTO local_ids AS l (
    organization_id, user_id, device_id, entity_type, local_id, server_id, same_as, server_id_is_integer,
    mutation_id, client_id)
SELECT r.organization_id, r.user_id, r.device_id, r.entity_type, r.local_id,
    CASE WHEN o.local_id IS NULL THEN k.server_id END,
    CASE WHEN o.local_id IS NOT NULL THEN k.server_id END, k.server_id_is_integer, r.mutation_id, r.client_id
FROM unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::uuid[], $5::text[], $6::bool[]) AS k (organization_id, user_id, client_id, mutation_id, server_id, server_id_is_integer)
CROSS JOIN LATERAL (
    SELECT * FROM local_ids x
    WHERE x.organization_id = k.organization_id AND x.user_id = k.user_id AND x.client_id = k.client_id
        AND x.mutation_id = k.mutation_id AND coalesce(x.server_id, x.same_as) IS NULL
    OFFSET 0
) r
LEFT JOIN LATERAL (SELECT s.* FROM (
            SELECT z.* FROM local_ids z
            WHERE z.organization_id = k.organization_id AND z.server_id IS NOT NULL
                AND (z.user_id, z.device_id, z.entity_type, z.server_id) >= (k.user_id, r.device_id, r.entity_type, k.server_id)
            ORDER BY z.user_id, z.device_id, z.entity_type, z.server_id
            LIMIT 1
        ) s
        WHERE s.user_id = k.user_id AND s.device_id = r.device_id AND s.entity_type = r.entity_type
            AND s.server_id = k.server_id
        OFFSET 0) o ON true
ON CONFLICT (organization_id, user_id, device_id, entity_type, local_id) DO UPDATE
SET server_id = excluded.server_id, same_as = excluded.same_as,
    server_id_is_integer = excluded.server_id_is_integer;

-- lane_unblock
-- Releases mutations that waited for a done mutation.
-- $1 job, $2 organization_id, $3 user_id, $4 blocker, $5 change_position, $6 budget, $7 now
WITH w AS MATERIALIZED (
    SELECT k.*, b.id, b.more, f.unmet, f.place, f.unmet[1] AS first_unmet
    FROM unnest($1::int4[], $2::uuid[], $3::uuid[], $4::uuid[], $5::int8[], $6::int8[]) AS k (job, organization_id, user_id, blocker, change_position, budget)
    CROSS JOIN LATERAL (
        SELECT c.id, c.depends_on, c.candidates = 1000 OR c.total > k.budget AS more
        FROM (
            SELECT x.*, count(*) OVER () AS candidates, sum(x.cost) OVER () AS total,
                sum(x.cost) OVER (ROWS UNBOUNDED PRECEDING) AS so_far
            FROM (
                -- PostgreSQL returns the size of the list without reading the list
                SELECT y.id, y.depends_on, 8 + pg_column_size(y.depends_on) / 16 AS cost
                FROM mutations y
                WHERE y.organization_id = k.organization_id AND y.user_id = k.user_id
                    AND y.blocked_on = k.blocker
                LIMIT 1000
            ) x
        ) c
        WHERE c.so_far - c.cost < k.budget
    ) b
    CROSS JOIN LATERAL (
        SELECT array_agg(u.id ORDER BY u.place) AS unmet, min(u.place)::int4 AS place
        FROM (
            SELECT n.id, n.place
            FROM (
                SELECT a.id, a.place FROM unnest(b.depends_on) WITH ORDINALITY AS a (id, place)
                WHERE a.place > coalesce(array_position(b.depends_on, k.blocker), 0)
                ORDER BY a.place
                OFFSET 0
            ) n
            CROSS JOIN LATERAL (
                SELECT FROM mutations y
                WHERE y.organization_id = k.organization_id AND y.user_id = k.user_id AND y.id = n.id
                    AND NOT (y.status = 'succeeded' OR (y.status = 'discarded' AND y.resolution = 'server_wins'))
                OFFSET 0
            ) d
            ORDER BY n.place
            LIMIT CASE WHEN cardinality(b.depends_on) <= 32 THEN 32 ELSE 1 END
        ) u
    ) f
)
UPDATE mutations AS m
SET status = CASE WHEN w.place IS NULL THEN CASE WHEN m.status IN ('blocked', 'in_flight', 'conflict', 'failed') THEN 'pending' END ELSE 'blocked' END,
    depends_on = CASE
        WHEN w.place IS NULL THEN '{}'
        WHEN cardinality(m.depends_on) <= 32 THEN w.unmet
        WHEN w.place > cardinality(m.depends_on) / 2 THEN m.depends_on[w.place:]
        ELSE m.depends_on END,
    blocked_on = w.first_unmet, change_position = w.change_position,
    changed_at = $7
FROM w
WHERE m.organization_id = w.organization_id AND m.user_id = w.user_id AND m.id = w.id
RETURNING w.job, m.position, m.accepted_at, m.status, w.blocker, w.more;

-- lane_heads
-- Reads the first pending mutation of each lane, with its client ids and its entity.
-- $1 job, $2 organization_id, $3 user_id, $4 head_position
SELECT k.job, m.id, m.accepted_at, m.device_id, m.position, m.operation, m.entity_type, m.local_id, m.local_number, m.server_id, m.server_id_is_integer, m.max_attempts, m.conflict_resolution, m.endpoint, m.payload, m.headers, m.base_version, m.reference_ids, m.reference_types, m.revision, m.attempt_count, m.next_retry_at, m.resolution, m.is_outcome_unknown, m.conflict_retries, m.hold_count, m.held_since, m.sent_method, m.sent_endpoint, m.sent_payload, m.error, m.traceparent, m.key_user_id, i.client_ids, i.entity_types, i.server_ids, i.are_integers,
    e.organization_id, e.entity_type, e.id, e.id_is_integer, e.version, e.is_deleted, CASE WHEN m.base_version <> e.version THEN e.document END AS document, e.owner_id, e.client_id, e.updated_by, e.updated_on, e.run_base, e.etag, e.channels, e.feed_position
FROM unnest($1::int4[], $2::uuid[], $3::uuid[], $4::int8[]) AS k (job, organization_id, user_id, head_position)
CROSS JOIN LATERAL (
    SELECT * FROM (
        SELECT * FROM mutations a
        WHERE a.organization_id = k.organization_id AND a.user_id = k.user_id
            AND a.position = k.head_position AND a.synced_at IS NULL AND a.status = 'pending'
        UNION ALL
        (SELECT * FROM mutations b
         WHERE b.organization_id = k.organization_id AND b.user_id = k.user_id
            AND b.position > k.head_position AND b.blocked_on IS NULL AND b.stuck_at IS NULL AND b.synced_at IS NULL AND b.status = 'pending'
         ORDER BY b.position
         LIMIT 1)
    ) x
    LIMIT 1
) m
LEFT JOIN LATERAL (
    SELECT array_agg(y.client_id) AS client_ids, array_agg(y.entity_type) AS entity_types,
        array_agg(y.server_id::text) AS server_ids, array_agg(y.server_id_is_integer) AS are_integers
    FROM unnest(m.reference_ids) AS r (client_id)
    CROSS JOIN LATERAL (
        SELECT z.client_id, z.entity_type, z.server_id, z.server_id_is_integer FROM id_mappings z
        WHERE z.organization_id = k.organization_id AND z.user_id = k.user_id AND z.client_id = r.client_id
            AND z.status = 'resolved'
        UNION ALL
        SELECT z.client_id, z.entity_type, coalesce(z.server_id, z.same_as), z.server_id_is_integer
        FROM local_ids z
        -- a device's local id is represented by a UUID of version 8, and only such UUIDs are looked up
        WHERE get_byte(uuid_send(r.client_id), 6) & 240 = 128
            AND z.organization_id = k.organization_id AND z.user_id = k.user_id AND z.client_id = r.client_id
            AND coalesce(z.server_id, z.same_as) IS NOT NULL
        OFFSET 0
    ) y
) i ON true
LEFT JOIN LATERAL (
    SELECT * FROM entities y
    WHERE m.operation <> 'create' AND y.organization_id = k.organization_id
        AND y.entity_type = m.entity_type AND y.id = coalesce(m.server_id, (
            SELECT z.server_id FROM id_mappings z
            WHERE z.organization_id = k.organization_id AND z.user_id = k.user_id
                AND z.client_id = m.local_id AND z.entity_type = m.entity_type), (
            SELECT coalesce(z.server_id, z.same_as) FROM local_ids z
            WHERE m.local_number IS NOT NULL AND z.organization_id = k.organization_id
                AND z.user_id = k.user_id AND z.client_id = m.local_id))
    OFFSET 0
) e ON true;

-- lane_due
-- Reads the due mutations of lanes that may have several in flight, in order, with the columns of ``heads``.
-- $1 job, $2 organization_id, $3 user_id, $4 head_position, $5 room, $6 now
SELECT k.job, m.id, m.accepted_at, m.device_id, m.position, m.operation, m.entity_type, m.local_id, m.local_number, m.server_id, m.server_id_is_integer, m.max_attempts, m.conflict_resolution, m.endpoint, m.payload, m.headers, m.base_version, m.reference_ids, m.reference_types, m.revision, m.attempt_count, m.next_retry_at, m.resolution, m.is_outcome_unknown, m.conflict_retries, m.hold_count, m.held_since, m.sent_method, m.sent_endpoint, m.sent_payload, m.error, m.traceparent, m.key_user_id, i.client_ids, i.entity_types, i.server_ids, i.are_integers,
    e.organization_id, e.entity_type, e.id, e.id_is_integer, e.version, e.is_deleted, CASE WHEN m.base_version <> e.version THEN e.document END AS document, e.owner_id, e.client_id, e.updated_by, e.updated_on, e.run_base, e.etag, e.channels, e.feed_position
FROM unnest($1::int4[], $2::uuid[], $3::uuid[], $4::int8[], $5::int4[]) AS k (job, organization_id, user_id, head_position, room)
CROSS JOIN LATERAL (
    (SELECT * FROM mutations b
    WHERE b.organization_id = k.organization_id AND b.user_id = k.user_id
        AND b.position >= k.head_position AND b.blocked_on IS NULL AND b.stuck_at IS NULL AND b.synced_at IS NULL AND b.status = 'pending'
        AND (b.next_retry_at IS NULL OR b.attempt_count = 0 AND b.next_retry_at <= $6)
    ORDER BY b.position
    LIMIT k.room)
    UNION ALL
    (SELECT * FROM (
        SELECT * FROM mutations b
        WHERE b.organization_id = k.organization_id AND b.user_id = k.user_id
            AND b.position >= k.head_position AND b.blocked_on IS NULL AND b.stuck_at IS NULL AND b.synced_at IS NULL AND b.status = 'pending'
        ORDER BY b.position
        LIMIT 256
    ) b
    WHERE b.attempt_count > 0 AND b.next_retry_at <= $6
    ORDER BY b.position
    LIMIT k.room)
) m
LEFT JOIN LATERAL (
    SELECT array_agg(y.client_id) AS client_ids, array_agg(y.entity_type) AS entity_types,
        array_agg(y.server_id::text) AS server_ids, array_agg(y.server_id_is_integer) AS are_integers
    FROM unnest(m.reference_ids) AS r (client_id)
    CROSS JOIN LATERAL (
        SELECT z.client_id, z.entity_type, z.server_id, z.server_id_is_integer FROM id_mappings z
        WHERE z.organization_id = k.organization_id AND z.user_id = k.user_id AND z.client_id = r.client_id
            AND z.status = 'resolved'
        UNION ALL
        SELECT z.client_id, z.entity_type, coalesce(z.server_id, z.same_as), z.server_id_is_integer
        FROM local_ids z
        -- a device's local id is represented by a UUID of version 8, and only such UUIDs are looked up
        WHERE get_byte(uuid_send(r.client_id), 6) & 240 = 128
            AND z.organization_id = k.organization_id AND z.user_id = k.user_id AND z.client_id = r.client_id
            AND coalesce(z.server_id, z.same_as) IS NOT NULL
        OFFSET 0
    ) y
) i ON true
LEFT JOIN LATERAL (
    SELECT * FROM entities y
    WHERE m.operation <> 'create' AND y.organization_id = k.organization_id
        AND y.entity_type = m.entity_type AND y.id = coalesce(m.server_id, (
            SELECT z.server_id FROM id_mappings z
            WHERE z.organization_id = k.organization_id AND z.user_id = k.user_id
                AND z.client_id = m.local_id AND z.entity_type = m.entity_type), (
            SELECT coalesce(z.server_id, z.same_as) FROM local_ids z
            WHERE m.local_number IS NOT NULL AND z.organization_id = k.organization_id
                AND z.user_id = k.user_id AND z.client_id = m.local_id))
    OFFSET 0
) e ON true
ORDER BY k.job, m.position;

-- lane_windows
-- Reads the first pending mutation and the time of the next retry, for lanes that may have several mutations in flight.
-- $1 job, $2 organization_id, $3 user_id, $4 head_position, $5 now
SELECT k.job, w.position, w.accepted_at, w.next_retry_at, w.is_full
FROM unnest($1::int4[], $2::uuid[], $3::uuid[], $4::int8[]) AS k (job, organization_id, user_id, head_position)
CROSS JOIN LATERAL (
    SELECT min(p.position) AS position, (array_agg(p.accepted_at ORDER BY p.position))[1] AS accepted_at,
        min(p.next_retry_at) FILTER (WHERE p.next_retry_at > $5) AS next_retry_at,
        count(*) = 256 AS is_full
    FROM (
        SELECT b.position, b.accepted_at, b.next_retry_at FROM mutations b
        WHERE b.organization_id = k.organization_id AND b.user_id = k.user_id
            AND b.position >= k.head_position AND b.blocked_on IS NULL AND b.stuck_at IS NULL AND b.synced_at IS NULL AND b.status = 'pending'
        ORDER BY b.position
        LIMIT 256
    ) p
    HAVING count(*) > 0
) w;

-- lane_mark_in_flight
-- Marks mutations as in flight.
-- $1 organization_id, $2 user_id, $3 id, $4 attempt_count, $5 now
UPDATE mutations AS m
SET status = CASE WHEN m.status IN ('pending') THEN 'in_flight' END, attempt_count = k.attempt_count, next_retry_at = NULL,
    changed_at = $5
FROM unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::int2[]) AS k (organization_id, user_id, id, attempt_count)
WHERE m.organization_id = k.organization_id AND m.user_id = k.user_id AND m.id = k.id;

-- lane_write_attempts
-- Writes attempts
-- $1 organization_id, $2 user_id, $3 id, $4 revision, $5 number, $6 sent_at, $7 duration_ms, $8 status, $9 error, $10 outcome
INSERT INTO attempts AS a (
    organization_id, user_id, mutation_id, slot, ordinal, revision, number, sent_at, duration_ms, status, error,
    outcome)
SELECT k.organization_id, k.user_id, k.id, (l.ordinal % 20)::int2, l.ordinal, k.revision, k.number,
    coalesce(k.sent_at, m.changed_at), k.duration_ms, k.status, k.error, k.outcome
FROM unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::int4[], $5::int2[], $6::timestamptz[], $7::int4[], $8::int2[], $9::text[], $10::text[]) AS k (organization_id, user_id, id, revision, number, sent_at, duration_ms, status, error, outcome)
CROSS JOIN LATERAL (
    SELECT x.changed_at FROM mutations x
    WHERE x.organization_id = k.organization_id AND x.user_id = k.user_id AND x.id = k.id
        AND x.status = 'in_flight'
    OFFSET 0
) m
CROSS JOIN LATERAL (
    SELECT coalesce(max(x.ordinal), 0) + 1 AS ordinal FROM attempts x
    WHERE x.organization_id = k.organization_id AND x.user_id = k.user_id AND x.mutation_id = k.id
) l
ON CONFLICT (organization_id, user_id, mutation_id, slot) DO UPDATE
SET ordinal = excluded.ordinal, revision = excluded.revision, number = excluded.number,
    sent_at = excluded.sent_at, duration_ms = excluded.duration_ms, status = excluded.status,
    error = excluded.error, outcome = excluded.outcome;

-- lanes_census
-- $1 now
SELECT count(*) FILTER (WHERE l.lease_owner IS NOT NULL AND l.ready_at > $1) AS running,
    count(*) FILTER (WHERE l.ready_at <= $1) AS due,
    count(*) FILTER (WHERE l.lease_owner IS NULL AND l.ready_at > $1) AS waiting,
    count(*) FILTER (WHERE l.halted_by IS NOT NULL) AS halted,
    min(l.queued_since) AS oldest
FROM lanes l
WHERE l.ready_at IS NOT NULL OR l.halted_by IS NOT NULL;

-- upstreams_paused
-- $1 now
SELECT count(*) AS paused FROM upstreams u
WHERE u.is_paused AND (u.paused_until IS NULL OR u.paused_until > $1);

-- lanes_census_organizations
-- $1 limit
SELECT l.organization_id, count(*) FILTER (WHERE l.halted_by IS NOT NULL) AS halted,
    min(l.queued_since) AS oldest
FROM lanes l
WHERE l.ready_at IS NOT NULL OR l.halted_by IS NOT NULL
GROUP BY l.organization_id
ORDER BY oldest NULLS LAST, halted DESC, l.organization_id
LIMIT $1;

-- lanes_due
-- $1 now, $2 except, $3 limit
SELECT l.organization_id, l.user_id FROM lanes l
WHERE l.ready_at <= $1 AND l.organization_id <> ALL ($2::uuid[])
ORDER BY l.ready_at
LIMIT $3;

-- lanes_due_by_shard
-- Finds due lanes without the shards of unavailable servers (by host and port).
-- $1 now, $2 except, $3 limit, $4 servers
SELECT l.organization_id, l.user_id FROM lanes l
WHERE l.ready_at <= $1 AND l.organization_id <> ALL ($2::uuid[])
ORDER BY l.ready_at
LIMIT $3 OFFSET cardinality($4::text[]) * 0;

-- lanes_due_of_organization
-- $1 now, $2 organization, $3 limit
SELECT l.organization_id, l.user_id FROM lanes l
WHERE l.organization_id = $2 AND l.ready_at <= $1
ORDER BY l.ready_at
LIMIT $3;

-- lanes_postpone
-- Postpones due lanes, except lanes that were claimed or released after they were read.
-- $1 organization_id, $2 user_id, $3 until, $4 now
UPDATE lanes AS l
SET ready_at = k.until
FROM unnest($1::uuid[], $2::uuid[], $3::timestamptz[]) AS k (organization_id, user_id, until)
WHERE l.organization_id = k.organization_id AND l.user_id = k.user_id AND l.ready_at <= $4;

-- lane_success_shape
-- A setting that prevents a plan that gathers and sorts all mutations of the organization.
SELECT set_config('enable_sort', 'off', true), set_config('enable_incremental_sort', 'off', true),
    set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'off', true);

-- lane_successes
-- Reads whether the upstream accepted a request.
-- $1 organization, $2 since, $3 now
SELECT EXISTS (
    SELECT 1
    FROM (
        SELECT x.status, x.attempt_count, x.response_status, x.accepted_at, x.synced_at
        FROM mutations x
        WHERE x.organization_id = $1 AND x.synced_at > $2
        ORDER BY x.synced_at DESC
        LIMIT 2000
    ) m
    WHERE m.status = 'succeeded' AND m.attempt_count > 0 AND m.response_status BETWEEN 200 AND 299
        AND (m.accepted_at > $2 OR m.synced_at > $3));

-- lane_note_requests
-- Records requests
-- $1 organization_id, $2 idempotency_key, $3 entity_type, $4 server_id, $5 now
INSERT INTO sent_requests AS s (organization_id, idempotency_key, entity_type, server_id, sent_at)
SELECT k.*, $5 FROM unnest($1::uuid[], $2::uuid[], $3::text[], $4::text[]) AS k (organization_id, idempotency_key, entity_type, server_id)
ON CONFLICT (organization_id, idempotency_key) DO UPDATE
SET sent_at = excluded.sent_at, answered_at = NULL;

-- lane_note_answers
-- $1 organization_id, $2 idempotency_key, $3 server_id, $4 content, $5 version, $6 now
UPDATE sent_requests AS s
SET answered_at = $6::timestamptz, server_id = coalesce(k.server_id, s.server_id),
    content = k.content, version = k.version
FROM unnest($1::uuid[], $2::uuid[], $3::text[], $4::bytea[], $5::int8[]) AS k (organization_id, idempotency_key, server_id, content, version)
WHERE s.organization_id = k.organization_id AND s.idempotency_key = k.idempotency_key;

-- lane_forget_requests
-- Deletes the records of requests that cannot have taken effect.
-- $1 organization_id, $2 idempotency_key
DELETE FROM sent_requests AS s
USING unnest($1::uuid[], $2::uuid[]) AS k (organization_id, idempotency_key)
WHERE s.organization_id = k.organization_id AND s.idempotency_key = k.idempotency_key;

-- lane_known_ids
-- Writes the server ids
-- $1 organization_id, $2 user_id, $3 client_id, $4 entity_type, $5 server_id, $6 server_id_is_integer
UPDATE mutations AS m
SET server_id = l.server_id, server_id_is_integer = l.server_id_is_integer
FROM (
    SELECT k.organization_id, k.user_id, x.id, k.server_id, k.server_id_is_integer
    FROM unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::text[], $5::text[], $6::bool[]) AS k (organization_id, user_id, client_id, entity_type, server_id, server_id_is_integer)
    CROSS JOIN LATERAL (
        SELECT y.id, y.server_id FROM mutations y
        WHERE y.organization_id = k.organization_id AND y.user_id = k.user_id AND y.local_id = k.client_id
            AND y.entity_type = k.entity_type AND y.synced_at IS NULL
        ORDER BY y.position DESC
        LIMIT 1
    ) x
    WHERE x.server_id IS NULL
    OFFSET 0
) l
WHERE m.organization_id = l.organization_id AND m.user_id = l.user_id AND m.id = l.id;
