-- Distributes the tables over the servers of a Citus cluster, by organization. `sluice migrate --citus` executes this
-- file after the migrations, in one transaction, on empty tables. Every later `sluice migrate` of a distributed
-- database executes it for the tables that were added since. It can be executed any number of times.
--
--   Tables with an `organization_id` are distributed by it, and all are colocated. The rows of an organization are on
--   one server, so its transactions need one server and no two-phase commit. Partitions improve plain PostgreSQL, but
--   would multiply with the shards. So tables are created again without partitions, under the same names, with the same
--   indexes.
--   Tables that are searched by something other than an organization, or that every gateway reads, are copied to every
--   server: `external_ids`, `readers`, `schema_migrations`. A copied table cannot refer to a distributed table.
--   The other tables remain on the coordinator, and every server can read them.

-- The distinct organizations of a list. Because the function is immutable, it is evaluated when a statement is planned.
-- Servers look up rows by its result, and go through the whole list for each row, so duplicates would cost time.
CREATE OR REPLACE FUNCTION distinct_organizations(organizations uuid[]) RETURNS uuid[]
    IMMUTABLE STRICT PARALLEL SAFE LANGUAGE sql
    AS 'SELECT array_agg(DISTINCT o.id) FROM unnest(organizations) AS o (id)';

-- Whether a user was erased, for statements that cannot contain subqueries. It runs with the rights of its caller, on
-- the server of the organization, also within a statement. Both read the same shard, so the nested execution that it
-- allows is harmless.
CREATE OR REPLACE FUNCTION is_erased(organization uuid, person uuid) RETURNS boolean
    STABLE LANGUAGE plpgsql SET citus.allow_nested_distributed_execution = on
    AS $$
BEGIN
    RETURN EXISTS (
        SELECT FROM user_erasures e
        WHERE e.organization_id = organization AND e.user_hash = sha256(uuid_send(organization) || uuid_send(person)));
END $$;

DO $$
DECLARE
    wanted CONSTANT int := :shards;
    found record;
    leaf record;
    has_rows boolean;
BEGIN
    -- distributed tables need no change; tables with rows are refused
    FOR found IN
        SELECT c.oid, c.relname::text AS name, c.relkind = 'p' AS is_partitioned, c.reloptions,
            ARRAY(SELECT pg_get_constraintdef(k.oid) || E'\n' || k.conname FROM pg_constraint k
                  WHERE k.conrelid = c.oid AND k.contype IN ('p', 'u')) AS keys,
            ARRAY(SELECT replace(pg_get_indexdef(i.indexrelid), ' ON ONLY ', ' ON ') FROM pg_index i
                  WHERE i.indrelid = c.oid AND NOT EXISTS (SELECT FROM pg_constraint k WHERE k.conindid = i.indexrelid))
                AS indexes,
            ARRAY(SELECT k.conname FROM pg_constraint k WHERE k.conrelid = c.oid AND k.contype = 'f') AS references,
            c.relname = 'schema_migrations' OR EXISTS (
                SELECT FROM pg_index i
                WHERE i.indrelid = c.oid AND i.indisunique AND c.relname <> 'organizations' AND NOT EXISTS (
                    SELECT FROM pg_attribute a
                    WHERE a.attrelid = c.oid AND a.attnum = ANY (i.indkey) AND a.attname = 'organization_id'))
                AS is_copied
        FROM pg_class c
        WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition
            AND NOT EXISTS (SELECT FROM pg_dist_partition d WHERE d.logicalrelid = c.oid)
            AND (c.relname IN ('organizations', 'schema_migrations')
                OR EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attname = 'organization_id'))
        -- tables to which others refer come first
        ORDER BY c.relname <> 'organizations', c.relname
    LOOP
        EXECUTE format('SELECT EXISTS (SELECT FROM %I)', found.name) INTO has_rows;
        IF has_rows AND found.name <> 'schema_migrations' THEN
            RAISE EXCEPTION 'table % has rows; a database in use is not spread over a cluster', found.name
                USING ERRCODE = 'object_not_in_prerequisite_state';
        END IF;
        IF found.is_partitioned THEN
            SELECT l.reloptions INTO leaf
            FROM pg_inherits i JOIN pg_class l ON l.oid = i.inhrelid
            WHERE i.inhparent = found.oid ORDER BY l.relname LIMIT 1;
            EXECUTE format('CREATE TABLE %I (LIKE %I INCLUDING ALL EXCLUDING INDEXES)', found.name || '_whole', found.name);
            EXECUTE format('DROP TABLE %I', found.name);
            EXECUTE format('ALTER TABLE %I RENAME TO %I', found.name || '_whole', found.name);
            IF leaf.reloptions IS NOT NULL THEN
                EXECUTE format('ALTER TABLE %I SET (%s)', found.name, array_to_string(leaf.reloptions, ', '));
            END IF;
            FOR position IN 1..cardinality(found.keys) LOOP
                EXECUTE format('ALTER TABLE %I ADD CONSTRAINT %I %s', found.name,
                    split_part(found.keys[position], E'\n', 2), split_part(found.keys[position], E'\n', 1));
            END LOOP;
            FOR position IN 1..cardinality(found.indexes) LOOP
                EXECUTE found.indexes[position];
            END LOOP;
        END IF;
        IF found.is_copied THEN
            FOR position IN 1..cardinality(found.references) LOOP
                EXECUTE format('ALTER TABLE %I DROP CONSTRAINT %I', found.name, found.references[position]);
            END LOOP;
            PERFORM create_reference_table(found.name);
        ELSIF found.name = 'organizations' THEN
            PERFORM create_distributed_table('organizations', 'id', shard_count := wanted, colocate_with := 'none');
        ELSE
            PERFORM create_distributed_table(found.name, 'organization_id', colocate_with := 'organizations');
        END IF;
    END LOOP;
    PERFORM create_distributed_function('distinct_organizations(uuid[])');
    PERFORM create_distributed_function('is_erased(uuid, uuid)');
    FOR found IN
        SELECT c.oid FROM pg_class c
        WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind = 'r'
            AND NOT EXISTS (SELECT FROM pg_dist_partition d WHERE d.logicalrelid = c.oid)
            AND c.relname <> 'schema_migrations_lock'
    LOOP
        PERFORM citus_add_local_table_to_metadata(found.oid::regclass);
    END LOOP;
END $$;
