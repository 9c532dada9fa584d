-- Why: a person can have all stored personal data erased. Only hashes remain. With these, the gateway recognizes
-- requests as that user, and repeats of the user's pushes.

-- The treatment of the type's documents when their owner is erased. Documents that no other user can read are always
-- deleted.
ALTER TABLE entity_types
    ADD COLUMN on_erase text NOT NULL DEFAULT 'delete' CHECK (on_erase IN ('delete', 'blank_owner'));

-- The path below the base URL to which the gateway sends the erasure of a user, with {user} in it; null: the upstream
-- is not notified.
ALTER TABLE upstreams ADD COLUMN erase_endpoint text CHECK (octet_length(erase_endpoint) BETWEEN 1 AND 1000);

-- Users who are erased, or whose erasure is in progress. A row is kept permanently, so that no request is served as
-- that user.
CREATE TABLE user_erasures (
    organization_id  uuid NOT NULL REFERENCES organizations (id),
    -- SHA-256 of the organization's id and the user's id
    user_hash        bytea NOT NULL CHECK (octet_length(user_hash) = 32),
    -- the user, followed by the users who were joined into this user; null once the erasure is complete
    user_ids         uuid[],
    -- since when the user is not served
    started_at       timestamptz NOT NULL,
    -- the next step
    state            text NOT NULL CHECK (state IN ('closing', 'entities', 'telling', 'done')),
    -- the feed position up to which the user's documents were searched for
    walked_position  bigint NOT NULL DEFAULT 0,
    -- attempts to notify the upstream, and the error of the last
    attempts         integer NOT NULL DEFAULT 0,
    last_error       text,
    -- when a gateway continues the erasure, unless another gateway has continued it
    due_at           timestamptz,
    finished_at      timestamptz,
    PRIMARY KEY (organization_id, user_hash),
    CONSTRAINT done_names_nobody CHECK ((state = 'done') = (user_ids IS NULL)),
    CONSTRAINT done_is_dated CHECK ((state = 'done') = (finished_at IS NOT NULL)),
    CONSTRAINT open_is_due CHECK ((state = 'done') = (due_at IS NULL))
);
-- The erased users that every gateway must know immediately.
CREATE INDEX user_erasures_by_start ON user_erasures (organization_id, started_at) WHERE started_at IS NOT NULL;
CREATE INDEX user_erasures_open ON user_erasures (organization_id) WHERE finished_at IS NULL;
CREATE INDEX user_erasures_due ON user_erasures (due_at) WHERE due_at IS NOT NULL;

-- The salts of the hashes of subjects. Subjects can be guessed, and a hash without a salt would confirm a guess.
CREATE TABLE erasure_salts (
    organization_id  uuid PRIMARY KEY REFERENCES organizations (id),
    salt             bytea NOT NULL CHECK (octet_length(salt) = 32)
);

-- The subjects of erased users, hashed. They get no new user id.
CREATE TABLE erased_subjects (
    organization_id  uuid NOT NULL REFERENCES organizations (id),
    -- SHA-256 of the salt, the issuer and the subject
    subject_hash     bytea NOT NULL CHECK (octet_length(subject_hash) = 32),
    user_hash        bytea NOT NULL CHECK (octet_length(user_hash) = 32),
    PRIMARY KEY (organization_id, subject_hash)
);

-- The idempotency keys and devices of erased users, hashed. A late mutation with one of them is never executed.
CREATE TABLE erased_names (
    organization_id   uuid NOT NULL,
    user_hash         bytea NOT NULL,
    -- SHA-256 of the user's hash and the key or device id
    name_hash         bytea NOT NULL,
    -- SHA-256 of the mutation's fingerprint; null for devices and for rejected entries
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
