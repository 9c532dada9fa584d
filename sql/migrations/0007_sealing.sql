-- Why: payloads, documents, answers and credentials can be encrypted at rest, with a data key for each organization.
-- The gateway seals and opens them. A sealed value is in the same column as a plain value: a JSON string that begins
-- with "sluice-sealed:1:" and the number of its data key (without quotes in text columns).

-- The organizations' data keys, each wrapped by a master key that only the gateways' configuration contains. A purge
-- deletes them. The table is small: one row per organization, and one more per renewal until all values are sealed with
-- the new key.
CREATE TABLE organization_keys (
    organization_id  uuid NOT NULL REFERENCES organizations (id),
    -- the key with the highest number seals; all keys open
    number           integer NOT NULL CHECK (number >= 1),
    -- the master key's name, and a check value that distinguishes two keys with the same name
    master_key       text NOT NULL COLLATE "C" CHECK (octet_length(master_key) BETWEEN 10 AND 41),
    -- AES-256-GCM: nonce, ciphertext, tag; organization and number are authenticated
    wrapped_key      bytea NOT NULL CHECK (octet_length(wrapped_key) = 60),
    created_at       timestamptz NOT NULL,
    PRIMARY KEY (organization_id, number)
);
