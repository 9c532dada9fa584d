package import SyncStore

/// What people and time do to the store, beside what phones do: nothing on a mutation's way imports it.
extension Store {
    /// What operators do.
    package var administration: Administration {
        Administration(pool: pool, catalog: catalog, now: now, failure: failure, logger: logger)
    }

    /// Does away with what is old.
    package var retention: RetentionStore {
        RetentionStore(pool: pool, settling: settling, now: now, failure: failure)
    }

    /// Data keys, and rows that are to be sealed anew.
    package var keyRotation: KeyRotation {
        KeyRotation(pool: pool, catalog: catalog, masterKeys: masterKeys, now: now, failure: failure)
    }
}
