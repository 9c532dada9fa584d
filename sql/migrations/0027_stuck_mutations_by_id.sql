-- Why: an operation can name its mutations by ids alone. Without a user, no index contains them, so the search for each
-- id would read all stuck mutations of the organization.

-- Only queries on an id, which every mutation has, use the index. Otherwise a planner without statistics about an
-- organization might use it for any query on stuck mutations.
CREATE INDEX stuck_mutations_by_id ON mutations (organization_id, id)
    WHERE stuck_at IS NOT NULL AND error IS NOT NULL AND synced_at IS NULL AND id IS NOT NULL;
