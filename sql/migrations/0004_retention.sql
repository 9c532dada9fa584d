-- Why: data that are no longer needed are deleted. Retention (product rule 15) finds them by the indexes below. It
-- works in small batches under the lanes' locks, and on one replica at a time.

-- The lease of retention: one row, claimed and renewed by a guarded update, as lanes are.
CREATE TABLE retention_runs (
    name            text PRIMARY KEY,
    -- the process that runs it, until expires_at; its claim is void once another process has incremented the token
    owner           uuid,
    token           bigint NOT NULL DEFAULT 0,
    expires_at      timestamptz,
    -- when the next run is due; null: immediately
    due_at          timestamptz,
    started_at      timestamptz,
    -- the end of the last completed run
    finished_at     timestamptz,
    -- the counts of that run, by kind
    last_report     json,
    CONSTRAINT owned_runs_out CHECK ((owner IS NULL) = (expires_at IS NULL))
);
INSERT INTO retention_runs (name) VALUES ('retention');

-- Retention's progress in an organization, so that it reads no row twice.
CREATE TABLE retention_places (
    organization_id  uuid PRIMARY KEY REFERENCES organizations (id),
    -- the last final mutation, by age and key, whose payload was deleted
    shrunk_until     timestamptz,
    shrunk_user      uuid,
    shrunk_id        uuid,
    -- mappings are examined once a day in the order of their key: the current position, and when the last pass ended
    mapping_user     uuid,
    mapping_client   uuid,
    mappings_seen_at timestamptz
);

-- Final mutations by age. One index serves both payloads, which are deleted after days, and records, which are deleted
-- after weeks. No column of it changes while a mutation is open, so sending one does not update it.
CREATE INDEX mutations_by_synced_at ON mutations (organization_id, synced_at) WHERE synced_at IS NOT NULL;

-- Failed and conflicting mutations, by time of acceptance, and selected by their error. The columns status and
-- changed_at change whenever a mutation is sent, so an index on either would be expensive.
CREATE INDEX troubled_mutations ON mutations (organization_id, accepted_at)
    WHERE error IS NOT NULL AND synced_at IS NULL;

CREATE INDEX tombstones ON entities (organization_id, updated_at) WHERE is_deleted;
CREATE INDEX rejections_by_age ON rejections (organization_id, rejected_at) WHERE rejected_at IS NOT NULL;

-- Autovacuum. By default, it starts when a fifth of a table is dead. In a table with a month of mutations, that is a
-- week of bloat, and the vacuum takes long. Retention constantly leaves dead rows, and so does every push in the small
-- tables: their rows are updated in place (heap-only) only if dead versions are removed in time.
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
            -- few rows, changed by every push: vacuumed after a thousand changes and a twentieth of the table
            WHEN leaf.parent IN ('devices', 'lanes') THEN
                'autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 1000,
                 autovacuum_vacuum_cost_delay = 1'
            -- large: vacuumed after a fiftieth of the table has died, mainly by retention, or after a twentieth was
            -- inserted
            WHEN leaf.parent IN ('mutations', 'entities', 'id_mappings') THEN
                'autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 5000,
                 autovacuum_vacuum_insert_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05'
            ELSE 'autovacuum_vacuum_scale_factor = 0.05'
        END;
        EXECUTE format('ALTER TABLE %s SET (%s)', leaf.name, options);
    END LOOP;
END $$;
-- One row per organization, changed by every commit that writes entities.
ALTER TABLE feeds SET (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_cost_delay = 1);
