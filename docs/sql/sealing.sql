-- organization_keys_read
-- Reads the keys of organizations, oldest first.
-- $1 organizations
SELECT k.organization_id, k.number, k.master_key, k.wrapped_key
FROM unnest($1::uuid[]) AS o (organization_id)
CROSS JOIN LATERAL (SELECT * FROM organization_keys x WHERE x.organization_id = o.organization_id OFFSET 0) k
ORDER BY k.number;

-- organization_keys_make
-- Inserts a key with a new number of the organization.
-- $1 organization, $2 number, $3 master_key, $4 wrapped_key, $5 now
INSERT INTO organization_keys AS k (organization_id, number, master_key, wrapped_key, created_at)
SELECT o.id, $2, $3, $4, $5
FROM (SELECT x.id FROM organizations x WHERE x.id = $1 AND x.status <> 'purging' FOR SHARE) o
ON CONFLICT (organization_id, number) DO NOTHING;

-- organization_keys_fit
-- $1 master_keys
SELECT EXISTS (SELECT 1 FROM organization_keys k WHERE k.master_key = ANY ($1::text[]))
    OR NOT EXISTS (SELECT 1 FROM organization_keys) AS fit;

-- organization_keys_masters
WITH RECURSIVE m (master_key) AS (
    (SELECT k.master_key FROM user_keys k ORDER BY k.master_key LIMIT 1)
    UNION ALL
    SELECT (SELECT k.master_key FROM user_keys k WHERE k.master_key > m.master_key ORDER BY k.master_key LIMIT 1)
    FROM m WHERE m.master_key IS NOT NULL
)
SELECT x.master_key, sum(x.count)::int8 AS count
FROM (
    SELECT k.master_key, count(*) AS count FROM organization_keys k GROUP BY k.master_key
    UNION ALL
    SELECT m.master_key, (
        SELECT count(*) FROM (
            SELECT 1 FROM user_keys k WHERE k.master_key = m.master_key LIMIT 10000) y)
    FROM m WHERE m.master_key IS NOT NULL
) x
GROUP BY x.master_key ORDER BY x.master_key;

-- seal_next_lane
-- $1 organization, $2 first
SELECT user_id FROM lanes WHERE organization_id = $1 AND user_id >= $2 ORDER BY user_id LIMIT 1;

-- seal_clear_mappings
-- Deletes the errors of mappings.
-- $1 organization, $2 user, $3 limit
UPDATE id_mappings SET last_error = NULL
WHERE organization_id = $1 AND user_id = $2 AND last_error IS NOT NULL AND (client_id, entity_type) <= (
    SELECT k.client_id, k.entity_type FROM (
        SELECT i.client_id, i.entity_type FROM id_mappings i
        WHERE i.organization_id = $1 AND i.user_id = $2 AND i.last_error IS NOT NULL
        ORDER BY i.client_id, i.entity_type LIMIT $3
    ) k
    ORDER BY k.client_id DESC, k.entity_type DESC LIMIT 1);

-- seal_entities
-- $1 organization, $2 after_type, $3 after_id, $4 limit, $5 beginning, $6 types, $7 user_beginning
SELECT e.entity_type, e.id, coalesce(NOT starts_with(e.document::text, CASE WHEN e.entity_type = ANY ($6::text[]) AND e.owner_id IS NOT NULL
        THEN $7::text || e.owner_id::text || ':' ELSE $5::text END), false) AS is_due
FROM entities e
WHERE e.organization_id = $1 AND (e.entity_type, e.id) > ($2, $3)
ORDER BY e.entity_type, e.id
LIMIT $4;

-- seal_write_entity
-- $1 organization, $2 entity_type, $3 id, $4 document
UPDATE entities SET document = $4 WHERE organization_id = $1 AND entity_type = $2 AND id = $3;

-- seal_parked_events
-- $1 organization, $2 after_source, $3 after_event, $4 limit, $5 beginning, $6 types, $7 user_beginning
SELECT p.source, p.event_id, coalesce(NOT starts_with(p.document::text, CASE WHEN p.entity_type = ANY ($6::text[]) AND p.owner_id IS NOT NULL
        THEN $7::text || p.owner_id::text || ':' ELSE $5::text END), false) AS is_due
FROM parked_events p
WHERE p.organization_id = $1 AND (p.source, p.event_id) > ($2, $3)
ORDER BY p.source, p.event_id
LIMIT $4;

-- seal_lock_parked_events
-- $1 organizations, $2 sources, $3 event_ids
SELECT p.*
FROM unnest($1::uuid[], $2::text[], $3::text[]) AS k (organization_id, source, event_id)
CROSS JOIN LATERAL (
    SELECT x.source, x.event_id, x.document, x.entity_type, x.owner_id FROM parked_events x
    WHERE x.organization_id = k.organization_id AND x.source = k.source AND x.event_id = k.event_id
    FOR UPDATE
) p;

-- seal_look_at_parked_events
-- Reads parked events without waiting for row locks.
-- $1 organizations, $2 sources, $3 event_ids
SELECT p.*
FROM unnest($1::uuid[], $2::text[], $3::text[]) AS k (organization_id, source, event_id)
CROSS JOIN LATERAL (
    SELECT x.source, x.event_id, x.document, x.entity_type, x.owner_id FROM parked_events x
    WHERE x.organization_id = k.organization_id AND x.source = k.source AND x.event_id = k.event_id
    OFFSET 0
) p;

-- seal_write_parked_event
-- $1 organization, $2 source, $3 event_id, $4 document
UPDATE parked_events SET document = $4 WHERE organization_id = $1 AND source = $2 AND event_id = $3;

-- seal_mutations
-- $1 organization, $2 user, $3 first, $4 limit, $5 json_beginning, $6 text_beginning
SELECT r.id AS id, coalesce(NOT starts_with(r.payload::text, $5), false) OR coalesce(NOT starts_with(r.headers::text, $5), false) OR coalesce(NOT starts_with(r.sent_payload::text, $5), false) OR coalesce(NOT starts_with(r.response_body::text, $5), false) OR coalesce(NOT starts_with(r.error::text, $5), false) OR coalesce(NOT starts_with(r.last_error::text, $6), false) AS is_due
FROM mutations r
WHERE r.organization_id = $1 AND r.user_id = $2 AND r.id >= $3
ORDER BY r.id
LIMIT $4;

-- seal_read_mutations
-- $1 organization, $2 user, $3 ids
SELECT r.id AS id, r.payload, r.headers, r.sent_payload, r.response_body, r.error, r.last_error
FROM unnest($3::uuid[]) AS k (id)
CROSS JOIN LATERAL (
    SELECT * FROM mutations x
    WHERE x.organization_id = $1 AND x.user_id = $2 AND x.id = k.id
    OFFSET 0
) r;

-- seal_write_mutations
-- $1 organization, $2 user, $3 id, $4 payload, $5 headers, $6 sent_payload, $7 response_body, $8 error, $9 last_error
UPDATE mutations SET payload = $4, headers = $5, sent_payload = $6, response_body = $7, error = $8, last_error = $9
WHERE organization_id = $1 AND user_id = $2 AND id = $3;

-- seal_rejections
-- $1 organization, $2 user, $3 first, $4 limit, $5 json_beginning
SELECT r.idempotency_key AS id, coalesce(NOT starts_with(r.error::text, $5), false) AS is_due
FROM rejections r
WHERE r.organization_id = $1 AND r.user_id = $2 AND r.idempotency_key >= $3
ORDER BY r.idempotency_key
LIMIT $4;

-- seal_read_rejections
-- $1 organization, $2 user, $3 ids
SELECT r.idempotency_key AS id, r.error
FROM unnest($3::uuid[]) AS k (id)
CROSS JOIN LATERAL (
    SELECT * FROM rejections x
    WHERE x.organization_id = $1 AND x.user_id = $2 AND x.idempotency_key = k.id
    OFFSET 0
) r;

-- seal_write_rejections
-- $1 organization, $2 user, $3 id, $4 error
UPDATE rejections SET error = $4
WHERE organization_id = $1 AND user_id = $2 AND idempotency_key = $3;

-- seal_upstreams
-- $1 organization
SELECT credential, headers FROM upstreams
WHERE organization_id = $1 AND (credential IS NOT NULL OR headers IS NOT NULL)
;

-- seal_write_upstreams
-- $1 organization, $2 credential, $3 headers
UPDATE upstreams SET credential = $2, headers = $3 WHERE organization_id = $1;

-- seal_webhook_endpoints
-- $1 organization
SELECT id::text AS row_key, id, secret, id, previous_secret FROM webhook_endpoints
WHERE organization_id = $1 AND (secret IS NOT NULL OR previous_secret IS NOT NULL)
ORDER BY id;

-- seal_write_webhook_endpoints
-- $1 organization, $2 row_key, $3 secret, $4 previous_secret
UPDATE webhook_endpoints SET secret = $3, previous_secret = $4 WHERE organization_id = $1 AND id::text = $2;

-- seal_sources
-- $1 organization
SELECT name::text AS row_key, name, secret, name, previous_secret FROM sources
WHERE organization_id = $1 AND (secret IS NOT NULL OR previous_secret IS NOT NULL)
ORDER BY name;

-- seal_write_sources
-- $1 organization, $2 row_key, $3 secret, $4 previous_secret
UPDATE sources SET secret = $3, previous_secret = $4 WHERE organization_id = $1 AND name::text = $2;
