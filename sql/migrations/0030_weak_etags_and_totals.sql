-- Why: If-Match requires the strong comparison (RFC 9110, 13.1.1), so a strict upstream rejects every request with a
-- weak ETag; other upstreams require one. And an operation counts the mutations that it has examined, from which an
-- operator cannot derive how many remain.

-- Whether the upstream accepts weak ETags in If-Match.
ALTER TABLE upstreams ADD COLUMN send_weak_etags boolean NOT NULL DEFAULT false;

-- The number of mutations that matched when the operation was created, counted up to a bound, and whether there were
-- more. Null for operations that an earlier version created.
ALTER TABLE operations
    ADD COLUMN total bigint CHECK (total >= 0),
    ADD COLUMN total_is_more boolean NOT NULL DEFAULT false;
