-- events_end
-- $1 organization, $2 user
SELECT f.epoch, f.last_position, coalesce((
    SELECT l.change_position FROM lanes l WHERE l.organization_id = $1 AND l.user_id = $2), 0) AS head
FROM feeds f
WHERE f.organization_id = $1;

-- events_keys
-- Reads the first changes after a place
-- $1 organization, $2 user, $3 from, $4 position, $5 client, $6 entity_type, $7 limit, $8 bytes
SELECT f.epoch, f.last_position, coalesce((
        SELECT l.change_position FROM lanes l WHERE l.organization_id = $1 AND l.user_id = $2), 0) AS head,
    k.found, k.change_position, k.position, k.id, k.entity_type
FROM feeds f
LEFT JOIN LATERAL (
    SELECT v.*
    FROM (
        SELECT r.*, count(*) FILTER (WHERE r.bytes_to > $8) OVER (ORDER BY r.place ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS past
        FROM (
            SELECT m.*, sum(coalesce(CASE WHEN pg_column_compression(m.response_body) IS NULL THEN pg_column_size(m.response_body) ELSE octet_length(m.response_body::text) END, 0) + coalesce(CASE WHEN pg_column_compression(m.error) IS NULL THEN pg_column_size(m.error) ELSE octet_length(m.error::text) END, 0)
    + 39 * coalesce(cardinality(m.depends_on), 0)) OVER (
                    ORDER BY m.place ROWS UNBOUNDED PRECEDING) AS bytes_to
            FROM (
                SELECT w.*, row_number() OVER (
                        ORDER BY w.change_position, w.entity_type IS NOT NULL, w.position, w.id, w.entity_type
                    ) AS place, count(*) OVER () AS found
                FROM (
                    SELECT u.*
                    FROM (
                        (
                            SELECT x.change_position, x.position, x.id, NULL::text AS entity_type,
                                x.response_body, x.error, x.depends_on
                            FROM mutations x
                            WHERE x.organization_id = $1 AND x.user_id = $2
                                AND x.change_position >= $3
                                AND (x.change_position, x.position) > ($3, $4)
                            ORDER BY x.change_position, x.position
                            LIMIT $7
                        )
                        UNION ALL
                        (
                            SELECT x.change_position, NULL, x.client_id, x.entity_type, NULL, NULL, NULL
                            FROM id_mappings x
                            WHERE x.organization_id = $1 AND x.user_id = $2
                                AND x.change_position >= $3
                                AND (x.change_position, x.client_id, x.entity_type)
                                    > ($3, $5, $6)
                            ORDER BY x.change_position, x.client_id, x.entity_type
                            LIMIT $7
                        )
                    ) u
                    ORDER BY u.change_position, u.entity_type IS NOT NULL, u.position, u.id, u.entity_type
                    LIMIT $7
                ) w
            ) m
        ) r
    ) v
    WHERE v.past < 1
) k ON true
WHERE f.organization_id = $1
ORDER BY k.place;

-- wake_lanes
-- $1 organization_id, $2 user_id
SELECT k.organization_id, k.user_id, l.change_position
FROM unnest($1::uuid[], $2::uuid[]) AS k (organization_id, user_id)
CROSS JOIN LATERAL (
    SELECT x.change_position FROM lanes x
    WHERE x.organization_id = k.organization_id AND x.user_id = k.user_id
    OFFSET 0
) l;

-- wake_feeds
-- $1 organizations
SELECT k.organization_id, f.last_position
FROM unnest($1::uuid[]) AS k (organization_id)
CROSS JOIN LATERAL (
    SELECT x.last_position FROM feeds x WHERE x.organization_id = k.organization_id OFFSET 0
) f;

-- hints_notify
-- Sends a hint
-- $1 message
SELECT set_config('synchronous_commit', 'off', true), pg_notify('sluice', $1);

-- gateways_register
-- $1 gateway, $2 newest_migration
INSERT INTO gateways AS g (id, seen_at, newest_migration) VALUES ($1::uuid, clock_timestamp(), $2::text)
ON CONFLICT (id) DO UPDATE SET seen_at = excluded.seen_at;

-- gateways_probe
-- $1 gateway
UPDATE gateways AS g SET seen_at = now() WHERE g.id = $1::uuid;

-- gateways_others
-- $1 gateway, $2 seconds
SELECT count(*) FROM gateways g
WHERE g.id <> $1::uuid AND g.seen_at > clock_timestamp() - $2::int8 * interval '1 second';

-- gateways_forget
DELETE FROM gateways g WHERE g.seen_at < now() - interval '1 hour';
