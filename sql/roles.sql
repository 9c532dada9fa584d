-- The two roles that are less than the owner of the tables, and what they may do. `sluice migrate --roles` executes this
-- in one transaction, as does every later `sluice migrate` of the database, so that tables and partitions that have come
-- since are covered. It may be executed any number of times.
--
--   sluice_gateway  for the login roles of gateways: reads and writes rows, and owns nothing.
--   sluice_reader   for the login roles of tenants' analysts: reads the rows of the one organization that `readers` binds
--                   the session's role to. `session_user` and not `current_user`, so that SET ROLE changes nothing; and
--                   no setting, since anybody may SET those.
--
-- On a Citus cluster, a server that holds a shard cannot ask another table than that for each row. There the binding is a
-- membership, which every server knows: in `sluice_reader_` and the organization's id, a role without rights of its own.
-- Who is a member of two reads nothing.
--
-- Row-level security is enabled for every table and partition and forced for none: the owner is not held up by it, and
-- to the gateway's `true` the planner finds nothing to add. A table that nobody thought of is closed to analysts.

DO $$
DECLARE
    role_name text;
BEGIN
    FOREACH role_name IN ARRAY ARRAY['sluice_gateway', 'sluice_reader'] LOOP
        IF NOT EXISTS (SELECT FROM pg_roles r WHERE r.rolname = role_name) THEN
            BEGIN
                EXECUTE format('CREATE ROLE %I NOLOGIN', role_name);
            EXCEPTION WHEN duplicate_object OR unique_violation THEN
                -- another database of the server makes them at this moment
                NULL;
            END;
        END IF;
        IF EXISTS (SELECT FROM pg_roles r WHERE r.rolname = role_name AND (r.rolsuper OR r.rolbypassrls)) THEN
            RAISE EXCEPTION 'role % is a superuser or bypasses row-level security', role_name;
        END IF;
    END LOOP;
END $$;

DO $$
DECLARE
    -- what analysts may read; not upstreams and their credentials, not quotas, never a table of keys
    readable CONSTANT text[] := ARRAY['organizations', 'entity_types', 'feeds', 'users', 'devices', 'lanes', 'mutations',
        'rejections', 'id_mappings', 'local_ids', 'entities'];
    is_spread CONSTANT boolean := EXISTS (
        SELECT FROM pg_trigger t JOIN pg_proc p ON p.oid = t.tgfoid
        WHERE t.tgrelid = to_regclass('organizations') AND p.proname = 'citus_truncate_trigger');
    -- a subquery without references to the row: evaluated once, and then a look-up by index
    binding text := '(SELECT r.organization_id FROM readers r WHERE r.role_name = session_user)';
    found record;
BEGIN
    IF is_spread THEN
        -- with a path of its own: whoever asks may have tables of the same names
        EXECUTE 'CREATE OR REPLACE FUNCTION reader_organization() RETURNS uuid STABLE PARALLEL SAFE LANGUAGE sql
            SET search_path = pg_catalog, pg_temp AS $f$
            SELECT substr(max(g.rolname::text), 15)::uuid
            FROM pg_auth_members m JOIN pg_roles g ON g.oid = m.roleid JOIN pg_roles u ON u.oid = m.member
            WHERE u.rolname = session_user AND g.rolname ~ ''^sluice_reader_[0-9a-f-]{36}$''
            HAVING count(*) = 1 $f$';
        binding := 'reader_organization()';
    END IF;
    EXECUTE format('GRANT USAGE ON SCHEMA %I TO sluice_gateway, sluice_reader', current_schema());
    FOR found IN
        SELECT c.relname AS name, c.relispartition AS is_partition, c.relrowsecurity AS is_secured,
            ARRAY(SELECT p.polname::text FROM pg_policy p WHERE p.polrelid = c.oid) AS policies
        FROM pg_class c
        WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind IN ('r', 'p')
            AND pg_has_role(c.relowner, 'USAGE')
        ORDER BY c.relname
    LOOP
        EXECUTE format('REVOKE ALL ON %I FROM sluice_gateway, sluice_reader', found.name);
        IF found.name IN ('schema_migrations', 'schema_migrations_lock') THEN
            EXECUTE format('GRANT SELECT ON %I TO sluice_gateway', found.name);
            CONTINUE;
        END IF;
        -- only where it is missing: this waits for whoever uses the table
        IF NOT found.is_secured THEN
            EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', found.name);
        END IF;
        -- a partition is reached through its table, and in no other way
        CONTINUE WHEN found.is_partition;
        IF 'gateway' <> ALL (found.policies) THEN
            EXECUTE format('CREATE POLICY gateway ON %I TO sluice_gateway USING (true) WITH CHECK (true)', found.name);
        END IF;
        IF found.name = 'readers' THEN
            -- a purge deletes bindings; who reads what is not the gateway's to say
            EXECUTE 'GRANT SELECT, DELETE ON readers TO sluice_gateway';
            -- the policies below are evaluated as the analyst, who sees the own binding
            EXECUTE 'GRANT SELECT ON readers TO sluice_reader';
            IF 'reader' <> ALL (found.policies) THEN
                EXECUTE 'CREATE POLICY reader ON readers FOR SELECT TO sluice_reader USING (role_name = session_user)';
            END IF;
            CONTINUE;
        END IF;
        EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON %I TO sluice_gateway', found.name);
        CONTINUE WHEN found.name <> ALL (readable);
        EXECUTE format('GRANT SELECT ON %I TO sluice_reader', found.name);
        IF 'reader' <> ALL (found.policies) THEN
            EXECUTE format(
                'CREATE POLICY reader ON %I FOR SELECT TO sluice_reader USING (%I = %s)',
                found.name, CASE found.name WHEN 'organizations' THEN 'id' ELSE 'organization_id' END, binding);
        END IF;
    END LOOP;
END $$;
