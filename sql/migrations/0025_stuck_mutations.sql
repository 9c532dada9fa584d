-- Why: operators look at what stands still over all users and organizations, by what it is and why it does, and page
-- through it newest first. Nothing of that may read more than it shows, with ten million mutations stored.

-- All three are set while a person has to settle the mutation, and null else.
ALTER TABLE mutations
    -- when it failed, or met a conflict
    ADD COLUMN stuck_at timestamptz,
    -- the code of its problem, which the sealed `error` has as well; `conflict` exactly where the status is
    ADD COLUMN error_code text COLLATE "C",
    -- the HTTP status of the upstream's answer, or its equivalent of the built-in store; 0: there was none
    ADD COLUMN error_status smallint;

-- What stands still already. A sealed problem keeps its code to itself: the rest of the row says enough of it.
UPDATE mutations AS m
SET stuck_at = m.changed_at, error_status = coalesce(m.response_status, m.last_error_code::smallint, 0),
    error_code = CASE
        WHEN m.status = 'conflict' THEN 'conflict'
        WHEN json_typeof(m.error) = 'object' THEN coalesce(m.error ->> 'code', 'upstream_rejected')
        WHEN m.response_status IS NOT NULL THEN 'upstream_rejected'
        ELSE 'max_attempts_reached' END
WHERE m.error IS NOT NULL AND m.synced_at IS NULL AND m.status IN ('failed', 'conflict');

-- None has a column that changes when a mutation is sent. The predicate is more than `stuck_at IS NOT NULL` for gateways
-- of the version before: what they settle leaves these indexes, too. Those by time are open only to queries that ask for
-- a position, as all are above 0: else a planner that knows little of groups would look for one through all of the time.
CREATE INDEX stuck_mutations_by_group ON mutations
    (organization_id, entity_type, error_code, error_status, stuck_at, user_id, id)
    WHERE stuck_at IS NOT NULL AND error IS NOT NULL AND synced_at IS NULL;
CREATE INDEX stuck_mutations_by_time ON mutations (organization_id, stuck_at, user_id, id)
    WHERE stuck_at IS NOT NULL AND error IS NOT NULL AND synced_at IS NULL AND position > 0;
-- Over all organizations, as `lanes_by_ready_at` is.
CREATE INDEX stuck_mutations_by_time_of_all ON mutations (stuck_at, organization_id, user_id, id)
    WHERE stuck_at IS NOT NULL AND error IS NOT NULL AND synced_at IS NULL AND position > 0;

-- The last requests of mutations that did not simply succeed: who succeeds at the first try has no row here. Rows of a
-- mutation are a ring of twenty, and the next attempt takes the place of the oldest. Nothing that a user or an upstream
-- wrote stands here.
CREATE TABLE attempts (
    organization_id  uuid NOT NULL,
    user_id          uuid NOT NULL,
    mutation_id      uuid NOT NULL,
    -- ordinal modulo twenty
    slot             smallint NOT NULL CHECK (slot BETWEEN 0 AND 19),
    -- counts the mutation's attempts, over all revisions
    ordinal          integer NOT NULL CHECK (ordinal >= 1),
    revision         integer NOT NULL,
    -- as `attempt_count` had it; those that count as none have the number of the one before
    number           smallint NOT NULL,
    sent_at          timestamptz NOT NULL,
    -- null where nobody was left to measure it
    duration_ms      integer,
    -- the HTTP status of the answer; null for none
    status           smallint,
    -- why there was no answer, or none that counts
    error            text CHECK (length(error) <= 200),
    outcome          text NOT NULL CHECK (outcome IN
        ('succeeded', 'retry', 'failed', 'conflict', 'unknown', 'held')),
    PRIMARY KEY (organization_id, user_id, mutation_id, slot)
) PARTITION BY HASH (organization_id);

DO $$
BEGIN
    FOR number IN 0 .. :partitions - 1 LOOP
        EXECUTE format(
            'CREATE TABLE attempts_p%1$s PARTITION OF attempts FOR VALUES WITH (MODULUS :partitions, REMAINDER %1$s) WITH (fillfactor = 90, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_insert_scale_factor = 0.05)',
            number);
    END LOOP;
END $$;
