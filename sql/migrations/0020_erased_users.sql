-- Why: a person may have everything erased that is stored of them. What stays are hashes, by which whoever comes as that
-- user, or repeats what that user pushed, is known again.

-- What becomes of the type's documents when their owner is erased. Those that nobody else sees are deleted in any case.
ALTER TABLE entity_types
    ADD COLUMN on_erase text NOT NULL DEFAULT 'delete' CHECK (on_erase IN ('delete', 'blank_owner'));

-- The path below the base URL to which the erasure of a user is sent, with {user} in it; null: the upstream is not told.
ALTER TABLE upstreams ADD COLUMN erase_endpoint text CHECK (octet_length(erase_endpoint) BETWEEN 1 AND 1000);

-- Users who are erased, or about to be. A row stays for ever: nobody is served as that user any more.
CREATE TABLE user_erasures (
    organization_id  uuid NOT NULL REFERENCES organizations (id),
    -- SHA-256 of the organization's id and the user's
    user_hash        bytea NOT NULL CHECK (octet_length(user_hash) = 32),
    -- the user, and then those who were joined into the user; null once all is done
    user_ids         uuid[],
    -- since when the user is not served
    started_at       timestamptz NOT NULL,
    -- what is to be done next
    state            text NOT NULL CHECK (state IN ('closing', 'entities', 'telling', 'done')),
    -- how far the feed was looked through for the user's documents
    walked_position  bigint NOT NULL DEFAULT 0,
    -- attempts to tell the upstream, and why the last one was in vain
    attempts         integer NOT NULL DEFAULT 0,
    last_error       text,
    -- when a gateway goes on with it, unless another has by then
    due_at           timestamptz,
    finished_at      timestamptz,
    PRIMARY KEY (organization_id, user_hash),
    CONSTRAINT done_names_nobody CHECK ((state = 'done') = (user_ids IS NULL)),
    CONSTRAINT done_is_dated CHECK ((state = 'done') = (finished_at IS NOT NULL)),
    CONSTRAINT open_is_due CHECK ((state = 'done') = (due_at IS NULL))
);
-- Which users every gateway has to know of at once.
CREATE INDEX user_erasures_by_start ON user_erasures (organization_id, started_at) WHERE started_at IS NOT NULL;
CREATE INDEX user_erasures_open ON user_erasures (organization_id) WHERE finished_at IS NULL;
CREATE INDEX user_erasures_due ON user_erasures (due_at) WHERE due_at IS NOT NULL;

-- What is hashed with the texts by which issuers know users: these can be guessed, and a hash alone would confirm a guess.
CREATE TABLE erasure_salts (
    organization_id  uuid PRIMARY KEY REFERENCES organizations (id),
    salt             bytea NOT NULL CHECK (octet_length(salt) = 32)
);

-- The subjects of erased users, hashed: they are given no new id.
CREATE TABLE erased_subjects (
    organization_id  uuid NOT NULL REFERENCES organizations (id),
    -- SHA-256 of the salt, the issuer and the subject
    subject_hash     bytea NOT NULL CHECK (octet_length(subject_hash) = 32),
    user_hash        bytea NOT NULL CHECK (octet_length(user_hash) = 32),
    PRIMARY KEY (organization_id, subject_hash)
);

-- The idempotency keys and devices of erased users, hashed: what comes late under one of them is never executed.
CREATE TABLE erased_names (
    organization_id   uuid NOT NULL,
    user_hash         bytea NOT NULL,
    -- SHA-256 of the user's hash and the key or device id
    name_hash         bytea NOT NULL,
    -- SHA-256 of the mutation's fingerprint; null of devices and of entries that were refused
    fingerprint_hash  bytea,
    PRIMARY KEY (organization_id, user_hash, name_hash)
) PARTITION BY HASH (organization_id);

DO $$
BEGIN
    FOR number IN 0 .. :partitions - 1 LOOP
        EXECUTE format(
            'CREATE TABLE erased_names_p%1$s PARTITION OF erased_names FOR VALUES WITH (MODULUS :partitions, REMAINDER %1$s) WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_insert_scale_factor = 0.05)',
            number);
    END LOOP;
END $$;
