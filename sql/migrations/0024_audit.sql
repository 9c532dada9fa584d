-- Why: who did what to which tenant, and why, is asked weeks later, when logs are gone; and what operators look at and do
-- in the console is to leave a trace that the console cannot leave out.

-- What operators did or tried, by API and by command, and their looks at what users wrote. Not of an organization's data: a
-- purge keeps it, and takes the users' ids out of it. Small rows, a few a day; retention does away with them.
CREATE TABLE audit (
    -- whom it was done to; the nil UUID: no organization. References none, for it stays
    organization_id  uuid NOT NULL,
    -- version 7, of the moment in at: order and age are the id's
    id               uuid NOT NULL,
    at               timestamptz NOT NULL,
    -- the name of the operator's token, or of the system's user who gave a command
    actor            text NOT NULL COLLATE "C" CHECK (octet_length(actor) BETWEEN 1 AND 64),
    scope            text NOT NULL COLLATE "C" CHECK (octet_length(scope) BETWEEN 1 AND 16),
    -- an operationId of the contract, or a command's own name
    action           text NOT NULL COLLATE "C" CHECK (octet_length(action) BETWEEN 1 AND 64),
    reason           text CHECK (octet_length(reason) BETWEEN 1 AND 500),
    -- names and ids, never contents
    target           json NOT NULL CHECK (octet_length(target::text) <= 8192),
    -- the user whom it is about, and the one whom that user was joined into; once erased, their hashes
    user_id          uuid,
    user_hash        bytea CHECK (octet_length(user_hash) = 32),
    into_id          uuid,
    into_hash        bytea CHECK (octet_length(into_hash) = 32),
    request_id       text CHECK (octet_length(request_id) <= 128),
    -- what came of it; NULL: it was begun, and its end is not known
    outcome          json CHECK (octet_length(outcome::text) <= 16384),
    PRIMARY KEY (organization_id, id)
);
-- Over all organizations: the newest first, and for retention the oldest.
CREATE INDEX audit_in_order ON audit (id);
-- Whom an erasure looks for.
CREATE INDEX audit_by_user ON audit (organization_id, user_id) WHERE user_id IS NOT NULL;
CREATE INDEX audit_by_into ON audit (organization_id, into_id) WHERE into_id IS NOT NULL;
