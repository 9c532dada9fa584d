-- Why: organizations with a REST API of their own have their users' mutations replayed against it. Lanes are run by
-- workers of any replica, one at a time, under a lease whose token only grows.

-- As in the first migration: what a column may hold is a domain, checked once a session and not once a partition.
CREATE DOMAIN http_method AS text CHECK (VALUE IN ('POST', 'PATCH', 'PUT', 'DELETE'));
CREATE DOMAIN entity_tag AS text CHECK (octet_length(VALUE) <= 1000);

-- The REST API of an organization; its word on where it is comes from an operator alone.
CREATE TABLE upstreams (
    organization_id  uuid PRIMARY KEY REFERENCES organizations (id),
    base_url         text NOT NULL CHECK (octet_length(base_url) BETWEEN 8 AND 2000),
    -- {"bearer"}, {"header","value"} or "signed"; null for none. Never read back through the API.
    credential       json,
    timeout_seconds  smallint NOT NULL CHECK (timeout_seconds BETWEEN 1 AND 90),
    -- lanes that run at the same time on one replica
    max_concurrency  smallint NOT NULL CHECK (max_concurrency BETWEEN 1 AND 1000),
    -- where in an answer the entity's id stands (RFC 6901)
    id_pointer       text NOT NULL,
    headers          json NOT NULL,
    updated_at       timestamptz NOT NULL
);

-- Whether mutations of the type are replayed; those of the other types take effect in the built-in store.
ALTER TABLE entity_types ADD COLUMN is_forwarded boolean NOT NULL DEFAULT false;

ALTER TABLE lanes
    -- when a worker may claim the lane: its head is due, or the lease on it has run out; null when nothing is to run
    ADD COLUMN ready_at timestamptz,
    -- the worker that runs the lane, until ready_at
    ADD COLUMN lease_owner uuid,
    -- raised with every claim; an outcome under an older one is thrown away (product rule 13)
    ADD COLUMN lease_token bigint NOT NULL DEFAULT 0,
    -- what was sent and has no outcome yet
    ADD COLUMN in_flight_id uuid,
    -- no mutation before this position is pending or in flight
    ADD COLUMN head_position bigint NOT NULL DEFAULT 1,
    -- when the first of the queued mutations was accepted
    ADD COLUMN queued_since timestamptz,
    ADD CONSTRAINT leased_runs_out CHECK (lease_owner IS NULL OR ready_at IS NOT NULL),
    ADD CONSTRAINT only_leased_is_in_flight CHECK (in_flight_id IS NULL OR lease_owner IS NOT NULL);

-- Lanes that are due, over all organizations and within one: the plain reads that find candidates for a claim.
CREATE INDEX lanes_by_ready_at ON lanes (ready_at) WHERE ready_at IS NOT NULL;
CREATE INDEX lanes_by_organization_and_ready_at ON lanes (organization_id, ready_at) WHERE ready_at IS NOT NULL;

-- What waits for a person, for the count of it.
CREATE INDEX halted_lanes ON lanes (organization_id) WHERE halted_by IS NOT NULL;

ALTER TABLE mutations
    -- client ids of the user in endpoint and payload, kept while the mutation is open: what has to be resolved first
    ADD COLUMN reference_ids uuid[],
    -- whether the last request of this revision may have taken effect without our knowing
    ADD COLUMN is_outcome_unknown boolean NOT NULL DEFAULT false,
    -- 409s that were taken for an echo of an earlier attempt and tried again
    ADD COLUMN conflict_retries smallint NOT NULL DEFAULT 0,
    -- what this revision sends in place of the mutation's own method, endpoint and payload, to have its way in a
    -- conflict (product rule 12); such a revision carries no If-Match
    ADD COLUMN sent_method http_method,
    ADD COLUMN sent_endpoint text,
    ADD COLUMN sent_payload json,
    -- W3C trace context of the push
    ADD COLUMN traceparent text;

-- The head of a lane, and its open mutations in order. Without a column that changes while a mutation is in flight, so
-- that sending one leaves every index alone.
CREATE INDEX open_mutations_by_position ON mutations (organization_id, user_id, position) WHERE synced_at IS NULL;

-- The upstream's validator of the entity's state (RFC 9110, 8.8.3), for If-Match within a writer's run.
ALTER TABLE entities ADD COLUMN etag entity_tag;

-- Indexes that begin with organization and user cost the planner the same where it thinks that a user has few rows, and
-- it thinks so before a table was analyzed and, as it takes organization and user to be independent, often after: it then
-- looks for an id in the index by position, through the whole lane. An index whose predicate names its own column is
-- open only to queries that ask for that column, for asking implies that it is not null; among the rest the younger one
-- is taken.
DROP INDEX mutations_by_position;
CREATE UNIQUE INDEX mutations_by_position ON mutations (organization_id, user_id, position) WHERE position IS NOT NULL;
DROP INDEX mutations_by_key;
CREATE UNIQUE INDEX mutations_by_key ON mutations (organization_id, user_id, idempotency_key)
    WHERE idempotency_key IS NOT NULL;
DROP INDEX entities_by_feed_position;
CREATE UNIQUE INDEX entities_by_feed_position ON entities (organization_id, feed_position)
    WHERE feed_position IS NOT NULL;
