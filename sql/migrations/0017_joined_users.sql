-- Why: two users may turn out to be one person, who signed in another way. An operator joins them: the rows of one become
-- the other's, and requests under its name are the other's from then on.

-- Whose name the upstream's idempotency keys are made with; null: the lane's user. A mutation that came with a joined user
-- keeps its keys, so that the upstream knows what it has seen. Plain and nullable: the table is not written anew.
ALTER TABLE mutations ADD COLUMN key_user_id uuid;

-- The newest migration that the gateway knows; null: one from before this column. A join waits for gateways that do not
-- know of joins, for they would make other keys.
ALTER TABLE gateways ADD COLUMN newest_migration text;

-- Which users became others. Small: a row a joined user.
CREATE TABLE user_joins (
    organization_id  uuid NOT NULL REFERENCES organizations (id),
    user_id          uuid NOT NULL,
    -- never itself a joined user: where that is joined in turn, this follows
    into_id          uuid NOT NULL,
    -- since when neither user is served; later ones begin anew where an earlier one was not gone on with
    started_at       timestamptz NOT NULL,
    -- until when, unless it is gone on with: then both are served as before. Null: the rows have moved
    closed_until     timestamptz,
    -- the feed's end when the rows moved: private entities up to there are yet to be shown to the other's devices
    feed_end         bigint,
    -- when all was done
    finished_at      timestamptz,
    PRIMARY KEY (organization_id, user_id),
    CONSTRAINT joined_into_another CHECK (into_id <> user_id),
    CONSTRAINT moved_or_closed CHECK ((closed_until IS NULL) = (feed_end IS NOT NULL)),
    CONSTRAINT finished_has_moved CHECK (finished_at IS NULL OR closed_until IS NULL)
);
CREATE INDEX user_joins_by_target ON user_joins (organization_id, into_id) WHERE into_id IS NOT NULL;
