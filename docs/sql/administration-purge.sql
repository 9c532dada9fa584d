-- restore_feeds
-- $1 change
UPDATE feeds AS f SET epoch = f.epoch # $1;

-- restore_local_id_pages
-- Deletes the pages of local ids that pulls assigned and devices had not confirmed.
UPDATE local_id_pages AS p SET entity_types = NULL, local_ids = NULL, server_ids = NULL, are_integers = NULL
WHERE p.entity_types IS NOT NULL;

-- restore_user_keys
-- Assigns each user's data key to the user who, according to the restored joins, owns the rows that the key seals.
UPDATE user_keys AS k SET user_id = o.user_id
FROM (
    SELECT x.organization_id, x.made_for, coalesce(j.into_id, x.made_for) AS user_id
    FROM user_keys x
    LEFT JOIN user_joins j
        ON j.organization_id = x.organization_id AND j.user_id = x.made_for AND j.closed_until IS NULL
) o
WHERE k.organization_id = o.organization_id AND k.made_for = o.made_for AND k.user_id <> o.user_id;

-- restore_erasures
-- Restarts the erasures of users whose data the backup restored, so that gateways erase these users again.
-- $1 started_at
UPDATE user_erasures AS e
SET state = 'closing', user_ids = ARRAY[b.user_id] || ARRAY(
        SELECT j.user_id FROM user_joins j
        WHERE j.organization_id = b.organization_id AND j.into_id = b.user_id AND j.closed_until IS NULL),
    started_at = $1, walked_position = 0, attempts = 0, last_error = NULL, due_at = $1, finished_at = NULL
FROM (
    SELECT k.organization_id, k.user_id, sha256(uuid_send(k.organization_id) || uuid_send(k.user_id)) AS user_hash
    FROM (
        SELECT x.organization_id, x.user_id FROM lanes x
        UNION SELECT x.organization_id, x.user_id FROM users x
        UNION SELECT x.organization_id, x.user_id FROM devices x
        UNION SELECT x.organization_id, x.user_id FROM user_subjects x
        UNION SELECT x.organization_id, x.user_id FROM user_keys x
        UNION SELECT x.organization_id, x.owner_id FROM entities x
        UNION SELECT x.organization_id, x.updated_by FROM entities x
        UNION SELECT x.organization_id, x.owner_id FROM parked_events x WHERE x.owner_id IS NOT NULL
    ) k
    WHERE k.organization_id IN (SELECT y.organization_id FROM user_erasures y)
) b
WHERE e.organization_id = b.organization_id AND e.user_hash = b.user_hash AND e.state <> 'closing';

-- restore_lanes
-- $1 ready_at
UPDATE lanes AS l SET ready_at = $1 WHERE l.lease_owner IS NOT NULL AND l.ready_at > $1;

-- restore_retention
UPDATE retention_runs AS r SET owner = NULL, expires_at = NULL WHERE r.owner IS NOT NULL;

-- restore_sessions
SELECT count(*) FROM pg_stat_activity a
WHERE a.datname = current_database() AND a.application_name IN ('sluice', 'sluice direct') AND a.pid <> pg_backend_pid();

-- purge_extent_users
-- $1 organization, $2 limit
SELECT count(*) FROM (SELECT 1 FROM users WHERE organization_id = $1 LIMIT $2) x;

-- purge_extent_user_subjects
-- $1 organization, $2 limit
SELECT count(*) FROM (SELECT 1 FROM user_subjects WHERE organization_id = $1 LIMIT $2) x;

-- purge_extent_devices
-- $1 organization, $2 limit
SELECT count(*) FROM (SELECT 1 FROM devices WHERE organization_id = $1 LIMIT $2) x;

-- purge_extent_mutations
-- $1 organization, $2 limit
SELECT count(*) FROM (SELECT 1 FROM mutations WHERE organization_id = $1 LIMIT $2) x;

-- purge_extent_attempts
-- $1 organization, $2 limit
SELECT count(*) FROM (SELECT 1 FROM attempts WHERE organization_id = $1 LIMIT $2) x;

-- purge_extent_rejections
-- $1 organization, $2 limit
SELECT count(*) FROM (SELECT 1 FROM rejections WHERE organization_id = $1 LIMIT $2) x;

-- purge_extent_id_mappings
-- $1 organization, $2 limit
SELECT count(*) FROM (SELECT 1 FROM id_mappings WHERE organization_id = $1 LIMIT $2) x;

-- purge_extent_local_ids
-- $1 organization, $2 limit
SELECT count(*) FROM (SELECT 1 FROM local_ids WHERE organization_id = $1 LIMIT $2) x;

-- purge_extent_entities
-- $1 organization, $2 limit
SELECT count(*) FROM (SELECT 1 FROM entities WHERE organization_id = $1 LIMIT $2) x;

-- purge_extent_channel_grants
-- $1 organization, $2 limit
SELECT count(*) FROM (SELECT 1 FROM channel_grants WHERE organization_id = $1 LIMIT $2) x;

-- purge_extent_parked_events
-- $1 organization, $2 limit
SELECT count(*) FROM (SELECT 1 FROM parked_events WHERE organization_id = $1 LIMIT $2) x;

-- purge_extent_ingested_events
-- $1 organization, $2 limit
SELECT count(*) FROM (SELECT 1 FROM ingested_events WHERE organization_id = $1 LIMIT $2) x;

-- purge_extent_sent_requests
-- $1 organization, $2 limit
SELECT count(*) FROM (SELECT 1 FROM sent_requests WHERE organization_id = $1 LIMIT $2) x;

-- purge_extent_entity_types
-- $1 organization, $2 limit
SELECT count(*) FROM (SELECT 1 FROM entity_types WHERE organization_id = $1 LIMIT $2) x;

-- purge_extent_readers
-- $1 organization, $2 limit
SELECT count(*) FROM (SELECT 1 FROM readers WHERE organization_id = $1 LIMIT $2) x;

-- purge_extent_operations
-- $1 organization, $2 limit
SELECT count(*) FROM (SELECT 1 FROM operations WHERE organization_id = $1 LIMIT $2) x;

-- purge_extent_webhook_deliveries
-- $1 organization, $2 limit
SELECT count(*) FROM (SELECT 1 FROM webhook_deliveries WHERE organization_id = $1 LIMIT $2) x;

-- purge_extent_service_tokens
-- $1 organization, $2 limit
SELECT count(*) FROM (SELECT 1 FROM service_tokens WHERE organization_id = $1 LIMIT $2) x;

-- purge_extent_sources
-- $1 organization, $2 limit
SELECT count(*) FROM (SELECT 1 FROM sources WHERE organization_id = $1 LIMIT $2) x;

-- purge_lanes
-- $1 organization, $2 limit
DELETE FROM lanes WHERE organization_id = $1 AND (user_id) <= (
    SELECT user_id FROM (
        SELECT user_id FROM lanes WHERE organization_id = $1 ORDER BY user_id LIMIT $2
    ) x
    ORDER BY user_id DESC LIMIT 1);

-- purge_users
-- $1 organization, $2 limit
DELETE FROM users WHERE organization_id = $1 AND (user_id) <= (
    SELECT user_id FROM (
        SELECT user_id FROM users WHERE organization_id = $1 ORDER BY user_id LIMIT $2
    ) x
    ORDER BY user_id DESC LIMIT 1);

-- purge_user_subjects
-- $1 organization, $2 limit
DELETE FROM user_subjects WHERE organization_id = $1 AND (issuer, subject) <= (
    SELECT issuer, subject FROM (
        SELECT issuer, subject FROM user_subjects WHERE organization_id = $1 ORDER BY issuer, subject LIMIT $2
    ) x
    ORDER BY issuer DESC, subject DESC LIMIT 1);

-- purge_devices
-- $1 organization, $2 limit
DELETE FROM devices WHERE organization_id = $1 AND (user_id, device_id) <= (
    SELECT user_id, device_id FROM (
        SELECT user_id, device_id FROM devices WHERE organization_id = $1 ORDER BY user_id, device_id LIMIT $2
    ) x
    ORDER BY user_id DESC, device_id DESC LIMIT 1);

-- purge_mutation_quotas
-- $1 organization, $2 limit
DELETE FROM mutation_quotas WHERE organization_id = $1 AND (user_id) <= (
    SELECT user_id FROM (
        SELECT user_id FROM mutation_quotas WHERE organization_id = $1 ORDER BY user_id LIMIT $2
    ) x
    ORDER BY user_id DESC LIMIT 1);

-- purge_mutations
-- $1 organization, $2 limit
DELETE FROM mutations WHERE organization_id = $1 AND (user_id, id) <= (
    SELECT user_id, id FROM (
        SELECT user_id, id FROM mutations WHERE organization_id = $1 ORDER BY user_id, id LIMIT $2
    ) x
    ORDER BY user_id DESC, id DESC LIMIT 1);

-- purge_attempts
-- $1 organization, $2 limit
DELETE FROM attempts WHERE organization_id = $1 AND (user_id, mutation_id, slot) <= (
    SELECT user_id, mutation_id, slot FROM (
        SELECT user_id, mutation_id, slot FROM attempts WHERE organization_id = $1 ORDER BY user_id, mutation_id, slot LIMIT $2
    ) x
    ORDER BY user_id DESC, mutation_id DESC, slot DESC LIMIT 1);

-- purge_rejections
-- $1 organization, $2 limit
DELETE FROM rejections WHERE organization_id = $1 AND (user_id, idempotency_key) <= (
    SELECT user_id, idempotency_key FROM (
        SELECT user_id, idempotency_key FROM rejections WHERE organization_id = $1 ORDER BY user_id, idempotency_key LIMIT $2
    ) x
    ORDER BY user_id DESC, idempotency_key DESC LIMIT 1);

-- purge_id_mappings
-- $1 organization, $2 limit
DELETE FROM id_mappings WHERE organization_id = $1 AND (user_id, client_id, entity_type) <= (
    SELECT user_id, client_id, entity_type FROM (
        SELECT user_id, client_id, entity_type FROM id_mappings WHERE organization_id = $1 ORDER BY user_id, client_id, entity_type LIMIT $2
    ) x
    ORDER BY user_id DESC, client_id DESC, entity_type DESC LIMIT 1);

-- purge_local_ids
-- $1 organization, $2 limit
DELETE FROM local_ids WHERE organization_id = $1 AND (user_id, device_id, entity_type, local_id) <= (
    SELECT user_id, device_id, entity_type, local_id FROM (
        SELECT user_id, device_id, entity_type, local_id FROM local_ids WHERE organization_id = $1 ORDER BY user_id, device_id, entity_type, local_id LIMIT $2
    ) x
    ORDER BY user_id DESC, device_id DESC, entity_type DESC, local_id DESC LIMIT 1);

-- purge_local_id_pages
-- $1 organization, $2 limit
DELETE FROM local_id_pages WHERE organization_id = $1 AND (user_id, device_id, page) <= (
    SELECT user_id, device_id, page FROM (
        SELECT user_id, device_id, page FROM local_id_pages WHERE organization_id = $1 ORDER BY user_id, device_id, page LIMIT $2
    ) x
    ORDER BY user_id DESC, device_id DESC, page DESC LIMIT 1);

-- purge_entities
-- $1 organization, $2 limit
DELETE FROM entities WHERE organization_id = $1 AND (entity_type, id) <= (
    SELECT entity_type, id FROM (
        SELECT entity_type, id FROM entities WHERE organization_id = $1 ORDER BY entity_type, id LIMIT $2
    ) x
    ORDER BY entity_type DESC, id DESC LIMIT 1);

-- purge_channel_grants
-- $1 organization, $2 limit
DELETE FROM channel_grants WHERE organization_id = $1 AND (user_id, channel, source, since) <= (
    SELECT user_id, channel, source, since FROM (
        SELECT user_id, channel, source, since FROM channel_grants WHERE organization_id = $1 ORDER BY user_id, channel, source, since LIMIT $2
    ) x
    ORDER BY user_id DESC, channel DESC, source DESC, since DESC LIMIT 1);

-- purge_token_channels
-- $1 organization, $2 limit
DELETE FROM token_channels WHERE organization_id = $1 AND (user_id, source) <= (
    SELECT user_id, source FROM (
        SELECT user_id, source FROM token_channels WHERE organization_id = $1 ORDER BY user_id, source LIMIT $2
    ) x
    ORDER BY user_id DESC, source DESC LIMIT 1);

-- purge_entity_channels
-- $1 organization, $2 limit
DELETE FROM entity_channels WHERE organization_id = $1 AND (channel, changed_at) <= (
    SELECT channel, changed_at FROM (
        SELECT channel, changed_at FROM entity_channels WHERE organization_id = $1 ORDER BY channel, changed_at LIMIT $2
    ) x
    ORDER BY channel DESC, changed_at DESC LIMIT 1);

-- purge_ended_stays
-- $1 organization, $2 limit
DELETE FROM ended_stays WHERE organization_id = $1 AND (channel, left_at) <= (
    SELECT channel, left_at FROM (
        SELECT channel, left_at FROM ended_stays WHERE organization_id = $1 ORDER BY channel, left_at LIMIT $2
    ) x
    ORDER BY channel DESC, left_at DESC LIMIT 1);

-- purge_entity_references
-- $1 organization, $2 limit
DELETE FROM entity_references WHERE organization_id = $1 AND (to_type, to_id, entity_type, id, member) <= (
    SELECT to_type, to_id, entity_type, id, member FROM (
        SELECT to_type, to_id, entity_type, id, member FROM entity_references WHERE organization_id = $1 ORDER BY to_type, to_id, entity_type, id, member LIMIT $2
    ) x
    ORDER BY to_type DESC, to_id DESC, entity_type DESC, id DESC, member DESC LIMIT 1);

-- purge_parked_events
-- $1 organization, $2 limit
DELETE FROM parked_events WHERE organization_id = $1 AND (source, event_id) <= (
    SELECT source, event_id FROM (
        SELECT source, event_id FROM parked_events WHERE organization_id = $1 ORDER BY source, event_id LIMIT $2
    ) x
    ORDER BY source DESC, event_id DESC LIMIT 1);

-- purge_ingested_events
-- $1 organization, $2 limit
DELETE FROM ingested_events WHERE organization_id = $1 AND (source, event_id) <= (
    SELECT source, event_id FROM (
        SELECT source, event_id FROM ingested_events WHERE organization_id = $1 ORDER BY source, event_id LIMIT $2
    ) x
    ORDER BY source DESC, event_id DESC LIMIT 1);

-- purge_sent_requests
-- $1 organization, $2 limit
DELETE FROM sent_requests WHERE organization_id = $1 AND (idempotency_key) <= (
    SELECT idempotency_key FROM (
        SELECT idempotency_key FROM sent_requests WHERE organization_id = $1 ORDER BY idempotency_key LIMIT $2
    ) x
    ORDER BY idempotency_key DESC LIMIT 1);

-- purge_user_keys
-- $1 organization, $2 limit
DELETE FROM user_keys WHERE organization_id = $1 AND (made_for) <= (
    SELECT made_for FROM (
        SELECT made_for FROM user_keys WHERE organization_id = $1 ORDER BY made_for LIMIT $2
    ) x
    ORDER BY made_for DESC LIMIT 1);

-- audit_purge_users
-- Removes all users of a purged organization from the recorded actions, `limit` rows at a time.
-- $1 organization, $2 limit
UPDATE audit AS a
SET user_id = NULL, user_hash = NULL, into_id = NULL, into_hash = NULL
WHERE a.organization_id = $1
    AND (a.user_id IS NOT NULL OR a.user_hash IS NOT NULL OR a.into_id IS NOT NULL OR a.into_hash IS NOT NULL)
    AND a.id <= (
        SELECT k.id FROM (
            SELECT x.id FROM audit x
            WHERE x.organization_id = $1 AND (
                x.user_id IS NOT NULL OR x.user_hash IS NOT NULL
                OR x.into_id IS NOT NULL OR x.into_hash IS NOT NULL)
            ORDER BY x.id LIMIT $2
        ) k
        ORDER BY k.id DESC LIMIT 1);

-- purge_erased_names
-- $1 organization, $2 limit
DELETE FROM erased_names WHERE organization_id = $1 AND (user_hash, name_hash) <= (
    SELECT user_hash, name_hash FROM (
        SELECT user_hash, name_hash FROM erased_names WHERE organization_id = $1 ORDER BY user_hash, name_hash LIMIT $2
    ) x
    ORDER BY user_hash DESC, name_hash DESC LIMIT 1);

-- purge_erased_subjects
-- $1 organization, $2 limit
DELETE FROM erased_subjects WHERE organization_id = $1 AND (subject_hash) <= (
    SELECT subject_hash FROM (
        SELECT subject_hash FROM erased_subjects WHERE organization_id = $1 ORDER BY subject_hash LIMIT $2
    ) x
    ORDER BY subject_hash DESC LIMIT 1);

-- purge_user_erasures
-- $1 organization, $2 limit
DELETE FROM user_erasures WHERE organization_id = $1 AND (user_hash) <= (
    SELECT user_hash FROM (
        SELECT user_hash FROM user_erasures WHERE organization_id = $1 ORDER BY user_hash LIMIT $2
    ) x
    ORDER BY user_hash DESC LIMIT 1);

-- purge_webhook_deliveries
-- $1 organization, $2 limit
DELETE FROM webhook_deliveries WHERE organization_id = $1 AND (endpoint_id, id) <= (
    SELECT endpoint_id, id FROM (
        SELECT endpoint_id, id FROM webhook_deliveries WHERE organization_id = $1 ORDER BY endpoint_id, id LIMIT $2
    ) x
    ORDER BY endpoint_id DESC, id DESC LIMIT 1);

-- purge_user_joins
-- $1 organization
DELETE FROM user_joins WHERE organization_id = $1;

-- purge_feeds
-- $1 organization
DELETE FROM feeds WHERE organization_id = $1;

-- purge_entity_types
-- $1 organization
DELETE FROM entity_types WHERE organization_id = $1;

-- purge_request_quotas
-- $1 organization
DELETE FROM request_quotas WHERE organization_id = $1;

-- purge_external_ids
-- $1 organization
DELETE FROM external_ids WHERE organization_id = $1;

-- purge_upstreams
-- $1 organization
DELETE FROM upstreams WHERE organization_id = $1;

-- purge_organization_keys
-- $1 organization
DELETE FROM organization_keys WHERE organization_id = $1;

-- purge_readers
-- $1 organization
DELETE FROM readers WHERE organization_id = $1;

-- purge_erasure_salts
-- $1 organization
DELETE FROM erasure_salts WHERE organization_id = $1;

-- purge_retention_places
-- $1 organization
DELETE FROM retention_places WHERE organization_id = $1;

-- purge_operations
-- $1 organization
DELETE FROM operations WHERE organization_id = $1;

-- purge_webhook_endpoints
-- $1 organization
DELETE FROM webhook_endpoints WHERE organization_id = $1;

-- purge_service_tokens
-- $1 organization
DELETE FROM service_tokens WHERE organization_id = $1;

-- purge_sources
-- $1 organization
DELETE FROM sources WHERE organization_id = $1;

-- purge_organizations
-- $1 organization
DELETE FROM organizations WHERE id = $1;
