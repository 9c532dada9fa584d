-- The floor of the push benchmark: PostgreSQL alone, with exactly the rows that the gateway writes, into the gateway's
-- schema. Run it on a database into which a gateway has written creates (harness/floor.py). Columns that do not come
-- from the push are copied from a row that the gateway wrote, so a new column needs no change here.
CREATE SCHEMA floor;

-- The existing lanes, in random order and in two halves by partition, as two committers would share them.
CREATE TABLE floor.lanes AS
SELECT d.half, row_number() OVER (PARTITION BY d.half ORDER BY random()) AS number,
    d.organization_id, d.user_id, d.device_id
FROM (SELECT *, substring(tableoid::regclass::text FROM '\d+$')::int % 2 AS half FROM devices) d;
ALTER TABLE floor.lanes ADD PRIMARY KEY (half, number);

-- The ids of the mutation at each position, which are the same in every lane. They are generated in advance, because
-- clients generate them, and each would cost PostgreSQL a microsecond. `tail` is the part after the time in a server
-- id, which is a UUID of version 7.
CREATE TABLE floor.ids AS
SELECT position, gen_random_uuid() AS id, gen_random_uuid() AS key, gen_random_uuid() AS client_id,
    '-7' || substr(gen_random_uuid()::text, 16, 9) AS tail
FROM generate_series(1::bigint, 50000) position;
ALTER TABLE floor.ids ADD PRIMARY KEY (position);

-- An INSERT of the rows of `input`. The columns in `given` are taken from `input`, the others from an existing row of
-- the table. Documents are passed as text, as from a client, so PostgreSQL parses each of them.
CREATE FUNCTION floor.insertion(target regclass, given jsonb) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    model json;
    result text;
BEGIN
    EXECUTE format('SELECT row_to_json(t) FROM %s t LIMIT 1', target) INTO model;
    SELECT format('INSERT INTO %s (%s) SELECT %s FROM input', target,
        string_agg(a.attname, ', ' ORDER BY a.attnum), string_agg(a.source, ', ' ORDER BY a.attnum))
    INTO result
    FROM (
        SELECT c.attname, c.attnum, coalesce(given ->> c.attname, format(
            CASE c.atttypid WHEN 'json'::regtype THEN '%L::text::json' ELSE '%L::%s' END,
            model ->> c.attname, c.atttypid::regtype)) AS source
        FROM pg_attribute c
        WHERE c.attrelid = target AND c.attnum > 0 AND NOT c.attisdropped
            -- columns that are empty or an empty list keep their defaults
            AND (given ? c.attname OR coalesce(model ->> c.attname, '[]') <> '[]')) a;
    RETURN result;
END $$;

DO $outer$
DECLARE
    lane jsonb := '{"organization_id": "organization_id", "user_id": "user_id", "change_position": "change_position"}';
BEGIN
    EXECUTE format($body$
        -- The pushes of one transaction, each of another user with `size` creates. It takes no locks in advance and
        -- looks up nothing.
        CREATE FUNCTION floor.push(client int, pushes int, size int) RETURNS bigint LANGUAGE plpgsql AS $$
        DECLARE
            at timestamptz := clock_timestamp();
            stamp text := regexp_replace(lpad(to_hex((extract(epoch FROM at) * 1000)::bigint), 12, '0'), '.{8}', '\&-');
            first bigint := 1 + floor(random() * (%1$s - pushes + 1));
            made bigint;
        BEGIN
            WITH chosen AS MATERIALIZED (
                SELECT organization_id, user_id, device_id, substr(user_id::text, 25) AS ending,
                    size * row_number() OVER (PARTITION BY organization_id ORDER BY user_id) AS behind
                FROM floor.lanes WHERE half = client %% 2 AND number BETWEEN first AND first + pushes - 1
                ORDER BY organization_id, user_id),
            lane AS (
                INSERT INTO lanes AS l (organization_id, user_id) SELECT organization_id, user_id FROM chosen
                ON CONFLICT (organization_id, user_id) DO UPDATE
                SET next_position = l.next_position + size, change_position = l.change_position + 1
                RETURNING l.organization_id, l.user_id, l.next_position - size AS position, l.change_position),
            device AS (
                INSERT INTO devices AS d (
                    organization_id, user_id, device_id, accepted_sequence, created_at, last_seen_at)
                SELECT organization_id, user_id, device_id, 0, at, at FROM chosen
                ON CONFLICT (organization_id, user_id, device_id) DO UPDATE
                SET accepted_sequence = d.accepted_sequence + size, last_seen_at = excluded.last_seen_at),
            feed AS (
                INSERT INTO feeds AS f (organization_id, last_position, epoch)
                SELECT organization_id, max(behind), 1 FROM chosen GROUP BY organization_id
                ON CONFLICT (organization_id) DO UPDATE SET last_position = f.last_position + excluded.last_position
                RETURNING f.organization_id, f.last_position),
            input AS MATERIALIZED (
                SELECT organization_id, user_id, device_id, change_position, i.position, i.id, i.key, i.client_id,
                    stamp || i.tail || ending AS server_id,
                    last_position - behind + i.position - l.position + 1 AS feed_position
                FROM chosen JOIN lane l USING (organization_id, user_id) JOIN feed USING (organization_id)
                JOIN floor.ids i ON i.position BETWEEN l.position AND l.position + size - 1),
            mutation AS (%2$s), mapping AS (%3$s), entity AS (%4$s)
            SELECT count(*) INTO made FROM input;
            IF made <> pushes * size THEN
                RAISE 'made %% of %% mutations; floor.lanes or floor.ids is too small', made, pushes * size;
            END IF;
            RETURN made;
        END $$
        $body$,
        (SELECT min(n) FROM (SELECT max(number) AS n FROM floor.lanes GROUP BY half) m),
        floor.insertion('mutations', lane || '{"id": "id", "device_id": "device_id", "sequence_number": "position + 1",
            "position": "position", "idempotency_key": "key", "local_id": "client_id", "server_id": "server_id",
            "accepted_at": "at", "changed_at": "at", "synced_at": "at"}'),
        floor.insertion('id_mappings', lane || '{"client_id": "client_id", "server_id": "server_id",
            "mutation_id": "id", "resolved_at": "at", "last_used_at": "at"}'),
        floor.insertion('entities', '{"organization_id": "organization_id", "id": "server_id",
            "feed_position": "feed_position", "owner_id": "user_id", "client_id": "client_id", "updated_by": "user_id",
            "updated_on": "device_id", "created_at": "at", "updated_at": "at"}'));
END $outer$;
