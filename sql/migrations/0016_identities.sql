-- Why: identity providers know users by texts, and organizations by names of theirs. A user who comes under such a text
-- is given a UUID when it is first seen; organizations are given their names by operators.

-- What an issuer calls a user or an organization: opaque, compared by bytes.
CREATE DOMAIN external_name AS text COLLATE "C" CHECK (octet_length(VALUE) BETWEEN 1 AND 255);
-- Whose words these are: the issuer's name, or what the operator has it remembered as; empty for the issuer without one.
CREATE DOMAIN issuer_name AS text COLLATE "C" CHECK (octet_length(VALUE) <= 1000);

-- Which user a subject is, in one organization: the same person has another id in another, so that an id says nothing
-- about who is behind it. A row never changes.
CREATE TABLE user_subjects (
    organization_id  uuid NOT NULL,
    issuer           issuer_name NOT NULL,
    subject          external_name NOT NULL,
    -- made here at random, of version 8
    user_id          uuid NOT NULL,
    created_at       timestamptz NOT NULL,
    PRIMARY KEY (organization_id, issuer, subject)
) PARTITION BY HASH (organization_id);

-- The subjects of a user, and whether an id is one that was made here. Its condition keeps it from being taken where no
-- user is named.
CREATE INDEX user_subjects_by_user ON user_subjects (organization_id, user_id) WHERE user_id IS NOT NULL;

-- By which names issuers know an organization; a name of an issuer stands for one organization at most.
CREATE TABLE external_ids (
    organization_id  uuid NOT NULL REFERENCES organizations (id),
    issuer           issuer_name NOT NULL,
    external_id      external_name NOT NULL,
    created_at       timestamptz NOT NULL,
    PRIMARY KEY (organization_id, issuer, external_id)
);
-- The one look-up that does not name the organization, for that is what it finds.
CREATE UNIQUE INDEX external_ids_by_name ON external_ids (issuer, external_id);

DO $$
BEGIN
    FOR number IN 0 .. :partitions - 1 LOOP
        EXECUTE format(
            'CREATE TABLE user_subjects_p%1$s PARTITION OF user_subjects FOR VALUES WITH (MODULUS :partitions, REMAINDER %1$s) WITH (autovacuum_vacuum_scale_factor = 0.05)',
            number);
    END LOOP;
END $$;
