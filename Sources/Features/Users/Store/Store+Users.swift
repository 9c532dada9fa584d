package import SyncStore

extension Store {
    /// Joins users.
    package var joining: UserJoining {
        UserJoining(
            pool: pool,
            catalog: catalog,
            notifier: notifier,
            now: now,
            failure: failure,
            logger: logger
        )
    }

    /// Erases users.
    package var erasing: UserErasing {
        UserErasing(
            pool: pool,
            catalog: catalog,
            identities: identities,
            notifier: notifier,
            participants: participants,
            now: now,
            failure: failure,
            logger: logger
        )
    }

    /// Writes down all that is stored of a user.
    package var exports: UserExport {
        UserExport(pool: pool, catalog: catalog, now: now, failure: failure)
    }
}
