-- export_page
-- A page of up to `limit` entities after a position (`after`).
-- $1 organization, $2 after, $3 limit, $4 types, $5 since, $6 end, $7 bytes
SELECT f.epoch, f.horizon, f.last_position, s.scanned, s.scanned_to, e.feed_position, e.is_cut, e.entity_type,
    e.id, e.id_is_integer, e.document, e.owner_id, e.updated_at, e.is_private
FROM feeds f
CROSS JOIN LATERAL (
    SELECT count(*) AS scanned, max(x.feed_position) AS scanned_to
    FROM (SELECT * FROM (
    (SELECT e.feed_position FROM entities e
 WHERE e.channels IS NULL AND e.organization_id = $1 AND e.feed_position > $2
 ORDER BY e.feed_position LIMIT $3)
    UNION ALL
    (SELECT e.feed_position FROM entities e
 WHERE e.channels IS NOT NULL AND e.organization_id = $1 AND e.feed_position > $2
 ORDER BY e.feed_position LIMIT $3)
) e
ORDER BY e.feed_position LIMIT $3) x
) s
LEFT JOIN LATERAL (
    SELECT r.*, r.bytes_to > $7 AS is_cut,
        (SELECT t.visibility <> 'organization' FROM entity_types t
         WHERE t.organization_id = $1 AND t.name = r.entity_type) IS TRUE AS is_private
    FROM (
        SELECT q.*, count(*) FILTER (WHERE q.bytes_to > $7) OVER (ORDER BY q.feed_position ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS past
        FROM (
            SELECT p.*, sum(coalesce(CASE WHEN pg_column_compression(p.document) IS NULL THEN pg_column_size(p.document) ELSE octet_length(p.document::text) END, 0)) OVER (
                    ORDER BY p.feed_position ROWS UNBOUNDED PRECEDING) AS bytes_to
            FROM (SELECT * FROM (
    (SELECT e.* FROM entities e
 WHERE e.channels IS NULL AND e.organization_id = $1 AND e.feed_position > $2
    AND e.feed_position <= s.scanned_to
    AND (cardinality($4::text[]) = 0 OR e.entity_type = ANY ($4))
    AND ($5::timestamptz IS NULL OR e.updated_at >= $5)
    AND (NOT e.is_deleted OR e.feed_position > coalesce($6::int8, f.last_position))
 ORDER BY e.feed_position LIMIT $3)
    UNION ALL
    (SELECT e.* FROM entities e
 WHERE e.channels IS NOT NULL AND e.organization_id = $1 AND e.feed_position > $2
    AND e.feed_position <= s.scanned_to
    AND (cardinality($4::text[]) = 0 OR e.entity_type = ANY ($4))
    AND ($5::timestamptz IS NULL OR e.updated_at >= $5)
    AND (NOT e.is_deleted OR e.feed_position > coalesce($6::int8, f.last_position))
 ORDER BY e.feed_position LIMIT $3)
) e
ORDER BY e.feed_position LIMIT $3) p
        ) q
    ) r
    WHERE r.past < 1
) e ON true
WHERE f.organization_id = $1
ORDER BY e.feed_position;
