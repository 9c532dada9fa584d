-- Why: an upstream that answers a request with 401, 407 or a redirect holds that mutation's own lane, and nobody else's, until
-- it shows whose mistake it is (product rule 11). How often and since when has to outlive a gateway.

-- Plain types, and not domains as elsewhere: for a new column of a domain with a CHECK the table would be written anew.
ALTER TABLE mutations
    -- answers of that kind to this revision, one after another; its pauses double with them
    ADD COLUMN hold_count smallint NOT NULL DEFAULT 0,
    -- when the first of them came
    ADD COLUMN held_since timestamptz;
