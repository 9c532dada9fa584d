-- Why: the tables that a push needs. A mutation, its id mapping and the entity that it writes are committed together.
--
-- Rules for all tables:
--   * The organization is the first column of every key, and every statement names it.
--   * Tables that grow with use are partitioned by hash of the organization (:partitions partitions). So a tenant's
--     rows are stored together, and vacuum processes one partition at a time.
--   * No table depends on triggers, sequences, advisory locks or now(): the gateway provides ids, times and positions.
--   * Text in a key is compared by bytes (COLLATE "C"), so texts are equal if and only if they are equal on the wire.

-- Vocabularies and bounds, each defined once. They are domains, because PostgreSQL parses a domain's CHECK once per
-- session. It parses a column's CHECK again for every partition that a statement writes to. With sixteen partitions,
-- this took more than half the time of a small insert. Rules between columns are CHECKs.
CREATE DOMAIN whole_number AS bigint CHECK (VALUE >= 0);
CREATE DOMAIN ordinal AS bigint CHECK (VALUE >= 1);
CREATE DOMAIN priority AS smallint CHECK (VALUE BETWEEN 0 AND 1000);
CREATE DOMAIN attempt_count AS smallint CHECK (VALUE >= 0);
CREATE DOMAIN attempt_limit AS smallint CHECK (VALUE BETWEEN 1 AND 100);
CREATE DOMAIN server_id AS text COLLATE "C" CHECK (octet_length(VALUE) <= 200);
CREATE DOMAIN mutation_fingerprint AS bytea CHECK (octet_length(VALUE) >= 33);
CREATE DOMAIN mutation_operation AS text CHECK (VALUE IN ('create', 'update', 'replace', 'delete'));
CREATE DOMAIN mutation_status AS text CHECK (VALUE IN
    ('pending', 'blocked', 'in_flight', 'succeeded', 'conflict', 'failed', 'discarded'));
CREATE DOMAIN mapping_status AS text CHECK (VALUE IN ('pending', 'resolved', 'failed'));
CREATE DOMAIN conflict_strategy AS text CHECK (VALUE IN ('manual', 'server_wins', 'client_wins'));

CREATE TABLE organizations (
    id          uuid PRIMARY KEY,
    name        text NOT NULL CHECK (length(name) BETWEEN 1 AND 200),
    status      text NOT NULL CHECK (status IN ('active', 'suspended', 'purging')),
    -- settings by an operator; an absent setting has its default
    settings    jsonb NOT NULL DEFAULT '{}' CHECK (jsonb_typeof(settings) = 'object'),
    created_at  timestamptz NOT NULL,
    updated_at  timestamptz NOT NULL
);

CREATE TABLE entity_types (
    organization_id   uuid NOT NULL REFERENCES organizations (id),
    name              text NOT NULL COLLATE "C" CHECK (name ~ '^[a-z][a-z0-9_-]{0,63}$'),
    id_space          text NOT NULL CHECK (id_space IN ('mapped', 'shared')),
    visibility        text NOT NULL CHECK (visibility IN ('organization', 'user')),
    default_priority  priority NOT NULL,
    -- whether a mutation or an entity of the type exists; from then on, the id space cannot change
    is_in_use         boolean NOT NULL DEFAULT false,
    PRIMARY KEY (organization_id, name)
);

-- One row per organization. Every group that writes entities increments it after it has taken all other locks, so
-- positions are in commit order. Half-empty pages keep each new version of the row on its page (heap-only update, no
-- index entry).
CREATE TABLE feeds (
    organization_id  uuid PRIMARY KEY REFERENCES organizations (id),
    last_position    bigint NOT NULL DEFAULT 0,
    -- tombstones up to this position may have been deleted
    horizon          bigint NOT NULL DEFAULT 0,
    -- a purge or a restore changes it, so that older cursors become invalid
    epoch            bigint NOT NULL
) WITH (fillfactor = 50);

-- Users who have pushed, or whom an operator provisioned (specification 001, user_id_must_reference_existing_user).
CREATE TABLE users (
    organization_id  uuid NOT NULL,
    user_id          uuid NOT NULL,
    created_at       timestamptz NOT NULL,
    PRIMARY KEY (organization_id, user_id)
) PARTITION BY HASH (organization_id);

-- Installations of the app, each with its own sequence counter. Rows are small, and every push updates one.
CREATE TABLE devices (
    organization_id    uuid NOT NULL,
    user_id            uuid NOT NULL,
    device_id          uuid NOT NULL,
    -- the highest sequence number ever evaluated (specification 001, sequence_number_must_be_monotonic)
    accepted_sequence  whole_number NOT NULL,
    created_at         timestamptz NOT NULL,
    last_seen_at       timestamptz NOT NULL,
    PRIMARY KEY (organization_id, user_id, device_id)
) PARTITION BY HASH (organization_id);

-- Users' queues. Every change of a lane first locks the lane's row.
CREATE TABLE lanes (
    organization_id  uuid NOT NULL,
    user_id          uuid NOT NULL,
    -- the position of the next mutation
    next_position    bigint NOT NULL DEFAULT 1,
    -- increased with every change of the lane's mutations and mappings, which store the new value
    change_position  bigint NOT NULL DEFAULT 0,
    -- mutations pending or in flight
    queued_count     integer NOT NULL DEFAULT 0,
    -- mutations that are not final. If it is 0, which is usual, no statement searches for open mutations
    open_count       integer NOT NULL DEFAULT 0,
    -- the mutation that a person must settle before later mutations run
    halted_by        uuid,
    PRIMARY KEY (organization_id, user_id),
    CONSTRAINT queued_are_open CHECK (queued_count >= 0 AND open_count >= queued_count)
) PARTITION BY HASH (organization_id);

-- See specification 001 (docs/spec). The primary key serves look-ups by id. Of the specification's indexes, (user,
-- sequence) is mutations_by_position, because a lane is in the order of acceptance. The partial indexes below replace
-- those on (user, status), (entity_type, status) and local_id, because no statement finds final mutations by these
-- columns.
CREATE TABLE mutations (
    organization_id      uuid NOT NULL,
    user_id              uuid NOT NULL,
    id                   uuid NOT NULL,
    device_id            uuid NOT NULL,
    sequence_number      ordinal NOT NULL,
    position             bigint NOT NULL,
    change_position      bigint NOT NULL,
    idempotency_key      uuid NOT NULL,
    -- identifies a repeat: the version and SHA-256 of the canonical form (33 bytes), then the ids that were removed
    -- from that form, in order (16 bytes each)
    fingerprint          mutation_fingerprint NOT NULL,
    revision             integer NOT NULL DEFAULT 1,
    operation            mutation_operation NOT NULL,
    entity_type          text NOT NULL COLLATE "C",
    local_id             uuid,
    server_id            server_id,
    server_id_is_integer boolean NOT NULL DEFAULT false,
    endpoint             text,
    -- as the client wrote it, including the digits of numbers; null after retention has deleted it
    payload              json,
    headers              json,
    dependency_ids       uuid[] NOT NULL DEFAULT '{}',
    priority             priority NOT NULL,
    attempt_count        attempt_count NOT NULL DEFAULT 0,
    max_attempts         attempt_limit NOT NULL,
    next_retry_at        timestamptz,
    conflict_resolution  conflict_strategy NOT NULL,
    base_version         whole_number,
    status               mutation_status NOT NULL,
    -- the required mutations that have not succeeded yet, and one of these: when that one succeeds, it finds this
    -- mutation by blocked_on
    depends_on           uuid[] NOT NULL DEFAULT '{}',
    blocked_on           uuid,
    -- the entity's version after the mutation took effect
    version              bigint,
    resolution           conflict_strategy,
    response_status      smallint,
    response_body        json,
    -- problem object (RFC 9457)
    error                json,
    last_error           text,
    last_error_code      integer,
    created_at           timestamptz NOT NULL,
    accepted_at          timestamptz NOT NULL,
    changed_at           timestamptz NOT NULL,
    synced_at            timestamptz,
    PRIMARY KEY (organization_id, user_id, id),
    -- consistent with MutationStatus.canBecome: a mutation is final if and only if it is acknowledged
    CONSTRAINT final_is_synced CHECK ((status IN ('succeeded', 'discarded')) = (synced_at IS NOT NULL)),
    CONSTRAINT blocked_names_blocker CHECK ((status = 'blocked') = (blocked_on IS NOT NULL)),
    CONSTRAINT settled_says_why CHECK (status NOT IN ('conflict', 'failed') OR error IS NOT NULL),
    CONSTRAINT success_names_entity CHECK (status <> 'succeeded' OR server_id IS NOT NULL)
) PARTITION BY HASH (organization_id);

-- Keys are unique per user (product rule 5; specification 001, idempotency_key_unique_per_mutation).
CREATE UNIQUE INDEX mutations_by_key ON mutations (organization_id, user_id, idempotency_key);
-- Lists in lane order.
CREATE UNIQUE INDEX mutations_by_position ON mutations (organization_id, user_id, position);
-- Finds open mutations on the same entity, which a new mutation must wait for, by client id and by server id.
CREATE INDEX open_mutations_by_local_id ON mutations (organization_id, user_id, local_id)
    WHERE synced_at IS NULL AND local_id IS NOT NULL;
CREATE INDEX open_mutations_by_server_id ON mutations (organization_id, user_id, server_id)
    WHERE synced_at IS NULL AND server_id IS NOT NULL;
-- Finds the mutations that wait for a mutation when it succeeds.
CREATE INDEX blocked_mutations_by_blocker ON mutations (organization_id, user_id, blocked_on)
    WHERE blocked_on IS NOT NULL;

-- Rejected entries. A repeat of the key with the same sequence number gets the same rejection (product rule 5). An
-- accepted mutation with the key takes precedence.
CREATE TABLE rejections (
    organization_id  uuid NOT NULL,
    user_id          uuid NOT NULL,
    idempotency_key  uuid NOT NULL,
    id               uuid,
    device_id        uuid NOT NULL,
    sequence_number  bigint NOT NULL,
    error            json NOT NULL,
    rejected_at      timestamptz NOT NULL,
    PRIMARY KEY (organization_id, user_id, idempotency_key)
) PARTITION BY HASH (organization_id);

-- See specification 000 (docs/spec). Its id column is omitted: (organization, user, client id, entity type) is the
-- identity, and every look-up contains it (user_scoped_lookup, unique_client_id_per_entity_type). Its index on status
-- is omitted too, because pending mappings are found by their mutations.
CREATE TABLE id_mappings (
    organization_id       uuid NOT NULL,
    user_id               uuid NOT NULL,
    client_id             uuid NOT NULL,
    entity_type           text NOT NULL COLLATE "C",
    server_id             server_id,
    server_id_is_integer  boolean NOT NULL DEFAULT false,
    status                mapping_status NOT NULL,
    -- the create of the entity
    mutation_id           uuid NOT NULL,
    change_position       bigint NOT NULL,
    retry_count           smallint NOT NULL DEFAULT 0,
    last_error            text,
    created_at            timestamptz NOT NULL,
    resolved_at           timestamptz,
    PRIMARY KEY (organization_id, user_id, client_id, entity_type),
    CONSTRAINT resolved_requires_server_id CHECK (status <> 'resolved' OR server_id IS NOT NULL),
    CONSTRAINT resolved_is_dated CHECK ((status = 'resolved') = (resolved_at IS NOT NULL))
) PARTITION BY HASH (organization_id);

-- The built-in store, which pulls also read: the latest state of each entity. The feed is an index on it, not a second
-- table.
CREATE TABLE entities (
    organization_id  uuid NOT NULL,
    entity_type      text NOT NULL COLLATE "C",
    id               server_id NOT NULL,
    id_is_integer    boolean NOT NULL DEFAULT false,
    version          ordinal NOT NULL,
    is_deleted       boolean NOT NULL DEFAULT false,
    -- json instead of jsonb: documents are returned as they were written, including the digits of numbers
    document         json,
    feed_position    bigint NOT NULL,
    owner_id         uuid NOT NULL,
    -- the creator's client id
    client_id        uuid,
    -- the last writer (user and device), and the version before that writer's uninterrupted run. Only other writers
    -- cause conflicts
    updated_by       uuid NOT NULL,
    updated_on       uuid NOT NULL,
    run_base         bigint NOT NULL,
    created_at       timestamptz NOT NULL,
    updated_at       timestamptz NOT NULL,
    PRIMARY KEY (organization_id, entity_type, id),
    CONSTRAINT tombstone_has_no_document CHECK (is_deleted = (document IS NULL))
) PARTITION BY HASH (organization_id);

CREATE UNIQUE INDEX entities_by_feed_position ON entities (organization_id, feed_position);

-- Partitions. Pages of rows that pushes update in place keep free space.
DO $$
DECLARE
    parent text;
    options text;
BEGIN
    FOREACH parent IN ARRAY
        ARRAY['users', 'devices', 'lanes', 'mutations', 'rejections', 'id_mappings', 'entities']
    LOOP
        options := CASE
            WHEN parent IN ('devices', 'lanes') THEN 'WITH (fillfactor = 70)'
            WHEN parent IN ('mutations', 'entities') THEN 'WITH (fillfactor = 90)'
            ELSE ''
        END;
        FOR number IN 0 .. :partitions - 1 LOOP
            EXECUTE format(
                'CREATE TABLE %1$s_p%2$s PARTITION OF %1$s FOR VALUES WITH (MODULUS :partitions, REMAINDER %2$s) %3$s',
                parent, number, options);
        END LOOP;
    END LOOP;
END $$;
