package import SyncStore

extension Store {
    /// Data keys, and rows that are to be sealed anew.
    package var keyRotation: KeyRotation {
        KeyRotation(pool: pool, catalog: catalog, masterKeys: masterKeys, now: now, failure: failure)
    }
}
