-- Why: a new mutation waits for the latest open mutation of its entity. If an entity had ten thousand open mutations
-- because its upstream was down, each push read all of them. The indexes by entity are now in lane order, so one
-- look-up is enough. Building them reads the table once, and pushes wait during that time.

-- As before, each predicate names the index's own column, and no column of the indexes changes while a mutation is in
-- flight.
DROP INDEX open_mutations_by_local_id;
CREATE INDEX open_mutations_by_local_id ON mutations (organization_id, user_id, local_id, position)
    WHERE synced_at IS NULL AND local_id IS NOT NULL;
DROP INDEX open_mutations_by_server_id;
CREATE INDEX open_mutations_by_server_id ON mutations (organization_id, user_id, server_id, position)
    WHERE synced_at IS NULL AND server_id IS NOT NULL;
