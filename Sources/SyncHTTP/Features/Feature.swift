package import FoundationEssentials
package import Logging
package import ServiceLifecycle
package import StandardWebhooks
package import SyncModel
package import SyncStore
package import Telemetry
package import Tokens

/// A part of the gateway around the engine: its additions to the listeners, the metrics, the engine's transactions and
/// the services. The engine works without any feature, and no feature uses another.
package protocol Feature: Sendable {
    /// Adds the feature's rows to the engine's transactions.
    static var participants: [any CommitParticipant] { get }

    /// The feature's tables, in the order in which a purge deletes their rows.
    static var tables: [StoredTable] { get }

    /// Describes the metrics that the feature's code counts.
    ///
    /// Called before that code creates them, because a metric keeps the description that it was created with.
    static func describeMetrics(in registry: PrometheusRegistry)

    /// Creates the feature's parts; starts nothing.
    init(_ gateway: GatewayContext)

    /// Adds gauges that read the feature's state.
    func addMetrics(to registry: PrometheusRegistry)

    /// Adds routes to the public listener.
    func addRoutes(to routes: inout RouteTable, _ context: PublicContext)

    /// Adds routes to the operations listener, each with the operator scope that it requires.
    func addRoutes(to routes: inout OperatorRoutes, _ context: OperatorContext)

    /// Services that start after the engine's and end before them.
    var services: [any Service] { get }

    /// Services that run as long as the operations listener: they end streams that it serves.
    var operatorServices: [any Service] { get }

    /// Called once for each upstream that becomes unavailable, or available again.
    func upstreamChanged(of organization: UUID, isDown: Bool, reason: String?)
}

extension Feature {
    package static var participants: [any CommitParticipant] { [] }
    package static var tables: [StoredTable] { [] }
    package static func describeMetrics(in registry: PrometheusRegistry) {}
    package func addMetrics(to registry: PrometheusRegistry) {}
    package func addRoutes(to routes: inout RouteTable, _ context: PublicContext) {}
    package func addRoutes(to routes: inout OperatorRoutes, _ context: OperatorContext) {}
    package var services: [any Service] { [] }
    package var operatorServices: [any Service] { [] }
    package func upstreamChanged(of organization: UUID, isDown: Bool, reason: String?) {}
}

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
