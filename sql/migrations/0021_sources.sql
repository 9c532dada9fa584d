-- Why: an organization's edits come in without a program between its API and the gateway, too: by webhooks that the API
-- sends as it is, by asking its API, or from its own database.

CREATE DOMAIN source_kind AS text CHECK (VALUE IN ('webhook', 'poller', 'postgres'));
CREATE DOMAIN source_status AS text CHECK (VALUE IN ('enabled', 'disabled'));

CREATE TABLE sources (
    organization_id  uuid NOT NULL REFERENCES organizations (id),
    -- service tokens may have it, too: ids of events are the name's
    name             source_name NOT NULL,
    kind             source_kind NOT NULL,
    status           source_status NOT NULL,
    -- without a secret
    settings         json NOT NULL,
    -- sealed where the organization's data are
    secret           text,
    -- verifies, too, until then
    previous_secret  text,
    previous_until   timestamptz,
    -- how far a worker is: all before it is in the feed
    state            json,
    -- when a worker is to look at it; while one has it, when its lease ends
    next_run_at      timestamptz,
    -- what failed since the last success, and since when
    failure_count    integer NOT NULL DEFAULT 0,
    failing_since    timestamptz,
    last_error       text CHECK (octet_length(last_error) <= 2000),
    last_success_at  timestamptz,
    last_event_at    timestamptz,
    -- raised with every claim; what comes of work under an older one is thrown away
    lease_token      bigint NOT NULL DEFAULT 0,
    leased_until     timestamptz,
    created_at       timestamptz NOT NULL,
    updated_at       timestamptz NOT NULL,
    PRIMARY KEY (organization_id, name),
    CONSTRAINT previous_secret_ends CHECK ((previous_secret IS NULL) = (previous_until IS NULL))
) WITH (fillfactor = 50);
-- Which are due, over all organizations.
CREATE INDEX sources_due ON sources (kind, next_run_at, organization_id, name)
    WHERE status = 'enabled' AND next_run_at IS NOT NULL;
