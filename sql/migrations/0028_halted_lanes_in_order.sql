-- Why: operators list halted lanes in pages. With an index by organization alone, PostgreSQL would sort all halted
-- lanes of an organization for each page.

CREATE INDEX lanes_halted ON lanes (organization_id, user_id) WHERE halted_by IS NOT NULL;
DROP INDEX halted_lanes;
