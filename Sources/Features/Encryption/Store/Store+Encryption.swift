package import SyncStore

extension Store {
    /// Data keys, and rows that require sealing again.
    package var keyRotation: KeyRotation {
        KeyRotation(
            tables: tables,
            pool: pool,
            catalog: catalog,
            masterKeys: masterKeys,
            now: now,
            failure: failure
        )
    }
}
