-- Why: a gateway hears its own notifications where those of others are swallowed, as behind a proxy that keeps a listening
-- session for each. Whether there are others is known here, and not by what is heard.

-- Gateways that are there: each says so every five seconds. A row in which nobody has written for an hour goes.
CREATE TABLE gateways (
    id       uuid PRIMARY KEY,
    seen_at  timestamptz NOT NULL
) WITH (fillfactor = 50);
