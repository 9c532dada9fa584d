package import SyncStore

/// The store's services for operators and retention: no code on a mutation's way imports this module.
extension Store {
    package var administration: Administration {
        Administration(
            pool: pool,
            catalog: catalog,
            identities: identities,
            knownTokens: serviceTokens,
            now: now,
            failure: failure,
            logger: logger
        )
    }

    /// Where organizations want to be told of what happens, and what became of it.
    package var webhookAdministration: WebhookAdministration {
        WebhookAdministration(pool: pool, catalog: catalog, now: now, failure: failure)
    }

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

    package var retention: RetentionStore {
        RetentionStore(pool: pool, settling: settling, now: now, failure: failure, requested: retentionRequested)
    }

    /// Data keys, and rows that are to be sealed anew.
    package var keyRotation: KeyRotation {
        KeyRotation(pool: pool, catalog: catalog, masterKeys: masterKeys, now: now, failure: failure)
    }
}
