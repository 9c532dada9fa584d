-- Why: organizations want to be told what becomes of their users' mutations, and not to ask. What is told is written in the
-- transaction of what it tells of, and delivered by workers of any replica under a lease.

CREATE DOMAIN webhook_status AS text CHECK (VALUE IN ('enabled', 'disabled', 'gone'));
CREATE DOMAIN delivery_status AS text CHECK (VALUE IN ('waiting', 'delivered', 'dead'));

-- Where an organization wants to be told. Its row is the lock of everything that changes its deliveries but adding one.
CREATE TABLE webhook_endpoints (
    organization_id   uuid NOT NULL REFERENCES organizations (id),
    id                uuid NOT NULL,
    url               text NOT NULL CHECK (octet_length(url) BETWEEN 8 AND 2000),
    description       text NOT NULL CHECK (length(description) <= 200),
    events            text[] NOT NULL,
    -- gone: it answered 410
    status            webhook_status NOT NULL,
    -- sealed where the organization's data are
    secret            text NOT NULL,
    -- signs, too, until then
    previous_secret   text,
    previous_until    timestamptz,
    -- the number that the next delivery takes
    next_sequence     bigint NOT NULL DEFAULT 1,
    -- how far it was told of entities; null: it is not
    feed_epoch        bigint,
    feed_position     bigint,
    -- attempts that failed since the last success, and since when; nothing is sent before the pause is over
    failure_count     integer NOT NULL DEFAULT 0,
    failing_since     timestamptz,
    paused_until      timestamptz,
    last_error        text,
    -- raised with every claim; what comes of an attempt under an older one is thrown away
    lease_token       bigint NOT NULL DEFAULT 0,
    leased_until      timestamptz,
    created_at        timestamptz NOT NULL,
    updated_at        timestamptz NOT NULL,
    PRIMARY KEY (organization_id, id),
    CONSTRAINT previous_secret_ends CHECK ((previous_secret IS NULL) = (previous_until IS NULL)),
    CONSTRAINT feed_is_read_from CHECK ((feed_epoch IS NULL) = (feed_position IS NULL))
) WITH (fillfactor = 50);

-- What an endpoint is told, once for each. Names and numbers only, never what a document says. No foreign key: what adds a
-- row waits for no lock.
CREATE TABLE webhook_deliveries (
    organization_id  uuid NOT NULL,
    endpoint_id      uuid NOT NULL,
    -- the event's: the same at all endpoints, and in all attempts
    id               uuid NOT NULL,
    event            text NOT NULL,
    data             json NOT NULL,
    occurred_at      timestamptz NOT NULL,
    -- the endpoint's count of its deliveries; null until a worker first takes it
    sequence         bigint,
    status           delivery_status NOT NULL,
    attempt_count    smallint NOT NULL DEFAULT 0,
    -- when the tries began: the event's time, or that of an operator's retry
    tried_since      timestamptz NOT NULL,
    next_attempt_at  timestamptz NOT NULL,
    settled_at       timestamptz,
    last_status      smallint,
    last_error       text,
    PRIMARY KEY (organization_id, endpoint_id, id),
    CONSTRAINT settled_is_dated CHECK ((status = 'waiting') = (settled_at IS NULL))
) PARTITION BY HASH (organization_id);

-- What is due; by it endpoints are found that have something to send, too.
CREATE INDEX webhook_deliveries_waiting ON webhook_deliveries (organization_id, endpoint_id, next_attempt_at, id)
    WHERE status = 'waiting';
-- Lists of one kind, newest first. Its condition keeps it from being taken where no status is asked for.
CREATE INDEX webhook_deliveries_by_status ON webhook_deliveries (organization_id, endpoint_id, status, id)
    WHERE status IS NOT NULL;
-- What retention deletes: what was delivered sooner than the rest.
CREATE INDEX webhook_deliveries_delivered ON webhook_deliveries (organization_id, occurred_at, endpoint_id, id)
    WHERE status = 'delivered';
CREATE INDEX webhook_deliveries_undelivered ON webhook_deliveries (organization_id, occurred_at, endpoint_id, id)
    WHERE status <> 'delivered';

-- Since when an upstream is known to be away, over all replicas; null: it is not known to be.
ALTER TABLE upstreams ADD COLUMN down_since timestamptz;

DO $$
BEGIN
    FOR number IN 0 .. :partitions - 1 LOOP
        EXECUTE format(
            'CREATE TABLE webhook_deliveries_p%1$s PARTITION OF webhook_deliveries FOR VALUES WITH (MODULUS :partitions, REMAINDER %1$s) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.05)',
            number);
    END LOOP;
END $$;
