-- settle_subjects
-- $1 organization, $2 user, $3 ids
SELECT m.id, m.endpoint, m.payload, m.is_outcome_unknown, m.reference_ids, m.reference_types,
    m.id, m.accepted_at, m.idempotency_key, m.device_id, m.sequence_number, m.position, m.operation, m.entity_type, m.local_id, m.local_number, m.server_id, m.server_id_is_integer, m.status, m.revision, m.version, m.etag, m.attempt_count, m.next_retry_at, CASE WHEN cardinality(m.depends_on) > 32
        THEN m.depends_on[coalesce(array_position(m.depends_on, m.blocked_on), 1):]
        ELSE m.depends_on END AS depends_on, m.resolution, m.response_status, m.response_body, m.error, m.fingerprint, m.fingerprint_places, m.synced_at
FROM unnest($3::uuid[]) AS k (id)
CROSS JOIN LATERAL (
        SELECT * FROM mutations x
        WHERE x.organization_id = $1 AND x.user_id = $2 AND x.id = k.id
        OFFSET 0
    ) m
ORDER BY m.position;

-- settle_outlines
-- Reads the mutations without their contents.
-- $1 organization, $2 user, $3 ids
SELECT m.id, m.endpoint, NULL::json AS payload, m.is_outcome_unknown, m.reference_ids, m.reference_types,
    m.id, m.accepted_at, m.idempotency_key, m.device_id, m.sequence_number, m.position, m.operation, m.entity_type, m.local_id, m.local_number, m.server_id, m.server_id_is_integer, m.status, m.revision, m.version, m.etag, m.attempt_count, m.next_retry_at, CASE WHEN cardinality(m.depends_on) > 32
        THEN m.depends_on[coalesce(array_position(m.depends_on, m.blocked_on), 1):]
        ELSE m.depends_on END AS depends_on, m.resolution, m.response_status, NULL::json AS response_body, NULL::json AS error, m.fingerprint, m.fingerprint_places, m.synced_at
FROM unnest($3::uuid[]) AS k (id)
CROSS JOIN LATERAL (
        SELECT * FROM mutations x
        WHERE x.organization_id = $1 AND x.user_id = $2 AND x.id = k.id
        OFFSET 0
    ) m
ORDER BY m.position;

-- settle_content_bytes
-- Returns the bytes of mutations' contents, in the order of the list.
-- $1 organization, $2 user, $3 ids
SELECT m.id, (coalesce(CASE WHEN pg_column_compression(m.payload) IS NULL THEN pg_column_size(m.payload) ELSE octet_length(m.payload::text) END, 0) + coalesce(CASE WHEN pg_column_compression(m.response_body) IS NULL THEN pg_column_size(m.response_body) ELSE octet_length(m.response_body::text) END, 0)
    + coalesce(CASE WHEN pg_column_compression(m.error) IS NULL THEN pg_column_size(m.error) ELSE octet_length(m.error::text) END, 0))::int8 AS bytes
FROM unnest($3::uuid[]) WITH ORDINALITY AS k (id, place)
CROSS JOIN LATERAL (
        SELECT * FROM mutations x
        WHERE x.organization_id = $1 AND x.user_id = $2 AND x.id = k.id
        OFFSET 0
    ) m
ORDER BY k.place;

-- settle_edges
-- Reads all dependencies of a lane's open mutations.
-- $1 organization, $2 user
SELECT m.id, m.position, m.accepted_at, m.status, m.operation, m.entity_type, m.local_id, m.local_number, m.server_id, m.server_id_is_integer, m.depends_on
FROM mutations m
WHERE m.organization_id = $1 AND m.user_id = $2 AND m.synced_at IS NULL AND m.depends_on <> '{}'
ORDER BY m.position;

-- settle_waiters
-- Reads the mutations that are blocked on a mutation.
-- $1 organization, $2 user, $3 blocker
SELECT m.id, m.position, m.accepted_at, m.status, m.operation, m.entity_type, m.local_id, m.local_number, m.server_id, m.server_id_is_integer, m.depends_on
FROM mutations m
WHERE m.organization_id = $1 AND m.user_id = $2 AND m.blocked_on = $3;

-- settle_unmet
-- Finds the mutations of a list that do not satisfy their dependants yet (product rule 3).
-- $1 organization, $2 user, $3 ids
SELECT m.id, m.entity_type, m.local_id, m.local_number, m.server_id, m.server_id_is_integer
FROM unnest($3::uuid[]) AS k (id)
CROSS JOIN LATERAL (
        SELECT * FROM mutations x
        WHERE x.organization_id = $1 AND x.user_id = $2 AND x.id = k.id
        OFFSET 0
    ) m
WHERE m.status <> 'succeeded'
    AND (m.status <> 'discarded' OR m.resolution IS DISTINCT FROM 'server_wins');

-- settle_needs
-- Finds mutations that need one of some client ids
-- $1 organization, $2 user, $3 ids, $4 client_ids, $5 entity_types
SELECT m.id, c.client_id
FROM unnest($3::uuid[]) AS k (id)
CROSS JOIN LATERAL (
        SELECT * FROM mutations x
        WHERE x.organization_id = $1 AND x.user_id = $2 AND x.id = k.id
        OFFSET 0
    ) m
CROSS JOIN LATERAL (
    SELECT x.client_id
    FROM unnest($4::uuid[], $5::text[]) AS x (client_id, entity_type)
    WHERE (m.local_id = x.client_id AND m.entity_type = x.entity_type AND m.server_id IS NULL
            AND m.operation <> 'create')
        OR CASE WHEN m.reference_types IS NULL THEN x.client_id = ANY (m.reference_ids)
            ELSE (
                SELECT r.client_id FROM unnest(m.reference_ids, m.reference_types) AS r (client_id, entity_type)
                WHERE r.client_id = x.client_id AND r.entity_type = x.entity_type
                LIMIT 1) IS NOT NULL END
        OR (m.reference_ids IS NULL AND m.reference_types IS NULL AND (
            strpos(lower(m.endpoint), x.client_id::text) > 0
            OR strpos(lower(m.payload::text), x.client_id::text) > 0))
    LIMIT 1
) c;

-- settle_sealed_payloads
-- Reads sealed payloads whose client ids were not recorded.
-- $1 organization, $2 user, $3 ids, $4 beginning
SELECT m.id, m.payload
FROM unnest($3::uuid[]) AS k (id)
CROSS JOIN LATERAL (
        SELECT * FROM mutations x
        WHERE x.organization_id = $1 AND x.user_id = $2 AND x.id = k.id
        OFFSET 0
    ) m
WHERE m.reference_ids IS NULL AND m.reference_types IS NULL AND starts_with(m.payload::text, $4);

-- settle_is_newer
-- Reads whether an entity was written after the last change of the mutation `mutation`.
-- $1 organization, $2 user, $3 mutation, $4 entity_type, $5 entity
SELECT e.updated_at > m.changed_at AS is_newer
FROM mutations m
CROSS JOIN LATERAL (
    SELECT x.updated_at FROM entities x
    WHERE x.organization_id = $1 AND x.entity_type = $4 AND x.id = $5
    OFFSET 0
) e
WHERE m.organization_id = $1 AND m.user_id = $2 AND m.id = $3;

-- settle_current
-- Reads the current state of the entities of mutations to be discarded, if the user may see these entities.
-- $1 organization, $2 user, $3 ids, $4 bytes, $5 error_bytes
WITH found AS MATERIALIZED (
    SELECT m.id AS mutation_id, m.error, k.place, e.*,
        row_number() OVER (PARTITION BY e.entity_type, e.id ORDER BY k.place) AS copy
    FROM unnest($3::uuid[]) WITH ORDINALITY AS k (id, place)
    CROSS JOIN LATERAL (
        SELECT * FROM mutations x
        WHERE x.organization_id = $1 AND x.user_id = $2 AND x.id = k.id
        OFFSET 0
    ) m
    CROSS JOIN LATERAL (
        SELECT x.organization_id, x.entity_type, x.id, x.id_is_integer, x.version, x.is_deleted, x.document, x.owner_id, x.client_id, x.updated_by, x.updated_on, x.run_base, x.etag, x.channels, x.feed_position
        FROM entities x
        WHERE x.organization_id = $1 AND x.entity_type = m.entity_type AND x.id = coalesce(m.server_id, (
                SELECT z.server_id FROM id_mappings z
                WHERE z.organization_id = $1 AND z.user_id = $2 AND z.client_id = m.local_id
                    AND z.entity_type = m.entity_type), (
                SELECT coalesce(z.server_id, z.same_as) FROM local_ids z
                WHERE m.local_number IS NOT NULL AND z.organization_id = $1 AND z.user_id = $2
                    AND z.client_id = m.local_id))
            AND CASE coalesce((
                    SELECT t.visibility FROM entity_types t
                    WHERE t.organization_id = $1 AND t.name = x.entity_type), 'user')
                WHEN 'organization' THEN true
                WHEN 'user' THEN x.owner_id = $2
                ELSE (encode(substring(sha256(convert_to('user/' || $2::uuid, 'UTF8')) FOR 16), 'hex')::uuid = ANY (x.channels) OR EXISTS (
    SELECT FROM channel_grants h
    WHERE h.organization_id = $1 AND h.user_id = $2 AND h.channel = ANY (x.channels)
        AND h.until IS NULL)) END
        OFFSET 0
    ) e
)
SELECT q.mutation_id, q.error_to - q.error_bytes < $5::int8 AS has_error,
    CASE WHEN q.error_to - q.error_bytes < $5::int8 THEN q.error END AS error, q.is_outline, q.organization_id, q.entity_type, q.id, q.id_is_integer, q.version, q.is_deleted, CASE WHEN NOT q.is_outline THEN q.document END AS document, q.owner_id, q.client_id, q.updated_by, q.updated_on, q.run_base, q.etag, q.channels, q.feed_position
FROM (
    SELECT s.*, s.bytes > 2048
            AND (s.copy > 1 OR (sum(s.bytes) FILTER (WHERE s.copy = 1) OVER w) > $4::int8) AS is_outline,
        (sum(s.error_bytes) OVER w)::int8 AS error_to
    FROM (
        SELECT r.*, (CASE WHEN (pg_column_compression(r.document) IS NOT NULL AND pg_column_size(r.document) > 2048)
    AND (r.copy > 1 OR (r.place) > (
        SELECT s.place
        FROM (
            SELECT t.place, sum(coalesce(CASE WHEN pg_column_compression(t.document) IS NULL THEN pg_column_size(t.document) ELSE octet_length(t.document::text) END, 0)) OVER (
                ORDER BY t.place ROWS UNBOUNDED PRECEDING) AS bytes_to
            FROM found t WHERE NOT t.copy > 1
        ) s
        WHERE s.bytes_to >= $4::int8
        ORDER BY s.place
        LIMIT 1
    ))
THEN coalesce(pg_column_size(r.document), 0) ELSE coalesce(CASE WHEN pg_column_compression(r.document) IS NULL THEN pg_column_size(r.document) ELSE octet_length(r.document::text) END, 0) END)::int8 AS bytes,
            (CASE WHEN (pg_column_compression(r.error) IS NOT NULL AND pg_column_size(r.error) > 2048)
    AND ((r.place) > (
        SELECT s.place
        FROM (
            SELECT t.place, sum(coalesce(CASE WHEN pg_column_compression(t.error) IS NULL THEN pg_column_size(t.error) ELSE octet_length(t.error::text) END, 0)) OVER (
                ORDER BY t.place ROWS UNBOUNDED PRECEDING) AS bytes_to
            FROM found t
        ) s
        WHERE s.bytes_to >= $5::int8
        ORDER BY s.place
        LIMIT 1
    ))
THEN coalesce(pg_column_size(r.error), 0) ELSE coalesce(CASE WHEN pg_column_compression(r.error) IS NULL THEN pg_column_size(r.error) ELSE octet_length(r.error::text) END, 0) END)::int8 AS error_bytes
        FROM found r
        OFFSET 0
    ) s
    WINDOW w AS (ORDER BY s.place ROWS UNBOUNDED PRECEDING)
) q
ORDER BY q.place;

-- settle_restart
-- Writes mutations that run again
-- $1 organization, $2 user, $3 change_position, $4 now, $5 id, $6 status, $7 revision, $8 is_outcome_unknown, $9 endpoint, $10 payload, $11 resolution, $12 sent_method, $13 sent_endpoint, $14 sent_payload, $15 blockers_from, $16 blockers_to, $17 references_from, $18 references_to, $19 has_references, $20 server_id, $21 server_id_is_integer, $22 blockers, $23 references, $24 types
INSERT INTO mutations AS m (
    organization_id, user_id, id, device_id, sequence_number, position, idempotency_key, fingerprint, operation,
    entity_type, priority, max_attempts, conflict_resolution, created_at, accepted_at, change_position,
    changed_at, status, revision, is_outcome_unknown, depends_on, blocked_on, endpoint, payload,
    reference_ids, reference_types, resolution, error, sent_method, sent_endpoint, sent_payload, server_id,
    server_id_is_integer)
SELECT m.organization_id, m.user_id, m.id, m.device_id, m.sequence_number, m.position, m.idempotency_key,
    m.fingerprint, m.operation, m.entity_type, m.priority, m.max_attempts, m.conflict_resolution,
    m.created_at, m.accepted_at, $3, $4, k.status, k.revision, k.is_outcome_unknown,
    ($22::uuid[])[k.blockers_from : k.blockers_to],
    CASE WHEN k.blockers_to >= k.blockers_from THEN ($22::uuid[])[k.blockers_from] END,
    coalesce(k.endpoint, m.endpoint), coalesce(k.payload, m.payload),
    CASE WHEN k.has_references THEN ($23::uuid[])[k.references_from : k.references_to]
        ELSE m.reference_ids END,
    CASE WHEN k.has_references THEN ($24::text[])[k.references_from : k.references_to]
        ELSE m.reference_types END,
    k.resolution,
    -- if a person resolves a conflict for the client, the conflict's error is kept, so that the overridden
    -- state remains visible
    CASE WHEN k.resolution IS NOT NULL THEN m.error END, k.sent_method, k.sent_endpoint, k.sent_payload,
    coalesce(k.server_id, m.server_id),
    CASE WHEN k.server_id IS NULL THEN m.server_id_is_integer ELSE k.server_id_is_integer END
FROM unnest($5::uuid[], $6::text[], $7::int4[], $8::bool[], $9::text[], $10::json[], $11::text[], $12::text[], $13::text[], $14::json[], $15::int4[], $16::int4[], $17::int4[], $18::int4[], $19::bool[], $20::text[], $21::bool[]) AS k (id, status, revision, is_outcome_unknown, endpoint, payload, resolution, sent_method, sent_endpoint, sent_payload, blockers_from, blockers_to, references_from, references_to, has_references, server_id, server_id_is_integer)
CROSS JOIN LATERAL (
        SELECT * FROM mutations x
        WHERE x.organization_id = $1 AND x.user_id = $2 AND x.id = k.id
        OFFSET 0
    ) m
ON CONFLICT (organization_id, user_id, id) DO UPDATE
SET status = excluded.status, revision = excluded.revision, is_outcome_unknown = excluded.is_outcome_unknown,
    depends_on = excluded.depends_on, blocked_on = excluded.blocked_on, endpoint = excluded.endpoint,
    payload = excluded.payload, reference_ids = excluded.reference_ids,
    reference_types = excluded.reference_types, resolution = excluded.resolution,
    error = excluded.error, sent_method = excluded.sent_method, sent_endpoint = excluded.sent_endpoint,
    sent_payload = excluded.sent_payload, server_id = excluded.server_id,
    server_id_is_integer = excluded.server_id_is_integer, attempt_count = 0, next_retry_at = NULL, conflict_retries = 0,
    hold_count = 0, held_since = NULL, stuck_at = NULL, error_code = NULL, error_status = NULL,
    last_error = NULL, last_error_code = NULL, response_status = NULL, response_body = NULL,
    change_position = excluded.change_position, changed_at = excluded.changed_at;

-- settle_end_back_off
-- Ends the back-off of mutations: a mutation that waits for its next attempt becomes due now.
-- $1 organization_id, $2 user_id, $3 id, $4 change_position, $5 now
UPDATE mutations AS m
SET next_retry_at = NULL, change_position = k.change_position, changed_at = $5
FROM unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::int8[]) AS k (organization_id, user_id, id, change_position)
WHERE m.organization_id = k.organization_id AND m.user_id = k.user_id AND m.id = k.id AND m.status = 'pending';

-- settle_discard
-- Writes discarded mutations, which are final.
-- $1 organization, $2 user, $3 change_position, $4 now, $5 id, $6 resolution, $7 server_id, $8 server_id_is_integer, $9 version, $10 error
INSERT INTO mutations AS m (
    organization_id, user_id, id, device_id, sequence_number, position, idempotency_key, fingerprint, operation,
    entity_type, priority, max_attempts, conflict_resolution, created_at, accepted_at, change_position,
    changed_at, status, synced_at, resolution, server_id, server_id_is_integer, version, error)
SELECT m.organization_id, m.user_id, m.id, m.device_id, m.sequence_number, m.position, m.idempotency_key,
    m.fingerprint, m.operation, m.entity_type, m.priority, m.max_attempts, m.conflict_resolution,
    m.created_at, m.accepted_at, $3, $4, CASE WHEN m.status IN ('pending', 'blocked', 'in_flight', 'conflict', 'failed') THEN 'discarded' END, $4, k.resolution, coalesce(k.server_id, m.server_id),
    CASE WHEN k.server_id IS NULL THEN m.server_id_is_integer ELSE k.server_id_is_integer END,
    coalesce(k.version, m.version), coalesce(k.error, m.error)
FROM unnest($5::uuid[], $6::text[], $7::text[], $8::bool[], $9::int8[], $10::json[]) AS k (id, resolution, server_id, server_id_is_integer, version, error)
CROSS JOIN LATERAL (
        SELECT * FROM mutations x
        WHERE x.organization_id = $1 AND x.user_id = $2 AND x.id = k.id
        OFFSET 0
    ) m
ON CONFLICT (organization_id, user_id, id) DO UPDATE
SET status = excluded.status, synced_at = excluded.synced_at, resolution = excluded.resolution,
    server_id = excluded.server_id, server_id_is_integer = excluded.server_id_is_integer,
    version = excluded.version, error = excluded.error, depends_on = '{}', blocked_on = NULL,
    reference_ids = NULL, reference_types = NULL, next_retry_at = NULL,
    stuck_at = NULL, error_code = NULL, error_status = NULL,
    change_position = excluded.change_position, changed_at = excluded.changed_at;

-- settle_release
-- Writes mutations whose dependencies changed.
-- $1 organization, $2 user, $3 change_position, $4 now, $5 id, $6 status, $7 error, $8 last_error, $9 last_error_code, $10 error_code, $11 blockers_from, $12 blockers_to, $13 blockers
INSERT INTO mutations AS m (
    organization_id, user_id, id, device_id, sequence_number, position, idempotency_key, fingerprint, operation,
    entity_type, priority, max_attempts, conflict_resolution, created_at, accepted_at, change_position,
    changed_at, status, depends_on, blocked_on, error, last_error, last_error_code, stuck_at, error_code,
    error_status)
SELECT m.organization_id, m.user_id, m.id, m.device_id, m.sequence_number, m.position, m.idempotency_key,
    m.fingerprint, m.operation, m.entity_type, m.priority, m.max_attempts, m.conflict_resolution,
    m.created_at, m.accepted_at, $3, $4, k.status, ($13::uuid[])[k.blockers_from : k.blockers_to],
    CASE WHEN k.status = 'blocked' THEN ($13::uuid[])[k.blockers_from] END,
    coalesce(k.error, m.error),
    coalesce(k.last_error, m.last_error), coalesce(k.last_error_code, m.last_error_code),
    -- if the gateway decided an outcome without a response of the upstream, `error_status` is 0
    CASE WHEN k.error_code IS NULL THEN m.stuck_at ELSE $4::timestamptz END, coalesce(k.error_code, m.error_code),
    CASE WHEN k.error_code IS NULL THEN m.error_status ELSE 0 END
FROM unnest($5::uuid[], $6::text[], $7::json[], $8::text[], $9::int2[], $10::text[], $11::int4[], $12::int4[]) AS k (id, status, error, last_error, last_error_code, error_code, blockers_from, blockers_to)
CROSS JOIN LATERAL (
        SELECT * FROM mutations x
        WHERE x.organization_id = $1 AND x.user_id = $2 AND x.id = k.id
        OFFSET 0
    ) m
ON CONFLICT (organization_id, user_id, id) DO UPDATE
SET status = excluded.status, depends_on = excluded.depends_on, blocked_on = excluded.blocked_on,
    error = excluded.error, last_error = excluded.last_error, last_error_code = excluded.last_error_code,
    stuck_at = excluded.stuck_at, error_code = excluded.error_code, error_status = excluded.error_status,
    change_position = excluded.change_position, changed_at = excluded.changed_at;

-- settle_mappings
-- Writes the mappings of settled creates
-- $1 organization, $2 user, $3 change_position, $4 now, $5 client_id, $6 entity_type, $7 mutation_id, $8 status, $9 server_id, $10 server_id_is_integer, $11 last_error
INSERT INTO id_mappings AS i (
    organization_id, user_id, client_id, entity_type, server_id, server_id_is_integer, status, mutation_id,
    change_position, last_error, created_at, resolved_at)
SELECT i.organization_id, i.user_id, i.client_id, i.entity_type, k.server_id, k.server_id_is_integer, k.status,
    i.mutation_id, $3, k.last_error, i.created_at,
    CASE WHEN k.status = 'resolved' THEN $4::timestamptz END
FROM unnest($5::uuid[], $6::text[], $7::uuid[], $8::text[], $9::text[], $10::bool[], $11::text[]) AS k (client_id, entity_type, mutation_id, status, server_id, server_id_is_integer, last_error)
CROSS JOIN LATERAL (
    SELECT * FROM id_mappings x
    WHERE x.organization_id = $1 AND x.user_id = $2 AND x.client_id = k.client_id
        AND x.entity_type = k.entity_type
    OFFSET 0
) i
WHERE i.mutation_id = k.mutation_id AND i.status <> 'resolved'
ON CONFLICT (organization_id, user_id, client_id, entity_type) DO UPDATE
SET status = excluded.status, server_id = excluded.server_id,
    server_id_is_integer = excluded.server_id_is_integer, retry_count = 0, last_error = excluded.last_error,
    change_position = excluded.change_position, resolved_at = excluded.resolved_at;

-- settle_pin_local_ids
-- Writes the local ids that restarted mutations name, so that they are found when the mutations run.
-- $1 organization, $2 user, $3 device_id, $4 entity_type, $5 local_id, $6 client_id
INSERT INTO local_ids AS l (
    organization_id, user_id, device_id, entity_type, local_id, server_id, server_id_is_integer, same_as,
    mutation_id, client_id)
SELECT l.organization_id, l.user_id, l.device_id, l.entity_type, l.local_id, l.server_id,
    l.server_id_is_integer, l.same_as, l.mutation_id, k.client_id
FROM unnest($3::uuid[], $4::text[], $5::int8[], $6::uuid[]) AS k (device_id, entity_type, local_id, client_id)
CROSS JOIN LATERAL (
    SELECT * FROM local_ids x
    WHERE x.organization_id = $1 AND x.user_id = $2 AND x.device_id = k.device_id
        AND x.entity_type = k.entity_type AND x.local_id = k.local_id AND x.client_id IS NULL
    OFFSET 0
) l
ON CONFLICT (organization_id, user_id, device_id, entity_type, local_id) DO UPDATE
SET client_id = excluded.client_id;

-- settle_free_local_ids
-- Frees the local ids of discarded creates for other creates.
-- $1 organization, $2 user, $3 client_id, $4 mutation_id
DELETE FROM local_ids AS l
USING unnest($3::uuid[], $4::uuid[]) AS k (client_id, mutation_id)
WHERE l.organization_id = $1 AND l.user_id = $2 AND l.client_id = k.client_id
    AND CASE WHEN l.mutation_id = k.mutation_id AND l.server_id IS NULL AND l.same_as IS NULL THEN true END;

-- settle_edge_after
-- $1 organization, $2 after_user, $3 after_position, $4 scan
SELECT x.user_id, x.position
FROM mutations x
WHERE x.organization_id = $1 AND (x.user_id, x.position) > ($2, $3) AND x.synced_at IS NULL
ORDER BY x.user_id ASC, x.position ASC
OFFSET $4 - 1 LIMIT 1;

-- settle_edge_before
-- $1 organization, $2 after_user, $3 after_position, $4 scan
SELECT x.user_id, x.position
FROM mutations x
WHERE x.organization_id = $1 AND (x.user_id, x.position) < ($2, $3) AND x.synced_at IS NULL
ORDER BY x.user_id DESC, x.position DESC
OFFSET $4 - 1 LIMIT 1;

-- settle_page_after
-- $1 organization, $2 after_user, $3 after_position, $4 to_user, $5 to_position, $6 statuses, $7 entity_type, $8 device, $9 user, $10 ids, $11 is_of_any, $12 limit
SELECT x.user_id, x.position, x.id
FROM mutations x
WHERE x.organization_id = $1 AND (x.user_id, x.position) > ($2, $3)
    AND (x.user_id, x.position) <= ($4, $5) AND x.synced_at IS NULL
    AND x.status = ANY ($6::text[])
    AND ($7::text IS NULL OR x.entity_type = $7)
    AND ($8::uuid IS NULL OR x.device_id = $8)
    AND ($9::uuid IS NULL OR x.user_id = $9)
    AND ($11::bool OR x.id = ANY ($10::uuid[]))
ORDER BY x.user_id ASC, x.position ASC
LIMIT $12;

-- settle_page_before
-- $1 organization, $2 after_user, $3 after_position, $4 to_user, $5 to_position, $6 statuses, $7 entity_type, $8 device, $9 user, $10 ids, $11 is_of_any, $12 limit
SELECT x.user_id, x.position, x.id
FROM mutations x
WHERE x.organization_id = $1 AND (x.user_id, x.position) < ($2, $3)
    AND (x.user_id, x.position) >= ($4, $5) AND x.synced_at IS NULL
    AND x.status = ANY ($6::text[])
    AND ($7::text IS NULL OR x.entity_type = $7)
    AND ($8::uuid IS NULL OR x.device_id = $8)
    AND ($9::uuid IS NULL OR x.user_id = $9)
    AND ($11::bool OR x.id = ANY ($10::uuid[]))
ORDER BY x.user_id DESC, x.position DESC
LIMIT $12;
