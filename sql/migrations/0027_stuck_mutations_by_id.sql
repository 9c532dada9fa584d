-- Why: an operation may name the mutations that it is about, by their ids alone. Without a user no index leads to them,
-- and to look for each through all that stands still in the organization reads as much as there is.

-- Open only to queries that ask for an id, as all have one: else a planner that knows little of an organization would take
-- it for any of them.
CREATE INDEX stuck_mutations_by_id ON mutations (organization_id, id)
    WHERE stuck_at IS NOT NULL AND error IS NOT NULL AND synced_at IS NULL AND id IS NOT NULL;
