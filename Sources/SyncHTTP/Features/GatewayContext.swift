package import Logging
package import StandardWebhooks
package import SyncModel
package import SyncStore
package import Telemetry
package import Tokens

/// The engine's parts and the settings, as features use them.
package struct GatewayContext: Sendable {
    package let store: Store
    package let configuration: HTTPConfiguration
    package let registry: PrometheusRegistry
    package let logger: Logger
    /// Resolves the user whom a token of an issuer identifies; nil: every subject gets a separate user.
    package var verifier: TokenVerifier?
    /// Up to so many circuit breakers that are open in this process.
    package var circuits: @Sendable (Int) -> [CircuitReport] = { _ in [] }
    package var workers = WorkerSettings()

    package init(store: Store, configuration: HTTPConfiguration, registry: PrometheusRegistry, logger: Logger) {
        self.store = store
        self.configuration = configuration
        self.registry = registry
        self.logger = logger
    }
}

/// Bounds of the features' workers in this process.
package struct WorkerSettings: Sendable {
    /// Webhook endpoints that are sent to at a time; `SLUICE_MAX_WEBHOOKS`.
    package var webhooks = 64
    /// Signs webhook deliveries asymmetrically; nil: endpoints' secrets only. `SLUICE_WEBHOOK_SIGNING_KEY`.
    package var webhookSigningKey: WebhookSigningKey?
    /// Databases whose log is followed at a time; `SLUICE_MAX_REPLICATIONS`.
    package var replications = 16
    /// Sources that are polled at a time; `SLUICE_MAX_POLLS`.
    package var polls = 32
    /// Seconds from the end of a run of retention to the next; `SLUICE_RETENTION_INTERVAL_SECONDS`.
    package var retentionInterval: Double = 3_600

    package init() {}
}

/// What endpoints of the public listener share.
package struct PublicContext: Sendable {
    package let authenticator: Authenticator
    package let budgets: Budgets
    /// Reads bodies of pushes' size.
    package let bodies: BodyReader
}

/// What endpoints of the operations listener share.
package struct OperatorContext: Sendable {
    /// Checks tokens and sessions of operators.
    package let authenticator: OperatorAuthenticator
    package let bodies: BodyReader
}
