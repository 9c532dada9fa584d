package import ArgumentParser
import CommandSupport
import HTTPTypes
package import ServiceLifecycle
package import SyncHTTP
import SyncModel
package import SyncStore
package import Telemetry

/// Operators: the console, the dashboard, failures and lanes, bulk operations, and the audit log.
package struct OperatorsFeature: GatewayFeature {
    private let gateway: GatewayContext
    private let desk: OperatorStatusService
    private let operating: OperationService

    package static let tables = [StoredTable.operations]

    package static let commands: [any ParsableCommand.Type] = [AuditCommand.self]

    package init(_ gateway: GatewayContext) {
        self.gateway = gateway
        desk = OperatorStatusService(
            store: gateway.store,
            registry: gateway.registry,
            configuration: gateway.configuration,
            circuits: gateway.circuits
        )
        operating = OperationService(
            store: gateway.store,
            retentionDays: gateway.configuration.retention.auditDays,
            logger: gateway.logger
        )
    }

    package var services: [any Service] { [operating] }
    package var operatorServices: [any Service] { [desk] }

    package func addRoutes(to routes: inout OperatorRoutes, _ context: OperatorContext) {
        let (store, http) = (gateway.store, gateway.configuration)
        routes.addPages(at: "/console", ConsoleEndpoint().read)
        routes.addPages(at: "/") { _ in
            var answer = Answer(.found)
            answer.headers[.location] = "/console"
            return answer
        }
        let session = SessionEndpoints(door: context.door, bodies: context.bodies, logger: gateway.logger)
        routes.addOpen(.post, "/console/session", session.signIn)
        routes.addOpen(.delete, "/console/session", session.signOut)
        routes.look(at: "/admin/me", MeEndpoint(store: store, version: http.version).read)
        let now = NowEndpoints(desk: desk, configuration: http)
        routes.look(at: "/admin/now", now.read)
        routes.look(at: "/admin/events", answers: NowEndpoints.eventType, now.listen)
        routes.look(at: "/admin/audit", AuditEndpoint(log: store.audit).list)
        addFailures(to: &routes, context)
        addOperations(to: &routes, context)
    }

    /// Failed and blocked mutations, the lanes that they halt, and how operators settle them.
    private func addFailures(to routes: inout OperatorRoutes, _ context: OperatorContext) {
        let store = gateway.store
        let failures = FailureEndpoints(store: store)
        routes.look(at: "/admin/failures", failures.groups)
        routes.look(at: "/admin/mutations", failures.list)
        routes.look(at: "/admin/lanes", failures.lanes)
        let user = "/admin/organizations/{id}/users/{user}"
        let insight = UserInsightEndpoints(store: store)
        routes.look(at: user + "/lane", insight.lane)
        routes.look(at: user + "/explain", insight.explain)
        let mutation = user + "/mutations/{mutation}"
        // the endpoint itself audits who reads payloads
        routes.look(at: mutation, MutationHistoryEndpoint(store: store).read)
        let settle = OperatorSettleEndpoints(
            store: store,
            settling: SettleEndpoints(store: store, bodies: context.bodies, limits: gateway.configuration.limits)
        )
        routes.act("retryMutationOfUser", .post, mutation + "/retry", needs: .settle, settle.retry)
        routes.act("discardMutationOfUser", .post, mutation + "/discard", needs: .settle, settle.discard)
        routes.act("resolveConflictOfUser", .post, mutation + "/resolve", needs: .settle, settle.resolve)
        let mutations = BulkEndpoints(store: store, bodies: context.bodies)
        let all = "/admin/organizations/{id}/mutations"
        routes.look(
            at: all,
            needs: .settle,
            audited: "listOrganizationMutations",
            told: mutations.looked,
            mutations.list
        )
        routes.act("retryMutationsOfOrganization", .post, all + "/retry", needs: .settle, mutations.retry)
        routes.act("discardMutationsOfOrganization", .post, all + "/discard", needs: .settle, mutations.discard)
    }

    /// Bulk operations, which settle many mutations in the background.
    private func addOperations(to routes: inout OperatorRoutes, _ context: OperatorContext) {
        let store = gateway.store
        let operations = OperationEndpoints(store: store, operations: store.operations, bodies: context.bodies)
        routes.look(at: "/admin/operations", operations.listAll)
        let all = "/admin/organizations/{id}/operations"
        routes.look(at: all, operations.list)
        routes.act("startOperation", .post, all, needs: .settle, operations.make)
        routes.act("previewOperation", .post, all + "/preview", needs: .settle, operations.preview)
        let operation = all + "/{operation_id}"
        routes.look(at: operation, operations.read)
        routes.act("cancelOperation", .post, operation + "/cancel", needs: .settle, operations.cancel)
    }

    package static func describeMetrics(in registry: PrometheusRegistry) {
        registry.describe(
            OperationMetrics.mutations,
            kind: .counter,
            help: "Mutations processed by bulk operations on this replica, by outcome."
        )
        registry.describe(
            OperationMetrics.ended,
            kind: .counter,
            help: "Bulk operations that ended on this replica, by outcome."
        )
    }

    package func addMetrics(to registry: PrometheusRegistry) {
        let operating = operating
        registry.addGauge("sluice_operations_running", "Bulk operations in progress on this replica.") {
            Double(operating.loop.places.count)
        }
    }
}
