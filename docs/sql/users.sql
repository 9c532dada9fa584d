-- users_list
-- Reads users from `first` on
-- $1 organization, $2 first, $3 limit
SELECT k.user_id, u.created_at,
    (SELECT max(d.last_seen_at) FROM devices d WHERE d.organization_id = $1 AND d.user_id = k.user_id)
        AS last_seen_at,
    (SELECT j.into_id FROM user_joins j
        WHERE j.organization_id = $1 AND j.user_id = k.user_id AND j.closed_until IS NULL) AS into_id,
    ARRAY(
            SELECT x.issuer::text FROM user_subjects x
            WHERE x.organization_id = $1 AND x.user_id = k.user_id ORDER BY x.issuer, x.subject
        ) AS issuers, ARRAY(
            SELECT x.subject::text FROM user_subjects x
            WHERE x.organization_id = $1 AND x.user_id = k.user_id ORDER BY x.issuer, x.subject
        ) AS subjects,
    ARRAY(
            SELECT (extract(epoch FROM x.created_at) * 1000000)::int8 FROM user_subjects x
            WHERE x.organization_id = $1 AND x.user_id = k.user_id ORDER BY x.issuer, x.subject
        ) AS subjects_created_at
FROM (
    SELECT i.user_id
    FROM ((SELECT DISTINCT x.user_id FROM users x WHERE x.organization_id = $1 AND x.user_id >= $2
        ORDER BY x.user_id LIMIT $3) UNION (SELECT DISTINCT x.user_id FROM lanes x WHERE x.organization_id = $1 AND x.user_id >= $2
        ORDER BY x.user_id LIMIT $3) UNION (SELECT DISTINCT x.user_id FROM devices x WHERE x.organization_id = $1 AND x.user_id >= $2
        ORDER BY x.user_id LIMIT $3) UNION (SELECT DISTINCT x.user_id FROM user_subjects x WHERE x.organization_id = $1 AND x.user_id >= $2
        ORDER BY x.user_id LIMIT $3) UNION (SELECT DISTINCT x.user_id FROM user_joins x WHERE x.organization_id = $1 AND x.user_id >= $2
        ORDER BY x.user_id LIMIT $3)) i
    ORDER BY i.user_id LIMIT $3
) k
LEFT JOIN LATERAL (
    SELECT y.created_at FROM users y WHERE y.organization_id = $1 AND y.user_id = k.user_id OFFSET 0
) u ON true
ORDER BY k.user_id;

-- users_put_subject
-- Provisions the user of a subject, or the user into whom this user was joined.
-- $1 organization, $2 issuer, $3 subject, $4 now
INSERT INTO users AS u (organization_id, user_id, created_at)
SELECT s.organization_id, coalesce(
        (SELECT j.into_id FROM user_joins j
            WHERE j.organization_id = $1 AND j.user_id = s.user_id AND j.closed_until IS NULL),
        s.user_id
    ), $4::timestamptz
FROM user_subjects s WHERE s.organization_id = $1 AND s.issuer = $2 AND s.subject = $3
ON CONFLICT (organization_id, user_id) DO NOTHING;

-- users_whole
-- $1 organization, $2 user
SELECT j.into_id FROM user_joins j
WHERE j.organization_id = $1 AND j.user_id = $2 AND j.closed_until IS NULL;

-- users_put
-- $1 organization, $2 user, $3 now
INSERT INTO users AS u (organization_id, user_id, created_at)
SELECT $1::uuid, $2::uuid, $3::timestamptz WHERE NOT ((SELECT e.user_hash FROM user_erasures e
     WHERE e.organization_id = $1::uuid
        AND e.user_hash = sha256(uuid_send($1::uuid) || uuid_send($2::uuid))) IS NOT NULL)
ON CONFLICT (organization_id, user_id) DO NOTHING;

-- users_delete
-- $1 organization, $2 user
DELETE FROM users WHERE organization_id = $1 AND user_id = $2;

-- entity_walk_named
-- Entities that the user owns, or wrote last.
-- $1 organization, $2 user, $3 after, $4 end, $5 limit
SELECT max(x.feed_position) AS last,
    array_agg(x.entity_type) FILTER (WHERE x.owner_id = $2 OR x.updated_by = $2) AS entity_types,
    array_agg(x.id::text) FILTER (WHERE x.owner_id = $2 OR x.updated_by = $2) AS ids
FROM (SELECT * FROM (
    (SELECT e.* FROM entities e
 WHERE e.channels IS NULL AND e.organization_id = $1 AND e.feed_position > $3 AND e.feed_position <= $4
 ORDER BY e.feed_position LIMIT $5)
    UNION ALL
    (SELECT e.* FROM entities e
 WHERE e.channels IS NOT NULL AND e.organization_id = $1 AND e.feed_position > $3 AND e.feed_position <= $4
 ORDER BY e.feed_position LIMIT $5)
) e
ORDER BY e.feed_position LIMIT $5) x;

-- entity_walk_unseen
-- Existing entities that the user owns, if only owners see entities of the type, or if the owner determines the channels of the entity.
-- $1 organization, $2 user, $3 after, $4 end, $5 limit
SELECT max(x.feed_position) AS last,
    array_agg(x.entity_type) FILTER (WHERE x.owner_id = $2 AND NOT x.is_deleted AND x.entity_type = ANY (ARRAY(
            SELECT t.name FROM entity_types t
            WHERE t.organization_id = $1 AND (t.visibility = 'user' OR t.visibility = 'channels'
                AND (t.channels::text LIKE '%{owner}%' OR t.grants::text LIKE '%{owner}%'))))) AS entity_types,
    array_agg(x.id::text) FILTER (WHERE x.owner_id = $2 AND NOT x.is_deleted AND x.entity_type = ANY (ARRAY(
            SELECT t.name FROM entity_types t
            WHERE t.organization_id = $1 AND (t.visibility = 'user' OR t.visibility = 'channels'
                AND (t.channels::text LIKE '%{owner}%' OR t.grants::text LIKE '%{owner}%'))))) AS ids
FROM (SELECT * FROM (
    (SELECT e.* FROM entities e
 WHERE e.channels IS NULL AND e.organization_id = $1 AND e.feed_position > $3 AND e.feed_position <= $4
 ORDER BY e.feed_position LIMIT $5)
    UNION ALL
    (SELECT e.* FROM entities e
 WHERE e.channels IS NOT NULL AND e.organization_id = $1 AND e.feed_position > $3 AND e.feed_position <= $4
 ORDER BY e.feed_position LIMIT $5)
) e
ORDER BY e.feed_position LIMIT $5) x;

-- export_users_first
-- $1 organization, $2 user, $3 limit
SELECT x.user_id::text AS key_1, (SELECT to_json(r) FROM (SELECT x.user_id AS id, to_char(x.created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') AS first_seen_at) r) AS row
FROM users x
WHERE x.organization_id = $1 AND x.user_id = $2
ORDER BY x.user_id
LIMIT $3;

-- export_users_next
-- $1 organization, $2 user, $3 key_1, $4 limit
SELECT x.user_id::text AS key_1, (SELECT to_json(r) FROM (SELECT x.user_id AS id, to_char(x.created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') AS first_seen_at) r) AS row
FROM users x
WHERE x.organization_id = $1 AND x.user_id = $2 AND (x.user_id) > ($3::text::uuid)
ORDER BY x.user_id
LIMIT $4;

-- export_user_subjects_first
-- $1 organization, $2 user, $3 limit
SELECT x.issuer::text AS key_1, x.subject::text AS key_2, (SELECT to_json(r) FROM (SELECT x.issuer AS issuer, x.subject AS subject, to_char(x.created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') AS first_seen_at) r) AS row
FROM user_subjects x
WHERE x.organization_id = $1 AND x.user_id = $2
ORDER BY x.issuer, x.subject
LIMIT $3;

-- export_user_subjects_next
-- $1 organization, $2 user, $3 key_1, $4 key_2, $5 limit
SELECT x.issuer::text AS key_1, x.subject::text AS key_2, (SELECT to_json(r) FROM (SELECT x.issuer AS issuer, x.subject AS subject, to_char(x.created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') AS first_seen_at) r) AS row
FROM user_subjects x
WHERE x.organization_id = $1 AND x.user_id = $2 AND (x.issuer, x.subject) > ($3::text::text, $4::text::text)
ORDER BY x.issuer, x.subject
LIMIT $5;

-- export_user_joins_first
-- $1 organization, $2 user, $3 limit
SELECT x.user_id::text AS key_1, (SELECT to_json(r) FROM (SELECT x.user_id AS user, x.into_id AS into, to_char(x.started_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') AS started_at, to_char(x.finished_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') AS finished_at) r) AS row
FROM user_joins x
WHERE x.organization_id = $1 AND x.into_id = $2
ORDER BY x.user_id
LIMIT $3;

-- export_user_joins_next
-- $1 organization, $2 user, $3 key_1, $4 limit
SELECT x.user_id::text AS key_1, (SELECT to_json(r) FROM (SELECT x.user_id AS user, x.into_id AS into, to_char(x.started_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') AS started_at, to_char(x.finished_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') AS finished_at) r) AS row
FROM user_joins x
WHERE x.organization_id = $1 AND x.into_id = $2 AND (x.user_id) > ($3::text::uuid)
ORDER BY x.user_id
LIMIT $4;

-- export_devices_first
-- $1 organization, $2 user, $3 limit
SELECT x.device_id::text AS key_1, (SELECT to_json(r) FROM (SELECT x.device_id AS device_id, x.accepted_sequence AS accepted_sequence, to_char(x.created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') AS created_at, to_char(x.last_seen_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') AS last_seen_at) r) AS row
FROM devices x
WHERE x.organization_id = $1 AND x.user_id = $2
ORDER BY x.device_id
LIMIT $3;

-- export_devices_next
-- $1 organization, $2 user, $3 key_1, $4 limit
SELECT x.device_id::text AS key_1, (SELECT to_json(r) FROM (SELECT x.device_id AS device_id, x.accepted_sequence AS accepted_sequence, to_char(x.created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') AS created_at, to_char(x.last_seen_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') AS last_seen_at) r) AS row
FROM devices x
WHERE x.organization_id = $1 AND x.user_id = $2 AND (x.device_id) > ($3::text::uuid)
ORDER BY x.device_id
LIMIT $4;

-- export_mutation_quotas_first
-- $1 organization, $2 user, $3 limit
SELECT x.user_id::text AS key_1, (SELECT to_json(r) FROM (SELECT x.missing AS missing, to_char(x.as_of AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') AS as_of) r) AS row
FROM mutation_quotas x
WHERE x.organization_id = $1 AND x.user_id = $2
ORDER BY x.user_id
LIMIT $3;

-- export_mutation_quotas_next
-- $1 organization, $2 user, $3 key_1, $4 limit
SELECT x.user_id::text AS key_1, (SELECT to_json(r) FROM (SELECT x.missing AS missing, to_char(x.as_of AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') AS as_of) r) AS row
FROM mutation_quotas x
WHERE x.organization_id = $1 AND x.user_id = $2 AND (x.user_id) > ($3::text::uuid)
ORDER BY x.user_id
LIMIT $4;

-- export_mutations_first
-- $1 organization, $2 user, $3 limit
SELECT m.position::text AS key_1, (SELECT to_json(r) FROM (SELECT m.position AS position, m.reference_ids AS reference_ids, m.traceparent AS traceparent, m.key_user_id AS key_user_id, to_char(m.changed_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') AS changed_at) r) AS row, m.id AS sent_id, m.sent_method, m.sent_endpoint, m.sent_payload, m.id, m.endpoint, m.payload, m.headers, m.dependency_ids, m.priority, m.max_attempts, m.conflict_resolution,
    m.base_version, m.last_error, m.last_error_code, m.created_at,
    ARRAY[coalesce(to_json(m.order_key)::text, 'null')] AS shown, m.id, m.accepted_at, m.idempotency_key, m.device_id, m.sequence_number, m.position, m.operation, m.entity_type, m.local_id, m.local_number, m.server_id, m.server_id_is_integer, m.status, m.revision, m.version, m.etag, m.attempt_count, m.next_retry_at, CASE WHEN cardinality(m.depends_on) > 32
        THEN m.depends_on[coalesce(array_position(m.depends_on, m.blocked_on), 1):]
        ELSE m.depends_on END AS depends_on, m.resolution, m.response_status, m.response_body, m.error, m.fingerprint, m.fingerprint_places, m.synced_at, false AS has_more
FROM mutations m
WHERE m.organization_id = $1 AND m.user_id = $2
ORDER BY m.position
LIMIT $3;

-- export_mutations_next
-- $1 organization, $2 user, $3 key_1, $4 limit
SELECT m.position::text AS key_1, (SELECT to_json(r) FROM (SELECT m.position AS position, m.reference_ids AS reference_ids, m.traceparent AS traceparent, m.key_user_id AS key_user_id, to_char(m.changed_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') AS changed_at) r) AS row, m.id AS sent_id, m.sent_method, m.sent_endpoint, m.sent_payload, m.id, m.endpoint, m.payload, m.headers, m.dependency_ids, m.priority, m.max_attempts, m.conflict_resolution,
    m.base_version, m.last_error, m.last_error_code, m.created_at,
    ARRAY[coalesce(to_json(m.order_key)::text, 'null')] AS shown, m.id, m.accepted_at, m.idempotency_key, m.device_id, m.sequence_number, m.position, m.operation, m.entity_type, m.local_id, m.local_number, m.server_id, m.server_id_is_integer, m.status, m.revision, m.version, m.etag, m.attempt_count, m.next_retry_at, CASE WHEN cardinality(m.depends_on) > 32
        THEN m.depends_on[coalesce(array_position(m.depends_on, m.blocked_on), 1):]
        ELSE m.depends_on END AS depends_on, m.resolution, m.response_status, m.response_body, m.error, m.fingerprint, m.fingerprint_places, m.synced_at, false AS has_more
FROM mutations m
WHERE m.organization_id = $1 AND m.user_id = $2 AND (m.position) > ($3::text::bigint)
ORDER BY m.position
LIMIT $4;

-- export_attempts_first
-- $1 organization, $2 user, $3 limit
SELECT x.mutation_id::text AS key_1, x.slot::text AS key_2, (SELECT to_json(r) FROM (SELECT x.mutation_id AS mutation_id, x.ordinal AS ordinal, x.revision AS revision, x.number AS number, to_char(x.sent_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') AS sent_at, x.duration_ms AS duration_ms, x.status AS status, x.error AS error, x.outcome AS outcome) r) AS row
FROM attempts x
WHERE x.organization_id = $1 AND x.user_id = $2
ORDER BY x.mutation_id, x.slot
LIMIT $3;

-- export_attempts_next
-- $1 organization, $2 user, $3 key_1, $4 key_2, $5 limit
SELECT x.mutation_id::text AS key_1, x.slot::text AS key_2, (SELECT to_json(r) FROM (SELECT x.mutation_id AS mutation_id, x.ordinal AS ordinal, x.revision AS revision, x.number AS number, to_char(x.sent_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') AS sent_at, x.duration_ms AS duration_ms, x.status AS status, x.error AS error, x.outcome AS outcome) r) AS row
FROM attempts x
WHERE x.organization_id = $1 AND x.user_id = $2 AND (x.mutation_id, x.slot) > ($3::text::uuid, $4::text::smallint)
ORDER BY x.mutation_id, x.slot
LIMIT $5;

-- export_rejections_first
-- $1 organization, $2 user, $3 limit
SELECT x.idempotency_key::text AS key_1, (SELECT to_json(r) FROM (SELECT x.idempotency_key AS idempotency_key, x.id AS id, x.device_id AS device_id, x.sequence_number AS sequence_number, to_char(x.rejected_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') AS rejected_at) r) AS row, x.idempotency_key AS id, x.error
FROM rejections x
WHERE x.organization_id = $1 AND x.user_id = $2
ORDER BY x.idempotency_key
LIMIT $3;

-- export_rejections_next
-- $1 organization, $2 user, $3 key_1, $4 limit
SELECT x.idempotency_key::text AS key_1, (SELECT to_json(r) FROM (SELECT x.idempotency_key AS idempotency_key, x.id AS id, x.device_id AS device_id, x.sequence_number AS sequence_number, to_char(x.rejected_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') AS rejected_at) r) AS row, x.idempotency_key AS id, x.error
FROM rejections x
WHERE x.organization_id = $1 AND x.user_id = $2 AND (x.idempotency_key) > ($3::text::uuid)
ORDER BY x.idempotency_key
LIMIT $4;

-- export_id_mappings_first
-- $1 organization, $2 user, $3 limit
SELECT x.client_id::text AS key_1, x.entity_type::text AS key_2, (SELECT to_json(r) FROM (SELECT x.client_id AS client_id, x.entity_type AS entity_type, CASE WHEN x.server_id_is_integer THEN to_json((x.server_id)::numeric) ELSE to_json(x.server_id) END AS server_id, x.status AS status, x.mutation_id AS mutation_id, x.last_error AS last_error, to_char(x.created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') AS created_at, to_char(x.resolved_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') AS resolved_at, to_char(x.last_used_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') AS last_used_at) r) AS row
FROM id_mappings x
WHERE x.organization_id = $1 AND x.user_id = $2
ORDER BY x.client_id, x.entity_type
LIMIT $3;

-- export_id_mappings_next
-- $1 organization, $2 user, $3 key_1, $4 key_2, $5 limit
SELECT x.client_id::text AS key_1, x.entity_type::text AS key_2, (SELECT to_json(r) FROM (SELECT x.client_id AS client_id, x.entity_type AS entity_type, CASE WHEN x.server_id_is_integer THEN to_json((x.server_id)::numeric) ELSE to_json(x.server_id) END AS server_id, x.status AS status, x.mutation_id AS mutation_id, x.last_error AS last_error, to_char(x.created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') AS created_at, to_char(x.resolved_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') AS resolved_at, to_char(x.last_used_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') AS last_used_at) r) AS row
FROM id_mappings x
WHERE x.organization_id = $1 AND x.user_id = $2 AND (x.client_id, x.entity_type) > ($3::text::uuid, $4::text::text)
ORDER BY x.client_id, x.entity_type
LIMIT $5;

-- export_local_ids_first
-- $1 organization, $2 user, $3 limit
SELECT x.device_id::text AS key_1, x.entity_type::text AS key_2, x.local_id::text AS key_3, (SELECT to_json(r) FROM (SELECT x.device_id AS device_id, x.entity_type AS entity_type, x.local_id AS local_id, CASE WHEN x.server_id_is_integer THEN to_json((coalesce(x.server_id, x.same_as))::numeric) ELSE to_json(coalesce(x.server_id, x.same_as)) END AS server_id, x.mutation_id AS mutation_id) r) AS row
FROM local_ids x
WHERE x.organization_id = $1 AND x.user_id = $2
ORDER BY x.device_id, x.entity_type, x.local_id
LIMIT $3;

-- export_local_ids_next
-- $1 organization, $2 user, $3 key_1, $4 key_2, $5 key_3, $6 limit
SELECT x.device_id::text AS key_1, x.entity_type::text AS key_2, x.local_id::text AS key_3, (SELECT to_json(r) FROM (SELECT x.device_id AS device_id, x.entity_type AS entity_type, x.local_id AS local_id, CASE WHEN x.server_id_is_integer THEN to_json((coalesce(x.server_id, x.same_as))::numeric) ELSE to_json(coalesce(x.server_id, x.same_as)) END AS server_id, x.mutation_id AS mutation_id) r) AS row
FROM local_ids x
WHERE x.organization_id = $1 AND x.user_id = $2 AND (x.device_id, x.entity_type, x.local_id) > ($3::text::uuid, $4::text::text, $5::text::bigint)
ORDER BY x.device_id, x.entity_type, x.local_id
LIMIT $6;

-- export_local_id_pages_first
-- $1 organization, $2 user, $3 limit
SELECT x.device_id::text AS key_1, x.page::text AS key_2, (SELECT to_json(r) FROM (SELECT x.device_id AS device_id, x.page AS page, (SELECT coalesce(json_agg(json_build_object('entity_type', p.entity_type, 'local_id', p.local_id,
        'server_id', CASE WHEN p.is_integer THEN to_json((p.id)::numeric) ELSE to_json(p.id) END) ORDER BY p.place), '[]')
    FROM unnest(x.entity_types, x.local_ids, x.server_ids, x.are_integers)
        WITH ORDINALITY AS p (entity_type, local_id, id, is_integer, place)) AS local_ids) r) AS row
FROM local_id_pages x
WHERE x.organization_id = $1 AND x.user_id = $2
ORDER BY x.device_id, x.page
LIMIT $3;

-- export_local_id_pages_next
-- $1 organization, $2 user, $3 key_1, $4 key_2, $5 limit
SELECT x.device_id::text AS key_1, x.page::text AS key_2, (SELECT to_json(r) FROM (SELECT x.device_id AS device_id, x.page AS page, (SELECT coalesce(json_agg(json_build_object('entity_type', p.entity_type, 'local_id', p.local_id,
        'server_id', CASE WHEN p.is_integer THEN to_json((p.id)::numeric) ELSE to_json(p.id) END) ORDER BY p.place), '[]')
    FROM unnest(x.entity_types, x.local_ids, x.server_ids, x.are_integers)
        WITH ORDINALITY AS p (entity_type, local_id, id, is_integer, place)) AS local_ids) r) AS row
FROM local_id_pages x
WHERE x.organization_id = $1 AND x.user_id = $2 AND (x.device_id, x.page) > ($3::text::uuid, $4::text::bigint)
ORDER BY x.device_id, x.page
LIMIT $5;

-- export_channel_grants_first
-- $1 organization, $2 user, $3 limit
SELECT x.channel::text AS key_1, x.source::text AS key_2, x.since::text AS key_3, (SELECT to_json(r) FROM (SELECT x.name AS name, x.role AS role, x.source AS source, x.since AS since, x.until AS until) r) AS row
FROM channel_grants x
WHERE x.organization_id = $1 AND x.user_id = $2
ORDER BY x.channel, x.source, x.since
LIMIT $3;

-- export_channel_grants_next
-- $1 organization, $2 user, $3 key_1, $4 key_2, $5 key_3, $6 limit
SELECT x.channel::text AS key_1, x.source::text AS key_2, x.since::text AS key_3, (SELECT to_json(r) FROM (SELECT x.name AS name, x.role AS role, x.source AS source, x.since AS since, x.until AS until) r) AS row
FROM channel_grants x
WHERE x.organization_id = $1 AND x.user_id = $2 AND (x.channel, x.source, x.since) > ($3::text::uuid, $4::text::text, $5::text::bigint)
ORDER BY x.channel, x.source, x.since
LIMIT $6;

-- export_webhook_deliveries
-- $1 organization, $2 first_keys, $3 second_keys, $4 users
SELECT (SELECT to_json(r) FROM (
    SELECT x.endpoint_id AS webhook_id, x.id, x.event AS type,
        to_char(x.occurred_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') AS timestamp, x.sequence, x.data, x.status, x.attempt_count,
        CASE WHEN x.status = 'waiting' THEN to_char(x.next_attempt_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') END AS next_attempt_at,
        to_char(x.settled_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') AS settled_at, x.last_status AS response_status, x.last_error
    ) r) AS row
FROM unnest($2::text[]::uuid[], $3::text[]::uuid[]) AS k (endpoint_id, id)
CROSS JOIN LATERAL (
    SELECT * FROM webhook_deliveries y
    WHERE y.organization_id = $1 AND y.endpoint_id = k.endpoint_id AND y.id = k.id
    OFFSET 0
) x
WHERE x.data ->> 'user_id' = ANY ($4::uuid[]::text[]) OR x.data ->> 'updated_by' = ANY ($4::uuid[]::text[]) OR x.data ->> 'server_id' = ANY ($4::uuid[]::text[]);

-- export_entities
-- The documents that the user owns or wrote last, by keys that an ``EntityScan`` found.
-- $1 organization, $2 types, $3 ids, $4 user
SELECT e.entity_type, e.id, e.row, e.document
FROM unnest($2::text[], $3::text[]) AS k (entity_type, id)
CROSS JOIN LATERAL (
    SELECT x.entity_type, x.id, x.document, (SELECT to_json(r) FROM (
        SELECT x.entity_type, CASE WHEN x.id_is_integer THEN to_json((x.id)::numeric) ELSE to_json(x.id) END AS id, x.version,
            x.is_deleted AS deleted, x.owner_id, x.client_id, x.updated_by, x.updated_on,
            to_char(x.created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') AS created_at,
            to_char(x.updated_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') AS updated_at, x.etag) r) AS row
    FROM entities x
    WHERE x.organization_id = $1 AND x.entity_type = k.entity_type AND x.id = k.id
        AND (x.owner_id = $4 OR x.updated_by = $4)
    OFFSET 0
) e;

-- export_standing
-- Returns whether any data of the user are stored, the user into whom this user was joined, and the users who were joined into this user.
-- $1 organization, $2 user
SELECT (SELECT j.into_id FROM user_joins j
        WHERE j.organization_id = $1 AND j.user_id = $2 AND j.closed_until IS NULL) AS into_id,
    (EXISTS (SELECT 1 FROM users x WHERE x.organization_id = $1 AND x.user_id = $2)
                OR EXISTS (SELECT 1 FROM lanes x WHERE x.organization_id = $1 AND x.user_id = $2)
                OR EXISTS (SELECT 1 FROM devices x WHERE x.organization_id = $1 AND x.user_id = $2)
                OR EXISTS (SELECT 1 FROM user_subjects x WHERE x.organization_id = $1 AND x.user_id = $2)
                OR EXISTS (SELECT 1 FROM user_keys x WHERE x.organization_id = $1 AND x.user_id = $2)) AS is_known,
    ARRAY(
        SELECT j.user_id FROM user_joins j
        WHERE j.organization_id = $1 AND j.into_id = $2 AND j.closed_until IS NULL) AS joined;

-- erase_operations
-- Removes the user and the ids of the user's mutations from operations
-- $1 organization, $2 user, $3 user_hash, $4 limit
WITH own AS MATERIALIZED (
    SELECT o.id, ARRAY(
        SELECT i.id FROM unnest(o.ids) i (id)
        CROSS JOIN LATERAL (
            SELECT 1 FROM mutations m
            WHERE m.organization_id = $1 AND m.user_id = $2 AND m.id = i.id
            OFFSET 0
        ) m
    ) AS ids
    FROM operations o WHERE o.organization_id = $1
), gone AS (
    UPDATE operations AS o
    SET user_id = CASE WHEN o.user_id = $2 THEN '00000000-0000-0000-0000-000000000000'::uuid ELSE o.user_id END,
        place_user = CASE WHEN o.place_user = $2 THEN '00000000-0000-0000-0000-000000000000'::uuid ELSE o.place_user END,
        place_id = CASE WHEN o.place_user = $2 THEN '00000000-0000-0000-0000-000000000000'::uuid ELSE o.place_id END,
        ids = CASE WHEN o.ids IS NOT NULL THEN
            ARRAY(SELECT i.id FROM unnest(o.ids) i (id) WHERE i.id <> ALL (w.ids)) END
    FROM own w
    WHERE o.organization_id = $1 AND o.id = w.id
        AND (o.user_id = $2 OR o.place_user = $2 OR cardinality(w.ids) > 0)
    RETURNING 1
)
SELECT count(*) FILTER (WHERE $3::bytea IS NOT NULL AND $4::int8 > 0) AS count FROM gone;

-- erase_user_subjects
-- Deletes the user's subjects
-- $1 organization, $2 user, $3 user_hash, $4 limit
WITH gone AS (
    DELETE FROM user_subjects AS x
    USING (
        SELECT y.organization_id, y.issuer, y.subject FROM user_subjects y
        WHERE y.organization_id = $1 AND y.user_id = $2
        LIMIT $4
    ) k
    WHERE x.organization_id = k.organization_id AND x.issuer = k.issuer AND x.subject = k.subject
    RETURNING x.issuer, x.subject
)
SELECT sha256(z.salt || convert_to(g.issuer::text, 'UTF8') || '\x00'::bytea || convert_to(g.subject::text, 'UTF8')) AS hash,
    CASE WHEN $3::bytea IS NULL THEN $3::bytea END AS known_hash
FROM gone g
CROSS JOIN (SELECT y.salt FROM erasure_salts y WHERE y.organization_id = $1) z;

-- erase_devices
-- $1 organization, $2 user, $3 user_hash, $4 limit
WITH gone AS (
    DELETE FROM devices AS x
    USING (
        SELECT y.organization_id, y.user_id, y.device_id FROM devices y
        WHERE y.organization_id = $1 AND y.user_id = $2
        LIMIT $4
    ) k
    WHERE x.organization_id = k.organization_id AND x.user_id = k.user_id AND x.device_id = k.device_id
    RETURNING x.*
)
SELECT sha256($3::bytea || uuid_send(g.device_id)) AS hash,
    NULL::bytea AS known_hash
FROM gone g;

-- erase_mutations
-- $1 organization, $2 user, $3 user_hash, $4 limit
WITH gone AS (
    DELETE FROM mutations AS x
    USING (
        SELECT y.organization_id, y.user_id, y.id FROM mutations y
        WHERE y.organization_id = $1 AND y.user_id = $2
        LIMIT $4
    ) k
    WHERE x.organization_id = k.organization_id AND x.user_id = k.user_id AND x.id = k.id
    RETURNING x.*
)
SELECT sha256($3::bytea || uuid_send(g.idempotency_key)) AS hash,
    sha256(g.fingerprint) AS known_hash
FROM gone g;

-- erase_attempts
-- $1 organization, $2 user, $3 user_hash, $4 limit
WITH gone AS (
    DELETE FROM attempts AS x
    USING (
        SELECT y.organization_id, y.user_id, y.mutation_id, y.slot FROM attempts y
        WHERE y.organization_id = $1 AND y.user_id = $2
        LIMIT $4
    ) k
    WHERE x.organization_id = k.organization_id AND x.user_id = k.user_id AND x.mutation_id = k.mutation_id AND x.slot = k.slot
    RETURNING x.*
) SELECT count(*) FILTER (WHERE $3::bytea IS NOT NULL) AS count FROM gone;

-- erase_rejections
-- $1 organization, $2 user, $3 user_hash, $4 limit
WITH gone AS (
    DELETE FROM rejections AS x
    USING (
        SELECT y.organization_id, y.user_id, y.idempotency_key FROM rejections y
        WHERE y.organization_id = $1 AND y.user_id = $2
        LIMIT $4
    ) k
    WHERE x.organization_id = k.organization_id AND x.user_id = k.user_id AND x.idempotency_key = k.idempotency_key
    RETURNING x.*
)
SELECT sha256($3::bytea || uuid_send(g.idempotency_key)) AS hash,
    NULL::bytea AS known_hash
FROM gone g;

-- erase_id_mappings
-- $1 organization, $2 user, $3 user_hash, $4 limit
WITH gone AS (
    DELETE FROM id_mappings AS x
    USING (
        SELECT y.organization_id, y.user_id, y.client_id, y.entity_type FROM id_mappings y
        WHERE y.organization_id = $1 AND y.user_id = $2
        LIMIT $4
    ) k
    WHERE x.organization_id = k.organization_id AND x.user_id = k.user_id AND x.client_id = k.client_id AND x.entity_type = k.entity_type
    RETURNING x.*
) SELECT count(*) FILTER (WHERE $3::bytea IS NOT NULL) AS count FROM gone;

-- erase_local_ids
-- $1 organization, $2 user, $3 user_hash, $4 limit
WITH gone AS (
    DELETE FROM local_ids AS x
    USING (
        SELECT y.organization_id, y.user_id, y.device_id, y.entity_type, y.local_id FROM local_ids y
        WHERE y.organization_id = $1 AND y.user_id = $2
        LIMIT $4
    ) k
    WHERE x.organization_id = k.organization_id AND x.user_id = k.user_id AND x.device_id = k.device_id AND x.entity_type = k.entity_type AND x.local_id = k.local_id
    RETURNING x.*
) SELECT count(*) FILTER (WHERE $3::bytea IS NOT NULL) AS count FROM gone;

-- erase_local_id_pages
-- $1 organization, $2 user, $3 user_hash, $4 limit
WITH gone AS (
    DELETE FROM local_id_pages AS x
    USING (
        SELECT y.organization_id, y.user_id, y.device_id, y.page FROM local_id_pages y
        WHERE y.organization_id = $1 AND y.user_id = $2
        LIMIT $4
    ) k
    WHERE x.organization_id = k.organization_id AND x.user_id = k.user_id AND x.device_id = k.device_id AND x.page = k.page
    RETURNING x.*
) SELECT count(*) FILTER (WHERE $3::bytea IS NOT NULL) AS count FROM gone;

-- erase_channel_grants
-- $1 organization, $2 user, $3 user_hash, $4 limit
WITH gone AS (
    DELETE FROM channel_grants AS x
    USING (
        SELECT y.organization_id, y.user_id, y.channel, y.source, y.since FROM channel_grants y
        WHERE y.organization_id = $1 AND y.user_id = $2
        LIMIT $4
    ) k
    WHERE x.organization_id = k.organization_id AND x.user_id = k.user_id AND x.channel = k.channel AND x.source = k.source AND x.since = k.since
    RETURNING x.*
) SELECT count(*) FILTER (WHERE $3::bytea IS NOT NULL) AS count FROM gone;

-- erase_token_channels
-- $1 organization, $2 user, $3 user_hash, $4 limit
WITH gone AS (
    DELETE FROM token_channels AS x
    USING (
        SELECT y.organization_id, y.user_id, y.source FROM token_channels y
        WHERE y.organization_id = $1 AND y.user_id = $2
        LIMIT $4
    ) k
    WHERE x.organization_id = k.organization_id AND x.user_id = k.user_id AND x.source = k.source
    RETURNING x.*
) SELECT count(*) FILTER (WHERE $3::bytea IS NOT NULL) AS count FROM gone;

-- erase_keep_names
-- Inserts the hashes of erased ids, each with the hash of the value that the id identifies.
-- $1 organization, $2 user_hash, $3 hashes, $4 known_hashes
INSERT INTO erased_names AS n (organization_id, user_hash, name_hash, fingerprint_hash)
SELECT $1::uuid, $2::bytea, k.name_hash, k.fingerprint_hash
FROM unnest($3::bytea[], $4::bytea[]) AS k (name_hash, fingerprint_hash)
ON CONFLICT (organization_id, user_hash, name_hash) DO NOTHING;

-- erase_keep_subjects
-- Stores the hashes of deleted subjects
-- $1 organization, $2 user_hash, $3 hashes, $4 known_hashes
INSERT INTO erased_subjects AS s (organization_id, subject_hash, user_hash)
SELECT $1::uuid, k.subject_hash, $2::bytea
FROM unnest($3::bytea[], $4::bytea[]) AS k (subject_hash, nothing)
ON CONFLICT (organization_id, subject_hash) DO NOTHING;

-- erase_mutation_quotas
-- $1 organization, $2 user
DELETE FROM mutation_quotas WHERE organization_id = $1 AND user_id = $2;

-- erase_users
-- $1 organization, $2 user
DELETE FROM users WHERE organization_id = $1 AND user_id = $2;

-- erase_lanes
-- $1 organization, $2 user
DELETE FROM lanes WHERE organization_id = $1 AND user_id = $2;

-- look_for_named_parked_events
-- $1 organization, $2 users, $3 after_first, $4 after_second, $5 limit
SELECT p.first::text AS first, p.second::text AS second, p.is_named
FROM (
    SELECT q.*, row_number() OVER (ORDER BY q.first DESC, q.second DESC) AS place
    FROM (
        SELECT y.source AS first, y.event_id AS second, coalesce(y.owner_id = ANY ($2::uuid[]), false) AS is_named
        FROM parked_events y
        WHERE y.organization_id = $1 AND (y.source, y.event_id) > ($3::text::text, $4::text::text)
        ORDER BY y.source, y.event_id
        LIMIT $5
    ) q
) p
WHERE p.is_named OR p.place = 1
ORDER BY p.first, p.second;

-- erase_parked_events
-- $1 organization, $2 first_keys, $3 second_keys, $4 users
DELETE FROM parked_events AS x
USING unnest($2::text[], $3::text[]) AS k (source, event_id)
WHERE x.organization_id = $1 AND x.source = k.source AND x.event_id = k.event_id
    AND x.owner_id = ANY ($4::uuid[]);

-- look_for_named_webhook_deliveries
-- $1 organization, $2 users, $3 after_first, $4 after_second, $5 limit
SELECT p.first::text AS first, p.second::text AS second, p.is_named
FROM (
    SELECT q.*, row_number() OVER (ORDER BY q.first DESC, q.second DESC) AS place
    FROM (
        SELECT y.endpoint_id AS first, y.id AS second, coalesce(y.data ->> 'user_id' = ANY ($2::uuid[]::text[]) OR y.data ->> 'updated_by' = ANY ($2::uuid[]::text[]) OR y.data ->> 'server_id' = ANY ($2::uuid[]::text[]), false) AS is_named
        FROM webhook_deliveries y
        WHERE y.organization_id = $1 AND (y.endpoint_id, y.id) > ($3::text::uuid, $4::text::uuid)
        ORDER BY y.endpoint_id, y.id
        LIMIT $5
    ) q
) p
WHERE p.is_named OR p.place = 1
ORDER BY p.first, p.second;

-- erase_webhook_deliveries
-- Deletes the messages
-- $1 organization, $2 first_keys, $3 second_keys, $4 users
WITH held AS MATERIALIZED (
    SELECT p.id FROM webhook_endpoints p
    WHERE p.organization_id = $1 AND p.id = ANY ($2::text[]::uuid[]) ORDER BY p.id FOR NO KEY UPDATE
)
DELETE FROM webhook_deliveries AS x
USING unnest($2::text[]::uuid[], $3::text[]::uuid[]) AS k (endpoint_id, id)
WHERE x.organization_id = $1 AND x.endpoint_id = k.endpoint_id AND x.id = k.id
    AND (x.data ->> 'user_id' = ANY ($4::uuid[]::text[]) OR x.data ->> 'updated_by' = ANY ($4::uuid[]::text[]) OR x.data ->> 'server_id' = ANY ($4::uuid[]::text[])) AND (SELECT count(*) FROM held) >= 0;

-- erase_joins
-- $1 organization, $2 users
DELETE FROM user_joins AS j
WHERE j.organization_id = $1 AND (j.user_id = ANY ($2::uuid[]) OR j.into_id = ANY ($2::uuid[]));

-- audit_erase_user
-- Replaces erased users by their hashes, and removes the targets of actions on these users, because targets may name the users' rows.
-- $1 organization, $2 users
UPDATE audit AS a
SET user_hash = sha256(uuid_send($1::uuid) || uuid_send(a.user_id::uuid)), user_id = NULL,
    target = CASE WHEN a.action = 'deleteUser' THEN a.target ELSE '{}' END
WHERE a.organization_id = $1 AND a.user_id = ANY ($2::uuid[]);

-- audit_erase_into
-- $1 organization, $2 users
UPDATE audit AS a
SET into_hash = sha256(uuid_send($1::uuid) || uuid_send(a.into_id::uuid)), into_id = NULL
WHERE a.organization_id = $1 AND a.into_id = ANY ($2::uuid[]);

-- erase_retention_places
-- Removes a user's id from the positions that retention has stored
-- $1 organization, $2 users
UPDATE retention_places AS p
SET mapping_client = CASE WHEN p.mapping_user = ANY ($2::uuid[]) THEN NULL ELSE p.mapping_client END,
    mapping_user = CASE WHEN p.mapping_user = ANY ($2::uuid[]) THEN NULL ELSE p.mapping_user END,
    shrunk_id = CASE WHEN p.shrunk_user = ANY ($2::uuid[]) THEN '00000000-0000-0000-0000-000000000000'::uuid ELSE p.shrunk_id END,
    shrunk_user = CASE WHEN p.shrunk_user = ANY ($2::uuid[]) THEN '00000000-0000-0000-0000-000000000000'::uuid ELSE p.shrunk_user END
WHERE p.organization_id = $1;

-- join_users
-- $1 organization, $2 user, $3 into
INSERT INTO users AS t (organization_id, user_id, created_at)
SELECT x.organization_id, $3::uuid, x.created_at FROM users x
WHERE x.organization_id = $1 AND x.user_id = $2 AND (SELECT o.settings ->> 'provisioning' FROM organizations o WHERE o.id = $1) IS DISTINCT FROM 'explicit'
ON CONFLICT (organization_id, user_id) DO NOTHING;

-- join_leave_users
-- $1 organization, $2 user
DELETE FROM users WHERE organization_id = $1 AND user_id = $2;

-- join_devices
-- $1 organization, $2 user, $3 into
UPDATE devices AS x SET user_id = $3 WHERE x.organization_id = $1 AND x.user_id = $2;

-- join_mutation_quotas
-- $1 organization, $2 user, $3 into
INSERT INTO mutation_quotas AS t (organization_id, user_id, as_of, missing)
SELECT x.organization_id, $3::uuid, x.as_of, x.missing FROM mutation_quotas x
WHERE x.organization_id = $1 AND x.user_id = $2 AND true
ON CONFLICT (organization_id, user_id) DO NOTHING;

-- join_leave_mutation_quotas
-- $1 organization, $2 user
DELETE FROM mutation_quotas WHERE organization_id = $1 AND user_id = $2;

-- join_mutations
-- $1 organization, $2 user, $3 into, $4 positions, $5 changes
UPDATE mutations AS m
SET user_id = $3, key_user_id = coalesce(m.key_user_id, m.user_id), position = m.position + $4,
    change_position = m.change_position + $5
WHERE m.organization_id = $1 AND m.user_id = $2;

-- join_attempts
-- $1 organization, $2 user, $3 into
UPDATE attempts AS x SET user_id = $3 WHERE x.organization_id = $1 AND x.user_id = $2;

-- join_rejections
-- $1 organization, $2 user, $3 into
UPDATE rejections AS x SET user_id = $3 WHERE x.organization_id = $1 AND x.user_id = $2;

-- join_mappings
-- Moves the mappings, and records the merge as a use of each mapping.
-- $1 organization, $2 user, $3 into, $4 changes, $5 now
UPDATE id_mappings AS i
SET user_id = $3, last_used_at = $5,
    change_position = CASE WHEN i.change_position < 0 THEN i.change_position ELSE i.change_position + $4 END
WHERE i.organization_id = $1 AND i.user_id = $2;

-- join_local_ids
-- $1 organization, $2 user, $3 into
UPDATE local_ids AS x SET user_id = $3 WHERE x.organization_id = $1 AND x.user_id = $2;

-- join_local_id_pages
-- $1 organization, $2 user, $3 into
UPDATE local_id_pages AS x SET user_id = $3 WHERE x.organization_id = $1 AND x.user_id = $2;

-- join_grants
-- Moves the grants of the merged user (`user`) to the other user (`into`), and grants the merged user's own channel to the other user
-- $1 organization, $2 user, $3 into
WITH raised AS (
    UPDATE feeds AS f SET last_position = f.last_position + 1
    WHERE f.organization_id = $1
    RETURNING f.last_position AS position
), moved AS (
    UPDATE channel_grants AS g
    SET user_id = $3, since = r.position, changed_at = r.position
    FROM raised r
    WHERE g.organization_id = $1 AND g.user_id = $2 AND g.until IS NULL
)
INSERT INTO channel_grants AS g (organization_id, user_id, channel, source, since, name, role, changed_at)
SELECT $1::uuid, $3::uuid, encode(substring(sha256(convert_to(n.name, 'UTF8')) FOR 16), 'hex')::uuid,
    'user ' || $2::uuid, r.position, n.name, 'write', r.position
FROM raised r
CROSS JOIN (SELECT 'user/' || $2::uuid AS name) n;

-- join_token_channels
-- $1 organization, $2 user, $3 into
UPDATE token_channels AS x SET user_id = $3 WHERE x.organization_id = $1 AND x.user_id = $2;

-- join_operations
-- Replaces the user in operations by the target user.
-- $1 organization, $2 user, $3 into, $4 now
UPDATE operations AS o
SET user_id = CASE WHEN o.user_id = $2 THEN $3 ELSE o.user_id END,
    place_user = CASE WHEN o.place_user = $2 THEN $3 ELSE o.place_user END,
    state = CASE WHEN o.user_id = $2 AND o.state = 'running' THEN 'failed' ELSE o.state END,
    error = CASE WHEN o.user_id = $2 AND o.state = 'running'
        THEN 'given up: the user became part of another; make a new one for what is left' ELSE o.error END,
    due_at = CASE WHEN o.user_id = $2 AND o.state = 'running' THEN NULL ELSE o.due_at END,
    lease_owner = CASE WHEN o.user_id = $2 AND o.state = 'running' THEN NULL ELSE o.lease_owner END,
    ended_at = CASE WHEN o.user_id = $2 AND o.state = 'running' THEN $4 ELSE o.ended_at END,
    changed_at = $4
WHERE o.organization_id = $1 AND (o.user_id = $2 OR o.place_user = $2);

-- join_count
-- $1 organization, $2 user
SELECT (SELECT count(*) FROM (
    SELECT 1 FROM mutations x WHERE x.organization_id = $1 AND x.user_id = $2
    LIMIT 50001) y) + (SELECT count(*) FROM (
    SELECT 1 FROM rejections x WHERE x.organization_id = $1 AND x.user_id = $2
    LIMIT 50001) y) + (SELECT count(*) FROM (
    SELECT 1 FROM id_mappings x WHERE x.organization_id = $1 AND x.user_id = $2
    LIMIT 50001) y) + (SELECT count(*) FROM (
    SELECT 1 FROM local_ids x WHERE x.organization_id = $1 AND x.user_id = $2
    LIMIT 50001) y) AS rows;

-- join_collisions
-- $1 organization, $2 user, $3 into
SELECT coalesce((SELECT o.settings ->> 'provisioning' FROM organizations o WHERE o.id = $1), '') = 'explicit'
        AND (SELECT count(*) FROM users u WHERE u.organization_id = $1 AND u.user_id IN ($2, $3)) = 1,
    (SELECT count(*) > 0 FROM (
        SELECT 1 FROM devices a
        CROSS JOIN LATERAL (
            SELECT 1 FROM devices b
            WHERE b.organization_id = $1 AND b.user_id = $3
                AND b.device_id = a.device_id
            OFFSET 0
        ) z
        WHERE a.organization_id = $1 AND a.user_id = $2
        LIMIT 1
    ) y),
    (SELECT count(*) > 0 FROM (
        SELECT 1 FROM mutations a
        CROSS JOIN LATERAL (
            SELECT 1 FROM mutations b
            WHERE b.organization_id = $1 AND b.user_id = $3
                AND b.id = a.id
            OFFSET 0
        ) z
        WHERE a.organization_id = $1 AND a.user_id = $2
        LIMIT 1
    ) y),
    (SELECT count(*) > 0 FROM (
        SELECT 1 FROM id_mappings a
        CROSS JOIN LATERAL (
            SELECT 1 FROM id_mappings b
            WHERE b.organization_id = $1 AND b.user_id = $3
                AND b.client_id = a.client_id AND b.entity_type = a.entity_type
            OFFSET 0
        ) z
        WHERE a.organization_id = $1 AND a.user_id = $2
        LIMIT 1
    ) y),
    ((SELECT count(*) > 0 FROM (
        SELECT 1 FROM mutations a
        CROSS JOIN LATERAL (
            SELECT 1 FROM mutations b
            WHERE b.organization_id = $1 AND b.user_id = $3
                AND b.idempotency_key = a.idempotency_key
            OFFSET 0
        ) z
        WHERE a.organization_id = $1 AND a.user_id = $2
        LIMIT 1
    ) y) OR (SELECT count(*) > 0 FROM (
        SELECT 1 FROM mutations a
        CROSS JOIN LATERAL (
            SELECT 1 FROM rejections b
            WHERE b.organization_id = $1 AND b.user_id = $3
                AND b.idempotency_key = a.idempotency_key
            OFFSET 0
        ) z
        WHERE a.organization_id = $1 AND a.user_id = $2
        LIMIT 1
    ) y) OR (SELECT count(*) > 0 FROM (
        SELECT 1 FROM rejections a
        CROSS JOIN LATERAL (
            SELECT 1 FROM mutations b
            WHERE b.organization_id = $1 AND b.user_id = $3
                AND b.idempotency_key = a.idempotency_key
            OFFSET 0
        ) z
        WHERE a.organization_id = $1 AND a.user_id = $2
        LIMIT 1
    ) y) OR (SELECT count(*) > 0 FROM (
        SELECT 1 FROM rejections a
        CROSS JOIN LATERAL (
            SELECT 1 FROM rejections b
            WHERE b.organization_id = $1 AND b.user_id = $3
                AND b.idempotency_key = a.idempotency_key
            OFFSET 0
        ) z
        WHERE a.organization_id = $1 AND a.user_id = $2
        LIMIT 1
    ) y));

-- erase_facts
-- Reads the facts about a user that an erasure requires
-- $1 organization, $2 user, $3 migration, $4 seconds
SELECT (EXISTS (SELECT 1 FROM users x WHERE x.organization_id = $1 AND x.user_id = $2)
                OR EXISTS (SELECT 1 FROM lanes x WHERE x.organization_id = $1 AND x.user_id = $2)
                OR EXISTS (SELECT 1 FROM devices x WHERE x.organization_id = $1 AND x.user_id = $2)
                OR EXISTS (SELECT 1 FROM user_subjects x WHERE x.organization_id = $1 AND x.user_id = $2)
                OR EXISTS (SELECT 1 FROM user_keys x WHERE x.organization_id = $1 AND x.user_id = $2)) AS is_known,
    EXISTS (
        SELECT 1 FROM gateways g
        WHERE coalesce(g.newest_migration, '') < $3
            AND g.seen_at > clock_timestamp() - $4::int8 * interval '1 second') AS has_old_gateway;

-- erase_find
-- $1 organization, $2 user_hash
SELECT e.organization_id, e.user_hash, e.user_ids, e.started_at, e.state, e.walked_position, e.attempts, e.last_error,
    e.finished_at FROM user_erasures e WHERE e.organization_id = $1 AND e.user_hash = $2;

-- erase_close
-- - Parameter due_at: the time at which a gateway continues the erasure.
-- $1 organization, $2 user_hash, $3 users, $4 now, $5 due_at
INSERT INTO user_erasures AS e (organization_id, user_hash, user_ids, started_at, state, due_at)
VALUES ($1, $2, $3, $4, 'closing', $5)
ON CONFLICT (organization_id, user_hash) DO NOTHING
RETURNING e.organization_id, e.user_hash, e.user_ids, e.started_at, e.state, e.walked_position, e.attempts, e.last_error,
    e.finished_at;

-- erase_lock_entities
-- Locks entities in the given order, if the user owns them or wrote them last
-- $1 organization, $2 user, $3 types, $4 ids, $5 own_channels, $6 bytes
SELECT r.entity_type, r.id, r.goes, CASE WHEN NOT r.is_beyond_bytes THEN r.document END AS document,
    r.is_beyond_bytes
FROM (
    SELECT s.*, coalesce(sum(coalesce(CASE WHEN pg_column_compression(s.document) IS NULL THEN pg_column_size(s.document) ELSE octet_length(s.document::text) END, 0)) OVER (
        ORDER BY s.place ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0) >= $6 AS is_beyond_bytes
    FROM (
        SELECT e.entity_type, e.id, g.goes, k.place,
            CASE WHEN NOT g.goes AND e.owner_id = $2 AND e.document::text ~ '^"sluice-sealed:1:[0-9]+[.]'
                THEN e.document END AS document
        FROM unnest($3::text[], $4::text[]) WITH ORDINALITY AS k (entity_type, id, place)
        CROSS JOIN LATERAL (
            SELECT x.entity_type, x.id, x.owner_id, x.is_deleted, x.document, x.channels FROM entities x
            WHERE x.organization_id = $1 AND x.entity_type = k.entity_type AND x.id = k.id
                AND (x.owner_id = $2 OR x.updated_by = $2)
            FOR UPDATE
        ) e
        CROSS JOIN LATERAL (
            SELECT e.owner_id = $2 AND NOT e.is_deleted AND coalesce((
                SELECT t.on_erase = 'delete' OR t.visibility = 'user' OR t.visibility = 'channels'
                    AND coalesce(cardinality(e.channels) > 0 AND e.channels <@ $5::uuid[], false)
                FROM entity_types t
                WHERE t.organization_id = $1 AND t.name = e.entity_type), true) AS goes
        ) g
        OFFSET 0
    ) s
) r
ORDER BY r.place;

-- erase_write_entities
-- Deletes locked entities, or removes the user from them
-- $1 organization, $2 user, $3 types, $4 ids, $5 goes, $6 feed_end, $7 no_user, $8 now
UPDATE entities AS e
SET is_deleted = e.is_deleted OR k.goes,
    document = CASE WHEN NOT k.goes THEN e.document END,
    etag = CASE WHEN NOT k.goes THEN e.etag END,
    version = e.version + k.goes::int,
    run_base = CASE WHEN k.goes OR e.updated_by = $2 THEN e.version ELSE e.run_base END,
    updated_at = CASE WHEN k.goes THEN $8::timestamptz ELSE e.updated_at END,
    owner_id = CASE WHEN e.owner_id = $2 THEN $7::uuid ELSE e.owner_id END,
    client_id = CASE WHEN e.owner_id <> $2 THEN e.client_id END,
    updated_by = CASE WHEN k.goes OR e.updated_by = $2 THEN $7::uuid ELSE e.updated_by END,
    updated_on = CASE WHEN k.goes OR e.updated_by = $2 THEN $7::uuid ELSE e.updated_on END,
    feed_position = $6 - cardinality($3::text[]) + k.place
FROM unnest($3::text[], $4::text[], $5::bool[]) WITH ORDINALITY AS k (entity_type, id, goes, place)
WHERE e.organization_id = $1 AND e.entity_type = k.entity_type AND e.id = k.id;

-- erase_move
-- Records the next step, and the position up to which the feed was read.
-- $1 organization, $2 user_hash, $3 state, $4 walked_position, $5 due_at
UPDATE user_erasures AS e
SET state = $3, walked_position = greatest(e.walked_position, $4), due_at = $5
WHERE e.organization_id = $1 AND e.user_hash = $2 AND e.state <> 'done'
RETURNING e.organization_id, e.user_hash, e.user_ids, e.started_at, e.state, e.walked_position, e.attempts, e.last_error,
    e.finished_at;

-- erase_fail
-- Records that the upstream could not be notified.
-- $1 organization, $2 user_hash, $3 reason, $4 due_at
UPDATE user_erasures AS e SET attempts = e.attempts + 1, last_error = $3, due_at = $4
WHERE e.organization_id = $1 AND e.user_hash = $2 AND e.state = 'telling'
RETURNING e.organization_id, e.user_hash, e.user_ids, e.started_at, e.state, e.walked_position, e.attempts, e.last_error,
    e.finished_at;

-- erase_lock
-- $1 organization, $2 user_hash
SELECT e.organization_id, e.user_hash, e.user_ids, e.started_at, e.state, e.walked_position, e.attempts, e.last_error,
    e.finished_at FROM user_erasures e
WHERE e.organization_id = $1 AND e.user_hash = $2 AND e.state <> 'done' FOR UPDATE;

-- erase_finish
-- Completes the erasure
-- $1 organization, $2 user_hash, $3 now
UPDATE user_erasures AS e
SET state = 'done', user_ids = NULL, last_error = NULL, due_at = NULL, finished_at = $3
WHERE e.organization_id = $1 AND e.user_hash = $2
RETURNING e.organization_id, e.user_hash, e.user_ids, e.started_at, e.state, e.walked_position, e.attempts, e.last_error,
    e.finished_at;

-- erase_followers
-- Records the erasure of each user who was joined into the erased user, because joined users are erased together with that user.
-- $1 organization, $2 users, $3 started_at, $4 finished_at
INSERT INTO user_erasures AS e (organization_id, user_hash, started_at, state, finished_at)
SELECT $1::uuid, sha256(uuid_send($1::uuid) || uuid_send(k.id)), $3, 'done', $4
FROM unnest($2::uuid[]) AS k (id)
ON CONFLICT (organization_id, user_hash) DO NOTHING;

-- erase_due
-- Reads the due erasures of all organizations, beginning with the erasure that has been due longest
-- $1 now, $2 limit, $3 organizations, $4 asks_upstream
SELECT x.organization_id, x.user_hash, x.due_at FROM user_erasures x
WHERE x.due_at <= $1 AND (x.state <> 'telling' OR $4::bool AND x.organization_id <> ALL ($3::uuid[]))
ORDER BY x.due_at LIMIT $2;

-- erase_claim
-- Claims a due erasure for this gateway until `claimed_until`, unless another gateway has just claimed it.
-- $1 organization, $2 user_hash, $3 due_at, $4 claimed_until
UPDATE user_erasures AS e SET due_at = $4
WHERE e.organization_id = $1 AND e.user_hash = $2 AND e.due_at = $3
RETURNING e.organization_id, e.user_hash, e.user_ids, e.started_at, e.state, e.walked_position, e.attempts, e.last_error,
    e.finished_at;

-- erase_backlog
-- The number of erasures in progress, counted up to 1,000, and the time at which the first of them began.
SELECT count(*) AS count, min(y.started_at) AS since FROM (
    SELECT x.started_at FROM user_erasures x WHERE x.due_at IS NOT NULL ORDER BY x.due_at LIMIT 1000) y;

-- erase_endpoint
-- Returns a row if the upstream must be notified of erasures.
-- $1 organization
SELECT 1 FROM upstreams WHERE organization_id = $1 AND erase_endpoint IS NOT NULL;

-- join_lock_organization
-- Locks the organization, so that its joins begin one after another, and each join reads the earlier joins.
-- $1 organization
SELECT o.status FROM organizations o WHERE o.id = $1 FOR NO KEY UPDATE;

-- join_facts
-- - Parameters: - migration: the name of the migration that gateways must support
-- $1 organization, $2 user, $3 into, $4 migration, $5 seconds
SELECT (EXISTS (SELECT 1 FROM users x WHERE x.organization_id = $1 AND x.user_id = $2)
                OR EXISTS (SELECT 1 FROM lanes x WHERE x.organization_id = $1 AND x.user_id = $2)
                OR EXISTS (SELECT 1 FROM devices x WHERE x.organization_id = $1 AND x.user_id = $2)
                OR EXISTS (SELECT 1 FROM user_subjects x WHERE x.organization_id = $1 AND x.user_id = $2)
                OR EXISTS (SELECT 1 FROM user_keys x WHERE x.organization_id = $1 AND x.user_id = $2)) AND NOT ((SELECT e.user_hash FROM user_erasures e
     WHERE e.organization_id = $1
        AND e.user_hash = sha256(uuid_send($1) || uuid_send($2))) IS NOT NULL) AS is_user_known, (EXISTS (SELECT 1 FROM users x WHERE x.organization_id = $1 AND x.user_id = $3)
                OR EXISTS (SELECT 1 FROM lanes x WHERE x.organization_id = $1 AND x.user_id = $3)
                OR EXISTS (SELECT 1 FROM devices x WHERE x.organization_id = $1 AND x.user_id = $3)
                OR EXISTS (SELECT 1 FROM user_subjects x WHERE x.organization_id = $1 AND x.user_id = $3)
                OR EXISTS (SELECT 1 FROM user_keys x WHERE x.organization_id = $1 AND x.user_id = $3)) AND NOT ((SELECT e.user_hash FROM user_erasures e
     WHERE e.organization_id = $1
        AND e.user_hash = sha256(uuid_send($1) || uuid_send($3))) IS NOT NULL) AS is_target_known,
    (SELECT count(*) FROM (
        SELECT 1 FROM user_joins j WHERE j.organization_id = $1 LIMIT 10000) x) AS joins,
    EXISTS (
        SELECT 1 FROM gateways g
        WHERE coalesce(g.newest_migration, '') < $4
            AND g.seen_at > clock_timestamp() - $5::int8 * interval '1 second') AS has_old_gateway,
    coalesce((SELECT o.settings ->> 'provisioning' FROM organizations o WHERE o.id = $1), '') = 'explicit'
        AND (SELECT count(*) FROM users u WHERE u.organization_id = $1 AND u.user_id IN ($2, $3)) = 1 AS is_one_shut_out;

-- join_related
-- The joins that name either of the two users.
-- $1 organization, $2 users
SELECT j.user_id, j.into_id, j.started_at, j.closed_until, j.feed_end, j.finished_at FROM user_joins j WHERE j.organization_id = $1 AND j.user_id = ANY ($2::uuid[])
UNION ALL
SELECT j.user_id, j.into_id, j.started_at, j.closed_until, j.feed_end, j.finished_at FROM user_joins j
WHERE j.organization_id = $1 AND j.into_id = ANY ($2::uuid[]) AND j.user_id <> ALL ($2::uuid[]);

-- join_close
-- Begins or continues a join
-- $1 organization, $2 user, $3 into, $4 now, $5 closed_until
INSERT INTO user_joins AS j (organization_id, user_id, into_id, started_at, closed_until)
VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (organization_id, user_id) DO UPDATE
SET into_id = excluded.into_id, closed_until = excluded.closed_until,
    started_at = CASE
        WHEN j.closed_until > excluded.started_at AND j.into_id = excluded.into_id THEN j.started_at
        ELSE excluded.started_at END
WHERE j.closed_until IS NOT NULL
RETURNING j.user_id, j.into_id, j.started_at, j.closed_until, j.feed_end, j.finished_at;

-- join_open
-- Gives up a join whose rows have not moved.
-- $1 organization, $2 user, $3 into
DELETE FROM user_joins j
WHERE j.organization_id = $1 AND j.user_id = $2 AND j.into_id = $3 AND j.closed_until IS NOT NULL;

-- join_lock
-- $1 organization, $2 user, $3 into
SELECT j.user_id, j.into_id, j.started_at, j.closed_until, j.feed_end, j.finished_at FROM user_joins j
WHERE j.organization_id = $1 AND j.user_id = $2 AND j.into_id = $3 FOR UPDATE;

-- join_leave_lanes
-- Deletes the user's lane after all rows have moved to the target.
-- $1 organization, $2 user
DELETE FROM lanes WHERE organization_id = $1 AND user_id = $2;

-- join_followers
-- Changes the target of the users who were joined into the user.
-- $1 organization, $2 user, $3 into
UPDATE user_joins AS j SET into_id = $3
WHERE j.organization_id = $1 AND j.into_id = $2 AND j.closed_until IS NULL;

-- join_mark_moved
-- $1 organization, $2 user, $3 into
UPDATE user_joins AS j
SET closed_until = NULL,
    feed_end = coalesce((SELECT f.last_position FROM feeds f WHERE f.organization_id = $1), 0)
WHERE j.organization_id = $1 AND j.user_id = $2 AND j.into_id = $3
RETURNING j.user_id, j.into_id, j.started_at, j.closed_until, j.feed_end, j.finished_at;

-- join_finish
-- $1 organization, $2 user, $3 into, $4 now
UPDATE user_joins AS j SET finished_at = $4
WHERE j.organization_id = $1 AND j.user_id = $2 AND j.into_id = $3 AND j.finished_at IS NULL
RETURNING j.user_id, j.into_id, j.started_at, j.closed_until, j.feed_end, j.finished_at;

-- join_lock_entities
-- Locks entities in the given order, if the user is their owner or their last writer.
-- $1 organization, $2 user, $3 types, $4 ids
SELECT e.entity_type, e.id
FROM unnest($3::text[], $4::text[]) AS k (entity_type, id)
CROSS JOIN LATERAL (
    SELECT x.entity_type, x.id FROM entities x
    WHERE x.organization_id = $1 AND x.entity_type = k.entity_type AND x.id = k.id
        AND (x.owner_id = $2 OR x.updated_by = $2)
    FOR UPDATE
) e;

-- join_own_entities
-- Changes the owner and the last writer of locked entities
-- $1 organization, $2 user, $3 into, $4 types, $5 ids
UPDATE entities AS e
SET owner_id = CASE WHEN e.owner_id = $2 THEN $3 ELSE e.owner_id END,
    updated_by = CASE WHEN e.updated_by = $2 THEN $3 ELSE e.updated_by END
FROM unnest($4::text[], $5::text[]) AS k (entity_type, id)
WHERE e.organization_id = $1 AND e.entity_type = k.entity_type AND e.id = k.id;

-- join_lock_unseen
-- Locks the entities whose position in the feed has not changed since the join moved the rows.
-- $1 organization, $2 user, $3 types, $4 ids, $5 feed_end
SELECT e.entity_type, e.id
FROM unnest($3::text[], $4::text[]) AS k (entity_type, id)
CROSS JOIN LATERAL (
    SELECT x.entity_type, x.id FROM entities x
    WHERE x.organization_id = $1 AND x.entity_type = k.entity_type AND x.id = k.id
        AND x.owner_id = $2 AND NOT x.is_deleted AND x.feed_position <= $5
    FOR UPDATE
) e;

-- join_raise_feed
-- Locks and raises the feed's counter, which is always the last lock of a transaction.
-- $1 organization, $2 count
UPDATE feeds AS f SET last_position = f.last_position + $2 WHERE f.organization_id = $1
RETURNING f.last_position;

-- join_show
-- Moves locked entities to the feed's end, so that devices with a later cursor receive them.
-- $1 organization, $2 types, $3 ids, $4 feed_end
UPDATE entities AS e
SET feed_position = $4 - cardinality($2::text[]) + k.place
FROM unnest($2::text[], $3::text[]) WITH ORDINALITY AS k (entity_type, id, place)
WHERE e.organization_id = $1 AND e.entity_type = k.entity_type AND e.id = k.id;
