-- Why: mutations of organizations with a REST API are replayed to it. Workers of all replicas process the lanes, one
-- mutation at a time, under leases whose tokens only increase.

-- Domains as in 0001_base: their CHECKs are parsed once per session instead of once per partition.
CREATE DOMAIN http_method AS text CHECK (VALUE IN ('POST', 'PATCH', 'PUT', 'DELETE'));
CREATE DOMAIN entity_tag AS text CHECK (octet_length(VALUE) <= 1000);

-- Organizations' REST APIs. Only operators set the address.
CREATE TABLE upstreams (
    organization_id  uuid PRIMARY KEY REFERENCES organizations (id),
    base_url         text NOT NULL CHECK (octet_length(base_url) BETWEEN 8 AND 2000),
    -- {"bearer"}, {"header","value"} or "signed"; null without a credential. The API never returns it.
    credential       json,
    timeout_seconds  smallint NOT NULL CHECK (timeout_seconds BETWEEN 1 AND 90),
    -- lanes that one replica processes at the same time
    max_concurrency  smallint NOT NULL CHECK (max_concurrency BETWEEN 1 AND 1000),
    -- where a response contains the entity's id (JSON Pointer, RFC 6901)
    id_pointer       text NOT NULL,
    headers          json NOT NULL,
    updated_at       timestamptz NOT NULL
);

-- Whether mutations of the type are replayed. Mutations of other types take effect in the built-in store.
ALTER TABLE entity_types ADD COLUMN is_forwarded boolean NOT NULL DEFAULT false;

ALTER TABLE lanes
    -- when a worker can claim the lane: the time at which its head is due or its lease expires; null if no mutation is
    -- to run
    ADD COLUMN ready_at timestamptz,
    -- the worker that processes the lane, until ready_at
    ADD COLUMN lease_owner uuid,
    -- incremented with every claim; outcomes with an older token are discarded (product rule 13)
    ADD COLUMN lease_token bigint NOT NULL DEFAULT 0,
    -- the mutation that was sent and has no outcome yet
    ADD COLUMN in_flight_id uuid,
    -- no mutation before this position is pending or in flight
    ADD COLUMN head_position bigint NOT NULL DEFAULT 1,
    -- when the first of the queued mutations was accepted
    ADD COLUMN queued_since timestamptz,
    ADD CONSTRAINT leased_runs_out CHECK (lease_owner IS NULL OR ready_at IS NOT NULL),
    ADD CONSTRAINT only_leased_is_in_flight CHECK (in_flight_id IS NULL OR lease_owner IS NOT NULL);

-- Due lanes, of all organizations and of one. Plain reads find candidates for a claim.
CREATE INDEX lanes_by_ready_at ON lanes (ready_at) WHERE ready_at IS NOT NULL;
CREATE INDEX lanes_by_organization_and_ready_at ON lanes (organization_id, ready_at) WHERE ready_at IS NOT NULL;

-- Halted lanes, to count them.
CREATE INDEX halted_lanes ON lanes (organization_id) WHERE halted_by IS NOT NULL;

ALTER TABLE mutations
    -- the user's client ids in endpoint and payload, which must be resolved first; null once the mutation is final
    ADD COLUMN reference_ids uuid[],
    -- whether the last request of this revision may have taken effect although the gateway received no outcome
    ADD COLUMN is_outcome_unknown boolean NOT NULL DEFAULT false,
    -- 409 responses that were interpreted as an echo of an earlier attempt and retried
    ADD COLUMN conflict_retries smallint NOT NULL DEFAULT 0,
    -- what this revision sends instead of the mutation's own method, endpoint and payload, to win a conflict (product
    -- rule 12). Such a revision has no If-Match
    ADD COLUMN sent_method http_method,
    ADD COLUMN sent_endpoint text,
    ADD COLUMN sent_payload json,
    -- W3C trace context of the push
    ADD COLUMN traceparent text;

-- The head of a lane, and its open mutations in order. No column of the index changes while a mutation is in flight, so
-- sending one updates no index.
CREATE INDEX open_mutations_by_position ON mutations (organization_id, user_id, position) WHERE synced_at IS NULL;

-- The upstream's validator of the entity's state (RFC 9110, 8.8.3), for If-Match within a writer's run.
ALTER TABLE entities ADD COLUMN etag entity_tag;

-- If the planner expects few rows per user, all indexes that begin with organization and user cost the same. It expects
-- this before a table is analyzed, and often afterwards, because it assumes that organization and user are independent.
-- It may then search for an id in the index by position, through the whole lane.
--
-- To prevent this, an index's predicate names the index's own column. A query that compares the column implies that it
-- is not null, so only such queries can use the index. Among the remaining indexes, the planner takes the newer one.
DROP INDEX mutations_by_position;
CREATE UNIQUE INDEX mutations_by_position ON mutations (organization_id, user_id, position) WHERE position IS NOT NULL;
DROP INDEX mutations_by_key;
CREATE UNIQUE INDEX mutations_by_key ON mutations (organization_id, user_id, idempotency_key)
    WHERE idempotency_key IS NOT NULL;
DROP INDEX entities_by_feed_position;
CREATE UNIQUE INDEX entities_by_feed_position ON entities (organization_id, feed_position)
    WHERE feed_position IS NOT NULL;
