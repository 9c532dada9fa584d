-- Why: a tenant's analysts read their organization's rows by SQL. Which rows those are is said here, by an operator, and
-- not by a setting that whoever is connected could change.

-- A login role and the one organization that it reads. Row-level security and grants are made by sql/roles.sql.
CREATE TABLE readers (
    organization_id  uuid NOT NULL REFERENCES organizations (id),
    role_name        name NOT NULL,
    created_at       timestamptz NOT NULL,
    PRIMARY KEY (organization_id, role_name)
);

-- One organization a role; the policies look it up by the role.
CREATE UNIQUE INDEX readers_by_role ON readers (role_name);
