-- group_make_lanes
-- Creates missing lanes, in active organizations only.
-- $1 organization_id, $2 user_id
INSERT INTO lanes AS l (organization_id, user_id)
SELECT k.organization_id, k.user_id
FROM unnest($1::uuid[], $2::uuid[]) AS k (organization_id, user_id)
-- CASE fixes the order of evaluation: the organization is locked only if the lane is missing, and not by every
-- push
WHERE CASE
    WHEN (SELECT x.user_id FROM lanes x
          WHERE x.organization_id = k.organization_id AND x.user_id = k.user_id) IS NULL
    THEN (SELECT o.status FROM organizations o WHERE o.id = k.organization_id FOR SHARE) = 'active'
        AND (SELECT j.into_id FROM user_joins j
             WHERE j.organization_id = k.organization_id AND j.user_id = k.user_id
                AND j.closed_until IS NULL) IS NULL
        AND NOT ((SELECT e.user_hash FROM user_erasures e
     WHERE e.organization_id = k.organization_id
        AND e.user_hash = sha256(uuid_send(k.organization_id) || uuid_send(k.user_id))) IS NOT NULL)
END
ORDER BY k.organization_id, k.user_id
ON CONFLICT (organization_id, user_id) DO NOTHING
RETURNING l.organization_id, l.user_id;

-- group_devices
-- $1 organization_id, $2 user_id, $3 device_id
SELECT k.organization_id, k.user_id, k.device_id, d.accepted_sequence, d.last_seen_at, d.stray_ids
FROM unnest($1::uuid[], $2::uuid[], $3::uuid[]) AS k (organization_id, user_id, device_id)
CROSS JOIN LATERAL (
    SELECT x.accepted_sequence, x.last_seen_at, x.stray_ids FROM devices x
    WHERE x.organization_id = k.organization_id AND x.user_id = k.user_id AND x.device_id = k.device_id
    OFFSET 0
) d;

-- group_devices_of_one
-- Reads devices of one organization in a Citus cluster.
-- $1 organization, $2 users, $3 devices
SELECT x.organization_id, x.user_id, x.device_id, x.accepted_sequence, x.last_seen_at, x.stray_ids
FROM devices x
WHERE x.organization_id = $1 AND x.user_id = ANY ($2) AND x.device_id = ANY ($3);

-- group_device_counts
-- Counts users' devices up to a limit, for users with an unknown device.
-- $1 push, $2 organization_id, $3 user_id, $4 device_id, $5 limit
SELECT k.push, d.count
FROM unnest($1::int4[], $2::uuid[], $3::uuid[], $4::uuid[]) AS k (push, organization_id, user_id, device_id)
CROSS JOIN LATERAL (
    SELECT count(*) AS count FROM (
        SELECT 1 FROM devices x
        WHERE x.organization_id = k.organization_id AND x.user_id = k.user_id
        LIMIT $5
    ) y
) d
-- this subquery runs for each row; PostgreSQL could plan NOT EXISTS as a join that reads all devices
WHERE (SELECT x.device_id FROM devices x
       WHERE x.organization_id = k.organization_id AND x.user_id = k.user_id AND x.device_id = k.device_id
) IS NULL;

-- group_mutations_by_key
-- $1 push, $2 organization_id, $3 user_id, $4 key, $5 bytes, $6 all_bytes
WITH found AS MATERIALIZED (
    SELECT k.push, y.*
    FROM unnest($1::int4[], $2::uuid[], $3::uuid[], $4::uuid[]) AS k (push, organization_id, user_id, key)
    CROSS JOIN LATERAL (
        SELECT x.id, x.accepted_at, x.idempotency_key, x.device_id, x.sequence_number, x.position, x.operation, x.entity_type, x.local_id, x.local_number, x.server_id, x.server_id_is_integer, x.status, x.revision, x.version, x.etag, x.attempt_count, x.next_retry_at, x.depends_on, x.resolution, x.response_status, x.response_body, x.error, x.fingerprint, x.fingerprint_places, x.synced_at, x.blocked_on
        FROM mutations x
        WHERE x.organization_id = k.organization_id AND x.user_id = k.user_id AND x.idempotency_key = k.key
        OFFSET 0
    ) y
)
SELECT m.push, m.id, m.accepted_at, m.idempotency_key, m.device_id, m.sequence_number, m.position, m.operation, m.entity_type, m.local_id, m.local_number, m.server_id, m.server_id_is_integer, m.status, m.revision, m.version, m.etag, m.attempt_count, m.next_retry_at, CASE WHEN (m.bytes <= 2048
    OR (m.bytes_to - m.bytes < $5::int8 AND m.all_to - m.bytes < $6::int8)) THEN CASE WHEN cardinality(m.depends_on) > 32
        THEN m.depends_on[coalesce(array_position(m.depends_on, m.blocked_on), 1):]
        ELSE m.depends_on END ELSE (CASE WHEN cardinality(m.depends_on) > 32
        THEN m.depends_on[coalesce(array_position(m.depends_on, m.blocked_on), 1):]
        ELSE m.depends_on END)[1:32] END AS depends_on, m.resolution, m.response_status, CASE WHEN (m.bytes <= 2048
    OR (m.bytes_to - m.bytes < $5::int8 AND m.all_to - m.bytes < $6::int8)) THEN m.response_body END AS response_body, CASE WHEN (m.bytes <= 2048
    OR (m.bytes_to - m.bytes < $5::int8 AND m.all_to - m.bytes < $6::int8)) THEN m.error END AS error, m.fingerprint, m.fingerprint_places, m.synced_at, NOT (m.bytes <= 2048
    OR (m.bytes_to - m.bytes < $5::int8 AND m.all_to - m.bytes < $6::int8)) AND m.response_body IS NOT NULL AS lacks_response, NOT (m.bytes <= 2048
    OR (m.bytes_to - m.bytes < $5::int8 AND m.all_to - m.bytes < $6::int8)) AND m.error IS NOT NULL AS lacks_error, NOT (m.bytes <= 2048
    OR (m.bytes_to - m.bytes < $5::int8 AND m.all_to - m.bytes < $6::int8)) AND m.status = 'blocked' AND cardinality(CASE WHEN cardinality(m.depends_on) > 32
        THEN m.depends_on[coalesce(array_position(m.depends_on, m.blocked_on), 1):]
        ELSE m.depends_on END) > 32
    AS lacks_blockers
FROM (
    SELECT r.*, (sum(r.bytes) OVER (PARTITION BY r.push ORDER BY r.position))::int8 AS bytes_to,
        (sum(r.bytes) OVER (ORDER BY r.push, r.position))::int8 AS all_to
    FROM (
        SELECT x.*, (CASE WHEN (pg_column_compression(x.response_body) IS NOT NULL AND pg_column_size(x.response_body) > 2048 OR pg_column_compression(x.error) IS NOT NULL AND pg_column_size(x.error) > 2048)
    AND ((x.push, x.position) > (
        SELECT s.push, s.position
        FROM (
            SELECT t.push, t.position, sum(coalesce(CASE WHEN pg_column_compression(t.response_body) IS NULL THEN pg_column_size(t.response_body) ELSE octet_length(t.response_body::text) END, 0) + coalesce(CASE WHEN pg_column_compression(t.error) IS NULL THEN pg_column_size(t.error) ELSE octet_length(t.error::text) END, 0)) OVER (
                ORDER BY t.push, t.position ROWS UNBOUNDED PRECEDING) AS bytes_to
            FROM found t
        ) s
        WHERE s.bytes_to >= $6::int8
        ORDER BY s.push, s.position
        LIMIT 1
    ))
THEN coalesce(pg_column_size(x.response_body), 0) + coalesce(pg_column_size(x.error), 0) ELSE coalesce(CASE WHEN pg_column_compression(x.response_body) IS NULL THEN pg_column_size(x.response_body) ELSE octet_length(x.response_body::text) END, 0) + coalesce(CASE WHEN pg_column_compression(x.error) IS NULL THEN pg_column_size(x.error) ELSE octet_length(x.error::text) END, 0) END + 39 * coalesce(cardinality(x.depends_on), 0))::int8 AS bytes
        FROM found x
        OFFSET 0
    ) r
) m;

-- group_mutations_by_id
-- $1 push, $2 organization_id, $3 user_id, $4 id, $5 bytes, $6 all_bytes
WITH found AS MATERIALIZED (
    SELECT k.push, y.*
    FROM unnest($1::int4[], $2::uuid[], $3::uuid[], $4::uuid[]) AS k (push, organization_id, user_id, id)
    CROSS JOIN LATERAL (
        SELECT x.id, x.accepted_at, x.idempotency_key, x.device_id, x.sequence_number, x.position, x.operation, x.entity_type, x.local_id, x.local_number, x.server_id, x.server_id_is_integer, x.status, x.revision, x.version, x.etag, x.attempt_count, x.next_retry_at, x.depends_on, x.resolution, x.response_status, x.response_body, x.error, x.fingerprint, x.fingerprint_places, x.synced_at, x.blocked_on
        FROM mutations x
        WHERE x.organization_id = k.organization_id AND x.user_id = k.user_id AND x.id = k.id
        OFFSET 0
    ) y
)
SELECT m.push, m.id, m.accepted_at, m.idempotency_key, m.device_id, m.sequence_number, m.position, m.operation, m.entity_type, m.local_id, m.local_number, m.server_id, m.server_id_is_integer, m.status, m.revision, m.version, m.etag, m.attempt_count, m.next_retry_at, CASE WHEN (m.bytes <= 2048
    OR (m.bytes_to - m.bytes < $5::int8 AND m.all_to - m.bytes < $6::int8)) THEN CASE WHEN cardinality(m.depends_on) > 32
        THEN m.depends_on[coalesce(array_position(m.depends_on, m.blocked_on), 1):]
        ELSE m.depends_on END ELSE (CASE WHEN cardinality(m.depends_on) > 32
        THEN m.depends_on[coalesce(array_position(m.depends_on, m.blocked_on), 1):]
        ELSE m.depends_on END)[1:32] END AS depends_on, m.resolution, m.response_status, CASE WHEN (m.bytes <= 2048
    OR (m.bytes_to - m.bytes < $5::int8 AND m.all_to - m.bytes < $6::int8)) THEN m.response_body END AS response_body, CASE WHEN (m.bytes <= 2048
    OR (m.bytes_to - m.bytes < $5::int8 AND m.all_to - m.bytes < $6::int8)) THEN m.error END AS error, m.fingerprint, m.fingerprint_places, m.synced_at, NOT (m.bytes <= 2048
    OR (m.bytes_to - m.bytes < $5::int8 AND m.all_to - m.bytes < $6::int8)) AND m.response_body IS NOT NULL AS lacks_response, NOT (m.bytes <= 2048
    OR (m.bytes_to - m.bytes < $5::int8 AND m.all_to - m.bytes < $6::int8)) AND m.error IS NOT NULL AS lacks_error, NOT (m.bytes <= 2048
    OR (m.bytes_to - m.bytes < $5::int8 AND m.all_to - m.bytes < $6::int8)) AND m.status = 'blocked' AND cardinality(CASE WHEN cardinality(m.depends_on) > 32
        THEN m.depends_on[coalesce(array_position(m.depends_on, m.blocked_on), 1):]
        ELSE m.depends_on END) > 32
    AS lacks_blockers
FROM (
    SELECT r.*, (sum(r.bytes) OVER (PARTITION BY r.push ORDER BY r.position))::int8 AS bytes_to,
        (sum(r.bytes) OVER (ORDER BY r.push, r.position))::int8 AS all_to
    FROM (
        SELECT x.*, (CASE WHEN (pg_column_compression(x.response_body) IS NOT NULL AND pg_column_size(x.response_body) > 2048 OR pg_column_compression(x.error) IS NOT NULL AND pg_column_size(x.error) > 2048)
    AND ((x.push, x.position) > (
        SELECT s.push, s.position
        FROM (
            SELECT t.push, t.position, sum(coalesce(CASE WHEN pg_column_compression(t.response_body) IS NULL THEN pg_column_size(t.response_body) ELSE octet_length(t.response_body::text) END, 0) + coalesce(CASE WHEN pg_column_compression(t.error) IS NULL THEN pg_column_size(t.error) ELSE octet_length(t.error::text) END, 0)) OVER (
                ORDER BY t.push, t.position ROWS UNBOUNDED PRECEDING) AS bytes_to
            FROM found t
        ) s
        WHERE s.bytes_to >= $6::int8
        ORDER BY s.push, s.position
        LIMIT 1
    ))
THEN coalesce(pg_column_size(x.response_body), 0) + coalesce(pg_column_size(x.error), 0) ELSE coalesce(CASE WHEN pg_column_compression(x.response_body) IS NULL THEN pg_column_size(x.response_body) ELSE octet_length(x.response_body::text) END, 0) + coalesce(CASE WHEN pg_column_compression(x.error) IS NULL THEN pg_column_size(x.error) ELSE octet_length(x.error::text) END, 0) END + 39 * coalesce(cardinality(x.depends_on), 0))::int8 AS bytes
        FROM found x
        OFFSET 0
    ) r
) m;

-- group_rejections
-- $1 push, $2 organization_id, $3 user_id, $4 key
SELECT k.push, r.idempotency_key, r.id, r.device_id, r.sequence_number, r.error
FROM unnest($1::int4[], $2::uuid[], $3::uuid[], $4::uuid[]) AS k (push, organization_id, user_id, key)
CROSS JOIN LATERAL (
    SELECT * FROM rejections x
    WHERE x.organization_id = k.organization_id AND x.user_id = k.user_id AND x.idempotency_key = k.key
    OFFSET 0
) r;

-- group_mappings
-- Reads mappings.
-- $1 push, $2 organization_id, $3 user_id, $4 client_id
SELECT k.push, i.client_id, i.entity_type, i.server_id, i.server_id_is_integer, i.status, i.mutation_id,
    CASE WHEN i.status = 'failed' THEN coalesce((
        SELECT m.status = 'discarded' FROM mutations m
        WHERE m.organization_id = k.organization_id AND m.user_id = k.user_id AND m.id = i.mutation_id), true)
    ELSE false END AS is_abandoned, i.last_used_at
FROM unnest($1::int4[], $2::uuid[], $3::uuid[], $4::uuid[]) AS k (push, organization_id, user_id, client_id)
CROSS JOIN LATERAL (
    SELECT * FROM id_mappings x
    WHERE x.organization_id = k.organization_id AND x.user_id = k.user_id AND x.client_id = k.client_id
    OFFSET 0
) i;

-- group_open
-- Finds the latest open mutation on each entity that the group updates.
-- $1 push, $2 organization_id, $3 user_id, $4 entity_type, $5 local_id, $6 server_id
SELECT k.push, m.id, m.entity_type, m.local_id, m.local_number, m.server_id, m.server_id_is_integer, m.position
FROM unnest($1::int4[], $2::uuid[], $3::uuid[], $4::text[], $5::uuid[], $6::text[]) AS k (push, organization_id, user_id, entity_type, local_id, server_id)
CROSS JOIN LATERAL (
    SELECT
        -- an entity that is named by its client id may have open mutations under its server id, too
        coalesce(k.server_id, (
                SELECT i.server_id FROM id_mappings i
                WHERE i.organization_id = k.organization_id AND i.user_id = k.user_id
                    AND i.client_id = k.local_id AND i.entity_type = k.entity_type)) AS server_id
    FROM lanes x
    WHERE x.organization_id = k.organization_id AND x.user_id = k.user_id AND x.open_count > 0
    OFFSET 0
) l
CROSS JOIN LATERAL (
    (SELECT * FROM mutations a
     WHERE a.organization_id = k.organization_id AND a.user_id = k.user_id AND a.local_id = k.local_id
        AND a.entity_type = k.entity_type AND a.synced_at IS NULL AND a.operation <> 'create'
     ORDER BY a.position DESC LIMIT 1)
    UNION ALL
    (SELECT * FROM mutations b
     WHERE b.organization_id = k.organization_id AND b.user_id = k.user_id AND b.server_id = l.server_id
        AND b.entity_type = k.entity_type AND b.synced_at IS NULL
     ORDER BY b.position DESC LIMIT 1)
) m;

-- group_open_own
-- Finds the latest open mutations for a group that names some entities by a local id.
-- $1 push, $2 organization_id, $3 user_id, $4 entity_type, $5 local_id, $6 server_id, $7 device_id, $8 local_number
SELECT k.push, m.id, m.entity_type, m.local_id, m.local_number, m.server_id, m.server_id_is_integer, m.position
FROM unnest($1::int4[], $2::uuid[], $3::uuid[], $4::text[], $5::uuid[], $6::text[], $7::uuid[], $8::int8[]) AS k (push, organization_id, user_id, entity_type, local_id, server_id, device_id, local_number)
CROSS JOIN LATERAL (
    SELECT
        -- an entity that is named by its client id may have open mutations under its server id, too
        coalesce(k.server_id, CASE WHEN k.local_number IS NULL THEN (
                SELECT i.server_id FROM id_mappings i
                WHERE i.organization_id = k.organization_id AND i.user_id = k.user_id
                    AND i.client_id = k.local_id AND i.entity_type = k.entity_type)
            ELSE (
                SELECT coalesce(n.server_id, n.same_as) FROM local_ids n
                WHERE n.organization_id = k.organization_id AND n.user_id = k.user_id
                    AND n.device_id = k.device_id AND n.entity_type = k.entity_type
                    AND n.local_id = k.local_number)
            END) AS server_id
    FROM lanes x
    WHERE x.organization_id = k.organization_id AND x.user_id = k.user_id AND x.open_count > 0
    OFFSET 0
) l
CROSS JOIN LATERAL (
    (SELECT * FROM mutations a
     WHERE a.organization_id = k.organization_id AND a.user_id = k.user_id AND a.local_id = k.local_id
        AND a.entity_type = k.entity_type AND a.synced_at IS NULL AND a.operation <> 'create'
     ORDER BY a.position DESC LIMIT 1)
    UNION ALL
    (SELECT * FROM mutations b
     WHERE b.organization_id = k.organization_id AND b.user_id = k.user_id AND b.server_id = l.server_id
        AND b.entity_type = k.entity_type AND b.synced_at IS NULL
     ORDER BY b.position DESC LIMIT 1)
) m;

-- group_open_by_order_key
-- Finds the latest open mutation with each order key.
-- $1 push, $2 organization_id, $3 user_id, $4 order_key
SELECT k.push, k.order_key, m.id
FROM unnest($1::int4[], $2::uuid[], $3::uuid[], $4::text[]) AS k (push, organization_id, user_id, order_key)
CROSS JOIN LATERAL (
    SELECT x.id FROM mutations x
    WHERE x.organization_id = k.organization_id AND x.user_id = k.user_id AND x.order_key = k.order_key
        AND x.synced_at IS NULL
    ORDER BY x.position DESC LIMIT 1
) m;

-- group_write_devices
-- $1 organization_id, $2 user_id, $3 device_id, $4 accepted_sequence, $5 stray_ids, $6 now
INSERT INTO devices AS d (
    organization_id, user_id, device_id, accepted_sequence, created_at, last_seen_at, stray_ids)
SELECT k.organization_id, k.user_id, k.device_id, k.accepted_sequence, $6,
    $6, k.stray_ids
FROM unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::int8[], $5::bytea[]) AS k (organization_id, user_id, device_id, accepted_sequence, stray_ids)
ON CONFLICT (organization_id, user_id, device_id) DO UPDATE
SET accepted_sequence = excluded.accepted_sequence, last_seen_at = excluded.last_seen_at,
    stray_ids = coalesce(excluded.stray_ids, d.stray_ids);

-- group_write_users
-- $1 organization_id, $2 user_id, $3 now
INSERT INTO users AS u (organization_id, user_id, created_at)
SELECT k.organization_id, k.user_id, $3
FROM unnest($1::uuid[], $2::uuid[]) AS k (organization_id, user_id)
-- if an operator provisions users, a push adds no user, because the operator may have just excluded this user
WHERE (SELECT o.settings ->> 'provisioning' FROM organizations o WHERE o.id = k.organization_id)
    IS DISTINCT FROM 'explicit'
ON CONFLICT (organization_id, user_id) DO NOTHING;

-- group_write_mutations
-- $1 organization_id, $2 user_id, $3 id, $4 device_id, $5 sequence_number, $6 position, $7 change_position, $8 idempotency_key, $9 fingerprint, $10 fingerprint_places, $11 operation, $12 entity_type, $13 local_id, $14 local_number, $15 server_id, $16 server_id_is_integer, $17 endpoint, $18 payload, $19 priority, $20 max_attempts, $21 conflict_resolution, $22 base_version, $23 status, $24 version, $25 response_status, $26 created_at, $27 synced_at, $28 headers, $29 order_key, $30 resolution, $31 error, $32 last_error, $33 traceparent, $34 error_code, $35 error_status, $36 dependencies_from, $37 dependencies_to, $38 blockers_from, $39 blockers_to, $40 references_from, $41 references_to, $42 now, $43 dependencies, $44 blockers, $45 references, $46 reference_types
INSERT INTO mutations AS m (
    organization_id, user_id, id, device_id, sequence_number, position, change_position, idempotency_key, fingerprint, fingerprint_places, operation, entity_type, local_id, local_number, server_id, server_id_is_integer, endpoint, payload, priority, max_attempts, conflict_resolution, base_version, status, version, response_status, created_at, synced_at, headers, order_key, resolution, error, last_error, traceparent, error_code, error_status, dependency_ids, depends_on, blocked_on, last_error_code, accepted_at, changed_at,
    stuck_at, reference_ids, reference_types)
SELECT k.organization_id, k.user_id, k.id, k.device_id, k.sequence_number, k.position, k.change_position, k.idempotency_key, k.fingerprint, k.fingerprint_places, k.operation, k.entity_type, k.local_id, k.local_number, k.server_id, k.server_id_is_integer, k.endpoint, k.payload, k.priority, k.max_attempts, k.conflict_resolution, k.base_version, k.status, k.version, k.response_status, k.created_at, k.synced_at, k.headers, k.order_key, k.resolution, k.error, k.last_error, k.traceparent, k.error_code, k.error_status,
    -- the ids of all rows are one list, and each row takes a slice of the list
    ($43::uuid[])[k.dependencies_from : k.dependencies_to], ($44::uuid[])[k.blockers_from : k.blockers_to],
    CASE WHEN k.blockers_to >= k.blockers_from THEN ($44::uuid[])[k.blockers_from] END,
    CASE WHEN k.last_error IS NOT NULL THEN k.response_status END, $42, $42,
    CASE WHEN k.error_code IS NOT NULL THEN $42::timestamptz END,
    CASE WHEN k.references_to >= k.references_from
        THEN ($45::uuid[])[k.references_from : k.references_to] END,
    CASE WHEN k.synced_at IS NULL THEN ($46::text[])[k.references_from : k.references_to] END
FROM unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::uuid[], $5::int8[], $6::int8[], $7::int8[], $8::uuid[], $9::bytea[], $10::bytea[], $11::text[], $12::text[], $13::uuid[], $14::int8[], $15::text[], $16::bool[], $17::text[], $18::json[], $19::int2[], $20::int2[], $21::text[], $22::int8[], $23::text[], $24::int8[], $25::int2[], $26::timestamptz[], $27::timestamptz[], $28::json[], $29::text[], $30::text[], $31::json[], $32::text[], $33::text[], $34::text[], $35::int2[], $36::int4[], $37::int4[], $38::int4[], $39::int4[], $40::int4[], $41::int4[]) AS k (organization_id, user_id, id, device_id, sequence_number, position, change_position, idempotency_key, fingerprint, fingerprint_places, operation, entity_type, local_id, local_number, server_id, server_id_is_integer, endpoint, payload, priority, max_attempts, conflict_resolution, base_version, status, version, response_status, created_at, synced_at, headers, order_key, resolution, error, last_error, traceparent, error_code, error_status, dependencies_from, dependencies_to, blockers_from, blockers_to, references_from, references_to);

-- group_write_usual_mutations
-- Inserts mutations that need only the columns of ``MutationRow/common``.
-- $1 organization_id, $2 user_id, $3 id, $4 device_id, $5 sequence_number, $6 position, $7 change_position, $8 idempotency_key, $9 fingerprint, $10 fingerprint_places, $11 operation, $12 entity_type, $13 local_id, $14 local_number, $15 server_id, $16 server_id_is_integer, $17 endpoint, $18 payload, $19 priority, $20 max_attempts, $21 conflict_resolution, $22 base_version, $23 status, $24 version, $25 response_status, $26 created_at, $27 synced_at, $28 now
INSERT INTO mutations AS m (
    organization_id, user_id, id, device_id, sequence_number, position, change_position, idempotency_key, fingerprint, fingerprint_places, operation, entity_type, local_id, local_number, server_id, server_id_is_integer, endpoint, payload, priority, max_attempts, conflict_resolution, base_version, status, version, response_status, created_at, synced_at, accepted_at, changed_at)
SELECT k.organization_id, k.user_id, k.id, k.device_id, k.sequence_number, k.position, k.change_position, k.idempotency_key, k.fingerprint, k.fingerprint_places, k.operation, k.entity_type, k.local_id, k.local_number, k.server_id, k.server_id_is_integer, k.endpoint, k.payload, k.priority, k.max_attempts, k.conflict_resolution, k.base_version, k.status, k.version, k.response_status, k.created_at, k.synced_at, $28, $28
FROM unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::uuid[], $5::int8[], $6::int8[], $7::int8[], $8::uuid[], $9::bytea[], $10::bytea[], $11::text[], $12::text[], $13::uuid[], $14::int8[], $15::text[], $16::bool[], $17::text[], $18::json[], $19::int2[], $20::int2[], $21::text[], $22::int8[], $23::text[], $24::int8[], $25::int2[], $26::timestamptz[], $27::timestamptz[]) AS k (organization_id, user_id, id, device_id, sequence_number, position, change_position, idempotency_key, fingerprint, fingerprint_places, operation, entity_type, local_id, local_number, server_id, server_id_is_integer, endpoint, payload, priority, max_attempts, conflict_resolution, base_version, status, version, response_status, created_at, synced_at);

-- group_write_mappings
-- $1 organization_id, $2 user_id, $3 client_id, $4 entity_type, $5 server_id, $6 server_id_is_integer, $7 status, $8 mutation_id, $9 change_position, $10 created_at, $11 now
INSERT INTO id_mappings AS i (
    organization_id, user_id, client_id, entity_type, server_id, server_id_is_integer, status, mutation_id,
    change_position, created_at, resolved_at, last_used_at)
SELECT k.organization_id, k.user_id, k.client_id, k.entity_type, k.server_id, k.server_id_is_integer, k.status,
    k.mutation_id, k.change_position, k.created_at,
    CASE WHEN k.status = 'resolved' THEN $11::timestamptz END,
    $11::timestamptz
FROM unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::text[], $5::text[], $6::bool[], $7::text[], $8::uuid[], $9::int8[], $10::timestamptz[]) AS k (organization_id, user_id, client_id, entity_type, server_id, server_id_is_integer, status, mutation_id, change_position, created_at);

-- group_replace_mappings
-- Writes mappings that replace abandoned mappings.
-- $1 organization_id, $2 user_id, $3 client_id, $4 entity_type, $5 server_id, $6 server_id_is_integer, $7 status, $8 mutation_id, $9 change_position, $10 created_at, $11 now
INSERT INTO id_mappings AS i (
    organization_id, user_id, client_id, entity_type, server_id, server_id_is_integer, status, mutation_id,
    change_position, created_at, resolved_at, last_used_at)
SELECT k.organization_id, k.user_id, k.client_id, k.entity_type, k.server_id, k.server_id_is_integer, k.status,
    k.mutation_id, k.change_position, k.created_at,
    CASE WHEN k.status = 'resolved' THEN $11::timestamptz END,
    $11::timestamptz
FROM unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::text[], $5::text[], $6::bool[], $7::text[], $8::uuid[], $9::int8[], $10::timestamptz[]) AS k (organization_id, user_id, client_id, entity_type, server_id, server_id_is_integer, status, mutation_id, change_position, created_at)
ON CONFLICT (organization_id, user_id, client_id, entity_type) DO UPDATE
SET server_id = excluded.server_id, server_id_is_integer = excluded.server_id_is_integer,
    status = CASE WHEN i.status = 'failed' THEN excluded.status END, mutation_id = excluded.mutation_id,
    change_position = excluded.change_position, retry_count = 0, last_error = NULL,
    created_at = excluded.created_at, resolved_at = excluded.resolved_at,
    last_used_at = excluded.last_used_at;

-- group_touch_mappings
-- Records the use of mappings, unless a use was recorded within a day.
-- $1 organization_id, $2 user_id, $3 client_id, $4 entity_type, $5 now
UPDATE id_mappings AS i
SET last_used_at = $5
FROM unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::text[]) AS k (organization_id, user_id, client_id, entity_type)
WHERE i.organization_id = k.organization_id AND i.user_id = k.user_id AND i.client_id = k.client_id
    AND i.entity_type = k.entity_type;

-- group_write_rejections
-- $1 organization_id, $2 user_id, $3 idempotency_key, $4 id, $5 device_id, $6 sequence_number, $7 error, $8 now
INSERT INTO rejections AS r (
    organization_id, user_id, idempotency_key, id, device_id, sequence_number, error, rejected_at)
SELECT k.organization_id, k.user_id, k.idempotency_key, k.id, k.device_id, k.sequence_number, k.error,
    $8
FROM unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::uuid[], $5::uuid[], $6::int8[], $7::json[]) AS k (organization_id, user_id, idempotency_key, id, device_id, sequence_number, error)
ON CONFLICT (organization_id, user_id, idempotency_key) DO UPDATE
SET id = excluded.id, device_id = excluded.device_id, sequence_number = excluded.sequence_number,
    error = excluded.error, rejected_at = excluded.rejected_at;

-- group_use_types
-- Marks types as in use.
-- $1 organization_id, $2 name, $3 id_space, $4 visibility, $5 default_priority, $6 is_forwarded, $7 relations
INSERT INTO entity_types AS t (
    organization_id, name, id_space, visibility, default_priority, is_forwarded, relations, is_in_use)
SELECT k.organization_id, k.name, k.id_space, k.visibility, k.default_priority, k.is_forwarded,
    k.relations::jsonb, true
FROM unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::int2[], $6::bool[], $7::text[]) AS k (organization_id, name, id_space, visibility, default_priority, is_forwarded, relations)
ORDER BY k.organization_id, k.name
ON CONFLICT (organization_id, name) DO UPDATE
SET is_in_use = CASE
    WHEN t.id_space = excluded.id_space AND t.visibility = excluded.visibility
        AND t.is_forwarded = excluded.is_forwarded AND t.relations = excluded.relations
    THEN true END;

-- group_read_feeds
-- $1 organizations
SELECT f.organization_id, f.epoch, f.last_position
FROM unnest($1::uuid[]) AS k (organization_id)
CROSS JOIN LATERAL (SELECT * FROM feeds x WHERE x.organization_id = k.organization_id OFFSET 0) f;

-- group_local_ids
-- Reads the mappings of local ids, one row for each requested id.
-- $1 push, $2 organization_id, $3 user_id, $4 device_id, $5 entity_type, $6 local_id
SELECT k.push, k.device_id, k.entity_type, k.local_id, l.local_id IS NOT NULL AS is_known,
    coalesce(l.server_id, l.same_as) AS server_id, l.server_id_is_integer, l.mutation_id,
    CASE WHEN coalesce(l.server_id, l.same_as) IS NULL THEN coalesce((
        SELECT m.status = 'discarded' FROM mutations m
        WHERE m.organization_id = k.organization_id AND m.user_id = k.user_id AND m.id = l.mutation_id), true)
    ELSE false END AS is_abandoned, l.client_id IS NOT NULL AS is_pinned,
    -- a subquery that returns a value, because PostgreSQL could evaluate EXISTS by a hash table of all pages
    l.local_id IS NULL AND (
        SELECT p.page FROM local_id_pages p
        WHERE p.organization_id = k.organization_id AND p.user_id = k.user_id AND p.device_id = k.device_id
            AND p.entity_types IS NOT NULL
        LIMIT 1) IS NOT NULL AS may_be_assigned
FROM unnest($1::int4[], $2::uuid[], $3::uuid[], $4::uuid[], $5::text[], $6::int8[]) AS k (push, organization_id, user_id, device_id, entity_type, local_id)
LEFT JOIN LATERAL (
    SELECT * FROM local_ids x
    WHERE x.organization_id = k.organization_id AND x.user_id = k.user_id AND x.device_id = k.device_id
        AND x.entity_type = k.entity_type AND x.local_id = k.local_id
    OFFSET 0
) l ON true;

-- group_compared_local_ids
-- Reads local ids that are only needed to compare repeats, including the ids of deleted entities.
-- $1 push, $2 organization_id, $3 user_id, $4 device_id, $5 entity_type, $6 local_id, $7 retired_id
SELECT k.push, k.device_id, k.entity_type, k.local_id, l.server_id, l.server_id_is_integer
FROM unnest($1::int4[], $2::uuid[], $3::uuid[], $4::uuid[], $5::text[], $6::int8[], $7::uuid[]) AS k (push, organization_id, user_id, device_id, entity_type, local_id, retired_id)
CROSS JOIN LATERAL (
    SELECT coalesce(x.server_id, x.same_as) AS server_id, x.server_id_is_integer FROM local_ids x
    WHERE x.organization_id = k.organization_id AND x.user_id = k.user_id AND x.device_id = k.device_id
        AND x.entity_type = k.entity_type AND x.local_id = k.local_id
    UNION ALL
    SELECT y.server_id, y.server_id_is_integer FROM id_mappings y
    WHERE y.organization_id = k.organization_id AND y.user_id = k.user_id AND y.client_id = k.retired_id
        AND y.entity_type = k.entity_type
    OFFSET 0
) l;

-- group_local_id_pages
-- Reads all pages of pulls with unconfirmed assignments to devices.
-- $1 push, $2 organization_id, $3 user_id, $4 device_id
SELECT k.push, p.entity_types, p.local_ids, p.server_ids, p.are_integers
FROM unnest($1::int4[], $2::uuid[], $3::uuid[], $4::uuid[]) AS k (push, organization_id, user_id, device_id)
CROSS JOIN LATERAL (
    SELECT * FROM local_id_pages x
    WHERE x.organization_id = k.organization_id AND x.user_id = k.user_id AND x.device_id = k.device_id
        AND x.entity_types IS NOT NULL AND NOT x.is_superseded
    OFFSET 0
) p;

-- group_write_local_ids
-- Inserts new ids of creates.
-- $1 organization_id, $2 user_id, $3 device_id, $4 entity_type, $5 local_id, $6 server_id, $7 server_id_is_integer, $8 mutation_id, $9 client_id
INSERT INTO local_ids AS l (
    organization_id, user_id, device_id, entity_type, local_id, server_id, server_id_is_integer, mutation_id,
    client_id)
SELECT k.organization_id, k.user_id, k.device_id, k.entity_type, k.local_id, k.server_id,
    k.server_id_is_integer, k.mutation_id, k.client_id
FROM unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::text[], $5::int8[], $6::text[], $7::bool[], $8::uuid[], $9::uuid[]) AS k (organization_id, user_id, device_id, entity_type, local_id, server_id, server_id_is_integer, mutation_id, client_id);

-- group_replace_local_ids
-- Writes ids that replace abandoned ids, whose creates were deleted.
-- $1 organization_id, $2 user_id, $3 device_id, $4 entity_type, $5 local_id, $6 server_id, $7 server_id_is_integer, $8 mutation_id, $9 client_id
INSERT INTO local_ids AS l (
    organization_id, user_id, device_id, entity_type, local_id, server_id, server_id_is_integer, mutation_id,
    client_id)
SELECT k.organization_id, k.user_id, k.device_id, k.entity_type, k.local_id, k.server_id,
    k.server_id_is_integer, k.mutation_id, k.client_id
FROM unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::text[], $5::int8[], $6::text[], $7::bool[], $8::uuid[], $9::uuid[]) AS k (organization_id, user_id, device_id, entity_type, local_id, server_id, server_id_is_integer, mutation_id, client_id)
ON CONFLICT (organization_id, user_id, device_id, entity_type, local_id) DO UPDATE
SET server_id = CASE WHEN coalesce(l.server_id, l.same_as) IS NULL THEN excluded.server_id END,
    server_id_is_integer = excluded.server_id_is_integer, same_as = NULL,
    mutation_id = CASE WHEN coalesce(l.server_id, l.same_as) IS NULL THEN excluded.mutation_id END,
    client_id = excluded.client_id;

-- group_confirm_local_ids
-- Inserts ids that a pull assigned and a push uses
-- $1 organization_id, $2 user_id, $3 device_id, $4 entity_type, $5 local_id, $6 server_id, $7 server_id_is_integer, $8 mutation_id, $9 client_id
INSERT INTO local_ids AS l (
    organization_id, user_id, device_id, entity_type, local_id, server_id, server_id_is_integer, mutation_id,
    client_id)
SELECT k.organization_id, k.user_id, k.device_id, k.entity_type, k.local_id, k.server_id,
    k.server_id_is_integer, k.mutation_id, k.client_id
FROM unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::text[], $5::int8[], $6::text[], $7::bool[], $8::uuid[], $9::uuid[]) AS k (organization_id, user_id, device_id, entity_type, local_id, server_id, server_id_is_integer, mutation_id, client_id)
ON CONFLICT DO NOTHING;

-- group_confirm_second_local_ids
-- Inserts assigned ids of entities that already have another local id on the device
-- $1 organization_id, $2 user_id, $3 device_id, $4 entity_type, $5 local_id, $6 server_id, $7 server_id_is_integer
INSERT INTO local_ids AS l (
    organization_id, user_id, device_id, entity_type, local_id, same_as, server_id_is_integer)
SELECT k.organization_id, k.user_id, k.device_id, k.entity_type, k.local_id, k.server_id,
    k.server_id_is_integer
FROM unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::text[], $5::int8[], $6::text[], $7::bool[]) AS k (organization_id, user_id, device_id, entity_type, local_id, server_id, server_id_is_integer)
ON CONFLICT (organization_id, user_id, device_id, entity_type, local_id) DO NOTHING;

-- group_pin_local_ids
-- Stores the UUIDs by which waiting mutations find local ids.
-- $1 organization_id, $2 user_id, $3 device_id, $4 entity_type, $5 local_id, $6 client_id
UPDATE local_ids AS l
SET client_id = k.client_id
FROM unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::text[], $5::int8[], $6::uuid[]) AS k (organization_id, user_id, device_id, entity_type, local_id, client_id)
WHERE l.organization_id = k.organization_id AND l.user_id = k.user_id AND l.device_id = k.device_id
    AND l.entity_type = k.entity_type AND l.local_id = k.local_id;

-- group_lock_entities
-- Locks the entities that a group names, by server id or by a mapped client id.
-- $1 organization_id, $2 entity_type, $3 id, $4 mapped_organization_id, $5 mapped_user_id, $6 mapped_client_id, $7 mapped_entity_type
SELECT e.*
FROM (
    SELECT d.organization_id, d.entity_type, d.id
    FROM unnest($1::uuid[], $2::text[], $3::text[]) AS d (organization_id, entity_type, id)
    UNION
    SELECT c.organization_id, c.entity_type, i.server_id
    FROM unnest($4::uuid[], $5::uuid[], $6::uuid[], $7::text[]) AS c (organization_id, user_id, client_id, entity_type)
    CROSS JOIN LATERAL (
        SELECT x.server_id FROM id_mappings x
        WHERE x.organization_id = c.organization_id AND x.user_id = c.user_id AND x.client_id = c.client_id
            AND x.entity_type = c.entity_type AND x.server_id IS NOT NULL
        OFFSET 0
    ) i
    
    ORDER BY 1, 2, 3
) k
CROSS JOIN LATERAL (
    SELECT x.organization_id, x.entity_type, x.id, x.id_is_integer, x.version, x.is_deleted, x.document, x.owner_id, x.client_id, x.updated_by, x.updated_on, x.run_base, x.etag, x.channels, x.feed_position
    FROM entities x
    WHERE x.organization_id = k.organization_id AND x.entity_type = k.entity_type AND x.id = k.id
    FOR UPDATE
) e;

-- group_look_at_entities
-- Reads the entities of ``lockEntities`` without waiting for row locks.
-- $1 organization_id, $2 entity_type, $3 id, $4 mapped_organization_id, $5 mapped_user_id, $6 mapped_client_id, $7 mapped_entity_type
SELECT e.*
FROM (
    SELECT d.organization_id, d.entity_type, d.id
    FROM unnest($1::uuid[], $2::text[], $3::text[]) AS d (organization_id, entity_type, id)
    UNION
    SELECT c.organization_id, c.entity_type, i.server_id
    FROM unnest($4::uuid[], $5::uuid[], $6::uuid[], $7::text[]) AS c (organization_id, user_id, client_id, entity_type)
    CROSS JOIN LATERAL (
        SELECT x.server_id FROM id_mappings x
        WHERE x.organization_id = c.organization_id AND x.user_id = c.user_id AND x.client_id = c.client_id
            AND x.entity_type = c.entity_type AND x.server_id IS NOT NULL
        OFFSET 0
    ) i
    
    ORDER BY 1, 2, 3
) k
CROSS JOIN LATERAL (
    SELECT x.organization_id, x.entity_type, x.id, x.id_is_integer, x.version, x.is_deleted, x.document, x.owner_id, x.client_id, x.updated_by, x.updated_on, x.run_base, x.etag, x.channels, x.feed_position
    FROM entities x
    WHERE x.organization_id = k.organization_id AND x.entity_type = k.entity_type AND x.id = k.id
    OFFSET 0
) e;

-- push_lock_entities
-- Locks the entities that pushes name, and reads their documents up to a number of bytes.
-- $1 organization_id, $2 entity_type, $3 id, $4 mapped_organization_id, $5 mapped_user_id, $6 mapped_client_id, $7 mapped_entity_type, $8 bytes
WITH found AS MATERIALIZED (
    SELECT r.*, row_number() OVER () AS place
    FROM (
SELECT e.*
FROM (
    SELECT d.organization_id, d.entity_type, d.id
    FROM unnest($1::uuid[], $2::text[], $3::text[]) AS d (organization_id, entity_type, id)
    UNION
    SELECT c.organization_id, c.entity_type, i.server_id
    FROM unnest($4::uuid[], $5::uuid[], $6::uuid[], $7::text[]) AS c (organization_id, user_id, client_id, entity_type)
    CROSS JOIN LATERAL (
        SELECT x.server_id FROM id_mappings x
        WHERE x.organization_id = c.organization_id AND x.user_id = c.user_id AND x.client_id = c.client_id
            AND x.entity_type = c.entity_type AND x.server_id IS NOT NULL
        OFFSET 0
    ) i
    
    ORDER BY 1, 2, 3
) k
CROSS JOIN LATERAL (
    SELECT x.organization_id, x.entity_type, x.id, x.id_is_integer, x.version, x.is_deleted, x.document, x.owner_id, x.client_id, x.updated_by, x.updated_on, x.run_base, x.etag, x.channels, x.feed_position
    FROM entities x
    WHERE x.organization_id = k.organization_id AND x.entity_type = k.entity_type AND x.id = k.id
    FOR UPDATE
) e
    ) r
)
SELECT q.organization_id, q.entity_type, q.id, q.id_is_integer, q.version, q.is_deleted, CASE WHEN q.bytes_to - q.bytes < $8::int8 THEN q.document END AS document, q.owner_id, q.client_id, q.updated_by, q.updated_on, q.run_base, q.etag, q.channels, q.feed_position, q.bytes
FROM (
    SELECT p.*, (sum(p.bytes) OVER (ROWS UNBOUNDED PRECEDING))::int8 AS bytes_to
    FROM (
        SELECT r.*, (CASE WHEN (pg_column_compression(r.document) IS NOT NULL AND pg_column_size(r.document) > 2048)
    AND ((r.place) > (
        SELECT s.place
        FROM (
            SELECT t.place, sum(coalesce(CASE WHEN pg_column_compression(t.document) IS NULL THEN pg_column_size(t.document) ELSE octet_length(t.document::text) END, 0)) OVER (
                ORDER BY t.place ROWS UNBOUNDED PRECEDING) AS bytes_to
            FROM found t
        ) s
        WHERE s.bytes_to >= $8::int8
        ORDER BY s.place
        LIMIT 1
    ))
THEN coalesce(pg_column_size(r.document), 0) ELSE coalesce(CASE WHEN pg_column_compression(r.document) IS NULL THEN pg_column_size(r.document) ELSE octet_length(r.document::text) END, 0) END)::int8 AS bytes
        FROM found r
        OFFSET 0
    ) p
) q;

-- push_look_at_entities
-- Reads the entities of ``lockBounded`` without waiting for row locks.
-- $1 organization_id, $2 entity_type, $3 id, $4 mapped_organization_id, $5 mapped_user_id, $6 mapped_client_id, $7 mapped_entity_type, $8 bytes
WITH found AS MATERIALIZED (
    SELECT r.*, row_number() OVER () AS place
    FROM (
SELECT e.*
FROM (
    SELECT d.organization_id, d.entity_type, d.id
    FROM unnest($1::uuid[], $2::text[], $3::text[]) AS d (organization_id, entity_type, id)
    UNION
    SELECT c.organization_id, c.entity_type, i.server_id
    FROM unnest($4::uuid[], $5::uuid[], $6::uuid[], $7::text[]) AS c (organization_id, user_id, client_id, entity_type)
    CROSS JOIN LATERAL (
        SELECT x.server_id FROM id_mappings x
        WHERE x.organization_id = c.organization_id AND x.user_id = c.user_id AND x.client_id = c.client_id
            AND x.entity_type = c.entity_type AND x.server_id IS NOT NULL
        OFFSET 0
    ) i
    
    ORDER BY 1, 2, 3
) k
CROSS JOIN LATERAL (
    SELECT x.organization_id, x.entity_type, x.id, x.id_is_integer, x.version, x.is_deleted, x.document, x.owner_id, x.client_id, x.updated_by, x.updated_on, x.run_base, x.etag, x.channels, x.feed_position
    FROM entities x
    WHERE x.organization_id = k.organization_id AND x.entity_type = k.entity_type AND x.id = k.id
    OFFSET 0
) e
    ) r
)
SELECT q.organization_id, q.entity_type, q.id, q.id_is_integer, q.version, q.is_deleted, CASE WHEN q.bytes_to - q.bytes < $8::int8 THEN q.document END AS document, q.owner_id, q.client_id, q.updated_by, q.updated_on, q.run_base, q.etag, q.channels, q.feed_position, q.bytes
FROM (
    SELECT p.*, (sum(p.bytes) OVER (ROWS UNBOUNDED PRECEDING))::int8 AS bytes_to
    FROM (
        SELECT r.*, (CASE WHEN (pg_column_compression(r.document) IS NOT NULL AND pg_column_size(r.document) > 2048)
    AND ((r.place) > (
        SELECT s.place
        FROM (
            SELECT t.place, sum(coalesce(CASE WHEN pg_column_compression(t.document) IS NULL THEN pg_column_size(t.document) ELSE octet_length(t.document::text) END, 0)) OVER (
                ORDER BY t.place ROWS UNBOUNDED PRECEDING) AS bytes_to
            FROM found t
        ) s
        WHERE s.bytes_to >= $8::int8
        ORDER BY s.place
        LIMIT 1
    ))
THEN coalesce(pg_column_size(r.document), 0) ELSE coalesce(CASE WHEN pg_column_compression(r.document) IS NULL THEN pg_column_size(r.document) ELSE octet_length(r.document::text) END, 0) END)::int8 AS bytes
        FROM found r
        OFFSET 0
    ) p
) q;

-- push_lock_own_entities
-- Locks the entities of ``lockBounded``, and entities that are named by a device's local id.
-- $1 organization_id, $2 entity_type, $3 id, $4 mapped_organization_id, $5 mapped_user_id, $6 mapped_client_id, $7 mapped_entity_type, $8 own_organization_id, $9 own_user_id, $10 own_device_id, $11 own_entity_type, $12 own_local_id, $13 bytes
WITH found AS MATERIALIZED (
    SELECT r.*, row_number() OVER () AS place
    FROM (
SELECT e.*
FROM (
    SELECT d.organization_id, d.entity_type, d.id
    FROM unnest($1::uuid[], $2::text[], $3::text[]) AS d (organization_id, entity_type, id)
    UNION
    SELECT c.organization_id, c.entity_type, i.server_id
    FROM unnest($4::uuid[], $5::uuid[], $6::uuid[], $7::text[]) AS c (organization_id, user_id, client_id, entity_type)
    CROSS JOIN LATERAL (
        SELECT x.server_id FROM id_mappings x
        WHERE x.organization_id = c.organization_id AND x.user_id = c.user_id AND x.client_id = c.client_id
            AND x.entity_type = c.entity_type AND x.server_id IS NOT NULL
        OFFSET 0
    ) i
    UNION
        SELECT n.organization_id, n.entity_type, l.server_id
        FROM unnest($8::uuid[], $9::uuid[], $10::uuid[], $11::text[], $12::int8[]) AS n (organization_id, user_id, device_id, entity_type, local_id)
        CROSS JOIN LATERAL (
            SELECT coalesce(x.server_id, x.same_as) AS server_id
            FROM local_ids x
            WHERE x.organization_id = n.organization_id AND x.user_id = n.user_id
                AND x.device_id = n.device_id AND x.entity_type = n.entity_type AND x.local_id = n.local_id
            OFFSET 0
        ) l
        WHERE l.server_id IS NOT NULL
    ORDER BY 1, 2, 3
) k
CROSS JOIN LATERAL (
    SELECT x.organization_id, x.entity_type, x.id, x.id_is_integer, x.version, x.is_deleted, x.document, x.owner_id, x.client_id, x.updated_by, x.updated_on, x.run_base, x.etag, x.channels, x.feed_position
    FROM entities x
    WHERE x.organization_id = k.organization_id AND x.entity_type = k.entity_type AND x.id = k.id
    FOR UPDATE
) e
    ) r
)
SELECT q.organization_id, q.entity_type, q.id, q.id_is_integer, q.version, q.is_deleted, CASE WHEN q.bytes_to - q.bytes < $13::int8 THEN q.document END AS document, q.owner_id, q.client_id, q.updated_by, q.updated_on, q.run_base, q.etag, q.channels, q.feed_position, q.bytes
FROM (
    SELECT p.*, (sum(p.bytes) OVER (ROWS UNBOUNDED PRECEDING))::int8 AS bytes_to
    FROM (
        SELECT r.*, (CASE WHEN (pg_column_compression(r.document) IS NOT NULL AND pg_column_size(r.document) > 2048)
    AND ((r.place) > (
        SELECT s.place
        FROM (
            SELECT t.place, sum(coalesce(CASE WHEN pg_column_compression(t.document) IS NULL THEN pg_column_size(t.document) ELSE octet_length(t.document::text) END, 0)) OVER (
                ORDER BY t.place ROWS UNBOUNDED PRECEDING) AS bytes_to
            FROM found t
        ) s
        WHERE s.bytes_to >= $13::int8
        ORDER BY s.place
        LIMIT 1
    ))
THEN coalesce(pg_column_size(r.document), 0) ELSE coalesce(CASE WHEN pg_column_compression(r.document) IS NULL THEN pg_column_size(r.document) ELSE octet_length(r.document::text) END, 0) END)::int8 AS bytes
        FROM found r
        OFFSET 0
    ) p
) q;

-- push_look_at_own_entities
-- Reads the entities of ``lockOwnEntities`` without waiting for row locks.
-- $1 organization_id, $2 entity_type, $3 id, $4 mapped_organization_id, $5 mapped_user_id, $6 mapped_client_id, $7 mapped_entity_type, $8 own_organization_id, $9 own_user_id, $10 own_device_id, $11 own_entity_type, $12 own_local_id, $13 bytes
WITH found AS MATERIALIZED (
    SELECT r.*, row_number() OVER () AS place
    FROM (
SELECT e.*
FROM (
    SELECT d.organization_id, d.entity_type, d.id
    FROM unnest($1::uuid[], $2::text[], $3::text[]) AS d (organization_id, entity_type, id)
    UNION
    SELECT c.organization_id, c.entity_type, i.server_id
    FROM unnest($4::uuid[], $5::uuid[], $6::uuid[], $7::text[]) AS c (organization_id, user_id, client_id, entity_type)
    CROSS JOIN LATERAL (
        SELECT x.server_id FROM id_mappings x
        WHERE x.organization_id = c.organization_id AND x.user_id = c.user_id AND x.client_id = c.client_id
            AND x.entity_type = c.entity_type AND x.server_id IS NOT NULL
        OFFSET 0
    ) i
    UNION
        SELECT n.organization_id, n.entity_type, l.server_id
        FROM unnest($8::uuid[], $9::uuid[], $10::uuid[], $11::text[], $12::int8[]) AS n (organization_id, user_id, device_id, entity_type, local_id)
        CROSS JOIN LATERAL (
            SELECT coalesce(x.server_id, x.same_as) AS server_id
            FROM local_ids x
            WHERE x.organization_id = n.organization_id AND x.user_id = n.user_id
                AND x.device_id = n.device_id AND x.entity_type = n.entity_type AND x.local_id = n.local_id
            OFFSET 0
        ) l
        WHERE l.server_id IS NOT NULL
    ORDER BY 1, 2, 3
) k
CROSS JOIN LATERAL (
    SELECT x.organization_id, x.entity_type, x.id, x.id_is_integer, x.version, x.is_deleted, x.document, x.owner_id, x.client_id, x.updated_by, x.updated_on, x.run_base, x.etag, x.channels, x.feed_position
    FROM entities x
    WHERE x.organization_id = k.organization_id AND x.entity_type = k.entity_type AND x.id = k.id
    OFFSET 0
) e
    ) r
)
SELECT q.organization_id, q.entity_type, q.id, q.id_is_integer, q.version, q.is_deleted, CASE WHEN q.bytes_to - q.bytes < $13::int8 THEN q.document END AS document, q.owner_id, q.client_id, q.updated_by, q.updated_on, q.run_base, q.etag, q.channels, q.feed_position, q.bytes
FROM (
    SELECT p.*, (sum(p.bytes) OVER (ROWS UNBOUNDED PRECEDING))::int8 AS bytes_to
    FROM (
        SELECT r.*, (CASE WHEN (pg_column_compression(r.document) IS NOT NULL AND pg_column_size(r.document) > 2048)
    AND ((r.place) > (
        SELECT s.place
        FROM (
            SELECT t.place, sum(coalesce(CASE WHEN pg_column_compression(t.document) IS NULL THEN pg_column_size(t.document) ELSE octet_length(t.document::text) END, 0)) OVER (
                ORDER BY t.place ROWS UNBOUNDED PRECEDING) AS bytes_to
            FROM found t
        ) s
        WHERE s.bytes_to >= $13::int8
        ORDER BY s.place
        LIMIT 1
    ))
THEN coalesce(pg_column_size(r.document), 0) ELSE coalesce(CASE WHEN pg_column_compression(r.document) IS NULL THEN pg_column_size(r.document) ELSE octet_length(r.document::text) END, 0) END)::int8 AS bytes
        FROM found r
        OFFSET 0
    ) p
) q;

-- group_lock_related_entities
-- Locks entities that are written, and the entities to which they refer.
-- $1 organization_id, $2 entity_type, $3 id, $4 mapped_organization_id, $5 mapped_user_id, $6 mapped_client_id, $7 mapped_entity_type, $8 own_organization_id, $9 own_user_id, $10 own_device_id, $11 own_entity_type, $12 own_local_id, $13 target_organization_id, $14 target_entity_type, $15 target_id, $16 target_mapped_organization_id, $17 target_mapped_user_id, $18 target_mapped_client_id, $19 target_mapped_entity_type, $20 target_own_organization_id, $21 target_own_user_id, $22 target_own_device_id, $23 target_own_entity_type, $24 target_own_local_id, $25 bytes
WITH found AS MATERIALIZED (
    SELECT r.*, row_number() OVER () AS place
    FROM (
SELECT e.*, k.is_target
FROM (
    SELECT n.organization_id, n.entity_type, n.id, bool_and(n.is_target) AS is_target
    FROM (
        SELECT d.organization_id, d.entity_type, d.id, false AS is_target
        FROM unnest($1::uuid[], $2::text[], $3::text[]) AS d (organization_id, entity_type, id)
        UNION ALL
        SELECT c.organization_id, c.entity_type, i.server_id, false
        FROM unnest($4::uuid[], $5::uuid[], $6::uuid[], $7::text[]) AS c (organization_id, user_id, client_id, entity_type)
        CROSS JOIN LATERAL (
            SELECT x.server_id FROM id_mappings x
            WHERE x.organization_id = c.organization_id AND x.user_id = c.user_id AND x.client_id = c.client_id
                AND x.entity_type = c.entity_type AND x.server_id IS NOT NULL
            OFFSET 0
        ) i
        UNION ALL
        SELECT o.organization_id, o.entity_type, l.server_id, false
        FROM unnest($8::uuid[], $9::uuid[], $10::uuid[], $11::text[], $12::int8[]) AS o (organization_id, user_id, device_id, entity_type, local_id)
        CROSS JOIN LATERAL (
            SELECT coalesce(x.server_id, x.same_as) AS server_id
            FROM local_ids x
            WHERE x.organization_id = o.organization_id AND x.user_id = o.user_id
                AND x.device_id = o.device_id AND x.entity_type = o.entity_type AND x.local_id = o.local_id
            OFFSET 0
        ) l
        WHERE l.server_id IS NOT NULL
        UNION ALL
        SELECT d.organization_id, d.entity_type, d.id, true AS is_target
        FROM unnest($13::uuid[], $14::text[], $15::text[]) AS d (organization_id, entity_type, id)
        UNION ALL
        SELECT c.organization_id, c.entity_type, i.server_id, true
        FROM unnest($16::uuid[], $17::uuid[], $18::uuid[], $19::text[]) AS c (organization_id, user_id, client_id, entity_type)
        CROSS JOIN LATERAL (
            SELECT x.server_id FROM id_mappings x
            WHERE x.organization_id = c.organization_id AND x.user_id = c.user_id AND x.client_id = c.client_id
                AND x.entity_type = c.entity_type AND x.server_id IS NOT NULL
            OFFSET 0
        ) i
        UNION ALL
        SELECT o.organization_id, o.entity_type, l.server_id, true
        FROM unnest($20::uuid[], $21::uuid[], $22::uuid[], $23::text[], $24::int8[]) AS o (organization_id, user_id, device_id, entity_type, local_id)
        CROSS JOIN LATERAL (
            SELECT coalesce(x.server_id, x.same_as) AS server_id
            FROM local_ids x
            WHERE x.organization_id = o.organization_id AND x.user_id = o.user_id
                AND x.device_id = o.device_id AND x.entity_type = o.entity_type AND x.local_id = o.local_id
            OFFSET 0
        ) l
        WHERE l.server_id IS NOT NULL
    ) n
    GROUP BY n.organization_id, n.entity_type, n.id
    ORDER BY 1, 2, 3
) k
CROSS JOIN LATERAL (
    SELECT x.organization_id, x.entity_type, x.id, x.id_is_integer, x.version, x.is_deleted, CASE WHEN NOT k.is_target THEN x.document END AS document, x.owner_id, x.client_id, x.updated_by, x.updated_on, x.run_base, x.etag, x.channels, x.feed_position
    FROM entities x
    WHERE x.organization_id = k.organization_id AND x.entity_type = k.entity_type AND x.id = k.id
    FOR UPDATE
) e
    ) r
)
SELECT q.organization_id, q.entity_type, q.id, q.id_is_integer, q.version, q.is_deleted, CASE WHEN q.bytes_to - q.bytes < $25::int8 THEN q.document END AS document, q.owner_id, q.client_id, q.updated_by, q.updated_on, q.run_base, q.etag, q.channels, q.feed_position, q.bytes, q.is_target
FROM (
    SELECT p.*, (sum(p.bytes) OVER (ROWS UNBOUNDED PRECEDING))::int8 AS bytes_to
    FROM (
        SELECT r.*, (CASE WHEN (pg_column_compression(r.document) IS NOT NULL AND pg_column_size(r.document) > 2048)
    AND ((r.place) > (
        SELECT s.place
        FROM (
            SELECT t.place, sum(coalesce(CASE WHEN pg_column_compression(t.document) IS NULL THEN pg_column_size(t.document) ELSE octet_length(t.document::text) END, 0)) OVER (
                ORDER BY t.place ROWS UNBOUNDED PRECEDING) AS bytes_to
            FROM found t
        ) s
        WHERE s.bytes_to >= $25::int8
        ORDER BY s.place
        LIMIT 1
    ))
THEN coalesce(pg_column_size(r.document), 0) ELSE coalesce(CASE WHEN pg_column_compression(r.document) IS NULL THEN pg_column_size(r.document) ELSE octet_length(r.document::text) END, 0) END)::int8 AS bytes
        FROM found r
        OFFSET 0
    ) p
) q;

-- group_look_at_related_entities
-- Reads the entities of ``lockRelated`` without waiting for row locks.
-- $1 organization_id, $2 entity_type, $3 id, $4 mapped_organization_id, $5 mapped_user_id, $6 mapped_client_id, $7 mapped_entity_type, $8 own_organization_id, $9 own_user_id, $10 own_device_id, $11 own_entity_type, $12 own_local_id, $13 target_organization_id, $14 target_entity_type, $15 target_id, $16 target_mapped_organization_id, $17 target_mapped_user_id, $18 target_mapped_client_id, $19 target_mapped_entity_type, $20 target_own_organization_id, $21 target_own_user_id, $22 target_own_device_id, $23 target_own_entity_type, $24 target_own_local_id, $25 bytes
WITH found AS MATERIALIZED (
    SELECT r.*, row_number() OVER () AS place
    FROM (
SELECT e.*, k.is_target
FROM (
    SELECT n.organization_id, n.entity_type, n.id, bool_and(n.is_target) AS is_target
    FROM (
        SELECT d.organization_id, d.entity_type, d.id, false AS is_target
        FROM unnest($1::uuid[], $2::text[], $3::text[]) AS d (organization_id, entity_type, id)
        UNION ALL
        SELECT c.organization_id, c.entity_type, i.server_id, false
        FROM unnest($4::uuid[], $5::uuid[], $6::uuid[], $7::text[]) AS c (organization_id, user_id, client_id, entity_type)
        CROSS JOIN LATERAL (
            SELECT x.server_id FROM id_mappings x
            WHERE x.organization_id = c.organization_id AND x.user_id = c.user_id AND x.client_id = c.client_id
                AND x.entity_type = c.entity_type AND x.server_id IS NOT NULL
            OFFSET 0
        ) i
        UNION ALL
        SELECT o.organization_id, o.entity_type, l.server_id, false
        FROM unnest($8::uuid[], $9::uuid[], $10::uuid[], $11::text[], $12::int8[]) AS o (organization_id, user_id, device_id, entity_type, local_id)
        CROSS JOIN LATERAL (
            SELECT coalesce(x.server_id, x.same_as) AS server_id
            FROM local_ids x
            WHERE x.organization_id = o.organization_id AND x.user_id = o.user_id
                AND x.device_id = o.device_id AND x.entity_type = o.entity_type AND x.local_id = o.local_id
            OFFSET 0
        ) l
        WHERE l.server_id IS NOT NULL
        UNION ALL
        SELECT d.organization_id, d.entity_type, d.id, true AS is_target
        FROM unnest($13::uuid[], $14::text[], $15::text[]) AS d (organization_id, entity_type, id)
        UNION ALL
        SELECT c.organization_id, c.entity_type, i.server_id, true
        FROM unnest($16::uuid[], $17::uuid[], $18::uuid[], $19::text[]) AS c (organization_id, user_id, client_id, entity_type)
        CROSS JOIN LATERAL (
            SELECT x.server_id FROM id_mappings x
            WHERE x.organization_id = c.organization_id AND x.user_id = c.user_id AND x.client_id = c.client_id
                AND x.entity_type = c.entity_type AND x.server_id IS NOT NULL
            OFFSET 0
        ) i
        UNION ALL
        SELECT o.organization_id, o.entity_type, l.server_id, true
        FROM unnest($20::uuid[], $21::uuid[], $22::uuid[], $23::text[], $24::int8[]) AS o (organization_id, user_id, device_id, entity_type, local_id)
        CROSS JOIN LATERAL (
            SELECT coalesce(x.server_id, x.same_as) AS server_id
            FROM local_ids x
            WHERE x.organization_id = o.organization_id AND x.user_id = o.user_id
                AND x.device_id = o.device_id AND x.entity_type = o.entity_type AND x.local_id = o.local_id
            OFFSET 0
        ) l
        WHERE l.server_id IS NOT NULL
    ) n
    GROUP BY n.organization_id, n.entity_type, n.id
    ORDER BY 1, 2, 3
) k
CROSS JOIN LATERAL (
    SELECT x.organization_id, x.entity_type, x.id, x.id_is_integer, x.version, x.is_deleted, CASE WHEN NOT k.is_target THEN x.document END AS document, x.owner_id, x.client_id, x.updated_by, x.updated_on, x.run_base, x.etag, x.channels, x.feed_position
    FROM entities x
    WHERE x.organization_id = k.organization_id AND x.entity_type = k.entity_type AND x.id = k.id
    OFFSET 0
) e
    ) r
)
SELECT q.organization_id, q.entity_type, q.id, q.id_is_integer, q.version, q.is_deleted, CASE WHEN q.bytes_to - q.bytes < $25::int8 THEN q.document END AS document, q.owner_id, q.client_id, q.updated_by, q.updated_on, q.run_base, q.etag, q.channels, q.feed_position, q.bytes, q.is_target
FROM (
    SELECT p.*, (sum(p.bytes) OVER (ROWS UNBOUNDED PRECEDING))::int8 AS bytes_to
    FROM (
        SELECT r.*, (CASE WHEN (pg_column_compression(r.document) IS NOT NULL AND pg_column_size(r.document) > 2048)
    AND ((r.place) > (
        SELECT s.place
        FROM (
            SELECT t.place, sum(coalesce(CASE WHEN pg_column_compression(t.document) IS NULL THEN pg_column_size(t.document) ELSE octet_length(t.document::text) END, 0)) OVER (
                ORDER BY t.place ROWS UNBOUNDED PRECEDING) AS bytes_to
            FROM found t
        ) s
        WHERE s.bytes_to >= $25::int8
        ORDER BY s.place
        LIMIT 1
    ))
THEN coalesce(pg_column_size(r.document), 0) ELSE coalesce(CASE WHEN pg_column_compression(r.document) IS NULL THEN pg_column_size(r.document) ELSE octet_length(r.document::text) END, 0) END)::int8 AS bytes
        FROM found r
        OFFSET 0
    ) p
) q;

-- group_raise_feeds
-- Raises the feeds' counters.
-- $1 organization_id, $2 writes
INSERT INTO feeds AS f (organization_id, last_position, epoch)
SELECT k.organization_id, k.writes, 1
FROM unnest($1::uuid[], $2::int8[]) AS k (organization_id, writes)
ON CONFLICT (organization_id) DO UPDATE SET last_position = f.last_position + excluded.last_position
RETURNING f.organization_id, f.epoch, f.last_position;

-- group_make_entities
-- Inserts new entities.
-- $1 organization_id, $2 entity_type, $3 id, $4 id_is_integer, $5 version, $6 is_deleted, $7 document, $8 before_end, $9 owner_id, $10 client_id, $11 updated_by, $12 updated_on, $13 run_base, $14 etag, $15 now
INSERT INTO entities AS e (organization_id, entity_type, id, id_is_integer, version, is_deleted, document, feed_position, owner_id,
    client_id, updated_by, updated_on, run_base, created_at, updated_at, etag)
SELECT k.organization_id, k.entity_type, k.id, k.id_is_integer, k.version, k.is_deleted, k.document,
    (SELECT f.last_position FROM feeds f WHERE f.organization_id = k.organization_id) - k.before_end, k.owner_id,
    k.client_id, k.updated_by, k.updated_on, k.run_base, $15,
    $15, k.etag
FROM unnest($1::uuid[], $2::text[], $3::text[], $4::bool[], $5::int8[], $6::bool[], $7::json[], $8::int8[], $9::uuid[], $10::uuid[], $11::uuid[], $12::uuid[], $13::int8[], $14::text[]) AS k (organization_id, entity_type, id, id_is_integer, version, is_deleted, document, before_end, owner_id, client_id, updated_by, updated_on, run_base, etag);

-- group_change_entities
-- Writes existing, locked entities.
-- $1 organization_id, $2 entity_type, $3 id, $4 id_is_integer, $5 version, $6 is_deleted, $7 document, $8 before_end, $9 owner_id, $10 client_id, $11 updated_by, $12 updated_on, $13 run_base, $14 etag, $15 now
INSERT INTO entities AS e (organization_id, entity_type, id, id_is_integer, version, is_deleted, document, feed_position, owner_id,
    client_id, updated_by, updated_on, run_base, created_at, updated_at, etag)
SELECT k.organization_id, k.entity_type, k.id, k.id_is_integer, k.version, k.is_deleted, k.document,
    (SELECT f.last_position FROM feeds f WHERE f.organization_id = k.organization_id) - k.before_end, k.owner_id,
    k.client_id, k.updated_by, k.updated_on, k.run_base, $15,
    $15, k.etag
FROM unnest($1::uuid[], $2::text[], $3::text[], $4::bool[], $5::int8[], $6::bool[], $7::json[], $8::int8[], $9::uuid[], $10::uuid[], $11::uuid[], $12::uuid[], $13::int8[], $14::text[]) AS k (organization_id, entity_type, id, id_is_integer, version, is_deleted, document, before_end, owner_id, client_id, updated_by, updated_on, run_base, etag)
ON CONFLICT (organization_id, entity_type, id) DO UPDATE
SET version = excluded.version, is_deleted = excluded.is_deleted, document = excluded.document,
    feed_position = excluded.feed_position, updated_by = excluded.updated_by, updated_on = excluded.updated_on,
    run_base = excluded.run_base, updated_at = excluded.updated_at, etag = excluded.etag,
    owner_id = excluded.owner_id;

-- group_make_entities_in_channels
-- Inserts new entities with their channels
-- $1 organization_id, $2 entity_type, $3 id, $4 id_is_integer, $5 version, $6 is_deleted, $7 document, $8 before_end, $9 owner_id, $10 client_id, $11 updated_by, $12 updated_on, $13 run_base, $14 etag, $15 channels, $16 now
INSERT INTO entities AS e (organization_id, entity_type, id, id_is_integer, version, is_deleted, document, feed_position, owner_id,
    client_id, updated_by, updated_on, run_base, created_at, updated_at, etag, channels)
SELECT k.organization_id, k.entity_type, k.id, k.id_is_integer, k.version, k.is_deleted, k.document,
    (SELECT f.last_position FROM feeds f WHERE f.organization_id = k.organization_id) - k.before_end, k.owner_id,
    k.client_id, k.updated_by, k.updated_on, k.run_base, $16,
    $16, k.etag, k.channels::uuid[]
FROM unnest($1::uuid[], $2::text[], $3::text[], $4::bool[], $5::int8[], $6::bool[], $7::json[], $8::int8[], $9::uuid[], $10::uuid[], $11::uuid[], $12::uuid[], $13::int8[], $14::text[], $15::text[]) AS k (organization_id, entity_type, id, id_is_integer, version, is_deleted, document, before_end, owner_id, client_id, updated_by, updated_on, run_base, etag, channels);

-- group_change_entities_in_channels
-- $1 organization_id, $2 entity_type, $3 id, $4 id_is_integer, $5 version, $6 is_deleted, $7 document, $8 before_end, $9 owner_id, $10 client_id, $11 updated_by, $12 updated_on, $13 run_base, $14 etag, $15 channels, $16 now
INSERT INTO entities AS e (organization_id, entity_type, id, id_is_integer, version, is_deleted, document, feed_position, owner_id,
    client_id, updated_by, updated_on, run_base, created_at, updated_at, etag, channels)
SELECT k.organization_id, k.entity_type, k.id, k.id_is_integer, k.version, k.is_deleted, k.document,
    (SELECT f.last_position FROM feeds f WHERE f.organization_id = k.organization_id) - k.before_end, k.owner_id,
    k.client_id, k.updated_by, k.updated_on, k.run_base, $16,
    $16, k.etag, k.channels::uuid[]
FROM unnest($1::uuid[], $2::text[], $3::text[], $4::bool[], $5::int8[], $6::bool[], $7::json[], $8::int8[], $9::uuid[], $10::uuid[], $11::uuid[], $12::uuid[], $13::int8[], $14::text[], $15::text[]) AS k (organization_id, entity_type, id, id_is_integer, version, is_deleted, document, before_end, owner_id, client_id, updated_by, updated_on, run_base, etag, channels)
ON CONFLICT (organization_id, entity_type, id) DO UPDATE
SET version = excluded.version, is_deleted = excluded.is_deleted, document = excluded.document,
    feed_position = excluded.feed_position, updated_by = excluded.updated_by, updated_on = excluded.updated_on,
    run_base = excluded.run_base, updated_at = excluded.updated_at, etag = excluded.etag,
    owner_id = excluded.owner_id, channels = excluded.channels;

-- entity_references_write
-- $1 organization_id, $2 to_type, $3 to_id, $4 entity_type, $5 id, $6 member
INSERT INTO entity_references AS r (organization_id, to_type, to_id, entity_type, id, member)
SELECT k.* FROM unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[]) AS k (organization_id, to_type, to_id, entity_type, id, member)
ON CONFLICT DO NOTHING;

-- entity_references_drop
-- $1 organization_id, $2 entity_type, $3 id
DELETE FROM entity_references AS r
USING unnest($1::uuid[], $2::text[], $3::text[]) AS k (organization_id, entity_type, id)
WHERE r.organization_id = k.organization_id AND r.entity_type = k.entity_type AND r.id = k.id;

-- entity_references_find
-- The search follows each reference once, so that it ends even if references form a cycle
-- $1 organization, $2 types, $3 ids, $4 cascading_types, $5 cascading_members, $6 limit
WITH RECURSIVE found AS (
    SELECT x.to_type, x.to_id, x.entity_type, x.id, x.member
    FROM unnest($2::text[], $3::text[]) AS k (entity_type, id)
    CROSS JOIN LATERAL (
        SELECT r.to_type, r.to_id, r.entity_type, r.id, r.member FROM entity_references r
        WHERE r.organization_id = $1 AND r.to_type = k.entity_type AND r.to_id = k.id
        LIMIT $6::int8
    ) x
    UNION
    SELECT x.to_type, x.to_id, x.entity_type, x.id, x.member
    FROM found f
    JOIN unnest($4::text[], $5::text[]) AS c (entity_type, member)
        ON c.entity_type = f.entity_type AND c.member = f.member
    CROSS JOIN LATERAL (
        SELECT r.to_type, r.to_id, r.entity_type, r.id, r.member FROM entity_references r
        WHERE r.organization_id = $1 AND r.to_type = f.entity_type AND r.to_id = f.id
        LIMIT $6::int8
    ) x
)
SELECT f.to_type, f.to_id, f.entity_type, f.id FROM found f LIMIT $6::int8;

-- lanes_lock
-- $1 organization_id, $2 user_id
SELECT l.*
FROM unnest($1::uuid[], $2::uuid[]) AS k (organization_id, user_id)
CROSS JOIN LATERAL (
    SELECT x.organization_id, x.user_id, x.next_position, x.change_position, x.queued_count, x.open_count, x.halted_by, x.ready_at, x.lease_owner, x.lease_token, x.lease_step, x.in_flight_id, x.head_position, x.queued_since
    FROM lanes x
    WHERE x.organization_id = k.organization_id AND x.user_id = k.user_id
    FOR UPDATE
) l;

-- lanes_lock_of_one
-- Locks lanes of one organization in a Citus cluster.
-- $1 organization, $2 users
SELECT x.organization_id, x.user_id, x.next_position, x.change_position, x.queued_count, x.open_count, x.halted_by, x.ready_at, x.lease_owner, x.lease_token, x.lease_step, x.in_flight_id, x.head_position, x.queued_since
FROM lanes x
WHERE x.organization_id = $1 AND x.user_id = ANY ($2)
ORDER BY x.user_id
FOR UPDATE;

-- lanes_look
-- $1 organization_id, $2 user_id
SELECT l.*
FROM unnest($1::uuid[], $2::uuid[]) AS k (organization_id, user_id)
CROSS JOIN LATERAL (
    SELECT x.organization_id, x.user_id, x.next_position, x.change_position, x.queued_count, x.open_count, x.halted_by, x.ready_at, x.lease_owner, x.lease_token, x.lease_step, x.in_flight_id, x.head_position, x.queued_since
    FROM lanes x
    WHERE x.organization_id = k.organization_id AND x.user_id = k.user_id
    OFFSET 0
) l;

-- lanes_look_of_one
-- $1 organization, $2 users
SELECT x.organization_id, x.user_id, x.next_position, x.change_position, x.queued_count, x.open_count, x.halted_by, x.ready_at, x.lease_owner, x.lease_token, x.lease_step, x.in_flight_id, x.head_position, x.queued_since
FROM lanes x
WHERE x.organization_id = $1 AND x.user_id = ANY ($2)
ORDER BY x.user_id
;

-- lanes_write
-- Writes existing, locked lanes.
-- $1 organization_id, $2 user_id, $3 next_position, $4 change_position, $5 queued_count, $6 open_count, $7 halted_by, $8 ready_at, $9 lease_owner, $10 lease_token, $11 lease_step, $12 in_flight_id, $13 head_position, $14 queued_since
INSERT INTO lanes AS l (organization_id, user_id, next_position, change_position, queued_count, open_count, halted_by, ready_at, lease_owner, lease_token, lease_step, in_flight_id, head_position, queued_since)
SELECT k.*
FROM unnest($1::uuid[], $2::uuid[], $3::int8[], $4::int8[], $5::int4[], $6::int4[], $7::uuid[], $8::timestamptz[], $9::uuid[], $10::int8[], $11::int8[], $12::uuid[], $13::int8[], $14::timestamptz[]) AS k (organization_id, user_id, next_position, change_position, queued_count, open_count, halted_by, ready_at, lease_owner, lease_token, lease_step, in_flight_id, head_position, queued_since)
ON CONFLICT (organization_id, user_id) DO UPDATE
SET next_position = excluded.next_position, change_position = excluded.change_position, queued_count = excluded.queued_count, open_count = excluded.open_count, halted_by = excluded.halted_by, ready_at = excluded.ready_at, lease_owner = excluded.lease_owner, lease_token = excluded.lease_token, lease_step = excluded.lease_step, in_flight_id = excluded.in_flight_id, head_position = excluded.head_position, queued_since = excluded.queued_since;

-- quotas_mutations
-- Reads the remaining quotas of users, under the locks of their lanes.
-- $1 push, $2 organization_id, $3 user_id
SELECT k.push, q.missing, q.as_of
FROM unnest($1::int4[], $2::uuid[], $3::uuid[]) AS k (push, organization_id, user_id)
CROSS JOIN LATERAL (
    SELECT x.missing, x.as_of FROM mutation_quotas x
    WHERE x.organization_id = k.organization_id AND x.user_id = k.user_id
    OFFSET 0
) q;

-- quotas_write_mutations
-- $1 organization_id, $2 user_id, $3 missing, $4 as_of
INSERT INTO mutation_quotas AS q (organization_id, user_id, missing, as_of)
SELECT k.*
FROM unnest($1::uuid[], $2::uuid[], $3::int8[], $4::timestamptz[]) AS k (organization_id, user_id, missing, as_of)
ON CONFLICT (organization_id, user_id) DO UPDATE SET missing = excluded.missing, as_of = excluded.as_of;

-- quotas_no_flush
-- Allows a commit to return before it is written to the disk.
SELECT set_config('synchronous_commit', 'off', true);

-- quotas_make_requests
-- Creates missing buckets, of active organizations only.
-- $1 organizations, $2 now
INSERT INTO request_quotas AS q (organization_id, missing, as_of)
SELECT k.organization_id, 0, $2
FROM unnest($1::uuid[]) AS k (organization_id)
WHERE CASE
    WHEN (SELECT x.organization_id FROM request_quotas x WHERE x.organization_id = k.organization_id) IS NULL
    THEN (SELECT o.status FROM organizations o WHERE o.id = k.organization_id FOR SHARE) = 'active'
END
ORDER BY k.organization_id
ON CONFLICT (organization_id) DO NOTHING;

-- quotas_lock_requests
-- Locks buckets in key order and reads them.
-- $1 organizations
SELECT q.organization_id, q.missing, q.as_of
FROM unnest($1::uuid[]) AS k (organization_id)
CROSS JOIN LATERAL (
    SELECT x.organization_id, x.missing, x.as_of FROM request_quotas x
    WHERE x.organization_id = k.organization_id
    FOR UPDATE
) q;

-- quotas_write_requests
-- $1 organization_id, $2 missing, $3 as_of
INSERT INTO request_quotas AS q (organization_id, missing, as_of)
SELECT k.* FROM unnest($1::uuid[], $2::int8[], $3::timestamptz[]) AS k (organization_id, missing, as_of)
ON CONFLICT (organization_id) DO UPDATE SET missing = excluded.missing, as_of = excluded.as_of;

-- quotas_lock_upstreams
-- Locks the buckets of upstreams in key order and reads them.
-- $1 organizations
SELECT q.organization_id, q.missing, q.as_of
FROM unnest($1::uuid[]) AS k (organization_id)
CROSS JOIN LATERAL (
    SELECT x.organization_id, x.rate_missing AS missing, x.rate_as_of AS as_of FROM upstreams x
    WHERE x.organization_id = k.organization_id
    FOR UPDATE
) q;

-- quotas_write_upstreams
-- $1 organization_id, $2 missing, $3 as_of
UPDATE upstreams AS u
SET rate_missing = k.missing, rate_as_of = k.as_of
FROM unnest($1::uuid[], $2::int8[], $3::timestamptz[]) AS k (organization_id, missing, as_of)
WHERE u.organization_id = k.organization_id;
