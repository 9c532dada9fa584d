extension Store {
    /// The acts of operators.
    package var audit: AuditLog { AuditLog(pool: pool, now: now, failure: failure) }

    /// Console sessions that were ended. The caller keeps it: it caches.
    package var endedSessions: EndedSessions { EndedSessions(pool: pool, now: now, failure: failure) }
}
