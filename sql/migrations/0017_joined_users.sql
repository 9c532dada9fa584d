-- Why: two users may turn out to be one person with two ways to sign in. An operator joins them: the rows of one user
-- move to the other, the target, and requests as the joined user are then requests as the target.

-- The user for whom the upstream's idempotency keys are generated; null: the lane's user. The mutations of a joined
-- user keep their keys, so that the upstream recognizes repeats. A plain type that can be null: the table is not
-- rewritten.
ALTER TABLE mutations ADD COLUMN key_user_id uuid;

-- The newest migration of the gateway's build; null: a build older than this column. A join waits while gateways run
-- that do not support joins, because they would generate other keys.
ALTER TABLE gateways ADD COLUMN newest_migration text;

-- Joined users and their targets. The table is small: one row per joined user.
CREATE TABLE user_joins (
    organization_id  uuid NOT NULL REFERENCES organizations (id),
    user_id          uuid NOT NULL,
    -- never a joined user itself: if the target is joined in turn, this value is updated
    into_id          uuid NOT NULL,
    -- since when neither user is served; a later attempt sets it again if an earlier one was given up
    started_at       timestamptz NOT NULL,
    -- when the join is given up unless a call continues it: both users are then served as before. Null: the rows have
    -- moved
    closed_until     timestamptz,
    -- the feed's end when the rows moved: the target's devices have yet to receive the private entities up to this
    -- position
    feed_end         bigint,
    -- when the join was complete
    finished_at      timestamptz,
    PRIMARY KEY (organization_id, user_id),
    CONSTRAINT joined_into_another CHECK (into_id <> user_id),
    CONSTRAINT moved_or_closed CHECK ((closed_until IS NULL) = (feed_end IS NOT NULL)),
    CONSTRAINT finished_has_moved CHECK (finished_at IS NULL OR closed_until IS NULL)
);
CREATE INDEX user_joins_by_target ON user_joins (organization_id, into_id) WHERE into_id IS NOT NULL;
