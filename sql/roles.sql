-- The two roles with fewer rights than the owner of the tables, and their rights. `sluice migrate --roles` executes
-- this file in one transaction. Every later `sluice migrate` of the database executes it again, so that it covers
-- tables and partitions that were added since. It can be executed any number of times.
--
--   sluice_gateway  for the login roles of gateways: reads and writes rows, and owns nothing.
--   sluice_reader   for the login roles of tenants' analysts: reads the rows of the only organization to which `readers`
--                   binds the session's role. The policies use `session_user` instead of `current_user`, so that SET
--                   ROLE has no effect. They use no setting, because every user can SET those.
--
-- On a Citus cluster, a server cannot read another table for each row of a shard. So an analyst's login role is a member
-- of a role named `sluice_reader_` and the organization's id, which has no rights itself. All servers have these
-- memberships. A member of two such roles reads nothing.
--
-- Row-level security is enabled for every table and partition, and forced for none: it does not restrict the owner, and
-- the planner adds no condition for the gateway's `true`. Analysts cannot read tables that are not listed.

DO $$
DECLARE
    role_name text;
BEGIN
    FOREACH role_name IN ARRAY ARRAY['sluice_gateway', 'sluice_reader'] LOOP
        IF NOT EXISTS (SELECT FROM pg_roles r WHERE r.rolname = role_name) THEN
            BEGIN
                EXECUTE format('CREATE ROLE %I NOLOGIN', role_name);
            EXCEPTION WHEN duplicate_object OR unique_violation THEN
                -- another database of the server creates the roles at the same time
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
    -- the tables that analysts can read: not upstreams with their credentials, not quotas, and never a table of keys
    readable CONSTANT text[] := ARRAY['organizations', 'entity_types', 'feeds', 'users', 'devices', 'lanes', 'mutations',
        'rejections', 'id_mappings', 'local_ids', 'entities'];
    is_spread CONSTANT boolean := EXISTS (
        SELECT FROM pg_trigger t JOIN pg_proc p ON p.oid = t.tgfoid
        WHERE t.tgrelid = to_regclass('organizations') AND p.proname = 'citus_truncate_trigger');
    -- a subquery without references to the row: evaluated once, followed by a look-up by index
    binding text := '(SELECT r.organization_id FROM readers r WHERE r.role_name = session_user)';
    found record;
BEGIN
    IF is_spread THEN
        -- with its own search path, because the caller may have tables with the same names
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
        -- only if it is missing, because this waits for all users of the table
        IF NOT found.is_secured THEN
            EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', found.name);
        END IF;
        -- a partition is only accessible through its table
        CONTINUE WHEN found.is_partition;
        IF 'gateway' <> ALL (found.policies) THEN
            EXECUTE format('CREATE POLICY gateway ON %I TO sluice_gateway USING (true) WITH CHECK (true)', found.name);
        END IF;
        IF found.name = 'readers' THEN
            -- a purge deletes bindings; the gateway must not create any
            EXECUTE 'GRANT SELECT, DELETE ON readers TO sluice_gateway';
            -- the policies below are evaluated as the analyst, who can read only the own binding
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
