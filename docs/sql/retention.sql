-- retention_claim
-- $1 owner, $2 now, $3 expires_at, $4 is_due, $5 latest_expiry, $6 latest_due
UPDATE retention_runs AS r
SET owner = $1, token = r.token + 1, expires_at = $3, started_at = $2
-- times that are too late are ignored: the clock was wrong when they were written, or the interval was longer
WHERE r.name = 'retention' AND (r.expires_at IS NULL OR r.expires_at <= $2 OR r.expires_at > $5)
    AND ($4 OR r.due_at IS NULL OR r.due_at <= $2 OR r.due_at > $6)
RETURNING r.token;

-- retention_renew
-- $1 owner, $2 token, $3 expires_at
UPDATE retention_runs AS r SET expires_at = $3
WHERE r.name = 'retention' AND r.owner = $1 AND r.token = $2;

-- retention_release
-- Releases the lease
-- $1 owner, $2 token, $3 finished_at, $4 report, $5 due_at
UPDATE retention_runs AS r
SET owner = NULL, expires_at = NULL, finished_at = coalesce($3, r.finished_at),
    last_report = coalesce($4, r.last_report),
    due_at = CASE WHEN r.due_at > r.started_at THEN least(r.due_at, $5) ELSE $5 END
WHERE r.name = 'retention' AND r.owner = $1 AND r.token = $2;

-- retention_ask
-- $1 now
UPDATE retention_runs AS r SET due_at = $1 WHERE r.name = 'retention';

-- retention_opening
-- Sets a transaction's time limit for locking a lane, and disables plans without indexes, as in `Query.planByIndex`.
-- $1 lock_timeout
SELECT set_config('lock_timeout', $1, true), set_config('plan_cache_mode', 'force_generic_plan', true),
    set_config('enable_hashjoin', 'off', true), set_config('enable_mergejoin', 'off', true),
    set_config('enable_seqscan', 'off', true), set_config('enable_material', 'off', true),
    set_config('enable_bitmapscan', 'off', true);

-- retention_rejections
-- $1 organization, $2 after_age, $3 after_user, $4 after_id, $5 cutoff, $6 limit
SELECT t.user_id AS user_id, t.idempotency_key AS id, t.rejected_at AS age, true AS is_due
FROM rejections t
WHERE t.organization_id = $1 AND  t.rejected_at >= $2
    AND (t.rejected_at, t.user_id, t.idempotency_key) > ($2, $3, $4) AND t.rejected_at < $5
ORDER BY t.rejected_at, t.user_id, t.idempotency_key
LIMIT $6;

-- retention_delete_rejections
-- $1 organization_id, $2 user_id, $3 idempotency_key, $4 cutoff
DELETE FROM rejections AS r
USING unnest($1::uuid[], $2::uuid[], $3::uuid[]) AS k (organization_id, user_id, idempotency_key)
WHERE r.organization_id = k.organization_id AND r.user_id = k.user_id AND r.idempotency_key = k.idempotency_key
    AND CASE WHEN r.rejected_at < $4 THEN true END;

-- retention_debts
-- $1 after, $2 limit, $3 now
SELECT o.id, p.shrunk_until, p.shrunk_user, p.shrunk_id, p.mapping_user, p.mapping_client,
    payload.at AS payload, record.at AS record, trouble.at AS trouble, tombstone.at AS tombstone,
    delivered.at AS delivered, undelivered.at AS undelivered, mapping.at AS mapping,
    p.feed_noted_at, coalesce(
            (SELECT true FROM ended_stays x WHERE x.organization_id = o.id ORDER BY x.left_at + 0 LIMIT 1),
            (SELECT true FROM channel_grants x WHERE x.organization_id = o.id AND x.until IS NOT NULL
                ORDER BY x.until LIMIT 1), false) AS has_ends, ARRAY[coalesce((extract(epoch FROM aged_rejections.at) * 1000000)::int8, 9223372036854775807)]::int8[] AS aged
FROM (
    SELECT x.id FROM organizations x
    WHERE $1::uuid IS NULL OR x.id > $1
    ORDER BY x.id
    LIMIT $2
) o
LEFT JOIN LATERAL (
    SELECT x.shrunk_user, x.shrunk_id, x.mapping_user, x.mapping_client,
        -- a time in the future is ignored, because it was written while a clock was wrong
        CASE WHEN x.shrunk_until <= $3 THEN x.shrunk_until END AS shrunk_until,
        CASE WHEN x.mappings_seen_at <= $3 THEN x.mappings_seen_at END AS mappings_seen_at,
        CASE WHEN x.feed_noted_at[cardinality(x.feed_noted_at)] <= $3 THEN x.feed_noted_at[cardinality(x.feed_noted_at)] END AS feed_noted_at
    FROM retention_places x
    WHERE x.organization_id = o.id
    OFFSET 0
) p ON true
LEFT JOIN LATERAL (
    SELECT x.synced_at AS at FROM mutations x
    WHERE x.organization_id = o.id AND x.synced_at >= coalesce(p.shrunk_until, '-infinity')
        AND (p.shrunk_until IS NULL
            OR (x.synced_at, x.user_id, x.id) > (p.shrunk_until, p.shrunk_user, p.shrunk_id))
    ORDER BY x.synced_at LIMIT 1
) payload ON true
LEFT JOIN LATERAL (
    SELECT x.synced_at AS at FROM mutations x
    WHERE x.organization_id = o.id AND x.synced_at IS NOT NULL
    ORDER BY x.synced_at LIMIT 1
) record ON true
LEFT JOIN LATERAL (
    SELECT x.accepted_at AS at FROM mutations x
    WHERE x.organization_id = o.id AND x.error IS NOT NULL AND x.synced_at IS NULL
    ORDER BY x.accepted_at LIMIT 1
) trouble ON true
LEFT JOIN LATERAL (
    SELECT x.updated_at AS at FROM entities x
    WHERE x.organization_id = o.id AND x.is_deleted
    ORDER BY x.updated_at LIMIT 1
) tombstone ON true
LEFT JOIN LATERAL (
    SELECT x.occurred_at AS at FROM webhook_deliveries x
    WHERE x.organization_id = o.id AND x.status = 'delivered'
    ORDER BY x.occurred_at LIMIT 1
) delivered ON true
LEFT JOIN LATERAL (
    SELECT x.occurred_at AS at FROM webhook_deliveries x
    WHERE x.organization_id = o.id AND x.status <> 'delivered'
    ORDER BY x.occurred_at LIMIT 1
) undelivered ON true
LEFT JOIN LATERAL (
    SELECT x.rejected_at AS at FROM rejections x
    WHERE x.organization_id = o.id AND x.rejected_at IS NOT NULL
    ORDER BY x.rejected_at LIMIT 1
) aged_rejections ON true
LEFT JOIN LATERAL (
    SELECT coalesce(p.mappings_seen_at, x.resolved_at, x.created_at) AS at FROM id_mappings x
    WHERE x.organization_id = o.id
    ORDER BY x.user_id, x.client_id LIMIT 1
) mapping ON true
ORDER BY o.id;

-- retention_status
SELECT r.expires_at, r.due_at, r.started_at, r.finished_at, r.last_report
FROM retention_runs r WHERE r.name = 'retention';

-- retention_final_mutations
-- $1 organization, $2 after_age, $3 after_user, $4 after_id, $5 cutoff, $6 limit
SELECT t.user_id AS user_id, t.id AS id, t.synced_at AS age, t.payload IS NOT NULL OR t.headers IS NOT NULL OR t.sent_payload IS NOT NULL AS is_due
FROM mutations t
WHERE t.organization_id = $1 AND  t.synced_at >= $2
    AND (t.synced_at, t.user_id, t.id) > ($2, $3, $4) AND t.synced_at < $5
ORDER BY t.synced_at, t.user_id, t.id
LIMIT $6;

-- retention_shrink
-- $1 organization_id, $2 user_id, $3 id
UPDATE mutations AS m
SET payload = NULL, headers = NULL, sent_payload = NULL
FROM unnest($1::uuid[], $2::uuid[], $3::uuid[]) AS k (organization_id, user_id, id)
WHERE m.organization_id = k.organization_id AND m.user_id = k.user_id AND m.id = k.id;

-- retention_note_shrunk
-- $1 organization, $2 until, $3 user, $4 id
INSERT INTO retention_places AS p (organization_id, shrunk_until, shrunk_user, shrunk_id)
SELECT o.id, $2, $3, $4 FROM organizations o WHERE o.id = $1
ON CONFLICT (organization_id) DO UPDATE
SET shrunk_until = excluded.shrunk_until, shrunk_user = excluded.shrunk_user, shrunk_id = excluded.shrunk_id;

-- retention_delete_mutations
-- Deletes mutations together with the history of their attempts.
-- $1 organization_id, $2 user_id, $3 id
WITH past AS (
    DELETE FROM attempts AS a
    USING unnest($1::uuid[], $2::uuid[], $3::uuid[]) AS k (organization_id, user_id, id)
    WHERE a.organization_id = k.organization_id AND a.user_id = k.user_id AND a.mutation_id = k.id
)
DELETE FROM mutations AS m
USING unnest($1::uuid[], $2::uuid[], $3::uuid[]) AS k (organization_id, user_id, id)
WHERE m.organization_id = k.organization_id AND m.user_id = k.user_id AND m.id = k.id
    AND NOT EXISTS (
        SELECT FROM mutations w
        WHERE w.organization_id = k.organization_id AND w.user_id = k.user_id AND w.blocked_on = k.id);

-- retention_of_device_types
-- $1 organization_id, $2 entity_type, $3 id
SELECT k.entity_type, k.id
FROM unnest($1::uuid[], $2::text[], $3::text[]) AS k (organization_id, entity_type, id)
CROSS JOIN LATERAL (
        SELECT FROM entity_types t
        WHERE t.organization_id = k.organization_id AND t.name = k.entity_type AND t.id_space = 'device'
        OFFSET 0
    ) t
ORDER BY k.entity_type, k.id;

-- retention_devices
-- Selects the devices with local ids
-- $1 organization, $2 after_user, $3 after_device, $4 limit
SELECT d.user_id, d.device_id
FROM devices d
WHERE d.organization_id = $1 AND (d.user_id, d.device_id) > ($2, $3)
ORDER BY d.user_id, d.device_id
LIMIT $4;

-- retention_named_local_ids
-- Selects local ids that open mutations may contain
-- $1 organization_id, $2 entity_type, $3 id, $4 organization
WITH d AS MATERIALIZED (
    SELECT z.user_id, v.device_id
    FROM lanes z
    CROSS JOIN LATERAL (
        SELECT x.device_id FROM devices x
        WHERE x.organization_id = $4 AND x.user_id = z.user_id
        OFFSET 0
    ) v
    WHERE z.organization_id = $4 AND z.open_count > 0
)
SELECT l.user_id, l.client_id, k.entity_type, k.id
FROM unnest($1::uuid[], $2::text[], $3::text[]) AS k (organization_id, entity_type, id)
CROSS JOIN LATERAL (
        SELECT FROM entity_types t
        WHERE t.organization_id = k.organization_id AND t.name = k.entity_type AND t.id_space = 'device'
        OFFSET 0
    ) t
CROSS JOIN d
CROSS JOIN LATERAL (
    SELECT x.user_id, x.client_id FROM (SELECT s.* FROM (
            SELECT z.* FROM local_ids z
            WHERE z.organization_id = k.organization_id AND z.server_id IS NOT NULL
                AND (z.user_id, z.device_id, z.entity_type, z.server_id) >= (d.user_id, d.device_id, k.entity_type, k.id)
            ORDER BY z.user_id, z.device_id, z.entity_type, z.server_id
            LIMIT 1
        ) s
        WHERE s.user_id = d.user_id AND s.device_id = d.device_id AND s.entity_type = k.entity_type
            AND s.server_id = k.id
        OFFSET 0) x
    WHERE x.client_id IS NOT NULL
    UNION ALL
    SELECT y.user_id, y.client_id FROM local_ids y
    WHERE y.organization_id = k.organization_id AND y.user_id = d.user_id AND y.device_id = d.device_id
        AND y.entity_type = k.entity_type AND y.same_as = k.id AND y.client_id IS NOT NULL
    OFFSET 0
) l;

-- retention_retire_local_ids
-- $1 organization_id, $2 entity_type, $3 id, $4 users, $5 devices, $6 now
INSERT INTO id_mappings AS i (
    organization_id, user_id, client_id, entity_type, server_id, server_id_is_integer, status, mutation_id,
    change_position, created_at, resolved_at, last_used_at)
SELECT k.organization_id, l.user_id, encode(set_byte(set_byte(r.hash, 6, get_byte(r.hash, 6) & 15 | 128), 8, get_byte(r.hash, 8) & 63 | 128), 'hex')::uuid, l.entity_type, coalesce(l.server_id, l.same_as),
    l.server_id_is_integer, 'resolved', l.device_id, -1, $6::timestamptz, $6::timestamptz, $6::timestamptz
FROM unnest($1::uuid[], $2::text[], $3::text[]) AS k (organization_id, entity_type, id)
CROSS JOIN unnest($4::uuid[], $5::uuid[]) AS v (user_id, device_id)
CROSS JOIN LATERAL (SELECT s.* FROM (
            SELECT z.* FROM local_ids z
            WHERE z.organization_id = k.organization_id AND z.server_id IS NOT NULL
                AND (z.user_id, z.device_id, z.entity_type, z.server_id) >= (v.user_id, v.device_id, k.entity_type, k.id)
            ORDER BY z.user_id, z.device_id, z.entity_type, z.server_id
            LIMIT 1
        ) s
        WHERE s.user_id = v.user_id AND s.device_id = v.device_id AND s.entity_type = k.entity_type
            AND s.server_id = k.id
        OFFSET 0) l
CROSS JOIN LATERAL (
    SELECT x.id FROM mutations x
    WHERE x.organization_id = k.organization_id AND x.user_id = l.user_id AND x.position >= 0
    LIMIT 1
) m
CROSS JOIN LATERAL (
    SELECT substr(sha256('retired'::bytea || uuid_send(l.device_id) || int8send(l.local_id)
        || convert_to(l.entity_type, 'UTF8')), 1, 16) AS hash
    OFFSET 0
) r
ON CONFLICT (organization_id, user_id, client_id, entity_type) DO UPDATE
SET server_id = excluded.server_id, server_id_is_integer = excluded.server_id_is_integer,
    last_used_at = excluded.last_used_at;

-- retention_delete_local_ids
-- $1 organization_id, $2 entity_type, $3 id, $4 users, $5 devices
DELETE FROM local_ids AS d
USING (
    SELECT l.organization_id, l.user_id, l.device_id, l.entity_type, l.local_id
    FROM unnest($4::uuid[], $5::uuid[]) AS v (user_id, device_id)
    CROSS JOIN unnest($1::uuid[], $2::text[], $3::text[]) AS k (organization_id, entity_type, id)
    CROSS JOIN LATERAL (SELECT s.* FROM (
            SELECT z.* FROM local_ids z
            WHERE z.organization_id = k.organization_id AND z.server_id IS NOT NULL
                AND (z.user_id, z.device_id, z.entity_type, z.server_id) >= (v.user_id, v.device_id, k.entity_type, k.id)
            ORDER BY z.user_id, z.device_id, z.entity_type, z.server_id
            LIMIT 1
        ) s
        WHERE s.user_id = v.user_id AND s.device_id = v.device_id AND s.entity_type = k.entity_type
            AND s.server_id = k.id
        OFFSET 0) l
) g
WHERE d.organization_id = g.organization_id AND d.user_id = g.user_id AND d.device_id = g.device_id
    AND d.entity_type = g.entity_type AND d.local_id = g.local_id;

-- retention_retire_second_local_ids
-- $1 organization_id, $2 entity_type, $3 id, $4 now
INSERT INTO id_mappings AS i (
    organization_id, user_id, client_id, entity_type, server_id, server_id_is_integer, status, mutation_id,
    change_position, created_at, resolved_at, last_used_at)
SELECT k.organization_id, l.user_id, encode(set_byte(set_byte(r.hash, 6, get_byte(r.hash, 6) & 15 | 128), 8, get_byte(r.hash, 8) & 63 | 128), 'hex')::uuid, l.entity_type, coalesce(l.server_id, l.same_as),
    l.server_id_is_integer, 'resolved', l.device_id, -1, $4::timestamptz, $4::timestamptz, $4::timestamptz
FROM unnest($1::uuid[], $2::text[], $3::text[]) AS k (organization_id, entity_type, id)
CROSS JOIN LATERAL (
    SELECT * FROM local_ids y
    WHERE y.organization_id = k.organization_id AND y.entity_type = k.entity_type AND y.same_as = k.id
    OFFSET 0
) l
CROSS JOIN LATERAL (
    SELECT x.id FROM mutations x
    WHERE x.organization_id = k.organization_id AND x.user_id = l.user_id AND x.position >= 0
    LIMIT 1
) m
CROSS JOIN LATERAL (
    SELECT substr(sha256('retired'::bytea || uuid_send(l.device_id) || int8send(l.local_id)
        || convert_to(l.entity_type, 'UTF8')), 1, 16) AS hash
    OFFSET 0
) r
ON CONFLICT (organization_id, user_id, client_id, entity_type) DO UPDATE
SET server_id = excluded.server_id, server_id_is_integer = excluded.server_id_is_integer,
    last_used_at = excluded.last_used_at;

-- retention_delete_second_local_ids
-- Deletes local ids that a device assigned to an entity in addition to the first local id.
-- $1 organization_id, $2 entity_type, $3 id
DELETE FROM local_ids AS d
USING unnest($1::uuid[], $2::text[], $3::text[]) AS k (organization_id, entity_type, id)
WHERE d.organization_id = k.organization_id AND d.entity_type = k.entity_type AND d.same_as = k.id;

-- retention_deliveries
-- $1 organization, $2 after_age, $3 after_endpoint, $4 after_id, $5 delivered_cutoff, $6 cutoff, $7 limit
SELECT t.endpoint_id, t.id, t.occurred_at
FROM (
    (
        SELECT x.endpoint_id, x.id, x.occurred_at
        FROM webhook_deliveries x
        WHERE x.organization_id = $1 AND x.status = 'delivered' AND x.occurred_at >= $2
            AND (x.occurred_at, x.endpoint_id, x.id) > ($2, $3, $4) AND x.occurred_at < $5
        ORDER BY x.occurred_at, x.endpoint_id, x.id
        LIMIT $7
    )
    UNION ALL
    (
        SELECT x.endpoint_id, x.id, x.occurred_at
        FROM webhook_deliveries x
        WHERE x.organization_id = $1 AND x.status <> 'delivered' AND x.occurred_at >= $2
            AND (x.occurred_at, x.endpoint_id, x.id) > ($2, $3, $4) AND x.occurred_at < $6
        ORDER BY x.occurred_at, x.endpoint_id, x.id
        LIMIT $7
    )
) t
ORDER BY t.occurred_at, t.endpoint_id, t.id
LIMIT $7;

-- retention_delete_deliveries
-- $1 organization_id, $2 endpoint_id, $3 id, $4 cutoff
DELETE FROM webhook_deliveries AS d
USING unnest($1::uuid[], $2::uuid[], $3::uuid[]) AS k (organization_id, endpoint_id, id)
WHERE d.organization_id = k.organization_id AND d.endpoint_id = k.endpoint_id AND d.id = k.id
    AND CASE WHEN d.status = 'delivered' OR d.occurred_at < $4 THEN true END;

-- retention_tombstones
-- $1 organization, $2 after_age, $3 after_type, $4 after_id, $5 cutoff, $6 limit
SELECT e.entity_type, e.id, e.owner_id, e.client_id, e.feed_position, e.updated_at
FROM entities e
WHERE e.organization_id = $1 AND e.is_deleted AND e.updated_at >= $2
    AND (e.updated_at, e.entity_type, e.id::text COLLATE "C") > ($2, $3::text COLLATE "C", $4::text COLLATE "C")
    AND e.updated_at < $5
ORDER BY e.updated_at, e.entity_type, e.id::text COLLATE "C"
LIMIT $6;

-- retention_delete_stays_of_tombstones
-- Deletes the rows that record the channels of tombstones
-- $1 organization_id, $2 entity_type, $3 id, $4 feed_position
DELETE FROM entity_channels AS s
USING (
    SELECT k.organization_id, x.channels, x.feed_position
    FROM unnest($1::uuid[], $2::text[], $3::text[], $4::int8[]) AS k (organization_id, entity_type, id, feed_position)
    CROSS JOIN LATERAL (
        SELECT y.channels, y.feed_position FROM entities y
        WHERE y.organization_id = k.organization_id AND y.entity_type = k.entity_type AND y.id = k.id
            AND y.feed_position = k.feed_position AND y.channels IS NOT NULL
        OFFSET 0
    ) x
) e
WHERE s.organization_id = e.organization_id AND s.channel = ANY (e.channels) AND s.changed_at = e.feed_position;

-- retention_delete_tombstones
-- Deletes tombstones
-- $1 organization_id, $2 entity_type, $3 id, $4 feed_position
DELETE FROM entities AS e
USING unnest($1::uuid[], $2::text[], $3::text[], $4::int8[]) AS k (organization_id, entity_type, id, feed_position)
WHERE e.organization_id = k.organization_id AND e.entity_type = k.entity_type AND e.id = k.id
    AND CASE WHEN e.feed_position = k.feed_position THEN true END
RETURNING e.entity_type, e.id, e.feed_position;

-- retention_delete_mappings_of_tombstones
-- Deletes mappings that no idempotency record can need.
-- $1 organization_id, $2 user_id, $3 client_id, $4 entity_type, $5 server_id, $6 now
DELETE FROM id_mappings AS i
USING unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::text[], $5::text[]) AS k (organization_id, user_id, client_id, entity_type, server_id)
WHERE i.organization_id = k.organization_id AND i.user_id = k.user_id AND i.client_id = k.client_id
    AND i.entity_type = k.entity_type AND i.server_id = k.server_id
    AND CASE WHEN $6::timestamptz + interval '90000 seconds' < (
            SELECT CASE
                WHEN count(f.synced_at) > 0 THEN min(f.accepted_at) FILTER (WHERE f.synced_at IS NOT NULL)
                WHEN count(*) = 16 THEN max(f.accepted_at)
                ELSE 'infinity' END
            FROM (
                SELECT x.accepted_at, x.synced_at FROM mutations x
                WHERE x.organization_id = i.organization_id AND x.user_id = i.user_id AND x.position >= 0
                ORDER BY x.position LIMIT 16
            ) f) THEN true END;

-- retention_keep_mappings_of_tombstones
-- Records the present time as the last use of the remaining mappings
-- $1 organization_id, $2 user_id, $3 client_id, $4 entity_type, $5 server_id, $6 now
UPDATE id_mappings AS i
SET last_used_at = $6
FROM unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::text[], $5::text[]) AS k (organization_id, user_id, client_id, entity_type, server_id)
WHERE i.organization_id = k.organization_id AND i.user_id = k.user_id AND i.client_id = k.client_id
    AND i.entity_type = k.entity_type AND i.server_id = k.server_id;

-- retention_raise_horizon
-- Raises the horizon
-- $1 organization, $2 position
UPDATE feeds AS f SET horizon = greatest(f.horizon, $2) WHERE f.organization_id = $1;

-- retention_feed_notes
-- $1 organization
SELECT f.last_position, f.horizon,
    ARRAY(SELECT (extract(epoch FROM t) * 1000000)::int8 FROM unnest(p.feed_noted_at) WITH ORDINALITY AS x (t, place)
        ORDER BY x.place) AS times,
    coalesce(p.feed_positions, '{}') AS feed_positions
FROM feeds f LEFT JOIN retention_places p ON p.organization_id = $1
WHERE f.organization_id = $1;

-- retention_note_feed
-- $1 organization, $2 times, $3 positions
INSERT INTO retention_places AS p (organization_id, feed_noted_at, feed_positions)
SELECT o.id, $2::text[]::timestamptz[], $3::int8[] FROM organizations o WHERE o.id = $1
ON CONFLICT (organization_id) DO UPDATE
SET feed_noted_at = excluded.feed_noted_at, feed_positions = excluded.feed_positions;

-- retention_delete_stays
-- $1 organization, $2 position, $3 limit
DELETE FROM ended_stays AS s
USING (
    SELECT x.channel, x.left_at FROM ended_stays x
    WHERE x.organization_id = $1 AND x.left_at + 0 <= $2
    ORDER BY x.left_at + 0 LIMIT $3
) k
WHERE s.organization_id = $1 AND s.channel = k.channel AND s.left_at = k.left_at;

-- retention_delete_grants
-- Deletes ended grants, if their users no longer hold the channel.
-- $1 organization, $2 position, $3 limit
DELETE FROM channel_grants AS g
USING (
    SELECT x.user_id, x.channel, x.source, x.since FROM channel_grants x
    WHERE x.organization_id = $1 AND x.until <= $2 AND NOT EXISTS (
            SELECT FROM channel_grants z
            WHERE z.organization_id = $1 AND z.user_id = x.user_id AND z.channel = x.channel
                AND (z.until IS NULL OR z.until > $2))
    ORDER BY x.until LIMIT $3
) k
WHERE g.organization_id = $1 AND g.user_id = k.user_id AND g.channel = k.channel
    AND g.source = k.source AND g.since = k.since;

-- retention_count_ends
-- Counts expired ends, each kind up to a limit.
-- $1 organization, $2 position, $3 limit
SELECT (SELECT count(*) FROM (
        SELECT FROM ended_stays x
        WHERE x.organization_id = $1 AND x.left_at + 0 <= $2 LIMIT $3) s)
    + (SELECT count(*) FROM (
        SELECT FROM channel_grants x
        WHERE x.organization_id = $1 AND x.until <= $2 AND NOT EXISTS (
            SELECT FROM channel_grants z
            WHERE z.organization_id = $1 AND z.user_id = x.user_id AND z.channel = x.channel
                AND (z.until IS NULL OR z.until > $2))
        LIMIT $3) g) AS count;

-- retention_mappings
-- Reads a page of mappings
-- $1 organization, $2 after_user, $3 after_client, $4 cutoff, $5 limit
SELECT i.user_id, i.client_id, i.entity_type, coalesce(i.status <> 'pending' AND coalesce(i.last_used_at, i.resolved_at, i.created_at) < $4
        -- with EXISTS, the planner could hash all entities
        AND (SELECT e.id FROM entities e
             WHERE e.organization_id = i.organization_id AND e.entity_type = i.entity_type AND e.id = i.server_id
             LIMIT 1) IS NULL
        AND coalesce(i.last_used_at, i.resolved_at, i.created_at) + interval '90000 seconds' < (
            SELECT CASE
                WHEN count(f.synced_at) > 0 THEN min(f.accepted_at) FILTER (WHERE f.synced_at IS NOT NULL)
                WHEN count(*) = 16 THEN max(f.accepted_at)
                ELSE 'infinity' END
            FROM (
                SELECT x.accepted_at, x.synced_at FROM mutations x
                WHERE x.organization_id = i.organization_id AND x.user_id = i.user_id AND x.position >= 0
                ORDER BY x.position LIMIT 16
            ) f), false) AS is_due
FROM (
    SELECT * FROM id_mappings x
    WHERE x.organization_id = $1 AND (x.user_id, x.client_id) > ($2, $3)
    ORDER BY x.user_id, x.client_id
    FETCH FIRST $5 ROWS WITH TIES
) i;

-- retention_delete_mappings
-- $1 organization_id, $2 user_id, $3 client_id, $4 entity_type, $5 cutoff
DELETE FROM id_mappings AS i
USING unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::text[]) AS k (organization_id, user_id, client_id, entity_type)
WHERE i.organization_id = k.organization_id AND i.user_id = k.user_id AND i.client_id = k.client_id
    AND i.entity_type = k.entity_type AND CASE WHEN i.status <> 'pending' AND coalesce(i.last_used_at, i.resolved_at, i.created_at) < $5
        -- with EXISTS, the planner could hash all entities
        AND (SELECT e.id FROM entities e
             WHERE e.organization_id = i.organization_id AND e.entity_type = i.entity_type AND e.id = i.server_id
             LIMIT 1) IS NULL
        AND coalesce(i.last_used_at, i.resolved_at, i.created_at) + interval '90000 seconds' < (
            SELECT CASE
                WHEN count(f.synced_at) > 0 THEN min(f.accepted_at) FILTER (WHERE f.synced_at IS NOT NULL)
                WHEN count(*) = 16 THEN max(f.accepted_at)
                ELSE 'infinity' END
            FROM (
                SELECT x.accepted_at, x.synced_at FROM mutations x
                WHERE x.organization_id = i.organization_id AND x.user_id = i.user_id AND x.position >= 0
                ORDER BY x.position LIMIT 16
            ) f) THEN true END;

-- retention_note_mappings
-- $1 organization, $2 user, $3 client, $4 seen_at
INSERT INTO retention_places AS p (organization_id, mapping_user, mapping_client, mappings_seen_at)
SELECT o.id, $2, $3, $4 FROM organizations o WHERE o.id = $1
ON CONFLICT (organization_id) DO UPDATE
SET mapping_user = excluded.mapping_user, mapping_client = excluded.mapping_client,
    mappings_seen_at = coalesce(excluded.mappings_seen_at, p.mappings_seen_at);

-- retention_troubled_mutations
-- $1 organization, $2 after_age, $3 after_user, $4 after_id, $5 cutoff, $6 limit
SELECT t.user_id AS user_id, t.id AS id, t.accepted_at AS age, t.status IN ('failed', 'conflict') AND t.changed_at < $5 AS is_due
FROM mutations t
WHERE t.organization_id = $1 AND t.error IS NOT NULL AND t.synced_at IS NULL AND t.accepted_at >= $2
    AND (t.accepted_at, t.user_id, t.id) > ($2, $3, $4) AND t.accepted_at < $5
ORDER BY t.accepted_at, t.user_id, t.id
LIMIT $6;

-- retention_still_old
-- Returns the given mutations of a lane that are still old enough.
-- $1 organization, $2 user, $3 ids, $4 cutoff
SELECT m.id
FROM unnest($3::uuid[]) AS k (id)
CROSS JOIN LATERAL (
    SELECT x.id, x.changed_at FROM mutations x
    WHERE x.organization_id = $1 AND x.user_id = $2 AND x.id = k.id
    OFFSET 0
) m
WHERE m.changed_at < $4;

-- retention_forget
-- Deletes the payload of discarded mutations immediately, and records the reason for the discard
-- $1 organization_id, $2 user_id, $3 id
UPDATE mutations AS m
SET payload = NULL, headers = NULL, sent_payload = NULL,
    last_error = 'discarded by retention, because it was not settled in time'
FROM unnest($1::uuid[], $2::uuid[], $3::uuid[]) AS k (organization_id, user_id, id)
WHERE m.organization_id = k.organization_id AND m.user_id = k.user_id AND m.id = k.id;

-- retention_needed_ids
-- $1 organization_id, $2 user_id
SELECT DISTINCT k.user_id, n.id
FROM unnest($1::uuid[], $2::uuid[]) AS k (organization_id, user_id)
CROSS JOIN LATERAL (
    SELECT unnest(m.reference_ids || m.local_id) AS id
    FROM mutations m
    WHERE m.organization_id = k.organization_id AND m.user_id = k.user_id AND m.synced_at IS NULL
    ORDER BY m.position
) n
WHERE n.id IS NOT NULL;
