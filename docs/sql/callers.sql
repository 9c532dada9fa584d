-- catalog_user
-- $1 organization, $2 user
SELECT 1 FROM users WHERE organization_id = $1 AND user_id = $2;

-- catalog_user_erased
-- Reads whether the user with the hash `user_hash` is erased.
-- $1 organization, $2 user_hash
SELECT 1 FROM user_erasures WHERE organization_id = $1 AND user_hash = $2;

-- catalog_organizations
-- $1 organizations, $2 are_new
SELECT o.id AS organization_id, CASE WHEN k.is_new THEN (
            SELECT n FROM (
                SELECT count(*)::int FROM pg_inherits WHERE inhparent = 'lanes'::regclass) p (count),
                LATERAL generate_series(0, p.count - 1) n
            WHERE satisfies_hash_partition('lanes'::regclass, p.count, n, o.id)) END AS place,
    EXISTS (SELECT FROM service_tokens t WHERE t.organization_id = o.id AND t.revoked_at IS NULL)
        OR EXISTS (SELECT FROM sources s WHERE s.organization_id = o.id AND s.status = 'enabled') AS has_sources,
    o.created_at, o.name, o.status, o.settings
FROM unnest($1::uuid[], $2::bool[]) AS k (organization_id, is_new)
CROSS JOIN LATERAL (SELECT * FROM organizations x WHERE x.id = k.organization_id OFFSET 0) o;

-- catalog_entity_types
-- $1 organizations
SELECT t.organization_id, t.name, t.id_space, t.visibility, t.default_priority, t.is_forwarded, t.is_in_use, t.relations, t.on_delete,
    t.on_erase, t.routes, t.channels, t.grants, t.former_visibility, t.check_channels
FROM unnest($1::uuid[]) AS k (organization_id)
CROSS JOIN LATERAL (SELECT * FROM entity_types x WHERE x.organization_id = k.organization_id OFFSET 0) t;

-- catalog_upstreams
-- $1 organizations
SELECT u.organization_id, base_url, credential, timeout_seconds, max_concurrency, id_pointer, headers, allowed_headers, erase_endpoint,
    send_weak_etags, outcomes, is_paused, paused_until, requests_per_second, batch, updated_at
FROM unnest($1::uuid[]) AS k (organization_id)
CROSS JOIN LATERAL (SELECT * FROM upstreams x WHERE x.organization_id = k.organization_id OFFSET 0) u;

-- catalog_joins
-- Reads the joins of organizations.
-- $1 organizations
SELECT j.organization_id, j.user_id, j.into_id, j.closed_until
FROM unnest($1::uuid[]) AS k (organization_id)
CROSS JOIN LATERAL (SELECT * FROM user_joins x WHERE x.organization_id = k.organization_id OFFSET 0) j;

-- catalog_erasures
-- Reads organizations' erasures that began after `since` or are in progress.
-- $1 organizations, $2 since
SELECT k.organization_id, e.user_hash
FROM unnest($1::uuid[]) AS k (organization_id)
CROSS JOIN LATERAL (
    (SELECT x.user_hash FROM user_erasures x
     WHERE x.organization_id = k.organization_id AND x.started_at > $2 OFFSET 0)
    UNION
    (SELECT x.user_hash FROM user_erasures x
     WHERE x.organization_id = k.organization_id AND x.finished_at IS NULL OFFSET 0)
    UNION
    (SELECT x.user_hash FROM user_erasures x WHERE x.organization_id = k.organization_id LIMIT 1)
) e;

-- user_keys_read
-- Reads the keys of users.
-- $1 organizations, $2 users
SELECT k.organization_id, k.made_for, k.master_key, k.wrapped_key
FROM unnest($1::uuid[], $2::uuid[]) AS o (organization_id, made_for)
CROSS JOIN LATERAL (
    SELECT * FROM user_keys x
    WHERE x.organization_id = o.organization_id AND x.made_for = o.made_for
    OFFSET 0
) k;

-- user_keys_make
-- Inserts keys for users without a key
-- $1 organizations, $2 users, $3 master_key, $4 wrapped_keys, $5 now
INSERT INTO user_keys AS k (organization_id, made_for, user_id, master_key, wrapped_key, created_at)
SELECT o.id, n.made_for, n.made_for, $3, n.wrapped_key, $5
FROM unnest($1::uuid[], $2::uuid[], $4::bytea[]) AS n (organization_id, made_for, wrapped_key)
CROSS JOIN LATERAL (
    SELECT x.id FROM organizations x WHERE x.id = n.organization_id AND x.status <> 'purging' FOR SHARE
) o
WHERE coalesce((
    SELECT e.state FROM user_erasures e
    WHERE e.organization_id = n.organization_id
        AND e.user_hash = sha256(uuid_send(n.organization_id) || uuid_send(n.made_for))), 'closing') = 'closing'
ON CONFLICT (organization_id, made_for) DO NOTHING;

-- user_keys_destroy
-- Destroys the keys of users (`users`), and of the users who were joined into them.
-- $1 organization, $2 users
DELETE FROM user_keys AS k
WHERE k.organization_id = $1 AND (k.user_id = ANY ($2::uuid[]) OR k.made_for = ANY ($2::uuid[]))
RETURNING k.made_for;

-- user_keys_move
-- Moves the keys of one user (`user`) to another user (`into`).
-- $1 organization, $2 user, $3 into
UPDATE user_keys AS k SET user_id = $3 WHERE k.organization_id = $1 AND k.user_id = $2;

-- identities_find
-- $1 organization, $2 issuer, $3 subject
SELECT user_id FROM user_subjects WHERE organization_id = $1 AND issuer = $2 AND subject = $3;

-- identities_salt
-- $1 organization, $2 salt
INSERT INTO erasure_salts AS s (organization_id, salt)
SELECT $1::uuid, $2::bytea
WHERE (SELECT o.status FROM organizations o WHERE o.id = $1 FOR SHARE) <> 'purging'
ON CONFLICT (organization_id) DO NOTHING;

-- identities_make
-- Inserts a subject.
-- $1 organization, $2 issuer, $3 subject, $4 now
INSERT INTO user_subjects AS s (organization_id, issuer, subject, user_id, created_at)
SELECT x.organization_id, $2::text, $3::text,
    overlay(overlay(encode(substring(sha256(x.salt || '\x01'::bytea || convert_to($2::text, 'UTF8') || '\x00'::bytea || convert_to($3::text, 'UTF8')) FOR 16), 'hex') PLACING '8' FROM 13) PLACING '8' FROM 17)::uuid, $4::timestamptz
FROM erasure_salts x
WHERE x.organization_id = $1
    AND (SELECT o.status FROM organizations o WHERE o.id = $1 FOR SHARE) <> 'purging'
    AND NOT EXISTS (SELECT 1 FROM erasure_salts z
CROSS JOIN LATERAL (
    SELECT 1 FROM erased_subjects x
    WHERE x.organization_id = $1
        AND x.subject_hash = sha256(z.salt || convert_to($2::text, 'UTF8') || '\x00'::bytea || convert_to($3::text, 'UTF8'))
    OFFSET 0
) e
WHERE z.organization_id = $1)
ON CONFLICT (organization_id, issuer, subject) DO NOTHING;

-- identities_taken
-- $1 organization, $2 user
SELECT 1 FROM user_subjects WHERE organization_id = $1 AND user_id = $2 LIMIT 1;

-- identities_organization
-- $1 issuer, $2 external_id
SELECT organization_id FROM external_ids WHERE issuer = $1 AND external_id = $2;

-- identities_erased
-- $1 organization, $2 issuer, $3 subject
SELECT 1 FROM erasure_salts z
CROSS JOIN LATERAL (
    SELECT 1 FROM erased_subjects x
    WHERE x.organization_id = $1
        AND x.subject_hash = sha256(z.salt || convert_to($2::text, 'UTF8') || '\x00'::bytea || convert_to($3::text, 'UTF8'))
    OFFSET 0
) e
WHERE z.organization_id = $1;

-- lasting_callers_lost
-- In `names`, an empty text means that the token has no name
-- $1 organizations, $2 users, $3 issuers, $4 names
SELECT k.place
FROM unnest($1::uuid[], $2::uuid[], $3::text[], $4::text[])
    WITH ORDINALITY AS k (organization_id, user_id, issuer, name, place)
LEFT JOIN LATERAL (
    SELECT x.status, x.settings ->> 'provisioning' AS provisioning FROM organizations x
    WHERE x.id = k.organization_id
    OFFSET 0
) o ON true
WHERE o.status IS DISTINCT FROM 'active'
    OR (k.name <> '' AND (SELECT n.organization_id FROM external_ids n
        WHERE n.issuer = k.issuer AND n.external_id = k.name) IS DISTINCT FROM k.organization_id)
    OR (o.provisioning = 'explicit' AND (SELECT u.user_id FROM users u
        WHERE u.organization_id = k.organization_id AND u.user_id = k.user_id) IS NULL)
    OR (SELECT j.into_id FROM user_joins j
        WHERE j.organization_id = k.organization_id AND j.user_id = k.user_id AND j.closed_until IS NULL)
        IS NOT NULL
    OR (SELECT e.user_hash FROM user_erasures e
     WHERE e.organization_id = k.organization_id
        AND e.user_hash = sha256(uuid_send(k.organization_id) || uuid_send(k.user_id))) IS NOT NULL;

-- users_subjects
-- $1 organization, $2 users
SELECT k.user_id, s.issuer, s.subject
FROM unnest($2::uuid[]) k (user_id)
CROSS JOIN LATERAL (
    SELECT x.issuer::text AS issuer, x.subject::text AS subject FROM user_subjects x
    WHERE x.organization_id = $1 AND x.user_id = k.user_id
    OFFSET 0
) s
ORDER BY k.user_id, s.issuer, s.subject;
