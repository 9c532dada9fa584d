-- ingest_hold
-- Locks the organizations that accept events.
-- $1 organizations
SELECT o.id
FROM unnest($1::uuid[]) AS k (organization_id)
CROSS JOIN LATERAL (
    SELECT x.id FROM organizations x WHERE x.id = k.organization_id AND x.status = 'active' FOR SHARE
) o;

-- ingest_seen
-- $1 organization_id, $2 source, $3 event_id
SELECT e.*
FROM unnest($1::uuid[], $2::text[], $3::text[]) AS k (organization_id, source, event_id)
CROSS JOIN LATERAL (
    SELECT x.organization_id, x.source, x.event_id, x.result, x.received_at FROM ingested_events x
    WHERE x.organization_id = k.organization_id AND x.source = k.source AND x.event_id = k.event_id
    OFFSET 0
) e;

-- ingest_erased
-- Finds users whose data were erased, or are being erased.
-- $1 organization_id, $2 user_id
SELECT k.organization_id, k.user_id
FROM unnest($1::uuid[], $2::uuid[]) AS k (organization_id, user_id)
WHERE (SELECT e.user_hash FROM user_erasures e
     WHERE e.organization_id = k.organization_id
        AND e.user_hash = sha256(uuid_send(k.organization_id) || uuid_send(k.user_id))) IS NOT NULL;

-- ingest_parked
-- Locks the first parked events about entities, and reads them.
-- $1 organization_id, $2 entity_type, $3 id, $4 limit, $5 bytes
WITH found AS MATERIALIZED (
    SELECT l.*, row_number() OVER (
            ORDER BY l.organization_id, l.entity_type, l.id, l.place, l.received_at, l.source, l.event_id
        ) AS number
    FROM unnest($1::uuid[], $2::text[], $3::text[]) AS k (organization_id, entity_type, id)
    CROSS JOIN LATERAL (
        SELECT x.organization_id, x.source, x.event_id, x.entity_type, x.id, x.id_is_integer, x.version, x.occurred_at, x.occurred_at_fraction, x.operation, x.document, x.owner_id, x.causing_key, x.received_at, x.place, x.look_at FROM parked_events x
        WHERE x.organization_id = k.organization_id AND x.entity_type = k.entity_type AND x.id = k.id
        ORDER BY x.place, x.received_at, x.source, x.event_id
        LIMIT $4
        FOR UPDATE SKIP LOCKED
    ) l
)
SELECT p.organization_id, p.source, p.event_id, p.entity_type, p.id, p.id_is_integer, p.version, p.occurred_at, p.occurred_at_fraction, p.operation, CASE WHEN p.bytes_before < $5 THEN p.document END AS document, p.owner_id, p.causing_key, p.received_at, p.place, p.look_at, p.bytes_before >= $5 AS is_left_out
FROM (
    SELECT s.*, coalesce(
        sum(s.bytes) OVER (ORDER BY s.number ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0
    )::bigint AS bytes_before
    FROM (
        SELECT r.*, (CASE WHEN (pg_column_compression(r.document) IS NOT NULL AND pg_column_size(r.document) > 2048)
    AND ((r.number) > (
        SELECT s.number
        FROM (
            SELECT t.number, sum(coalesce(CASE WHEN pg_column_compression(t.document) IS NULL THEN pg_column_size(t.document) ELSE octet_length(t.document::text) END, 0)) OVER (
                ORDER BY t.number ROWS UNBOUNDED PRECEDING) AS bytes_to
            FROM found t
        ) s
        WHERE s.bytes_to >= $5
        ORDER BY s.number
        LIMIT 1
    ))
THEN coalesce(pg_column_size(r.document), 0) ELSE coalesce(CASE WHEN pg_column_compression(r.document) IS NULL THEN pg_column_size(r.document) ELSE octet_length(r.document::text) END, 0) END)::bigint AS bytes
        FROM found r
        OFFSET 0
    ) s
) p
ORDER BY p.number;

-- ingest_first_parked
-- Reads the first parked event about each entity, whether the event is locked or not.
-- $1 organization_id, $2 entity_type, $3 id
SELECT p.*
FROM unnest($1::uuid[], $2::text[], $3::text[]) AS k (organization_id, entity_type, id)
CROSS JOIN LATERAL (
    SELECT x.organization_id, x.source, x.event_id FROM parked_events x
    WHERE x.organization_id = k.organization_id AND x.entity_type = k.entity_type AND x.id = k.id
    ORDER BY x.place, x.received_at, x.source, x.event_id
    LIMIT 1
) p;

-- ingest_last_places
-- Reads the place of the last parked event about each entity.
-- $1 organization_id, $2 entity_type, $3 id
SELECT p.*
FROM unnest($1::uuid[], $2::text[], $3::text[]) AS k (organization_id, entity_type, id)
CROSS JOIN LATERAL (
    SELECT x.organization_id, x.entity_type, x.id, x.place FROM parked_events x
    WHERE x.organization_id = k.organization_id AND x.entity_type = k.entity_type AND x.id = k.id
    ORDER BY x.place DESC
    LIMIT 1
) p;

-- ingest_lock_entities
-- Locks and reads entities.
-- $1 organization_id, $2 entity_type, $3 id, $4 place, $5 bytes, $6 measured_bytes
WITH found AS MATERIALIZED (
    SELECT e.*, k.place
    FROM unnest($1::uuid[], $2::text[], $3::text[], $4::int8[]) AS k (organization_id, entity_type, id, place)
    CROSS JOIN LATERAL (
        SELECT x.organization_id, x.entity_type, x.id, x.id_is_integer, x.version, x.is_deleted, x.document, x.owner_id, x.client_id, x.updated_by, x.updated_on, x.run_base, x.etag, x.channels, x.feed_position, x.source_version, x.source_at, x.source_at_fraction
        FROM entities x
        WHERE x.organization_id = k.organization_id AND x.entity_type = k.entity_type AND x.id = k.id
        FOR UPDATE
    ) e
)
SELECT e.organization_id, e.entity_type, e.id, e.id_is_integer, e.version, e.is_deleted, CASE WHEN e.bytes_before < $5 THEN e.document END AS document, e.owner_id, e.client_id, e.updated_by, e.updated_on, e.run_base, e.etag, e.channels, e.feed_position, e.source_version, e.source_at, e.source_at_fraction, e.bytes,
    e.bytes_before >= $5 AS is_left_out
FROM (
    SELECT s.*, coalesce(
        sum(s.bytes) OVER (ORDER BY s.place ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0
    )::bigint AS bytes_before
    FROM (
        SELECT r.*, (CASE WHEN (pg_column_compression(r.document) IS NOT NULL AND pg_column_size(r.document) > 2048)
    AND ((r.place) > (
        SELECT s.place
        FROM (
            SELECT t.place, sum(coalesce(CASE WHEN pg_column_compression(t.document) IS NULL THEN pg_column_size(t.document) ELSE octet_length(t.document::text) END, 0)) OVER (
                ORDER BY t.place ROWS UNBOUNDED PRECEDING) AS bytes_to
            FROM found t
        ) s
        WHERE s.bytes_to >= $6
        ORDER BY s.place
        LIMIT 1
    ))
THEN coalesce(pg_column_size(r.document), 0) ELSE coalesce(CASE WHEN pg_column_compression(r.document) IS NULL THEN pg_column_size(r.document) ELSE octet_length(r.document::text) END, 0) END)::bigint AS bytes
        FROM found r
        OFFSET 0
    ) s
) e;

-- ingest_living
-- Finds those of the given entities that exist and are not deleted.
-- $1 organization_id, $2 entity_type, $3 id
SELECT e.*
FROM unnest($1::uuid[], $2::text[], $3::text[]) AS k (organization_id, entity_type, id)
CROSS JOIN LATERAL (
    SELECT x.entity_type, x.id
    FROM entities x
    WHERE x.organization_id = k.organization_id AND x.entity_type = k.entity_type AND x.id = k.id
        AND NOT x.is_deleted
    OFFSET 0
) e;

-- ingest_requests
-- Reads the latest requests that the gateway sent about each entity.
-- $1 organization_id, $2 entity_type, $3 id
SELECT s.*
FROM unnest($1::uuid[], $2::text[], $3::text[]) AS k (organization_id, entity_type, id)
CROSS JOIN LATERAL (
    SELECT x.organization_id, x.idempotency_key, x.entity_type, x.server_id, x.sent_at, x.answered_at, x.content, x.version,
        x.is_used
    FROM sent_requests x
    WHERE x.organization_id = k.organization_id AND x.entity_type = k.entity_type AND x.server_id = k.id
    ORDER BY x.sent_at DESC
    LIMIT 64
) s;

-- ingest_causes
-- $1 organization_id, $2 idempotency_key
SELECT s.*
FROM unnest($1::uuid[], $2::uuid[]) AS k (organization_id, idempotency_key)
CROSS JOIN LATERAL (
    SELECT x.organization_id, x.idempotency_key, x.entity_type, x.server_id, x.sent_at, x.answered_at, x.content, x.version,
        x.is_used
    FROM sent_requests x
    WHERE x.organization_id = k.organization_id AND x.idempotency_key = k.idempotency_key
    OFFSET 0
) s;

-- ingest_parked_causes
-- Reads the requests that the first parked events name as their causes.
-- $1 organization_id, $2 entity_type, $3 id, $4 limit
SELECT s.*
FROM unnest($1::uuid[], $2::text[], $3::text[]) AS k (organization_id, entity_type, id)
CROSS JOIN LATERAL (
    SELECT x.organization_id, x.causing_key FROM parked_events x
    WHERE x.organization_id = k.organization_id AND x.entity_type = k.entity_type AND x.id = k.id
    ORDER BY x.place, x.received_at, x.source, x.event_id
    LIMIT $4
) p
CROSS JOIN LATERAL (
    SELECT x.organization_id, x.idempotency_key, x.entity_type, x.server_id, x.sent_at, x.answered_at, x.content, x.version,
        x.is_used
    FROM sent_requests x
    WHERE x.organization_id = p.organization_id AND x.idempotency_key = p.causing_key
    OFFSET 0
) s;

-- ingest_creates
-- Reads the first create in flight of each type.
-- $1 organization_id, $2 entity_type, $3 earliest
SELECT k.organization_id, k.entity_type, s.sent_at
FROM unnest($1::uuid[], $2::text[]) AS k (organization_id, entity_type)
CROSS JOIN LATERAL (
    SELECT x.sent_at
    FROM sent_requests x
    WHERE x.organization_id = k.organization_id AND x.entity_type = k.entity_type AND x.server_id IS NULL
        AND x.answered_at IS NULL AND x.sent_at > $3
    ORDER BY x.sent_at
    LIMIT 1
) s;

-- ingest_parked_counts
-- $1 organizations
SELECT k.organization_id, c.count
FROM unnest($1::uuid[]) AS k (organization_id)
CROSS JOIN LATERAL (
    SELECT count(*) AS count
    FROM (
        SELECT FROM parked_events x WHERE x.organization_id = k.organization_id LIMIT 5000
    ) y
) c;

-- ingest_remember
-- Records the ids and outcomes of events.
-- $1 organization_id, $2 source, $3 event_id, $4 result, $5 received_at
INSERT INTO ingested_events AS e (organization_id, source, event_id, result, received_at)
SELECT k.* FROM unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::timestamptz[]) AS k (organization_id, source, event_id, result, received_at);

-- ingest_refresh
-- Keeps the records of events that are received repeatedly.
-- $1 organization_id, $2 source, $3 event_id, $4 result, $5 received_at
UPDATE ingested_events AS e SET received_at = k.received_at
FROM unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::timestamptz[]) AS k (organization_id, source, event_id, result, received_at)
WHERE e.organization_id = k.organization_id AND e.source = k.source AND e.event_id = k.event_id
    AND e.received_at < k.received_at;

-- ingest_settle
-- Records the outcomes of events that had been parked.
-- $1 organization_id, $2 source, $3 event_id, $4 result, $5 received_at
INSERT INTO ingested_events AS e (organization_id, source, event_id, result, received_at)
SELECT k.* FROM unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::timestamptz[]) AS k (organization_id, source, event_id, result, received_at)
ON CONFLICT (organization_id, source, event_id) DO UPDATE SET result = excluded.result;

-- ingest_forget
-- Deletes the records of events that were refused after they had been parked, so that they can be sent again.
-- $1 organization_id, $2 source, $3 event_id
DELETE FROM ingested_events AS e
USING unnest($1::uuid[], $2::text[], $3::text[]) AS k (organization_id, source, event_id)
WHERE e.organization_id = k.organization_id AND e.source = k.source AND e.event_id = k.event_id;

-- ingest_park
-- $1 organization_id, $2 source, $3 event_id, $4 entity_type, $5 id, $6 id_is_integer, $7 version, $8 occurred_at, $9 occurred_at_fraction, $10 operation, $11 document, $12 owner_id, $13 causing_key, $14 received_at, $15 place, $16 look_at
INSERT INTO parked_events AS p (organization_id, source, event_id, entity_type, id, id_is_integer, version, occurred_at, occurred_at_fraction, operation, document, owner_id, causing_key, received_at, place, look_at)
SELECT k.* FROM unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::text[], $6::bool[], $7::int8[], $8::timestamptz[], $9::int8[], $10::text[], $11::json[], $12::uuid[], $13::uuid[], $14::timestamptz[], $15::int8[], $16::timestamptz[]) AS k (organization_id, source, event_id, entity_type, id, id_is_integer, version, occurred_at, occurred_at_fraction, operation, document, owner_id, causing_key, received_at, place, look_at);

-- ingest_unpark
-- $1 organization_id, $2 source, $3 event_id
DELETE FROM parked_events AS p
USING unnest($1::uuid[], $2::text[], $3::text[]) AS k (organization_id, source, event_id)
WHERE p.organization_id = k.organization_id AND p.source = k.source AND p.event_id = k.event_id;

-- ingest_postpone
-- Postpones parked events.
-- $1 organization_id, $2 source, $3 event_id, $4 until
UPDATE parked_events AS p
SET look_at = $4
FROM unnest($1::uuid[], $2::text[], $3::text[]) AS k (organization_id, source, event_id)
WHERE p.organization_id = k.organization_id AND p.source = k.source AND p.event_id = k.event_id;

-- ingest_postpone_entities
-- Postpones all parked events about entities.
-- $1 organization_id, $2 entity_type, $3 id, $4 until
UPDATE parked_events AS p
SET look_at = $4
FROM unnest($1::uuid[], $2::text[], $3::text[]) AS k (organization_id, entity_type, id)
WHERE p.organization_id = k.organization_id AND p.entity_type = k.entity_type AND p.id = k.id;

-- ingest_defer_followers
-- Postpones the later events about the entity of an event that remains parked.
-- $1 organization_id, $2 entity_type, $3 id, $4 place
UPDATE parked_events AS p
SET look_at = p.received_at + make_interval(secs => 120.0)
FROM unnest($1::uuid[], $2::text[], $3::text[], $4::int8[]) AS k (organization_id, entity_type, id, place)
WHERE p.organization_id = k.organization_id AND p.entity_type = k.entity_type AND p.id = k.id
    AND p.place >= k.place AND p.look_at < p.received_at + make_interval(secs => 120.0);

-- ingest_wake_next
-- Makes the first remaining parked event about each entity due.
-- $1 organization_id, $2 entity_type, $3 id, $4 now
UPDATE parked_events AS p
SET look_at = $4
FROM unnest($1::uuid[], $2::text[], $3::text[]) AS k (organization_id, entity_type, id)
CROSS JOIN LATERAL (
    SELECT x.source, x.event_id FROM parked_events x
    WHERE x.organization_id = k.organization_id AND x.entity_type = k.entity_type AND x.id = k.id
    ORDER BY x.place, x.received_at, x.source, x.event_id
    LIMIT 1
) n
WHERE p.organization_id = k.organization_id AND p.source = n.source AND p.event_id = n.event_id
    AND p.look_at > $4;

-- ingest_use_requests
-- $1 organization_id, $2 idempotency_key
UPDATE sent_requests AS s
SET is_used = true
FROM unnest($1::uuid[], $2::uuid[]) AS k (organization_id, idempotency_key)
WHERE s.organization_id = k.organization_id AND s.idempotency_key = k.idempotency_key;

-- ingest_mark_entities
-- $1 organization_id, $2 entity_type, $3 id, $4 source_version, $5 source_at, $6 source_at_fraction
UPDATE entities AS e
SET source_version = k.source_version, source_at = k.source_at, source_at_fraction = k.source_at_fraction
FROM unnest($1::uuid[], $2::text[], $3::text[], $4::int8[], $5::timestamptz[], $6::int8[]) AS k (organization_id, entity_type, id, source_version, source_at, source_at_fraction)
WHERE e.organization_id = k.organization_id AND e.entity_type = k.entity_type AND e.id = k.id;

-- ingest_touch_tokens
-- $1 organizations, $2 ids, $3 now
UPDATE service_tokens AS t
SET last_used_at = $3
FROM unnest($1::uuid[], $2::uuid[]) AS k (organization_id, id)
WHERE t.organization_id = k.organization_id AND t.id = k.id
    AND (t.last_used_at IS NULL OR t.last_used_at < $3);

-- ingest_due
-- $1 now, $2 limit
SELECT p.organization_id, p.entity_type, p.id
FROM parked_events p
WHERE p.look_at <= $1
ORDER BY p.look_at
LIMIT $2;

-- ingest_waiting
-- Finds which entities of some organizations have parked events.
-- $1 organizations
SELECT DISTINCT p.organization_id, p.entity_type, p.id
FROM unnest($1::uuid[]) AS k (organization_id)
CROSS JOIN LATERAL (
    SELECT x.organization_id, x.entity_type, x.id FROM parked_events x
    WHERE x.organization_id = k.organization_id
    LIMIT 10000
) p;

-- ingest_organizations
-- Finds organizations with records of events or requests, including those without tokens or sources.
-- $1 after, $2 limit
SELECT o.id AS organization_id,
    coalesce(
        (SELECT true FROM ingested_events e WHERE e.organization_id = o.id LIMIT 1),
        (SELECT true FROM sent_requests s WHERE s.organization_id = o.id LIMIT 1), false) AS has_any
FROM (SELECT x.id FROM organizations x WHERE x.id > $1 ORDER BY x.id LIMIT $2) o
ORDER BY o.id;

-- ingest_prune_events
-- $1 organization, $2 before, $3 limit
DELETE FROM ingested_events WHERE organization_id = $1 AND result <> 'parked' AND received_at <= (
    SELECT max(k.received_at) FROM (
        SELECT x.received_at FROM ingested_events x
        WHERE x.organization_id = $1 AND x.received_at < $2 AND x.result <> 'parked'
        ORDER BY x.received_at
        LIMIT $3
    ) k);

-- ingest_prune_requests
-- $1 organization, $2 before, $3 limit
DELETE FROM sent_requests WHERE organization_id = $1 AND sent_at <= (
    SELECT max(k.sent_at) FROM (
        SELECT x.sent_at FROM sent_requests x
        WHERE x.organization_id = $1 AND x.sent_at < $2
        ORDER BY x.sent_at
        LIMIT $3
    ) k);
