-- schema_facts
SELECT current_setting('server_encoding'), current_database()::text, coalesce(current_schema()::text, ''),
    to_regclass('schema_migrations') IS NOT NULL,
    (SELECT count(*) = 2 FROM pg_attribute
     WHERE attrelid = to_regclass('schema_migrations') AND attname IN ('name', 'checksum') AND attnum > 0
        AND NOT attisdropped),
    coalesce(has_schema_privilege(current_schema(), 'CREATE'), false), current_user::text;

-- schema_applications
SELECT name FROM schema_migrations;

-- schema_relations
-- $1 names
SELECT relname::text FROM pg_class
WHERE relnamespace = to_regnamespace(quote_ident(current_schema())) AND relname = ANY ($1::text[])
UNION
SELECT typname::text FROM pg_type
WHERE typnamespace = to_regnamespace(quote_ident(current_schema())) AND typname = ANY ($1::text[])
ORDER BY 1;

-- cluster_is_there
-- Detects whether the tables are distributed, by the extension's trigger on each distributed table.
SELECT EXISTS (
    SELECT FROM pg_trigger t JOIN pg_proc p ON p.oid = t.tgfoid
    WHERE t.tgrelid = to_regclass('organizations') AND p.proname = 'citus_truncate_trigger');

-- cluster_version
SELECT e.extversion FROM pg_extension e WHERE e.extname = 'citus';

-- roles_is_granted
SELECT EXISTS (
    SELECT FROM pg_policy p JOIN pg_class c ON c.oid = p.polrelid
    WHERE c.relnamespace = current_schema()::regnamespace AND p.polname = 'gateway');
