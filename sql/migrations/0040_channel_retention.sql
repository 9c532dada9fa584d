-- Why: the ends of grants, and of entities' stays in channels, were deleted only together with a later tombstone. An
-- organization that deletes no entities kept them forever.
--
-- Retention notes the feed's position once a day. A position that was noted before the storage period separates the
-- ends that have expired from later ends.

ALTER TABLE retention_places
    ADD COLUMN feed_noted_at timestamptz[] NOT NULL DEFAULT '{}',
    -- the feed's positions at these times
    ADD COLUMN feed_positions bigint[] NOT NULL DEFAULT '{}',
    ADD CONSTRAINT feed_positions_have_times CHECK (cardinality(feed_noted_at) = cardinality(feed_positions));
