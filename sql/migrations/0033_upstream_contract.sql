-- Why: operators, not apps, describe the upstream: the request that an entity type makes, the answers that are
-- failures, and when nothing is sent. Also, a lane can have several requests in flight.

-- Rules about the meaning of answers, in order.
ALTER TABLE upstreams ADD COLUMN outcomes jsonb NOT NULL DEFAULT '[]';
-- Whether nothing is sent, and when the pause ends automatically; null: when an operator ends it.
ALTER TABLE upstreams
    ADD COLUMN is_paused boolean NOT NULL DEFAULT false,
    ADD COLUMN paused_until timestamptz;

-- The maximum number of requests per second, for all gateways together; null: no limit. The other columns contain what
-- is missing from the bucket, as in request_quotas.
ALTER TABLE upstreams
    ADD COLUMN requests_per_second integer CHECK (requests_per_second BETWEEN 1 AND 1000000),
    ADD COLUMN rate_missing bigint NOT NULL DEFAULT 0,
    ADD COLUMN rate_as_of timestamptz NOT NULL DEFAULT 'epoch';

-- The path of batches and their maximum size; null: each request is sent separately.
ALTER TABLE upstreams ADD COLUMN batch jsonb;

-- The requests of mutations without an endpoint, by operation; null: no routes.
ALTER TABLE entity_types ADD COLUMN routes jsonb;

-- Incremented by each step of a worker with several requests in flight. A worker that repeats a step whose response it
-- did not receive finds a higher number than it expects.
ALTER TABLE lanes ADD COLUMN lease_step bigint NOT NULL DEFAULT 0;
