-- Why: edits are also made outside of Sluice, in an organization's own app or by another program. They arrive as events
-- and enter the same feed, once each. Events that report the gateway's own requests are recognized.

-- The name of a program that sends events, and of an event. Ids of events are unique within their source.
CREATE DOMAIN source_name AS text COLLATE "C" CHECK (VALUE ~ '^[a-z][a-z0-9_-]{0,63}$');
CREATE DOMAIN event_name AS text COLLATE "C" CHECK (octet_length(VALUE) BETWEEN 1 AND 200);
CREATE DOMAIN event_result AS text CHECK (VALUE IN ('applied', 'stale', 'echo', 'parked', 'refused'));
CREATE DOMAIN event_operation AS text CHECK (VALUE IN ('upsert', 'patch', 'delete'));
CREATE DOMAIN content_hash AS bytea CHECK (octet_length(VALUE) = 32);

-- The tokens with which programs send events of an organization. The secret is shown once and not stored.
CREATE TABLE service_tokens (
    organization_id  uuid NOT NULL REFERENCES organizations (id),
    id               uuid NOT NULL,
    source           source_name NOT NULL,
    -- SHA-256 of the secret
    secret_hash      content_hash NOT NULL,
    created_at       timestamptz NOT NULL,
    -- precise to the minute
    last_used_at     timestamptz,
    revoked_at       timestamptz,
    PRIMARY KEY (organization_id, id)
) WITH (fillfactor = 70);

-- Processed events, so that no event is processed twice.
CREATE TABLE ingested_events (
    organization_id  uuid NOT NULL,
    source           source_name NOT NULL,
    event_id         event_name NOT NULL,
    result           event_result NOT NULL,
    received_at      timestamptz NOT NULL,
    PRIMARY KEY (organization_id, source, event_id)
) PARTITION BY HASH (organization_id);
-- The predicate of each index names the index's own column, so only queries on that column use it.
CREATE INDEX ingested_events_by_age ON ingested_events (organization_id, received_at) WHERE received_at IS NOT NULL;

-- Events about an entity with a request in flight, until the outcome of the request is known.
CREATE TABLE parked_events (
    organization_id  uuid NOT NULL,
    source           source_name NOT NULL,
    event_id         event_name NOT NULL,
    entity_type      text NOT NULL COLLATE "C",
    id               server_id NOT NULL,
    id_is_integer    boolean NOT NULL,
    version          whole_number,
    occurred_at      timestamptz,
    operation        event_operation NOT NULL,
    document         json,
    owner_id         uuid,
    causing_key      uuid,
    received_at      timestamptz NOT NULL,
    -- when it is evaluated again, unless an outcome triggers this earlier
    look_at          timestamptz NOT NULL,
    PRIMARY KEY (organization_id, source, event_id)
) PARTITION BY HASH (organization_id);
-- Due events, of all organizations.
CREATE INDEX parked_events_by_look ON parked_events (look_at) WHERE look_at IS NOT NULL;

-- Requests that the gateway sent for organizations with service tokens. They show whether a request is in flight, and
-- contain what identifies its echo.
CREATE TABLE sent_requests (
    organization_id  uuid NOT NULL,
    idempotency_key  uuid NOT NULL,
    entity_type      text NOT NULL COLLATE "C",
    -- null while a create has no server id
    server_id        server_id,
    sent_at          timestamptz NOT NULL,
    -- null while the request is in flight, or if it may have taken effect and is sent again
    answered_at      timestamptz,
    -- the hash of the entity's state in the feed at that time: 32 zero bytes without an entity
    content          content_hash,
    version          bigint,
    -- whether an event was recognized as its echo
    is_used          boolean NOT NULL DEFAULT false,
    PRIMARY KEY (organization_id, idempotency_key)
) PARTITION BY HASH (organization_id);
CREATE INDEX sent_requests_by_entity ON sent_requests (organization_id, entity_type, server_id, sent_at)
    WHERE server_id IS NOT NULL;
CREATE INDEX sent_creates ON sent_requests (organization_id, entity_type, sent_at)
    WHERE server_id IS NULL AND answered_at IS NULL AND sent_at IS NOT NULL;
CREATE INDEX sent_requests_by_age ON sent_requests (organization_id, sent_at)
    WHERE sent_at IS NOT NULL AND organization_id IS NOT NULL;

-- The entity's version and time in the system that owns it; null if no event has reported them.
ALTER TABLE entities ADD COLUMN source_version bigint, ADD COLUMN source_at timestamptz;

DO $$
DECLARE
    parent text;
BEGIN
    FOREACH parent IN ARRAY ARRAY['ingested_events', 'parked_events', 'sent_requests'] LOOP
        FOR number IN 0 .. :partitions - 1 LOOP
            EXECUTE format(
                'CREATE TABLE %1$s_p%2$s PARTITION OF %1$s FOR VALUES WITH (MODULUS :partitions, REMAINDER %2$s) WITH (fillfactor = 90, autovacuum_vacuum_scale_factor = 0.05)',
                parent, number);
        END LOOP;
    END LOOP;
END $$;
