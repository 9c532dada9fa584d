package import FoundationEssentials
package import Logging
package import ServiceLifecycle
package import StandardWebhooks
package import SyncModel
package import SyncStore
package import Telemetry
package import Tokens

/// A part of the gateway outside of the engine.
///
/// A feature adds routes to the listeners, rows to the engine's transactions, metrics, and services. The engine works
/// without any feature, and no feature uses another feature.
package protocol Feature: Sendable {
    /// Adds the feature's rows to the engine's transactions.
    static var participants: [any CommitParticipant] { get }

    /// The feature's tables, in the order in which a purge deletes their rows.
    static var tables: [StoredTable] { get }

    /// Describes the metrics that the feature's code counts.
    ///
    /// Called before the feature's code creates the metrics, because the description of a metric cannot change
    /// afterwards.
    static func describeMetrics(in registry: PrometheusRegistry)

    /// Creates the feature's parts without starting them.
    init(_ gateway: GatewayContext)

    /// Adds gauges that read the feature's state.
    func addMetrics(to registry: PrometheusRegistry)

    /// Adds routes to the public listener.
    func addRoutes(to routes: inout RouteTable, _ context: PublicContext)

    /// Adds routes to the operations listener, each with the operator scope that it requires.
    func addRoutes(to routes: inout OperatorRoutes, _ context: OperatorContext)

    /// Services that start after the engine's services and end before them.
    var services: [any Service] { get }

    /// Services that run as long as the operations listener, and end the streams that this listener serves.
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

/// The engine's parts and the settings that features use.
package struct GatewayContext: Sendable {
    package let store: Store
    package let configuration: HTTPConfiguration
    package let registry: PrometheusRegistry
    package let logger: Logger
    /// Determines which user belongs to an issuer's subject. If the verifier is nil, every subject has a separate user.
    package var verifier: TokenVerifier?
    /// Returns the open circuit breakers of this process, up to a maximum number.
    package var circuits: @Sendable (Int) -> [CircuitReport] = { _ in [] }
    package var workers = WorkerSettings()

    package init(store: Store, configuration: HTTPConfiguration, registry: PrometheusRegistry, logger: Logger) {
        self.store = store
        self.configuration = configuration
        self.registry = registry
        self.logger = logger
    }
}

/// Settings of the features' workers in this process.
package struct WorkerSettings: Sendable {
    /// The number of webhook endpoints to which messages are sent concurrently (`SLUICE_MAX_WEBHOOKS`).
    package var webhooks = 64
    /// The key that signs webhook deliveries asymmetrically (`SLUICE_WEBHOOK_SIGNING_KEY`). If it is nil, deliveries
    /// are signed only with their endpoints' secrets.
    package var webhookSigningKey: WebhookSigningKey?
    /// The number of databases whose replication logs are read concurrently (`SLUICE_MAX_REPLICATIONS`).
    package var replications = 16
    /// The number of sources that are polled concurrently (`SLUICE_MAX_POLLS`).
    package var polls = 32
    /// The seconds from the end of a retention run to the next run (`SLUICE_RETENTION_INTERVAL_SECONDS`).
    package var retentionInterval: Double = 3_600

    package init() {}
}

/// The common parts of endpoints of the public listener.
package struct PublicContext: Sendable {
    package let authenticator: Authenticator
    package let budgets: Budgets
    /// Reads bodies up to the maximum size of a push.
    package let bodies: BodyReader
}

/// The common parts of endpoints of the operations listener.
package struct OperatorContext: Sendable {
    /// Checks tokens and sessions of operators.
    package let authenticator: OperatorAuthenticator
    package let bodies: BodyReader
}
