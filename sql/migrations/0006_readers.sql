-- Why: a tenant's analysts read their organization's rows by SQL. An operator specifies the organization in this table,
-- because analysts could change a session setting.

-- A login role and the only organization that it reads. sql/roles.sql creates row-level security and grants.
CREATE TABLE readers (
    organization_id  uuid NOT NULL REFERENCES organizations (id),
    role_name        name NOT NULL,
    created_at       timestamptz NOT NULL,
    PRIMARY KEY (organization_id, role_name)
);

-- A role has at most one organization. The policies find it by the role.
CREATE UNIQUE INDEX readers_by_role ON readers (role_name);
