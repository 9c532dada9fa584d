-- The rows that the gateway writes for a push of creates, in plain tables: lane, device, mutation with key and
-- fingerprint, mapping, entity, feed. The indexes are those by which the gateway finds final mutations and changes.
create table lanes (
    organization_id uuid, user_id uuid, next_position bigint not null default 1,
    change_position bigint not null default 0, primary key (organization_id, user_id)) with (fillfactor = 70);
create table devices (
    organization_id uuid, user_id uuid, device_id uuid, accepted_sequence bigint not null,
    created_at timestamptz not null default now(), last_seen_at timestamptz not null default now(),
    primary key (organization_id, user_id, device_id)) with (fillfactor = 70);
create table feeds (organization_id uuid primary key, last_position bigint not null) with (fillfactor = 50);
create table mutations (
    organization_id uuid not null, user_id uuid not null, id uuid not null, device_id uuid not null,
    sequence_number bigint not null, position bigint not null, change_position bigint not null,
    idempotency_key uuid not null, fingerprint bytea not null, revision int not null default 1, operation text not null,
    entity_type text not null, local_id uuid, server_id text, endpoint text, payload json, headers json,
    dependency_ids uuid[] not null default '{}', priority smallint not null, attempt_count smallint not null default 0,
    max_attempts smallint not null default 10, conflict_resolution text not null default 'manual', status text not null,
    depends_on uuid[] not null default '{}', blocked_on uuid, version bigint, response_status smallint, error json,
    created_at timestamptz not null, accepted_at timestamptz not null default now(),
    changed_at timestamptz not null default now(), synced_at timestamptz,
    primary key (organization_id, user_id, id)) with (fillfactor = 90);
create unique index on mutations (organization_id, user_id, idempotency_key);
create unique index on mutations (organization_id, user_id, position);
create index on mutations (organization_id, synced_at) where synced_at is not null;
create table id_mappings (
    organization_id uuid, user_id uuid, client_id uuid, entity_type text, server_id text not null, status text not null,
    mutation_id uuid not null, change_position bigint not null, created_at timestamptz not null default now(),
    resolved_at timestamptz not null default now(), primary key (organization_id, user_id, client_id, entity_type));
create table entities (
    organization_id uuid, entity_type text, id text, version bigint not null, is_deleted bool not null default false,
    document json, feed_position bigint not null, owner_id uuid not null, client_id uuid, updated_by uuid not null,
    updated_on uuid not null, run_base bigint not null default 0, created_at timestamptz not null default now(),
    updated_at timestamptz not null default now(), primary key (organization_id, entity_type, id)
    ) with (fillfactor = 90);
create unique index on entities (organization_id, feed_position);
