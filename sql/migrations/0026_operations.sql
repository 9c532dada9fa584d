-- Why: settling what stands still by the thousand takes longer than a request lasts, must not flood an upstream, and has
-- to come to its end whatever becomes of the gateway that began it.

-- A retry, discard or resolve of many mutations, as an operator asked for it. Some gateway works on it under a lease, and
-- goes on where the one before was. Kept with its result as long as the audit is.
CREATE TABLE operations (
    organization_id  uuid NOT NULL REFERENCES organizations (id),
    id               uuid NOT NULL,
    kind             text NOT NULL CHECK (kind IN ('retry', 'discard', 'resolve')),
    -- what it is about: a mutation has to match all that are not null
    statuses         text[] NOT NULL,
    entity_type      text COLLATE "C",
    error_code       text COLLATE "C",
    error_status     smallint,
    user_id          uuid,
    ids              uuid[] CHECK (cardinality(ids) <= 1000),
    -- discard: what becomes of dependants; resolve: whose version wins
    dependents       text CHECK (dependents IN ('discard', 'keep')),
    strategy         text CHECK (strategy IN ('server_wins', 'client_wins')),
    reason           text NOT NULL CHECK (length(reason) BETWEEN 1 AND 500),
    actor            text NOT NULL CHECK (length(actor) BETWEEN 1 AND 100),
    -- mutations a second, at most
    per_second       integer NOT NULL CHECK (per_second BETWEEN 1 AND 1000),
    state            text NOT NULL CHECK (state IN ('running', 'cancelled', 'done', 'failed')),
    -- mutations that were looked at; of them settled, left as they were for they cannot be, and failed at
    matched          bigint NOT NULL DEFAULT 0,
    done             bigint NOT NULL DEFAULT 0,
    skipped          bigint NOT NULL DEFAULT 0,
    failed           bigint NOT NULL DEFAULT 0,
    -- why mutations were left or failed at, by code, with how often; and why it ended, where it failed
    reasons          json NOT NULL DEFAULT '{}',
    error            text CHECK (length(error) <= 500),
    -- the last mutation looked at: it goes on behind
    place_at         timestamptz,
    place_user       uuid,
    place_id         uuid,
    -- the gateway that works on it, until then; raised with every claim, and progress under an older one is thrown away
    lease_owner      uuid,
    lease_token      bigint NOT NULL DEFAULT 0,
    -- when a gateway may claim it; null once it ended
    due_at           timestamptz,
    -- what got stuck later than this is not its business
    created_at       timestamptz NOT NULL,
    started_at       timestamptz,
    changed_at       timestamptz NOT NULL,
    ended_at         timestamptz,
    PRIMARY KEY (organization_id, id),
    CONSTRAINT running_is_due CHECK ((state = 'running') = (due_at IS NOT NULL)),
    CONSTRAINT ended_is_dated CHECK ((state = 'running') = (ended_at IS NULL))
);
-- Which are due, over all organizations; the few that run in one; lists, newest first; and what retention deletes.
CREATE INDEX operations_due ON operations (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX operations_running ON operations (organization_id) WHERE ended_at IS NULL;
CREATE INDEX operations_by_time ON operations (created_at, organization_id, id);
CREATE INDEX operations_by_time_of_organization ON operations (organization_id, created_at, id);
CREATE INDEX operations_ended ON operations (ended_at) WHERE ended_at IS NOT NULL;
