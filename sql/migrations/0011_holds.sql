-- Why: if an upstream answers a request with 401, 407 or a redirect, the gateway holds only that mutation's lane until
-- it has determined the cause (product rule 11). The number of such answers and their begin must survive a restart of
-- the gateway.

-- Plain types instead of domains: for a new column of a domain with a CHECK, PostgreSQL would rewrite the table.
ALTER TABLE mutations
    -- consecutive answers of that kind to this revision; the pauses double with each
    ADD COLUMN hold_count smallint NOT NULL DEFAULT 0,
    -- when the first of these answers arrived
    ADD COLUMN held_since timestamptz;
