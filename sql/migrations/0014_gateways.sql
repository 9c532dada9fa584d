-- Why: some proxies keep a listening session for each gateway. Behind such a proxy, a gateway receives its own
-- notifications, but not those of other gateways. So gateways find each other by this table, and not by notifications.

-- Running gateways. Each updates its row every five seconds. A row without an update for an hour is deleted.
CREATE TABLE gateways (
    id       uuid PRIMARY KEY,
    seen_at  timestamptz NOT NULL
) WITH (fillfactor = 50);
