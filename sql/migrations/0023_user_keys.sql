-- Why: a user's rows can be sealed with the user's own key in addition to the organization's. The destruction of that
-- key reaches every copy of the rows: no value of an erased user can be opened any more, not even in backups. Such a
-- value begins with "sluice-sealed:1:", the number of the organization's data key, a dot and the user for whom the key
-- was made.

-- Users' keys, each wrapped by a master key. Small rows, one per user. Backups store them separately from the large
-- tables, see docs/operations.md.
CREATE TABLE user_keys (
    organization_id  uuid NOT NULL REFERENCES organizations (id),
    -- the user whom sealed values name; never changes
    made_for         uuid NOT NULL,
    -- the user whose rows are sealed with it: differs from made_for if that user was joined into this one
    user_id          uuid NOT NULL,
    -- as in organization_keys
    master_key       text NOT NULL COLLATE "C" CHECK (octet_length(master_key) BETWEEN 10 AND 41),
    -- AES-256-GCM: nonce, ciphertext, tag; organization and made_for are authenticated
    wrapped_key      bytea NOT NULL CHECK (octet_length(wrapped_key) = 60),
    created_at       timestamptz NOT NULL,
    PRIMARY KEY (organization_id, made_for)
);
CREATE INDEX user_keys_by_user ON user_keys (organization_id, user_id);
-- The master keys in use, and the keys that each wraps, of all organizations.
CREATE INDEX user_keys_by_master ON user_keys (master_key, organization_id, made_for);
