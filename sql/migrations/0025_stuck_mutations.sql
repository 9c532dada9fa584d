-- Why: operators view the stuck mutations of all users and organizations, grouped by kind and cause, and page through
-- them from the newest. With ten million mutations stored, no query may read more rows than it shows.

-- All three are set while a person must settle the mutation, and null otherwise.
ALTER TABLE mutations
    -- when it failed or got into conflict
    ADD COLUMN stuck_at timestamptz,
    -- the code of its problem, which is also in the sealed `error`; `conflict` if and only if that is the status
    ADD COLUMN error_code text COLLATE "C",
    -- the HTTP status of the upstream's answer, or the built-in store's equivalent; 0: no answer
    ADD COLUMN error_status smallint;

-- Mutations that are stuck already. The code of a sealed problem cannot be read; the other columns of the row determine
-- a sufficient one.
UPDATE mutations AS m
SET stuck_at = m.changed_at, error_status = coalesce(m.response_status, m.last_error_code::smallint, 0),
    error_code = CASE
        WHEN m.status = 'conflict' THEN 'conflict'
        WHEN json_typeof(m.error) = 'object' THEN coalesce(m.error ->> 'code', 'upstream_rejected')
        WHEN m.response_status IS NOT NULL THEN 'upstream_rejected'
        ELSE 'max_attempts_reached' END
WHERE m.error IS NOT NULL AND m.synced_at IS NULL AND m.status IN ('failed', 'conflict');

-- No column of these indexes changes when a mutation is sent. The predicate contains more than `stuck_at IS NOT NULL`,
-- so that mutations settled by gateways of the previous version also leave the indexes. Only queries with a condition
-- on position, which is always above 0, use the indexes by time. Otherwise a planner without statistics about groups
-- might search all times for one group.
CREATE INDEX stuck_mutations_by_group ON mutations
    (organization_id, entity_type, error_code, error_status, stuck_at, user_id, id)
    WHERE stuck_at IS NOT NULL AND error IS NOT NULL AND synced_at IS NULL;
CREATE INDEX stuck_mutations_by_time ON mutations (organization_id, stuck_at, user_id, id)
    WHERE stuck_at IS NOT NULL AND error IS NOT NULL AND synced_at IS NULL AND position > 0;
-- For all organizations, as `lanes_by_ready_at`.
CREATE INDEX stuck_mutations_by_time_of_all ON mutations (stuck_at, organization_id, user_id, id)
    WHERE stuck_at IS NOT NULL AND error IS NOT NULL AND synced_at IS NULL AND position > 0;

-- The last requests of mutations that did not succeed at the first attempt; other mutations have no row. The rows of a
-- mutation are a ring of twenty: the next attempt replaces the oldest. They contain no text of a user or an upstream.
CREATE TABLE attempts (
    organization_id  uuid NOT NULL,
    user_id          uuid NOT NULL,
    mutation_id      uuid NOT NULL,
    -- ordinal modulo twenty
    slot             smallint NOT NULL CHECK (slot BETWEEN 0 AND 19),
    -- the number of the mutation's attempt, over all revisions
    ordinal          integer NOT NULL CHECK (ordinal >= 1),
    revision         integer NOT NULL,
    -- the value of `attempt_count`; an attempt that does not count has the number of the previous one
    number           smallint NOT NULL,
    sent_at          timestamptz NOT NULL,
    -- null if the gateway ended before it could measure the duration
    duration_ms      integer,
    -- the HTTP status of the answer; null without an answer
    status           smallint,
    -- why there was no answer, or no usable one
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
