-- Why: organizations may ask for so much a second and their users push so much a day, over all replicas together.

-- What is missing until a bucket is full, in parts of a token (TokenBucket), and as of when. A missing row is a full
-- bucket. Rows are small and updated in place.

-- One row an organization that has the quota. Replicas draw from it ahead, some times a second, and by no request.
CREATE TABLE request_quotas (
    organization_id  uuid PRIMARY KEY REFERENCES organizations (id),
    missing          whole_number NOT NULL,
    as_of            timestamptz NOT NULL
) WITH (fillfactor = 50);

-- One row a user who has pushed under the quota, changed by the push that it admits, under the lock of the user's lane.
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
