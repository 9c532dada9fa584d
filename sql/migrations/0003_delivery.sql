-- Why: sync workers follow what becomes of their mutations and ids: events and lists of mappings read a lane's changes
-- in commit order, by the change_position that is stamped on whatever changes.

-- As in the second migration, each index names its own column in its predicate, so that it is open only to queries that
-- ask for it. A mutation that is merely marked as in flight keeps its position: that is no news, and leaves every index
-- alone.
CREATE INDEX mutations_by_change ON mutations (organization_id, user_id, change_position)
    WHERE change_position IS NOT NULL;
CREATE INDEX id_mappings_by_change ON id_mappings (organization_id, user_id, change_position)
    WHERE change_position IS NOT NULL;
