-- webhooks_record
-- $1 organization_id, $2 id, $3 event, $4 data, $5 now
INSERT INTO webhook_deliveries AS d (organization_id, endpoint_id, id, event, data, occurred_at, status, tried_since, next_attempt_at)
SELECT k.organization_id, e.id, k.id, k.event, k.data, $5, 'waiting', $5, $5
FROM unnest($1::uuid[], $2::uuid[], $3::text[], $4::json[]) AS k (organization_id, id, event, data)
CROSS JOIN LATERAL (
    SELECT x.id FROM webhook_endpoints x
    WHERE x.organization_id = k.organization_id AND x.status = 'enabled' AND k.event = ANY (x.events)
    OFFSET 0
) e;

-- webhooks_upstream_down
-- $1 organization_id, $2 id, $3 event, $4 data, $5 now
WITH changed AS (
    UPDATE upstreams AS u SET down_since = $5
    FROM unnest($1::uuid[], $2::uuid[], $3::text[], $4::json[]) AS n (organization_id, id, event, data)
    WHERE u.organization_id = n.organization_id AND u.down_since IS NULL
    RETURNING u.organization_id
)
INSERT INTO webhook_deliveries AS d (organization_id, endpoint_id, id, event, data, occurred_at, status, tried_since, next_attempt_at)
SELECT k.organization_id, e.id, k.id, k.event, k.data, $5, 'waiting', $5, $5
FROM changed c
CROSS JOIN unnest($1::uuid[], $2::uuid[], $3::text[], $4::json[]) AS k (organization_id, id, event, data)
CROSS JOIN LATERAL (
    SELECT x.id FROM webhook_endpoints x
    WHERE x.organization_id = c.organization_id AND x.status = 'enabled' AND k.event = ANY (x.events)
    OFFSET 0
) e;

-- webhooks_upstream_up
-- $1 organization_id, $2 id, $3 event, $4 data, $5 now
WITH changed AS (
    UPDATE upstreams AS u SET down_since = NULL
    FROM unnest($1::uuid[], $2::uuid[], $3::text[], $4::json[]) AS n (organization_id, id, event, data)
    WHERE u.organization_id = n.organization_id AND u.down_since IS NOT NULL
    RETURNING u.organization_id
)
INSERT INTO webhook_deliveries AS d (organization_id, endpoint_id, id, event, data, occurred_at, status, tried_since, next_attempt_at)
SELECT k.organization_id, e.id, k.id, k.event, k.data, $5, 'waiting', $5, $5
FROM changed c
CROSS JOIN unnest($1::uuid[], $2::uuid[], $3::text[], $4::json[]) AS k (organization_id, id, event, data)
CROSS JOIN LATERAL (
    SELECT x.id FROM webhook_endpoints x
    WHERE x.organization_id = c.organization_id AND x.status = 'enabled' AND k.event = ANY (x.events)
    OFFSET 0
) e;

-- webhooks_mark_down
-- Marks the upstream in a separate query after the deliveries, because on a Citus cluster a statement cannot insert rows that depend on its own changes.
-- $1 organization_id, $2 id, $3 event, $4 data, $5 now
UPDATE upstreams AS u SET down_since = $5
    FROM unnest($1::uuid[], $2::uuid[], $3::text[], $4::json[]) AS n (organization_id, id, event, data)
    WHERE u.organization_id = n.organization_id AND u.down_since IS NULL
    RETURNING u.organization_id;

-- webhooks_mark_up
-- $1 organization_id, $2 id, $3 event, $4 data
UPDATE upstreams AS u SET down_since = NULL
    FROM unnest($1::uuid[], $2::uuid[], $3::text[], $4::json[]) AS n (organization_id, id, event, data)
    WHERE u.organization_id = n.organization_id AND u.down_since IS NOT NULL
    RETURNING u.organization_id;

-- webhooks_due
-- Selects endpoints with waiting deliveries, in the order of their keys
-- $1 after_organization, $2 after_endpoint, $3 now, $4 limit
WITH RECURSIVE found AS (
    (
        SELECT d.organization_id, d.endpoint_id, d.next_attempt_at
        FROM webhook_deliveries d
        WHERE d.status = 'waiting' AND (d.organization_id, d.endpoint_id) > ($1, $2)
        ORDER BY d.organization_id, d.endpoint_id, d.next_attempt_at
        LIMIT 1
    )
    UNION ALL
    SELECT n.organization_id, n.endpoint_id, n.next_attempt_at
    FROM found f
    CROSS JOIN LATERAL (
        SELECT d.organization_id, d.endpoint_id, d.next_attempt_at
        FROM webhook_deliveries d
        WHERE d.status = 'waiting' AND (d.organization_id, d.endpoint_id) > (f.organization_id, f.endpoint_id)
        ORDER BY d.organization_id, d.endpoint_id, d.next_attempt_at
        LIMIT 1
    ) n
)
SELECT f.organization_id, f.endpoint_id, f.next_attempt_at <= $3 AND coalesce(e.may_run, false) AS is_due
FROM (SELECT * FROM found LIMIT $4) f
LEFT JOIN LATERAL (
    SELECT x.status = 'enabled' AND coalesce(x.leased_until <= $3, true)
        AND coalesce(x.paused_until <= $3, true) AS may_run
    FROM webhook_endpoints x
    WHERE x.organization_id = f.organization_id AND x.id = f.endpoint_id
    OFFSET 0
) e ON true;

-- webhooks_behind
-- Selects endpoints that subscribe to entities and have not received all changes
-- $1 after_organization, $2 after_endpoint, $3 now, $4 limit
SELECT e.organization_id, e.id AS endpoint_id
FROM webhook_endpoints e
CROSS JOIN LATERAL (
    SELECT x.last_position, x.epoch FROM feeds x WHERE x.organization_id = e.organization_id OFFSET 0
) f
WHERE (e.organization_id, e.id) > ($1, $2) AND e.status = 'enabled' AND e.feed_position IS NOT NULL
    AND (f.last_position > e.feed_position OR f.epoch <> e.feed_epoch)
    AND coalesce(e.leased_until <= $3, true) AND coalesce(e.paused_until <= $3, true)
ORDER BY e.organization_id, e.id
LIMIT $4;

-- webhooks_claim
-- $1 organization, $2 endpoint, $3 now, $4 until
UPDATE webhook_endpoints AS e
SET lease_token = e.lease_token + 1, leased_until = $4
WHERE e.organization_id = $1 AND e.id = $2 AND e.status = 'enabled' AND coalesce(e.leased_until <= $3, true)
    AND coalesce(e.paused_until <= $3, true)
RETURNING e.lease_token, e.updated_at, e.url, e.secret,
    CASE WHEN e.previous_until > $3 THEN e.previous_secret END AS previous_secret;

-- webhooks_look
-- Selects the deliveries of a worker (`ids`) that must still be sent.
-- $1 organization, $2 endpoint, $3 token, $4 updated_at, $5 ids
SELECT d.id
FROM webhook_endpoints e
CROSS JOIN LATERAL (
    SELECT 1 FROM organizations o WHERE o.id = e.organization_id AND o.status = 'active' OFFSET 0
) o
CROSS JOIN unnest($5::uuid[]) AS k (id)
CROSS JOIN LATERAL (
    SELECT x.id FROM webhook_deliveries x
    WHERE x.organization_id = $1 AND x.endpoint_id = $2 AND x.id = k.id AND x.status = 'waiting'
    OFFSET 0
) d
WHERE e.organization_id = $1 AND e.id = $2 AND e.lease_token = $3 AND e.updated_at = $4 AND e.status = 'enabled';

-- webhooks_lock
-- Locks the endpoint for a step; returns no row if another worker has the endpoint.
-- $1 organization, $2 endpoint, $3 token, $4 updated_at
SELECT e.next_sequence, e.feed_epoch, e.feed_position, e.failure_count, e.failing_since,
    e.paused_until, e.last_error,
    e.status = 'enabled' AND e.updated_at = $4 AND EXISTS (
        SELECT 1 FROM organizations o WHERE o.id = e.organization_id AND o.status = 'active') AS is_served
FROM webhook_endpoints e
WHERE e.organization_id = $1 AND e.id = $2 AND e.lease_token = $3 AND e.leased_until IS NOT NULL
FOR NO KEY UPDATE;

-- webhooks_settle
-- Writes outcomes
-- $1 organization_id, $2 endpoint_id, $3 id, $4 status, $5 attempt_count, $6 next_attempt_at, $7 last_status, $8 last_error, $9 now
UPDATE webhook_deliveries AS d
SET status = k.status, attempt_count = k.attempt_count, next_attempt_at = k.next_attempt_at,
    settled_at = CASE WHEN k.status <> 'waiting' THEN $9::timestamptz END,
    last_status = k.last_status, last_error = k.last_error
FROM unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::text[], $5::int2[], $6::timestamptz[], $7::int2[], $8::text[]) AS k (organization_id, endpoint_id, id, status, attempt_count, next_attempt_at, last_status, last_error)
WHERE d.organization_id = k.organization_id AND d.endpoint_id = k.endpoint_id AND d.id = k.id;

-- webhooks_take
-- $1 organization, $2 endpoint, $3 now, $4 limit
SELECT d.id, d.sequence, d.event, d.data, d.occurred_at, d.attempt_count, d.tried_since
FROM webhook_deliveries d
WHERE d.organization_id = $1 AND d.endpoint_id = $2 AND d.status = 'waiting' AND d.next_attempt_at <= $3
ORDER BY d.next_attempt_at, d.id
LIMIT $4;

-- webhooks_number
-- $1 organization_id, $2 endpoint_id, $3 id, $4 sequence
UPDATE webhook_deliveries AS d SET sequence = k.sequence
FROM unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::int8[]) AS k (organization_id, endpoint_id, id, sequence)
WHERE d.organization_id = k.organization_id AND d.endpoint_id = k.endpoint_id AND d.id = k.id;

-- webhooks_entities
-- Selects the feed's last position, and the entities after a position of the given epoch.
-- $1 organization, $2 after, $3 epoch, $4 limit
SELECT f.epoch, f.last_position, n.feed_position, n.entity_type, n.id AS server_id,
    n.id_is_integer AS server_id_is_integer, n.client_id, n.version, n.is_deleted, n.updated_by, n.updated_at
FROM feeds f
LEFT JOIN LATERAL (SELECT * FROM (
    (SELECT e.* FROM entities e
 WHERE e.channels IS NULL AND e.organization_id = $1 AND e.feed_position > $2 AND f.epoch = $3
 ORDER BY e.feed_position LIMIT $4)
    UNION ALL
    (SELECT e.* FROM entities e
 WHERE e.channels IS NOT NULL AND e.organization_id = $1 AND e.feed_position > $2 AND f.epoch = $3
 ORDER BY e.feed_position LIMIT $4)
) e
ORDER BY e.feed_position LIMIT $4) n ON true
WHERE f.organization_id = $1
ORDER BY n.feed_position;

-- webhooks_add
-- Adds deliveries of `entity.changed` with consecutive numbers.
-- $1 organization_id, $2 endpoint_id, $3 id, $4 sequence, $5 data, $6 occurred_at, $7 now
INSERT INTO webhook_deliveries AS d (
    organization_id, endpoint_id, id, sequence, data, occurred_at, event, status, tried_since, next_attempt_at)
SELECT k.organization_id, k.endpoint_id, k.id, k.sequence, k.data, k.occurred_at, 'entity.changed', 'waiting', $7,
    $7
FROM unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::int8[], $5::json[], $6::timestamptz[]) AS k (organization_id, endpoint_id, id, sequence, data, occurred_at);

-- webhooks_write
-- Writes the endpoint's state at the end of a step
-- $1 organization, $2 endpoint, $3 next_sequence, $4 feed_epoch, $5 feed_position, $6 failure_count, $7 failing_since, $8 paused_until, $9 last_error, $10 is_gone, $11 leased_until
UPDATE webhook_endpoints AS e
SET next_sequence = $3, feed_epoch = $4, feed_position = $5, failure_count = $6, failing_since = $7,
    paused_until = $8, last_error = $9, status = CASE WHEN $10 THEN 'gone' ELSE e.status END,
    leased_until = $11
WHERE e.organization_id = $1 AND e.id = $2;

-- webhooks_dispose
-- Deletes the deliveries of a deleted endpoint
-- $1 organization, $2 endpoint, $3 limit
DELETE FROM webhook_deliveries AS d
USING (
    SELECT x.organization_id, x.endpoint_id, x.id FROM webhook_deliveries x
    WHERE x.organization_id = $1 AND x.endpoint_id = $2
        AND NOT EXISTS (SELECT FROM webhook_endpoints e WHERE e.organization_id = $1 AND e.id = $2)
    ORDER BY x.id
    LIMIT $3
) k
WHERE d.organization_id = k.organization_id AND d.endpoint_id = k.endpoint_id AND d.id = k.id;

-- webhooks_census
-- Counts endpoints, over all organizations, for metrics.
-- $1 failures
SELECT count(*) FILTER (WHERE e.status = 'enabled') AS enabled,
    count(*) FILTER (WHERE e.status = 'enabled' AND e.failure_count >= $1) AS failing,
    count(*) FILTER (WHERE e.status = 'gone') AS gone,
    min(e.failing_since) FILTER (WHERE e.status = 'enabled' AND e.failure_count >= $1) AS failing_since
FROM webhook_endpoints e;

-- webhooks_list
-- $1 organization
SELECT e.id, e.url, e.description, e.events, e.status, e.previous_until, e.failure_count, e.failing_since,
    e.paused_until, e.last_error, e.next_sequence - 1 AS last_sequence, e.created_at, e.updated_at FROM webhook_endpoints e
WHERE e.organization_id = $1
ORDER BY e.id;

-- webhooks_get
-- $1 organization, $2 endpoint
SELECT e.id, e.url, e.description, e.events, e.status, e.previous_until, e.failure_count, e.failing_since,
    e.paused_until, e.last_error, e.next_sequence - 1 AS last_sequence, e.created_at, e.updated_at FROM webhook_endpoints e WHERE e.organization_id = $1 AND e.id = $2;

-- webhooks_add_endpoint
-- Adds an endpoint
-- $1 organization, $2 endpoint, $3 url, $4 description, $5 events, $6 status, $7 secret, $8 now, $9 takes_feed
INSERT INTO webhook_endpoints AS e (
    organization_id, id, url, description, events, status, secret, feed_epoch, feed_position, created_at,
    updated_at)
SELECT f.organization_id, $2::uuid, $3::text, $4::text, $5::text[], $6::text, $7::text,
    CASE WHEN $9 THEN f.epoch END, CASE WHEN $9 THEN f.last_position END, $8::timestamptz, $8::timestamptz
FROM feeds f WHERE f.organization_id = $1
RETURNING e.id, e.url, e.description, e.events, e.status, e.previous_until, e.failure_count, e.failing_since,
    e.paused_until, e.last_error, e.next_sequence - 1 AS last_sequence, e.created_at, e.updated_at;

-- webhooks_change
-- $1 organization, $2 endpoint, $3 url, $4 description, $5 events, $6 changes_events, $7 status, $8 now
UPDATE webhook_endpoints AS e
SET url = coalesce($3, e.url), description = coalesce($4, e.description),
    events = CASE WHEN $6 THEN $5 ELSE e.events END, status = coalesce($7, e.status),
    failure_count = CASE WHEN $7 = 'enabled' OR $3 <> e.url THEN 0 ELSE e.failure_count END,
    failing_since = CASE WHEN $7 = 'enabled' OR $3 <> e.url THEN NULL ELSE e.failing_since END,
    paused_until = CASE WHEN $7 = 'enabled' OR $3 <> e.url THEN NULL ELSE e.paused_until END,
    last_error = CASE WHEN $7 = 'enabled' OR $3 <> e.url THEN NULL ELSE e.last_error END,
    feed_epoch = CASE
        WHEN NOT $6 OR 'entity.changed' = ANY ($5) AND e.feed_epoch IS NOT NULL THEN e.feed_epoch
        WHEN 'entity.changed' = ANY ($5) THEN f.epoch END,
    feed_position = CASE
        WHEN NOT $6 OR 'entity.changed' = ANY ($5) AND e.feed_epoch IS NOT NULL THEN e.feed_position
        WHEN 'entity.changed' = ANY ($5) THEN f.last_position END,
    updated_at = $8
FROM feeds f
WHERE e.organization_id = $1 AND e.id = $2 AND f.organization_id = $1
RETURNING e.id, e.url, e.description, e.events, e.status, e.previous_until, e.failure_count, e.failing_since,
    e.paused_until, e.last_error, e.next_sequence - 1 AS last_sequence, e.created_at, e.updated_at;

-- webhooks_lock_secret
-- $1 organization, $2 endpoint
SELECT e.secret FROM webhook_endpoints e WHERE e.organization_id = $1 AND e.id = $2 FOR NO KEY UPDATE;

-- webhooks_rotate
-- $1 organization, $2 endpoint, $3 secret, $4 previous_secret, $5 previous_until, $6 now
UPDATE webhook_endpoints AS e
SET secret = $3, previous_secret = $4, previous_until = $5, updated_at = $6
WHERE e.organization_id = $1 AND e.id = $2
RETURNING e.id, e.url, e.description, e.events, e.status, e.previous_until, e.failure_count, e.failing_since,
    e.paused_until, e.last_error, e.next_sequence - 1 AS last_sequence, e.created_at, e.updated_at;

-- webhooks_delete
-- $1 organization, $2 endpoint
DELETE FROM webhook_endpoints WHERE organization_id = $1 AND id = $2;

-- webhooks_delete_deliveries
-- The sub-select returns whole keys, and PostgreSQL looks up each key in the primary key's index
-- $1 organization, $2 endpoint, $3 limit
DELETE FROM webhook_deliveries AS d
USING (
    SELECT x.organization_id, x.endpoint_id, x.id FROM webhook_deliveries x
    WHERE x.organization_id = $1 AND x.endpoint_id = $2
    ORDER BY x.id
    LIMIT $3
) k
WHERE d.organization_id = k.organization_id AND d.endpoint_id = k.endpoint_id AND d.id = k.id;

-- webhooks_test
-- $1 organization, $2 endpoint, $3 id, $4 now
INSERT INTO webhook_deliveries AS d (
    organization_id, endpoint_id, id, event, data, occurred_at, status, tried_since, next_attempt_at)
SELECT e.organization_id, e.id, $3, 'webhook.test', '{}', $4, 'waiting', $4, $4
FROM webhook_endpoints e
WHERE e.organization_id = $1 AND e.id = $2 AND e.status = 'enabled';

-- webhooks_page
-- $1 organization, $2 endpoint, $3 before, $4 limit
SELECT d.id, d.event, d.data, d.occurred_at, d.sequence, d.status, d.attempt_count,
    CASE WHEN d.status = 'waiting' THEN d.next_attempt_at END AS next_attempt_at, d.settled_at, d.last_status,
    d.last_error
FROM webhook_deliveries d
WHERE d.organization_id = $1 AND d.endpoint_id = $2 AND d.id < $3
ORDER BY d.id DESC
LIMIT $4;

-- webhooks_page_of_status
-- $1 organization, $2 endpoint, $3 before, $4 limit, $5 status
SELECT d.id, d.event, d.data, d.occurred_at, d.sequence, d.status, d.attempt_count,
    CASE WHEN d.status = 'waiting' THEN d.next_attempt_at END AS next_attempt_at, d.settled_at, d.last_status,
    d.last_error
FROM webhook_deliveries d
WHERE d.organization_id = $1 AND d.endpoint_id = $2 AND d.status = $5 AND d.id < $3
ORDER BY d.id DESC
LIMIT $4;

-- webhooks_retry
-- $1 organization, $2 endpoint, $3 now, $4 id
UPDATE webhook_deliveries AS d
SET status = 'waiting', attempt_count = 0, tried_since = $3, next_attempt_at = $3, settled_at = NULL
WHERE d.organization_id = $1 AND d.endpoint_id = $2 AND d.id = $4 AND CASE WHEN d.status = 'dead' THEN true END;

-- webhooks_status_of
-- $1 organization, $2 endpoint, $3 id
SELECT d.status FROM webhook_deliveries d WHERE d.organization_id = $1 AND d.endpoint_id = $2 AND d.id = $3;

-- webhooks_retry_all
-- $1 organization, $2 endpoint, $3 now, $4 limit
UPDATE webhook_deliveries AS d
SET status = 'waiting', attempt_count = 0, tried_since = $3, next_attempt_at = $3, settled_at = NULL
FROM (
    SELECT x.organization_id, x.endpoint_id, x.id FROM webhook_deliveries x
    WHERE x.organization_id = $1 AND x.endpoint_id = $2 AND x.status = 'dead'
    ORDER BY x.id
    LIMIT $4
) k
WHERE d.organization_id = k.organization_id AND d.endpoint_id = k.endpoint_id AND d.id = k.id;
