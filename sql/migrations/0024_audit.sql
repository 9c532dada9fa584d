-- Why: the question who did what to which tenant, and why, arises weeks later, when the logs are deleted. Operators'
-- actions in the console, including reads, must leave a record that the console cannot omit.

-- Operators' actions and attempts, by API and by command, and their reads of users' content. The rows do not belong to
-- an organization's data: a purge keeps them, but removes the users' ids. Small rows, a few per day; retention deletes
-- them.
CREATE TABLE audit (
    -- the organization that the action concerned; the nil UUID: none. No foreign key, because the row outlives the
    -- organization
    organization_id  uuid NOT NULL,
    -- version 7, with the time of `at`: it determines order and age
    id               uuid NOT NULL,
    at               timestamptz NOT NULL,
    -- the name of the operator's token, or of the system user who executed a command
    actor            text NOT NULL COLLATE "C" CHECK (octet_length(actor) BETWEEN 1 AND 64),
    scope            text NOT NULL COLLATE "C" CHECK (octet_length(scope) BETWEEN 1 AND 16),
    -- an operationId of the contract, or a command's own name
    action           text NOT NULL COLLATE "C" CHECK (octet_length(action) BETWEEN 1 AND 64),
    reason           text CHECK (octet_length(reason) BETWEEN 1 AND 500),
    -- names and ids, never contents
    target           json NOT NULL CHECK (octet_length(target::text) <= 8192),
    -- the user concerned, and the user into whom that user was joined; after an erasure, their hashes
    user_id          uuid,
    user_hash        bytea CHECK (octet_length(user_hash) = 32),
    into_id          uuid,
    into_hash        bytea CHECK (octet_length(into_hash) = 32),
    request_id       text CHECK (octet_length(request_id) <= 128),
    -- the result; null: the action began, and its end is unknown
    outcome          json CHECK (octet_length(outcome::text) <= 16384),
    PRIMARY KEY (organization_id, id)
);
-- All organizations, for lists (newest first) and for retention (oldest first).
CREATE INDEX audit_in_order ON audit (id);
-- Rows that an erasure must find.
CREATE INDEX audit_by_user ON audit (organization_id, user_id) WHERE user_id IS NOT NULL;
CREATE INDEX audit_by_into ON audit (organization_id, into_id) WHERE into_id IS NOT NULL;
