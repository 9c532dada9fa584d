-- Why: an operator describes the upstream, not the apps: which request an entity type makes, which answers are failures,
-- and when nothing is to be sent. And a lane may have several requests in flight.

-- Rules about the meaning of answers, in order.
ALTER TABLE upstreams ADD COLUMN outcomes jsonb NOT NULL DEFAULT '[]';
-- Whether nothing is sent, and when that ends by itself; null: when an operator ends it.
ALTER TABLE upstreams
    ADD COLUMN is_paused boolean NOT NULL DEFAULT false,
    ADD COLUMN paused_until timestamptz;

-- The most requests per second, from all gateways together; null: any number. And what is missing from the bucket, as in
-- request_quotas.
ALTER TABLE upstreams
    ADD COLUMN requests_per_second integer CHECK (requests_per_second BETWEEN 1 AND 1000000),
    ADD COLUMN rate_missing bigint NOT NULL DEFAULT 0,
    ADD COLUMN rate_as_of timestamptz NOT NULL DEFAULT 'epoch';

-- The path of batches and their largest size; null: each request is sent by itself.
ALTER TABLE upstreams ADD COLUMN batch jsonb;

-- The requests of mutations that name no endpoint, by operation; null: no routes.
ALTER TABLE entity_types ADD COLUMN routes jsonb;

-- Raised by each step of a worker that has several requests in flight. A worker that repeats a step whose answer it did
-- not receive finds a higher number than it expects.
ALTER TABLE lanes ADD COLUMN lease_step bigint NOT NULL DEFAULT 0;
