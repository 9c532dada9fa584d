-- Why: organizations receive the outcomes of their users' mutations without polling. An event is written in the
-- transaction that it reports. Workers of any replica deliver it, under a lease.

CREATE DOMAIN webhook_status AS text CHECK (VALUE IN ('enabled', 'disabled', 'gone'));
CREATE DOMAIN delivery_status AS text CHECK (VALUE IN ('waiting', 'delivered', 'dead'));

-- An organization's endpoints for events. Every change of an endpoint's deliveries locks the endpoint's row, except for
-- the insertion of a delivery.
CREATE TABLE webhook_endpoints (
    organization_id   uuid NOT NULL REFERENCES organizations (id),
    id                uuid NOT NULL,
    url               text NOT NULL CHECK (octet_length(url) BETWEEN 8 AND 2000),
    description       text NOT NULL CHECK (length(description) <= 200),
    events            text[] NOT NULL,
    -- gone: the endpoint answered 410
    status            webhook_status NOT NULL,
    -- sealed if the organization's data are
    secret            text NOT NULL,
    -- also signs, until previous_until
    previous_secret   text,
    previous_until    timestamptz,
    -- the sequence number of the next delivery
    next_sequence     bigint NOT NULL DEFAULT 1,
    -- the feed position up to which entities were reported; null: entities are not reported
    feed_epoch        bigint,
    feed_position     bigint,
    -- failed attempts since the last success, and the time of the first; nothing is sent during the pause
    failure_count     integer NOT NULL DEFAULT 0,
    failing_since     timestamptz,
    paused_until      timestamptz,
    last_error        text,
    -- incremented with every claim; results of an attempt with an older token are discarded
    lease_token       bigint NOT NULL DEFAULT 0,
    leased_until      timestamptz,
    created_at        timestamptz NOT NULL,
    updated_at        timestamptz NOT NULL,
    PRIMARY KEY (organization_id, id),
    CONSTRAINT previous_secret_ends CHECK ((previous_secret IS NULL) = (previous_until IS NULL)),
    CONSTRAINT feed_is_read_from CHECK ((feed_epoch IS NULL) = (feed_position IS NULL))
) WITH (fillfactor = 50);

-- The events for an endpoint, one row per event. They contain only names and numbers, never content of documents. There
-- is no foreign key, so that an insertion waits for no lock.
CREATE TABLE webhook_deliveries (
    organization_id  uuid NOT NULL,
    endpoint_id      uuid NOT NULL,
    -- the event's id, the same for all endpoints and attempts
    id               uuid NOT NULL,
    event            text NOT NULL,
    data             json NOT NULL,
    occurred_at      timestamptz NOT NULL,
    -- the number of the delivery, counted per endpoint; null until a worker first claims it
    sequence         bigint,
    status           delivery_status NOT NULL,
    attempt_count    smallint NOT NULL DEFAULT 0,
    -- the begin of the attempts: the event's time, or the time of an operator's retry
    tried_since      timestamptz NOT NULL,
    next_attempt_at  timestamptz NOT NULL,
    settled_at       timestamptz,
    last_status      smallint,
    last_error       text,
    PRIMARY KEY (organization_id, endpoint_id, id),
    CONSTRAINT settled_is_dated CHECK ((status = 'waiting') = (settled_at IS NULL))
) PARTITION BY HASH (organization_id);

-- Due deliveries. The index also finds the endpoints that have some.
CREATE INDEX webhook_deliveries_waiting ON webhook_deliveries (organization_id, endpoint_id, next_attempt_at, id)
    WHERE status = 'waiting';
-- Lists of one status, newest first. Because of its predicate, only queries on a status use the index.
CREATE INDEX webhook_deliveries_by_status ON webhook_deliveries (organization_id, endpoint_id, status, id)
    WHERE status IS NOT NULL;
-- What retention deletes. It deletes delivered rows earlier than others.
CREATE INDEX webhook_deliveries_delivered ON webhook_deliveries (organization_id, occurred_at, endpoint_id, id)
    WHERE status = 'delivered';
CREATE INDEX webhook_deliveries_undelivered ON webhook_deliveries (organization_id, occurred_at, endpoint_id, id)
    WHERE status <> 'delivered';

-- Since when the upstream is known to be unavailable, for all replicas; null: it is not.
ALTER TABLE upstreams ADD COLUMN down_since timestamptz;

DO $$
BEGIN
    FOR number IN 0 .. :partitions - 1 LOOP
        EXECUTE format(
            'CREATE TABLE webhook_deliveries_p%1$s PARTITION OF webhook_deliveries FOR VALUES WITH (MODULUS :partitions, REMAINDER %1$s) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.05)',
            number);
    END LOOP;
END $$;
