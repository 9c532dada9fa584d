-- Why: quotas of requests per second for organizations, and of mutations per day for their users, over all replicas.

-- What is missing from a full bucket, in parts of a token (TokenBucket), and when. A missing row is a full bucket. Rows
-- are small and updated in place.

-- One row per organization with the quota. Replicas reserve requests in advance, several times per second, instead of
-- once per request.
CREATE TABLE request_quotas (
    organization_id  uuid PRIMARY KEY REFERENCES organizations (id),
    missing          whole_number NOT NULL,
    as_of            timestamptz NOT NULL
) WITH (fillfactor = 50);

-- One row per user who has pushed under the quota. The push that it admits changes it, under the lock of the user's
-- lane.
CREATE TABLE mutation_quotas (
    organization_id  uuid NOT NULL,
    user_id          uuid NOT NULL,
    missing          whole_number NOT NULL,
    as_of            timestamptz NOT NULL,
    PRIMARY KEY (organization_id, user_id)
) PARTITION BY HASH (organization_id);

DO $$
BEGIN
    FOR number IN 0 .. :partitions - 1 LOOP
        EXECUTE format(
            'CREATE TABLE mutation_quotas_p%1$s PARTITION OF mutation_quotas FOR VALUES WITH (MODULUS :partitions, REMAINDER %1$s) WITH (fillfactor = 70)',
            number);
    END LOOP;
END $$;
