-- Why: a page of channels reads the start of each stay. The start was only in the table's row, so each stay of a page
-- cost an access to a page of the table, and the entities of a channel are scattered over the table.

ALTER TABLE entity_channels DROP CONSTRAINT entity_channels_pkey;
ALTER TABLE entity_channels ADD CONSTRAINT entity_channels_pkey
    PRIMARY KEY (organization_id, channel, changed_at) INCLUDE (joined_at);
