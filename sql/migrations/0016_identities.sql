-- Why: identity providers identify users by texts, and organizations by their own names. A user gets a UUID when the
-- gateway first receives the user's text. Operators set the names of organizations.

-- An issuer's name for a user or an organization: opaque, compared by bytes.
CREATE DOMAIN external_name AS text COLLATE "C" CHECK (octet_length(VALUE) BETWEEN 1 AND 255);
-- The namespace of such names: the issuer's name, or the `namespace` that its configuration specifies; empty for the
-- issuer without a name.
CREATE DOMAIN issuer_name AS text COLLATE "C" CHECK (octet_length(VALUE) <= 1000);

-- The user of a subject, in one organization. The same person has another id in another organization, so an id does not
-- reveal the person. A row never changes.
CREATE TABLE user_subjects (
    organization_id  uuid NOT NULL,
    issuer           issuer_name NOT NULL,
    subject          external_name NOT NULL,
    -- made by the gateway, of version 8
    user_id          uuid NOT NULL,
    created_at       timestamptz NOT NULL,
    PRIMARY KEY (organization_id, issuer, subject)
) PARTITION BY HASH (organization_id);

-- A user's subjects. They also show whether the gateway generated an id. Because of its predicate, only queries that
-- name a user use the index.
CREATE INDEX user_subjects_by_user ON user_subjects (organization_id, user_id) WHERE user_id IS NOT NULL;

-- Issuers' names for organizations. An issuer's name identifies at most one organization.
CREATE TABLE external_ids (
    organization_id  uuid NOT NULL REFERENCES organizations (id),
    issuer           issuer_name NOT NULL,
    external_id      external_name NOT NULL,
    created_at       timestamptz NOT NULL,
    PRIMARY KEY (organization_id, issuer, external_id)
);
-- The only look-up that does not name the organization, because the organization is its result.
CREATE UNIQUE INDEX external_ids_by_name ON external_ids (issuer, external_id);

DO $$
BEGIN
    FOR number IN 0 .. :partitions - 1 LOOP
        EXECUTE format(
            'CREATE TABLE user_subjects_p%1$s PARTITION OF user_subjects FOR VALUES WITH (MODULUS :partitions, REMAINDER %1$s) WITH (autovacuum_vacuum_scale_factor = 0.05)',
            number);
    END LOOP;
END $$;
