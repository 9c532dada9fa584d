package import SyncStore

extension Store {
    /// Checks service tokens.
    package var serviceTokens: ServiceTokens {
        shared { ServiceTokens(pool: pool, cluster: cluster, now: now, failure: failure) }
    }

    /// Sources that workers fetch from.
    package var sources: SourceStore { SourceStore(pool: pool, catalog: catalog, now: now, failure: failure) }

    /// Sources that receive webhooks.
    package var receivers: SourceReceivers {
        shared { SourceReceivers(pool: pool, cluster: cluster, catalog: catalog, now: now, failure: failure) }
    }

    /// What brings organizations' edits.
    package var sourceAdministration: SourceAdministration {
        SourceAdministration(pool: pool, catalog: catalog, receivers: receivers, now: now, failure: failure)
    }
}
