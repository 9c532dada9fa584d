-- Why: a new mutation waits for the latest open one of its entity. Where an entity has ten thousand of them, for its
-- upstream is down, each push read them all to find it: the indexes by entity now are in lane order, and one look is
-- enough. Building them reads the table once, and pushes wait meanwhile.

-- As before, each names its own column in its predicate, and none has a column that changes while a mutation is in flight.
DROP INDEX open_mutations_by_local_id;
CREATE INDEX open_mutations_by_local_id ON mutations (organization_id, user_id, local_id, position)
    WHERE synced_at IS NULL AND local_id IS NOT NULL;
DROP INDEX open_mutations_by_server_id;
CREATE INDEX open_mutations_by_server_id ON mutations (organization_id, user_id, server_id, position)
    WHERE synced_at IS NULL AND server_id IS NOT NULL;
