-- Why: payloads, documents, answers and credentials may be encrypted at rest, each organization's under a data key of its
-- own. The gateway seals and opens; what is sealed stands in the columns that are there, as a JSON string that begins with
-- "sluice-sealed:1:" and the number of its data key (in text columns without quotes).

-- The organizations' data keys, each wrapped by a master key that only the gateways' configuration has. A purge deletes
-- them. Small: a row an organization, and one more for each renewal until everything is sealed under the new one.
CREATE TABLE organization_keys (
    organization_id  uuid NOT NULL REFERENCES organizations (id),
    -- the highest one seals, all of them open
    number           integer NOT NULL CHECK (number >= 1),
    -- the master key's name, and a check value that tells two keys of one name apart
    master_key       text NOT NULL COLLATE "C" CHECK (octet_length(master_key) BETWEEN 10 AND 41),
    -- AES-256-GCM: nonce, ciphertext, tag; organization and number are authenticated
    wrapped_key      bytea NOT NULL CHECK (octet_length(wrapped_key) = 60),
    created_at       timestamptz NOT NULL,
    PRIMARY KEY (organization_id, number)
);
