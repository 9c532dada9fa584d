-- Why: operators list the lanes that are halted, a page at a time. An index by organization alone would have all of an
-- organization's sorted for each page.

CREATE INDEX lanes_halted ON lanes (organization_id, user_id) WHERE halted_by IS NOT NULL;
DROP INDEX halted_lanes;
