-- Why: If-Match requires the strong comparison (RFC 9110, 13.1.1), so a strict upstream refuses every request that carries a
-- weak ETag; others expect one. And an operation counts the mutations that it has examined, from which nobody can tell how
-- many are left.

-- Whether the upstream accepts weak ETags in If-Match.
ALTER TABLE upstreams ADD COLUMN send_weak_etags boolean NOT NULL DEFAULT false;

-- The number of mutations that matched when the operation was made, counted up to a bound, and whether there were more.
-- Null for operations that an earlier version made.
ALTER TABLE operations
    ADD COLUMN total bigint CHECK (total >= 0),
    ADD COLUMN total_is_more boolean NOT NULL DEFAULT false;
