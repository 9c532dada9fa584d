-- Why: sync workers follow the outcomes of their mutations and ids. Events and lists of mappings read a lane's changes
-- in commit order, by the change_position that each change stores.

-- As in 0002_upstream, the predicate of each index names the index's own column, so only queries on that column use it.
-- A mutation that becomes in flight keeps its position, because clients do not need this change. So it updates no
-- index.
CREATE INDEX mutations_by_change ON mutations (organization_id, user_id, change_position)
    WHERE change_position IS NOT NULL;
CREATE INDEX id_mappings_by_change ON id_mappings (organization_id, user_id, change_position)
    WHERE change_position IS NOT NULL;
