-- Why: settling thousands of stuck mutations takes longer than a request, must not flood an upstream, and must be
-- completed even if the gateway that began it ends.

-- An operator's retry, discard or resolution of many mutations. A gateway works on it under a lease, and resumes where
-- the previous gateway stopped. The row and its result are kept as long as the audit log.
CREATE TABLE operations (
    organization_id  uuid NOT NULL REFERENCES organizations (id),
    id               uuid NOT NULL,
    kind             text NOT NULL CHECK (kind IN ('retry', 'discard', 'resolve')),
    -- the selection: a mutation must match all columns that are not null
    statuses         text[] NOT NULL,
    entity_type      text COLLATE "C",
    error_code       text COLLATE "C",
    error_status     smallint,
    user_id          uuid,
    ids              uuid[] CHECK (cardinality(ids) <= 1000),
    -- discard: the treatment of dependents; resolve: the version that wins
    dependents       text CHECK (dependents IN ('discard', 'keep')),
    strategy         text CHECK (strategy IN ('server_wins', 'client_wins')),
    reason           text NOT NULL CHECK (length(reason) BETWEEN 1 AND 500),
    actor            text NOT NULL CHECK (length(actor) BETWEEN 1 AND 100),
    -- the maximum number of mutations per second
    per_second       integer NOT NULL CHECK (per_second BETWEEN 1 AND 1000),
    state            text NOT NULL CHECK (state IN ('running', 'cancelled', 'done', 'failed')),
    -- the mutations examined, and of these: the settled ones, those that cannot be settled and were left unchanged, and
    -- the failed ones
    matched          bigint NOT NULL DEFAULT 0,
    done             bigint NOT NULL DEFAULT 0,
    skipped          bigint NOT NULL DEFAULT 0,
    failed           bigint NOT NULL DEFAULT 0,
    -- why mutations were skipped or failed, by code, with counts; and why the operation failed, if it did
    reasons          json NOT NULL DEFAULT '{}',
    error            text CHECK (length(error) <= 500),
    -- the last mutation examined: the operation continues after it
    place_at         timestamptz,
    place_user       uuid,
    place_id         uuid,
    -- the gateway that works on it, until due_at; and the token, incremented with every claim: progress with an older
    -- token is discarded
    lease_owner      uuid,
    lease_token      bigint NOT NULL DEFAULT 0,
    -- when a gateway can claim it; null once it has ended
    due_at           timestamptz,
    -- mutations that got stuck later are not part of the operation
    created_at       timestamptz NOT NULL,
    started_at       timestamptz,
    changed_at       timestamptz NOT NULL,
    ended_at         timestamptz,
    PRIMARY KEY (organization_id, id),
    CONSTRAINT running_is_due CHECK ((state = 'running') = (due_at IS NOT NULL)),
    CONSTRAINT ended_is_dated CHECK ((state = 'running') = (ended_at IS NULL))
);
-- Due operations of all organizations; the few that run in one organization; lists, newest first; and the operations
-- that retention deletes.
CREATE INDEX operations_due ON operations (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX operations_running ON operations (organization_id) WHERE ended_at IS NULL;
CREATE INDEX operations_by_time ON operations (created_at, organization_id, id);
CREATE INDEX operations_by_time_of_organization ON operations (organization_id, created_at, id);
CREATE INDEX operations_ended ON operations (ended_at) WHERE ended_at IS NOT NULL;
