package import ArgumentParser
import CommandSupport
import HTTPTypes
package import ServiceLifecycle
package import SyncHTTP
import SyncModel
package import SyncStore
package import Telemetry

/// Retention: deletes payloads, records, tombstones and logs whose storage period is over.
package struct RetentionFeature: GatewayFeature {
    private let gateway: GatewayContext
    private let retention: RetentionService

    package static let tables: [StoredTable] = [.retentionPlaces, .retentionRuns]

    package static let commands: [any ParsableCommand.Type] = [RetentionCommand.self]

    package init(_ gateway: GatewayContext) {
        self.gateway = gateway
        retention = RetentionService(
            store: gateway.store,
            policy: gateway.configuration.retention,
            interval: gateway.workers.retentionInterval,
            now: gateway.configuration.now,
            logger: gateway.logger
        )
    }

    package var services: [any Service] { [retention] }

    package func addRoutes(to routes: inout OperatorRoutes, _ context: OperatorContext) {
        let retention = RetentionEndpoints(
            store: gateway.store,
            policy: gateway.configuration.retention,
            now: gateway.configuration.now,
            logger: gateway.logger
        )
        routes.read(at: "/admin/retention", retention.forecast)
        routes.write("runRetention", .post, "/admin/retention", retention.runNow)
    }

    package static func describeMetrics(in registry: PrometheusRegistry) {
        registry.describe(
            RetentionMetrics.rows,
            kind: .counter,
            help: "Rows that retention changed or deleted, by kind."
        )
        let step = "Duration of a retention step, from its first statement to its commit."
        registry.describe(RetentionMetrics.stepDuration, kind: .histogram, help: step)
    }

    package func addMetrics(to registry: PrometheusRegistry) {
        let retention = retention
        registry.addGauge("sluice_retention_running", "1 while this replica runs retention. At most one does.") {
            retention.state.isRunning ? 1 : 0
        }
        registry.addGauge(
            "sluice_retention_due_since_seconds",
            "Overdue time of the oldest row that this replica's last run left; 0 if it left none."
        ) { retention.state.overdue }
        registry.addGauge(
            "sluice_retention_last_success_timestamp_seconds",
            "End of the last completed retention run of any replica; 0 before the first."
        ) { Double(retention.state.finishedAt?.microseconds ?? 0) / 1_000_000 }
    }
}
