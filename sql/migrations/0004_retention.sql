-- Why: what is done is not kept for ever. Retention (product rule 15) finds what is due by the indexes below, works under
-- the lanes' locks in small batches, and on one replica at a time.

-- Whose turn it is: one row, claimed and renewed by a guarded update, as lanes are.
CREATE TABLE retention_runs (
    name            text PRIMARY KEY,
    -- the process that works, until expires_at; its claim is void when another has raised the token
    owner           uuid,
    token           bigint NOT NULL DEFAULT 0,
    expires_at      timestamptz,
    -- when the next run is due; null: at once
    due_at          timestamptz,
    started_at      timestamptz,
    -- the end of the last run that came to its end
    finished_at     timestamptz,
    -- what that run did, by what it was
    last_report     json,
    CONSTRAINT owned_runs_out CHECK ((owner IS NULL) = (expires_at IS NULL))
);
INSERT INTO retention_runs (name) VALUES ('retention');

-- How far retention has come in an organization, so that it looks at nothing twice.
CREATE TABLE retention_places (
    organization_id  uuid PRIMARY KEY REFERENCES organizations (id),
    -- the last of the final mutations, by age and key, that have lost their payloads
    shrunk_until     timestamptz,
    shrunk_user      uuid,
    shrunk_id        uuid,
    -- mappings are looked through once a day in the order of their key: where that is, and when it last came to the end
    mapping_user     uuid,
    mapping_client   uuid,
    mappings_seen_at timestamptz
);

-- Final mutations by age: one index for both, payloads that go after days and records that go after weeks. It has no
-- column that changes while a mutation is open, so sending one leaves it alone.
CREATE INDEX mutations_by_synced_at ON mutations (organization_id, synced_at) WHERE synced_at IS NOT NULL;

-- Failed and conflicting mutations. By when they were accepted, and told by their error: status and changed_at change
-- when a mutation is sent, and an index on either would make that dear.
CREATE INDEX troubled_mutations ON mutations (organization_id, accepted_at)
    WHERE error IS NOT NULL AND synced_at IS NULL;

CREATE INDEX tombstones ON entities (organization_id, updated_at) WHERE is_deleted;
CREATE INDEX rejections_by_age ON rejections (organization_id, rejected_at) WHERE rejected_at IS NOT NULL;

-- Autovacuum. By default it waits until a fifth of a table is dead, which with a month of mutations in it is a week of
-- bloat, and then takes long. Retention leaves dead rows all the time, and so does every push in the small tables: their
-- rows are updated in place (heap-only) as long as dead versions are cleared away in time.
DO $$
DECLARE
    leaf record;
    options text;
BEGIN
    FOR leaf IN
        SELECT i.inhrelid::regclass AS name, p.relname AS parent
        FROM pg_inherits i JOIN pg_class p ON p.oid = i.inhparent
        WHERE p.relkind = 'p' AND p.relname IN (
            'users', 'devices', 'lanes', 'mutations', 'rejections', 'id_mappings', 'entities')
            AND p.relnamespace = current_schema()::regnamespace
            AND EXISTS (SELECT FROM pg_class c WHERE c.oid = i.inhrelid AND c.relkind = 'r')
    LOOP
        options := CASE
            -- a few rows, changed by every push: cleared after a thousand changes and a twentieth of the table
            WHEN leaf.parent IN ('devices', 'lanes') THEN
                'autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 1000,
                 autovacuum_vacuum_cost_delay = 1'
            -- large: what retention leaves, and pages that only inserts have filled, are cleared by the fiftieth
            WHEN leaf.parent IN ('mutations', 'entities', 'id_mappings') THEN
                'autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 5000,
                 autovacuum_vacuum_insert_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05'
            ELSE 'autovacuum_vacuum_scale_factor = 0.05'
        END;
        EXECUTE format('ALTER TABLE %s SET (%s)', leaf.name, options);
    END LOOP;
END $$;
-- One row an organization, changed by every commit that writes entities.
ALTER TABLE feeds SET (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_cost_delay = 1);
