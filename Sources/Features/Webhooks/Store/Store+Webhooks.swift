package import SyncStore

extension Store {
    /// Deliveries.
    package var webhooks: WebhookStore { WebhookStore(pool: pool, catalog: catalog, now: now, failure: failure) }

    /// Manages organizations' webhook endpoints and their deliveries.
    package var webhookAdministration: WebhookAdministration {
        WebhookAdministration(pool: pool, catalog: catalog, now: now, failure: failure)
    }
}
