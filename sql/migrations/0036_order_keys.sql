-- Why: mutations that write different entities, and whose order matters to the organization's API, may have a common
-- order key. With the order by dependencies, a mutation depends on the latest open mutation with its key.

ALTER TABLE mutations ADD COLUMN order_key text CHECK (octet_length(order_key) BETWEEN 1 AND 128);

CREATE INDEX open_mutations_by_order_key ON mutations (organization_id, user_id, order_key, position)
    WHERE order_key IS NOT NULL AND synced_at IS NULL;
