package import Foundation
package import ServiceLifecycle
package import SyncStore
package import Telemetry

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
