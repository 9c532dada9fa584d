-- Why: a user's rows may be sealed with a key of the user's own beside the organization's, so that its destruction reaches
-- every copy of them: of an erased user nothing opens any more, in backups neither. Such a value begins with
-- "sluice-sealed:1:", the number of the organization's data key, a dot and the user that the user's key was made for.

-- Users' keys, each wrapped by a master key. Small rows, one a user; kept apart from the big tables by backups, see
-- docs/operations.md.
CREATE TABLE user_keys (
    organization_id  uuid NOT NULL REFERENCES organizations (id),
    -- whom sealed values name; never changes
    made_for         uuid NOT NULL,
    -- whose rows are sealed with it: another than made_for where that user was joined into this one
    user_id          uuid NOT NULL,
    -- as in organization_keys
    master_key       text NOT NULL COLLATE "C" CHECK (octet_length(master_key) BETWEEN 10 AND 41),
    -- AES-256-GCM: nonce, ciphertext, tag; organization and made_for are authenticated
    wrapped_key      bytea NOT NULL CHECK (octet_length(wrapped_key) = 60),
    created_at       timestamptz NOT NULL,
    PRIMARY KEY (organization_id, made_for)
);
CREATE INDEX user_keys_by_user ON user_keys (organization_id, user_id);
-- Which master keys are in use, and what is wrapped by one, over all organizations.
CREATE INDEX user_keys_by_master ON user_keys (master_key, organization_id, made_for);
