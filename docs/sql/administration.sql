-- webhooks_organization
-- $1 organization
SELECT 1 FROM organizations WHERE id = $1 AND status <> 'purging';

-- upstreams_lock
-- Serializes the writers of an organization's upstream.
-- $1 organization
SELECT 1 FROM organizations WHERE id = $1 AND status <> 'purging' FOR NO KEY UPDATE;

-- upstreams_has_batch
-- $1 organization
SELECT 1 FROM upstreams WHERE organization_id = $1 AND batch IS NOT NULL;

-- organizations_named
-- $1 name
SELECT id FROM organizations WHERE name = $1 AND status <> 'purging' ORDER BY id LIMIT 1;

-- organizations_list
-- $1 after, $2 limit
SELECT o.id, o.name, o.status, o.settings, o.created_at, o.updated_at, ARRAY(
        SELECT x.issuer::text FROM external_ids x WHERE x.organization_id = o.id
        ORDER BY x.issuer, x.external_id
    ) AS issuers, ARRAY(
        SELECT x.external_id::text FROM external_ids x WHERE x.organization_id = o.id
        ORDER BY x.issuer, x.external_id
    ) AS external_ids FROM organizations o
WHERE $1::uuid IS NULL OR o.id > $1 ORDER BY o.id LIMIT $2;

-- organizations_search
-- Returns up to `limit` organizations after `after` that match `text`.
-- $1 after, $2 scan, $3 text, $4 limit
WITH looked AS MATERIALIZED (
    SELECT x.id, x.name FROM organizations x
    WHERE $1::uuid IS NULL OR x.id > $1 ORDER BY x.id LIMIT $2
)
SELECT e.looked, e.last, o.id, o.name, o.status, o.settings, o.created_at, o.updated_at, ARRAY(
        SELECT x.issuer::text FROM external_ids x WHERE x.organization_id = o.id
        ORDER BY x.issuer, x.external_id
    ) AS issuers, ARRAY(
        SELECT x.external_id::text FROM external_ids x WHERE x.organization_id = o.id
        ORDER BY x.issuer, x.external_id
    ) AS external_ids
FROM (
    SELECT (SELECT count(*) FROM looked) AS looked, (SELECT l.id FROM looked l ORDER BY l.id DESC LIMIT 1) AS last
) e
LEFT JOIN LATERAL (
    SELECT l.id FROM looked l
    WHERE strpos(lower(l.name), lower($3)) > 0 OR starts_with(l.id::text, lower($3))
    ORDER BY l.id
    LIMIT $4
) k ON true
LEFT JOIN organizations o ON o.id = k.id
ORDER BY o.id;

-- organizations_get
-- $1 organization
SELECT o.id, o.name, o.status, o.settings, o.created_at, o.updated_at, ARRAY(
        SELECT x.issuer::text FROM external_ids x WHERE x.organization_id = o.id
        ORDER BY x.issuer, x.external_id
    ) AS issuers, ARRAY(
        SELECT x.external_id::text FROM external_ids x WHERE x.organization_id = o.id
        ORDER BY x.issuer, x.external_id
    ) AS external_ids FROM organizations o WHERE o.id = $1;

-- organizations_make
-- $1 organization, $2 name, $3 status, $4 settings, $5 now
INSERT INTO organizations AS o (id, name, status, settings, created_at, updated_at)
VALUES ($1, coalesce($2, $1::uuid::text), coalesce($3, 'active'),
    jsonb_strip_nulls(coalesce($4::jsonb, '{}')), $5, $5)
ON CONFLICT (id) DO NOTHING;

-- organizations_change
-- $1 organization, $2 name, $3 status, $4 settings, $5 now
UPDATE organizations AS o
SET name = coalesce($2, o.name), status = coalesce($3, o.status),
    settings = jsonb_strip_nulls(o.settings || coalesce($4::jsonb, '{}')), updated_at = $5
WHERE o.id = $1 AND o.status <> 'purging'
RETURNING o.id, o.name, o.status, o.settings, o.created_at, o.updated_at, ARRAY(
        SELECT x.issuer::text FROM external_ids x WHERE x.organization_id = o.id
        ORDER BY x.issuer, x.external_id
    ) AS issuers, ARRAY(
        SELECT x.external_id::text FROM external_ids x WHERE x.organization_id = o.id
        ORDER BY x.issuer, x.external_id
    ) AS external_ids;

-- organizations_feed
-- $1 organization, $2 epoch
INSERT INTO feeds AS f (organization_id, epoch) VALUES ($1, $2) ON CONFLICT (organization_id) DO NOTHING;

-- organizations_old_gateway
-- Reads whether a running gateway lacks a migration.
-- $1 migration, $2 seconds
SELECT EXISTS (
        SELECT 1 FROM gateways g
        WHERE coalesce(g.newest_migration, '') < $1
            AND g.seen_at > clock_timestamp() - $2::int8 * interval '1 second') AS has_old_gateway;

-- entity_types_lock
-- Locks a type, so that its visibility and its channels are checked together.
-- $1 organization, $2 name
SELECT t.name, t.id_space, t.visibility, t.default_priority, t.is_forwarded, t.is_in_use, t.relations, t.on_delete,
    t.on_erase, t.routes, t.channels, t.grants, t.former_visibility, t.check_channels FROM entity_types t WHERE t.organization_id = $1 AND t.name = $2
FOR UPDATE;

-- entity_types_get
-- $1 organization, $2 name
SELECT t.name, t.id_space, t.visibility, t.default_priority, t.is_forwarded, t.is_in_use, t.relations, t.on_delete,
    t.on_erase, t.routes, t.channels, t.grants, t.former_visibility, t.check_channels FROM entity_types t WHERE t.organization_id = $1 AND t.name = $2;

-- entity_types_list
-- $1 organization, $2 after, $3 limit
SELECT t.name, t.id_space, t.visibility, t.default_priority, t.is_forwarded, t.is_in_use, t.relations, t.on_delete,
    t.on_erase, t.routes, t.channels, t.grants, t.former_visibility, t.check_channels FROM entity_types t
WHERE t.organization_id = $1 AND t.name > $2 ORDER BY t.name LIMIT $3;

-- entity_types_expire_cursors
-- Makes the positions of all cursors of the feed invalid.
-- $1 organization
UPDATE feeds AS f SET last_position = f.last_position + 1, horizon = f.last_position + 1
WHERE f.organization_id = $1;

-- entity_types_make
-- $1 organization, $2 name, $3 id_space, $4 visibility, $5 default_priority, $6 is_forwarded, $7 relations, $8 on_delete, $9 on_erase, $10 routes, $11 channels, $12 grants, $13 check_channels
INSERT INTO entity_types AS t (
    organization_id, name, id_space, visibility, default_priority, is_forwarded, relations, on_delete, on_erase,
    routes, channels, grants, check_channels)
VALUES ($1, $2, $3, $4, $5, $6, coalesce($7::jsonb, '{}'),
    coalesce($8::jsonb, '{}'), coalesce($9, 'delete'), $10,
    coalesce($11::jsonb, '[]'), coalesce($12::jsonb, '[]'),
    coalesce($13, false))
ON CONFLICT (organization_id, name) DO NOTHING;

-- entity_types_change
-- Changes a type
-- $1 organization, $2 name, $3 id_space, $4 visibility, $5 default_priority, $6 is_forwarded, $7 relations, $8 on_delete, $9 on_erase, $10 changes_routes, $11 routes, $12 channels, $13 grants, $14 check_channels
UPDATE entity_types AS t
SET id_space = coalesce($3, t.id_space), visibility = coalesce($4, t.visibility),
    channels = coalesce($12::jsonb, t.channels), grants = coalesce($13::jsonb, t.grants),
    -- kept, because users who saw an entity under this visibility may have to receive `removed` for it
    former_visibility = CASE
        WHEN $4 = 'channels' AND t.visibility <> 'channels' THEN t.visibility ELSE t.former_visibility END,
    default_priority = coalesce($5, t.default_priority), is_forwarded = coalesce($6, t.is_forwarded),
    relations = coalesce($7::jsonb, t.relations), on_delete = coalesce($8::jsonb, t.on_delete),
    on_erase = coalesce($9, t.on_erase),
    check_channels = coalesce($14, t.check_channels),
    routes = CASE WHEN $10::bool THEN $11::jsonb ELSE t.routes END
WHERE t.organization_id = $1 AND t.name = $2
    AND (NOT t.is_in_use OR coalesce($3, t.id_space) = t.id_space
        AND coalesce($7::jsonb, t.relations) @> t.relations)
RETURNING t.name, t.id_space, t.visibility, t.default_priority, t.is_forwarded, t.is_in_use, t.relations, t.on_delete,
    t.on_erase, t.routes, t.channels, t.grants, t.former_visibility, t.check_channels;

-- readers_list
-- $1 organization
SELECT role_name::text AS role_name, created_at FROM readers WHERE organization_id = $1 ORDER BY role_name;

-- readers_add
-- Adds a binding, except to an organization that is being purged.
-- $1 organization, $2 role, $3 now
INSERT INTO readers AS r (organization_id, role_name, created_at)
SELECT o.id, $2::text, $3 FROM organizations o WHERE o.id = $1 AND o.status <> 'purging' FOR SHARE
ON CONFLICT (role_name) DO NOTHING;

-- readers_remove
-- $1 organization, $2 role
DELETE FROM readers WHERE organization_id = $1 AND role_name = $2::text::name;

-- readers_binding
-- Selects the organization that a role reads.
-- $1 role
SELECT organization_id FROM readers WHERE role_name = $1::text::name;

-- readers_role
-- Selects a role's name, rights and memberships.
-- $1 role
SELECT quote_ident(r.rolname) AS quoted,
    EXISTS (
        SELECT FROM pg_roles s
        WHERE (s.rolsuper OR s.rolbypassrls OR s.rolname = 'sluice_gateway'
                OR s.oid = (SELECT c.relowner FROM pg_class c WHERE c.oid = 'mutations'::regclass))
            AND pg_has_role(r.oid, s.oid, 'MEMBER')) AS sees_everything,
    EXISTS (
        SELECT FROM pg_roles s WHERE s.rolname = 'sluice_reader' AND pg_has_role(r.oid, s.oid, 'MEMBER')
    ) AS is_reader,
    array_to_string(ARRAY(
        SELECT g.rolname::text FROM pg_auth_members m JOIN pg_roles g ON g.oid = m.roleid
        WHERE m.member = r.oid AND g.rolname ~ '^sluice_reader_[0-9a-f-]{36}$'
        ORDER BY g.rolname), ' ') AS memberships
FROM pg_roles r WHERE r.rolname = $1::text::name;

-- readers_members
-- Selects login roles that read an organization's rows, or might read them.
-- $1 role, $2 gateways
SELECT u.rolname::text AS role_name,
    EXISTS (
        SELECT FROM pg_roles s WHERE s.rolname = 'sluice_reader' AND pg_has_role(u.oid, s.oid, 'MEMBER')
    ) AS is_reader,
    m.member IS NOT NULL AS is_member
FROM pg_roles u
LEFT JOIN (
    SELECT DISTINCT a.member FROM pg_auth_members a JOIN pg_roles g ON g.oid = a.roleid
    WHERE g.rolname = $1::text::name
) m ON m.member = u.oid
WHERE u.rolname = ANY ($2::text[]::name[]) OR m.member IS NOT NULL
ORDER BY u.rolname;

-- organizations_hold
-- $1 organization
SELECT 1 FROM organizations o WHERE o.id = $1 AND o.status <> 'purging' FOR NO KEY UPDATE;

-- external_ids_drop
-- $1 organization, $2 issuers, $3 external_ids
DELETE FROM external_ids x
WHERE x.organization_id = $1
    AND (x.issuer, x.external_id) NOT IN (SELECT k.issuer, k.id FROM unnest($2::text[], $3::text[]) k (issuer, id));

-- external_ids_add
-- Adds one external id.
-- $1 organization, $2 issuer, $3 external_id, $4 now
INSERT INTO external_ids AS x (organization_id, issuer, external_id, created_at)
VALUES ($1, $2::text, $3::text, $4)
ON CONFLICT (issuer, external_id) DO NOTHING;

-- external_ids_taken
-- Returns the external ids that belong to other organizations, and these organizations.
-- $1 organization, $2 issuers, $3 external_ids
SELECT o.issuer, o.external_id, o.organization_id
FROM unnest($2::text[], $3::text[]) k (issuer, id)
CROSS JOIN LATERAL (
    SELECT x.issuer::text AS issuer, x.external_id::text AS external_id, x.organization_id FROM external_ids x
    WHERE x.issuer = k.issuer AND x.external_id = k.id AND x.organization_id <> $1
    OFFSET 0
) o;

-- channels_lock_feed
-- $1 organization
SELECT f.last_position FROM feeds f WHERE f.organization_id = $1 FOR UPDATE;

-- channels_held
-- $1 organization, $2 user, $3 channel, $4 limit
SELECT (
        SELECT x.role FROM channel_grants x
        WHERE x.organization_id = $1 AND x.user_id = $2 AND x.channel = $3
            AND x.source = 'operator' AND x.until IS NULL LIMIT 1) AS role, (
        SELECT count(*) FROM (
            SELECT FROM channel_grants y
            WHERE y.organization_id = $1 AND y.user_id = $2 AND y.until IS NULL LIMIT $4) z) AS count;

-- channels_grant
-- $1 organization, $2 user, $3 channel, $4 name, $5 role
INSERT INTO channel_grants AS g (organization_id, user_id, channel, source, since, name, role, changed_at)
SELECT f.organization_id, $2::uuid, $3::uuid, 'operator', f.last_position, $4::text, $5::text,
    f.last_position
FROM feeds f WHERE f.organization_id = $1;

-- channels_revoke
-- $1 organization, $2 user, $3 channel
UPDATE channel_grants AS g SET until = (SELECT f.last_position FROM feeds f WHERE f.organization_id = $1), changed_at = (SELECT f.last_position FROM feeds f WHERE f.organization_id = $1)
WHERE g.organization_id = $1 AND g.user_id = $2 AND g.channel = $3 AND g.source = 'operator'
    AND g.until IS NULL;

-- channels_of_user
-- $1 organization, $2 user, $3 limit
SELECT g.user_id, g.name, g.role, g.source FROM channel_grants g
WHERE g.organization_id = $1 AND g.user_id = $2 AND g.until IS NULL
ORDER BY g.name, g.source LIMIT $3;

-- channels_of_channel
-- $1 organization, $2 channel, $3 after_user, $4 after_source, $5 limit
SELECT g.user_id, g.name, g.role, g.source FROM channel_grants g
WHERE g.organization_id = $1 AND g.channel = $2 AND g.until IS NULL
    AND (g.user_id, g.source) > ($3::uuid, $4::text)
ORDER BY g.user_id, g.source LIMIT $5;

-- channels_count
-- $1 organization, $2 channel, $3 limit
SELECT count(*) AS count FROM (
    SELECT FROM entity_channels s WHERE s.organization_id = $1 AND s.channel = $2 LIMIT $3) x;

-- upstreams_get
-- $1 organization
SELECT base_url, credential, timeout_seconds, max_concurrency, id_pointer, headers, allowed_headers, erase_endpoint,
    send_weak_etags, outcomes, is_paused, paused_until, requests_per_second, batch, updated_at FROM upstreams WHERE organization_id = $1;

-- upstreams_put
-- $1 organization, $2 base_url, $3 credential, $4 timeout_seconds, $5 max_concurrency, $6 id_pointer, $7 headers, $8 allowed_headers, $9 erase_endpoint, $10 send_weak_etags, $11 outcomes, $12 is_paused, $13 paused_until, $14 requests_per_second, $15 batch, $16 now
INSERT INTO upstreams AS u (
    organization_id, base_url, credential, timeout_seconds, max_concurrency, id_pointer, headers,
    allowed_headers, erase_endpoint, send_weak_etags, outcomes, is_paused, paused_until,
    requests_per_second, batch, updated_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)
ON CONFLICT (organization_id) DO UPDATE
SET base_url = excluded.base_url, credential = excluded.credential,
    timeout_seconds = excluded.timeout_seconds, max_concurrency = excluded.max_concurrency,
    id_pointer = excluded.id_pointer, headers = excluded.headers,
    allowed_headers = excluded.allowed_headers, erase_endpoint = excluded.erase_endpoint,
    send_weak_etags = excluded.send_weak_etags, outcomes = excluded.outcomes, is_paused = excluded.is_paused,
    paused_until = excluded.paused_until, requests_per_second = excluded.requests_per_second,
    batch = excluded.batch, updated_at = excluded.updated_at;

-- upstreams_delete
-- $1 organization
DELETE FROM upstreams WHERE organization_id = $1;

-- upstreams_queued_lanes
-- Reads lanes
-- $1 organization, $2 after, $3 limit
SELECT l.user_id, CASE WHEN l.queued_count > 0 THEN l.head_position END AS head_position FROM lanes l
WHERE l.organization_id = $1 AND l.user_id > $2
ORDER BY l.user_id
LIMIT $3;

-- upstreams_pending_mutations
-- Reads pending mutations
-- $1 organization, $2 users, $3 positions, $4 due, $5 changed, $6 limit
SELECT k.user_id, x.id, x.position, x.is_waiting
FROM unnest($2::uuid[], $3::int8[]) AS k (user_id, position)
CROSS JOIN LATERAL (
    SELECT m.id, m.position, coalesce(m.next_retry_at > $4 AND m.changed_at < $5, false) AS is_waiting
    FROM mutations m
    WHERE m.organization_id = $1 AND m.user_id = k.user_id AND m.position > k.position
        AND m.blocked_on IS NULL AND m.stuck_at IS NULL AND m.synced_at IS NULL AND m.status = 'pending'
    ORDER BY m.position
    LIMIT $6
) x;

-- upstreams_end_back_off
-- $1 organization_id, $2 user_id, $3 id, $4 due
UPDATE mutations AS m
SET next_retry_at = $4
FROM unnest($1::uuid[], $2::uuid[], $3::uuid[]) AS k (organization_id, user_id, id)
WHERE m.organization_id = k.organization_id AND m.user_id = k.user_id AND m.id = k.id AND m.status = 'pending';

-- upstreams_wake_lanes
-- Wakes lanes that no worker has leased
-- $1 organization, $2 users, $3 due
UPDATE lanes AS l
SET ready_at = $3
WHERE l.organization_id = $1 AND l.user_id = ANY ($2::uuid[]) AND l.lease_owner IS NULL
    AND l.ready_at > $3;

-- upstreams_changed
-- Finds the upstreams that were changed after a time.
-- $1 since, $2 now, $3 limit
SELECT u.organization_id, u.updated_at FROM upstreams u
WHERE u.updated_at > $1 AND (NOT u.is_paused OR u.paused_until <= $2)
ORDER BY u.updated_at DESC
LIMIT $3;

-- purge_close
-- $1 organization
UPDATE organizations SET status = 'purging' WHERE id = $1;
