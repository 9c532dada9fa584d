-- Why: an upstream that does not know the channels accepts writes of users who may not write. The gateway can refuse
-- these writes before it sends them.

ALTER TABLE entity_types ADD COLUMN check_channels boolean NOT NULL DEFAULT false;
