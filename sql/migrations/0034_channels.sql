-- Why: an entity was visible to its creator alone or to the whole organization, so a phone received every entity of an
-- organization or none. Channels are named parts of an organization: who holds a channel sees its entities.

-- Channels are identified by 16 bytes of the SHA-256 of their names. Positions are those of the organization's feed.

ALTER TABLE entity_types DROP CONSTRAINT entity_types_visibility_check;
ALTER TABLE entity_types ADD CONSTRAINT entity_types_visibility_check
    CHECK (visibility IN ('organization', 'user', 'channels'));
-- the templates that put an entity in channels, and the grants that it makes
ALTER TABLE entity_types ADD COLUMN channels jsonb NOT NULL DEFAULT '[]' CHECK (jsonb_typeof(channels) = 'array');
ALTER TABLE entity_types ADD COLUMN grants jsonb NOT NULL DEFAULT '[]' CHECK (jsonb_typeof(grants) = 'array');
-- the visibility before the type got channels: its readers receive the entities that have left it
ALTER TABLE entity_types ADD COLUMN former_visibility text CHECK (former_visibility IN ('organization', 'user'));

-- The channels that an entity is in; null in types without channels, and until the templates were evaluated.
ALTER TABLE entities ADD COLUMN channels uuid[];
-- The feed of entities without channels, so that a page never reads those of channels that its user does not hold. By
-- an expression: no plan that was made on a small table can take the index of all entities instead.
CREATE UNIQUE INDEX entities_outside_channels ON entities (organization_id, (feed_position + 0)) WHERE channels IS NULL;

-- A row for each channel that an entity is in, found by the position of the entity's last change.
CREATE TABLE entity_channels (
    organization_id  uuid NOT NULL,
    channel          uuid NOT NULL,
    changed_at       bigint NOT NULL,
    joined_at        bigint NOT NULL,
    PRIMARY KEY (organization_id, channel, changed_at)
) PARTITION BY HASH (organization_id);

-- A row for each channel that an entity has left. Deleted with the tombstones of its time.
CREATE TABLE ended_stays (
    organization_id  uuid NOT NULL,
    channel          uuid NOT NULL,
    left_at          bigint NOT NULL,
    -- 0 for an entity that was seen without channels
    joined_at        bigint NOT NULL,
    entity_type      text NOT NULL COLLATE "C",
    id               server_id NOT NULL,
    id_is_integer    boolean NOT NULL,
    PRIMARY KEY (organization_id, channel, left_at)
) PARTITION BY HASH (organization_id);
-- By an expression, so that no plan of a page takes it in place of the key.
CREATE INDEX ended_stays_by_end ON ended_stays (organization_id, (left_at + 0));

-- Who holds which channel, from which source. A grant that ended remains while cursors may reach back to it.
CREATE TABLE channel_grants (
    organization_id  uuid NOT NULL,
    user_id          uuid NOT NULL,
    channel          uuid NOT NULL,
    source           text NOT NULL COLLATE "C" CHECK (octet_length(source) <= 2200),
    since            bigint NOT NULL,
    name             text NOT NULL COLLATE "C" CHECK (octet_length(name) BETWEEN 1 AND 200),
    role             text NOT NULL CHECK (role IN ('read', 'write')),
    -- null while it lasts
    until            bigint,
    -- the greater of both: by it a reader finds that the user's channels have changed
    changed_at       bigint NOT NULL,
    PRIMARY KEY (organization_id, user_id, channel, source, since),
    CONSTRAINT grant_ends_later CHECK (until >= since)
) PARTITION BY HASH (organization_id);
CREATE INDEX channel_grants_by_change ON channel_grants (organization_id, user_id, changed_at);
CREATE INDEX channel_grants_by_source ON channel_grants (organization_id, source) WHERE until IS NULL;
CREATE INDEX channel_grants_ended ON channel_grants (organization_id, until) WHERE until IS NOT NULL;
CREATE INDEX channel_grants_by_channel ON channel_grants (organization_id, channel, user_id) WHERE until IS NULL;

-- The newest token with channels of each user and issuer: an older token does not bring its channels back.
CREATE TABLE token_channels (
    organization_id  uuid NOT NULL,
    user_id          uuid NOT NULL,
    source           text NOT NULL COLLATE "C" CHECK (octet_length(source) <= 2200),
    -- in seconds since 1970
    issued_at        bigint NOT NULL,
    -- identifies the channels and the role
    digest           uuid NOT NULL,
    PRIMARY KEY (organization_id, user_id, source)
) PARTITION BY HASH (organization_id);

-- Operations that evaluate the channels of a type's entities, with the last entity that was evaluated.
ALTER TABLE operations DROP CONSTRAINT operations_kind_check;
ALTER TABLE operations ADD CONSTRAINT operations_kind_check CHECK (kind IN ('retry', 'discard', 'resolve', 'evaluate'));
ALTER TABLE operations ADD COLUMN place_entity text COLLATE "C";

DO $$
DECLARE
    parent text;
BEGIN
    FOREACH parent IN ARRAY ARRAY['entity_channels', 'ended_stays', 'channel_grants', 'token_channels'] LOOP
        FOR number IN 0 .. :partitions - 1 LOOP
            EXECUTE format(
                'CREATE TABLE %1$s_p%2$s PARTITION OF %1$s FOR VALUES WITH (MODULUS :partitions, REMAINDER %2$s) WITH (fillfactor = 90, autovacuum_vacuum_scale_factor = 0.05)',
                parent, number);
        END LOOP;
    END LOOP;
END $$;
