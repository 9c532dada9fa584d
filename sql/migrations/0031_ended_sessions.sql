-- Why: signing out of the console only removed the cookie from the browser. A copy of the cookie stayed valid for up to
-- twelve hours, because a session is a signed text that the gateway does not store. Now a sign-out is stored, so that
-- every gateway rejects the copy.

-- Console sessions that ended early. A row is deleted when the session would have expired.
CREATE TABLE ended_sessions (
    -- SHA-256 of the cookie's value
    digest   bytea PRIMARY KEY,
    ends_at  timestamptz NOT NULL
);

CREATE INDEX ended_sessions_by_end ON ended_sessions (ends_at);
