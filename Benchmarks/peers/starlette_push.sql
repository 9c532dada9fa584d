create table streams (
    organization_id uuid, user_id uuid, position bigint not null default 0, primary key (organization_id, user_id));
create table idempotency (
    organization_id uuid, user_id uuid, key uuid, fingerprint bytea, server_id uuid,
    created_at timestamptz default now(), primary key (organization_id, user_id, key));
create table id_mappings (
    organization_id uuid, user_id uuid, entity_type text, client_id uuid, server_id uuid,
    created_at timestamptz default now(), primary key (organization_id, user_id, client_id, entity_type));
create table entities (
    organization_id uuid, entity_type text, id uuid, doc jsonb, position bigint,
    primary key (organization_id, entity_type, id));
