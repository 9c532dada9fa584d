package import SyncStore

extension Store {
    /// Deliveries.
    package var webhooks: WebhookStore { WebhookStore(pool: pool, catalog: catalog, now: now, failure: failure) }

    /// Where organizations want to be told of what happens, and what became of it.
    package var webhookAdministration: WebhookAdministration {
        WebhookAdministration(pool: pool, catalog: catalog, now: now, failure: failure)
    }
}
