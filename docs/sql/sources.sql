-- service_tokens_find
-- $1 organizations, $2 ids
SELECT t.organization_id, t.id, t.secret_hash, t.source, t.last_used_at
FROM unnest($1::uuid[], $2::uuid[]) AS k (organization_id, id)
CROSS JOIN LATERAL (
    SELECT * FROM service_tokens x WHERE x.organization_id = k.organization_id AND x.id = k.id OFFSET 0
) t
WHERE t.revoked_at IS NULL;

-- admin_service_tokens
-- $1 organization
SELECT t.id, t.source, t.created_at, t.last_used_at, t.revoked_at FROM service_tokens t
WHERE t.organization_id = $1
ORDER BY t.id DESC;

-- admin_make_service_token
-- Adds a token, and locks the organization's row
-- $1 organization, $2 id, $3 source, $4 secret_hash, $5 now
INSERT INTO service_tokens AS t (organization_id, id, source, secret_hash, created_at)
SELECT $1::uuid, $2::uuid, $3::text, $4::bytea, $5::timestamptz
WHERE (SELECT o.status FROM organizations o WHERE o.id = $1 FOR SHARE) <> 'purging'
RETURNING t.id, t.source, t.created_at, t.last_used_at, t.revoked_at;

-- admin_revoke_service_token
-- $1 organization, $2 id, $3 now
UPDATE service_tokens AS t SET revoked_at = coalesce(t.revoked_at, $3)
WHERE t.organization_id = $1 AND t.id = $2
RETURNING t.id, t.source, t.created_at, t.last_used_at, t.revoked_at;

-- admin_forget_service_tokens
-- $1 organization, $2 limit
DELETE FROM service_tokens WHERE organization_id = $1 AND id IN (
    SELECT x.id FROM service_tokens x
    WHERE x.organization_id = $1 AND x.revoked_at IS NOT NULL
    ORDER BY x.revoked_at DESC
    OFFSET $2);

-- sources_due
-- Finds the due sources of active organizations, the longest waiting first.
-- $1 kind, $2 now, $3 after, $4 after_organization, $5 after_name, $6 limit
SELECT s.organization_id, s.name, s.next_run_at
FROM sources s
CROSS JOIN LATERAL (
    SELECT x.status FROM organizations x WHERE x.id = s.organization_id AND x.status = 'active' OFFSET 0
) o
WHERE s.kind = $1 AND s.status = 'enabled' AND s.next_run_at <= $2
    AND (s.next_run_at, s.organization_id, s.name) > ($3, $4, $5)
ORDER BY s.next_run_at, s.organization_id, s.name
LIMIT $6;

-- sources_claim
-- $1 organization, $2 name, $3 kind, $4 now, $5 until
UPDATE sources AS s
SET lease_token = s.lease_token + 1, leased_until = $5, next_run_at = $5
WHERE s.organization_id = $1 AND s.name = $2 AND s.kind = $3 AND s.status = 'enabled' AND s.next_run_at <= $4
    AND coalesce(s.leased_until <= $4, true)
RETURNING s.settings, s.secret, s.state, s.lease_token, s.failure_count, s.last_success_at,
    (SELECT u.updated_at FROM upstreams u WHERE u.organization_id = $1) AS upstream_changed_at;

-- sources_renew
-- $1 organization, $2 name, $3 token, $4 until
UPDATE sources AS s SET leased_until = $4, next_run_at = $4 WHERE s.organization_id = $1 AND s.name = $2 AND s.lease_token = $3 AND s.leased_until IS NOT NULL;

-- sources_is_held
-- Returns a row if the lease is valid, the source enabled, the organization active, and the upstream unchanged.
-- $1 organization, $2 name, $3 token, $4 upstream_changed_at
SELECT 1
FROM sources s
CROSS JOIN LATERAL (
    SELECT x.status FROM organizations x WHERE x.id = s.organization_id AND x.status = 'active' OFFSET 0
) o
WHERE s.organization_id = $1 AND s.name = $2 AND s.lease_token = $3 AND s.leased_until IS NOT NULL AND s.status = 'enabled'
    AND coalesce(
        (SELECT u.updated_at FROM upstreams u WHERE u.organization_id = $1) = $4,
        $4 IS NULL);

-- sources_note
-- Writes the position of a worker, without recording a success.
-- $1 organization, $2 name, $3 token, $4 until, $5 state
UPDATE sources AS s SET leased_until = $4, next_run_at = $4, state = $5 WHERE s.organization_id = $1 AND s.name = $2 AND s.lease_token = $3 AND s.leased_until IS NOT NULL;

-- sources_progress
-- $1 organization, $2 name, $3 token, $4 until, $5 state, $6 last_event_at, $7 last_success_at, $8 upstream_changed_at
UPDATE sources AS s
SET leased_until = $4, next_run_at = $4, state = $5, last_event_at = coalesce($6, s.last_event_at),
    failure_count = 0, failing_since = NULL, last_error = NULL, last_success_at = $7
WHERE s.organization_id = $1 AND s.name = $2 AND s.lease_token = $3 AND s.leased_until IS NOT NULL
    AND coalesce(
        (SELECT u.updated_at FROM upstreams u WHERE u.organization_id = $1) = $8,
        $8 IS NULL);

-- sources_succeed
-- $1 organization, $2 name, $3 token, $4 next_run_at, $5 state, $6 last_event_at, $7 last_success_at, $8 error, $9 upstream_changed_at
UPDATE sources AS s
SET leased_until = NULL, next_run_at = $4, state = coalesce($5, s.state),
    last_event_at = coalesce($6, s.last_event_at), failure_count = 0, failing_since = NULL, last_error = $8,
    last_success_at = $7
WHERE s.organization_id = $1 AND s.name = $2 AND s.lease_token = $3 AND s.leased_until IS NOT NULL
    AND coalesce(
        (SELECT u.updated_at FROM upstreams u WHERE u.organization_id = $1) = $9,
        $9 IS NULL);

-- sources_fail
-- $1 organization, $2 name, $3 token, $4 next_run_at, $5 error, $6 now, $7 state, $8 upstream_changed_at
UPDATE sources AS s
SET leased_until = NULL, next_run_at = $4, failure_count = least(s.failure_count, 1000000) + 1,
    failing_since = coalesce(s.failing_since, $6), last_error = $5, state = coalesce($7, s.state)
WHERE s.organization_id = $1 AND s.name = $2 AND s.lease_token = $3 AND s.leased_until IS NOT NULL
    AND coalesce(
        (SELECT u.updated_at FROM upstreams u WHERE u.organization_id = $1) = $8,
        $8 IS NULL);

-- sources_release
-- $1 organization, $2 name, $3 token, $4 next_run_at
UPDATE sources AS s SET leased_until = NULL, next_run_at = $4 WHERE s.organization_id = $1 AND s.name = $2 AND s.lease_token = $3 AND s.leased_until IS NOT NULL;

-- sources_followed
-- Selects the enabled sources that follow databases, for an examination.
-- $1 limit
SELECT s.organization_id, s.name, s.settings, s.secret, s.state
FROM sources s
CROSS JOIN LATERAL (
    SELECT x.status FROM organizations x WHERE x.id = s.organization_id AND x.status = 'active' OFFSET 0
) o
WHERE s.kind = 'postgres' AND s.status = 'enabled'
ORDER BY s.organization_id, s.name
LIMIT $1;

-- sources_census
-- Counts the sources of all active organizations, for metrics.
SELECT s.kind, count(*) FILTER (WHERE s.status = 'enabled' AND s.failing_since IS NULL) AS ok,
    count(*) FILTER (WHERE s.status = 'enabled' AND s.failing_since IS NOT NULL) AS failing,
    count(*) FILTER (WHERE s.status = 'disabled') AS disabled,
    min(coalesce(s.last_success_at, s.created_at)) FILTER (WHERE s.status = 'enabled') AS oldest_success
FROM sources s
CROSS JOIN LATERAL (
    SELECT x.status FROM organizations x WHERE x.id = s.organization_id AND x.status = 'active' OFFSET 0
) o
GROUP BY s.kind;

-- source_receivers_find
-- $1 organizations, $2 names
SELECT s.organization_id, s.name, s.status, s.settings, s.secret, s.previous_secret, s.previous_until,
    s.failing_since, s.last_success_at
FROM unnest($1::uuid[], $2::text[]) AS k (organization_id, name)
CROSS JOIN LATERAL (
    SELECT * FROM sources x WHERE x.organization_id = k.organization_id AND x.name = k.name OFFSET 0
) s
WHERE s.kind = 'webhook';

-- source_receivers_succeed
-- $1 organization, $2 name, $3 now
UPDATE sources AS s
SET last_success_at = $3, last_event_at = $3, failure_count = 0, failing_since = NULL, last_error = NULL
WHERE s.organization_id = $1 AND s.name = $2 AND s.kind = 'webhook';

-- source_receivers_fail
-- $1 organization, $2 name, $3 now, $4 error
UPDATE sources AS s
SET failure_count = least(s.failure_count, 1000000) + 1, failing_since = coalesce(s.failing_since, $3),
    last_error = $4
WHERE s.organization_id = $1 AND s.name = $2 AND s.kind = 'webhook';

-- sources_list
-- $1 organization, $2 now
SELECT s.name, s.kind, s.status, s.settings, s.secret IS NOT NULL AS has_secret, s.previous_until, s.state,
    s.next_run_at, coalesce(s.leased_until > $2, false) AS is_leased, s.failure_count, s.failing_since,
    s.last_error, s.last_success_at, s.last_event_at, s.created_at, s.updated_at FROM sources s
WHERE s.organization_id = $1
ORDER BY s.name;

-- sources_get
-- $1 organization, $2 name, $3 now
SELECT s.name, s.kind, s.status, s.settings, s.secret IS NOT NULL AS has_secret, s.previous_until, s.state,
    s.next_run_at, coalesce(s.leased_until > $3, false) AS is_leased, s.failure_count, s.failing_since,
    s.last_error, s.last_success_at, s.last_event_at, s.created_at, s.updated_at FROM sources s WHERE s.organization_id = $1 AND s.name = $2;

-- sources_add
-- $1 organization, $2 name, $3 now, $4 kind, $5 status, $6 settings, $7 secret, $8 next_run_at
INSERT INTO sources AS s (
    organization_id, name, kind, status, settings, secret, next_run_at, created_at, updated_at)
VALUES ($1, $2, $4, $5, $6, $7, $8, $3, $3)
RETURNING s.name, s.kind, s.status, s.settings, s.secret IS NOT NULL AS has_secret, s.previous_until, s.state,
    s.next_run_at, coalesce(s.leased_until > $3, false) AS is_leased, s.failure_count, s.failing_since,
    s.last_error, s.last_success_at, s.last_event_at, s.created_at, s.updated_at;

-- sources_change
-- Changes a source
-- $1 organization, $2 name, $3 now, $4 status, $5 settings, $6 secret, $7 next_run_at
UPDATE sources AS s
SET status = $4, settings = $5, secret = coalesce($6, s.secret),
    previous_secret = CASE WHEN $6 IS NULL THEN s.previous_secret END,
    previous_until = CASE WHEN $6 IS NULL THEN s.previous_until END,
    next_run_at = $7, lease_token = s.lease_token + 1, leased_until = NULL, updated_at = $3
WHERE s.organization_id = $1 AND s.name = $2
RETURNING s.name, s.kind, s.status, s.settings, s.secret IS NOT NULL AS has_secret, s.previous_until, s.state,
    s.next_run_at, coalesce(s.leased_until > $3, false) AS is_leased, s.failure_count, s.failing_since,
    s.last_error, s.last_success_at, s.last_event_at, s.created_at, s.updated_at;

-- sources_run
-- $1 organization, $2 name, $3 now, $4 resets, $5 state
UPDATE sources AS s
SET next_run_at = $3, lease_token = s.lease_token + 1, leased_until = NULL, state = CASE WHEN $4 THEN $5 ELSE s.state END
WHERE s.organization_id = $1 AND s.name = $2 AND s.status = 'enabled' AND s.kind <> 'webhook'
RETURNING s.name, s.kind, s.status, s.settings, s.secret IS NOT NULL AS has_secret, s.previous_until, s.state,
    s.next_run_at, coalesce(s.leased_until > $3, false) AS is_leased, s.failure_count, s.failing_since,
    s.last_error, s.last_success_at, s.last_event_at, s.created_at, s.updated_at;

-- sources_lock_secret
-- $1 organization, $2 name
SELECT s.secret FROM sources s WHERE s.organization_id = $1 AND s.name = $2 FOR NO KEY UPDATE;

-- sources_rotate
-- $1 organization, $2 name, $3 now, $4 secret, $5 previous_secret, $6 previous_until
UPDATE sources AS s
SET secret = $4, previous_secret = $5, previous_until = $6, updated_at = $3
WHERE s.organization_id = $1 AND s.name = $2
RETURNING s.name, s.kind, s.status, s.settings, s.secret IS NOT NULL AS has_secret, s.previous_until, s.state,
    s.next_run_at, coalesce(s.leased_until > $3, false) AS is_leased, s.failure_count, s.failing_since,
    s.last_error, s.last_success_at, s.last_event_at, s.created_at, s.updated_at;

-- sources_delete
-- $1 organization, $2 name
DELETE FROM sources WHERE organization_id = $1 AND name = $2;

-- restore_sources
-- Selects the sources that read a slot
SELECT s.organization_id, s.name, s.status, s.state FROM sources s
WHERE s.kind = 'postgres' ORDER BY s.organization_id, s.name;
