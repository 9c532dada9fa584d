-- Why: an organization's edits also arrive without a program between its API and the gateway: by webhooks that the API
-- already sends, by polling the API, or from the organization's database.

CREATE DOMAIN source_kind AS text CHECK (VALUE IN ('webhook', 'poller', 'postgres'));
CREATE DOMAIN source_status AS text CHECK (VALUE IN ('enabled', 'disabled'));

CREATE TABLE sources (
    organization_id  uuid NOT NULL REFERENCES organizations (id),
    -- a service token can have the same name; event ids are unique within the name
    name             source_name NOT NULL,
    kind             source_kind NOT NULL,
    status           source_status NOT NULL,
    -- without the secret
    settings         json NOT NULL,
    -- sealed if the organization's data are
    secret           text,
    -- also verifies, until previous_until
    previous_secret  text,
    previous_until   timestamptz,
    -- the worker's position: all earlier changes are in the feed
    state            json,
    -- when a worker must process the source; while a worker processes it, the end of the lease
    next_run_at      timestamptz,
    -- failures since the last success, and the time of the first
    failure_count    integer NOT NULL DEFAULT 0,
    failing_since    timestamptz,
    last_error       text CHECK (octet_length(last_error) <= 2000),
    last_success_at  timestamptz,
    last_event_at    timestamptz,
    -- incremented with every claim; results of work with an older token are discarded
    lease_token      bigint NOT NULL DEFAULT 0,
    leased_until     timestamptz,
    created_at       timestamptz NOT NULL,
    updated_at       timestamptz NOT NULL,
    PRIMARY KEY (organization_id, name),
    CONSTRAINT previous_secret_ends CHECK ((previous_secret IS NULL) = (previous_until IS NULL))
) WITH (fillfactor = 50);
-- Due sources, of all organizations.
CREATE INDEX sources_due ON sources (kind, next_run_at, organization_id, name)
    WHERE status = 'enabled' AND next_run_at IS NOT NULL;
