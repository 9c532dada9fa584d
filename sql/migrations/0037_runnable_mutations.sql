-- Why: with the order by dependencies, each step of a lane searched for due mutations among all open mutations of the
-- lane. If thousands of mutations wait for other mutations, each step read a thousand pages.
--
-- Only mutations that are pending or in flight satisfy the predicate. No column of the index or its predicate changes
-- while a mutation is in flight, so sending one updates no index. The planner selects the newer index if two cost the
-- same (0002_upstream.sql).

CREATE INDEX runnable_mutations ON mutations (organization_id, user_id, position)
    WHERE blocked_on IS NULL AND stuck_at IS NULL AND synced_at IS NULL;
