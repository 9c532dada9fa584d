package import ArgumentParser
import CommandSupport
import HTTPTypes
package import ServiceLifecycle
package import SyncHTTP
import SyncModel
package import SyncStore
package import Telemetry

/// Operators: the console, the dashboard, recent activity, failures and lanes, bulk operations, and the audit log.
package struct OperatorsFeature: GatewayFeature {
    private let gateway: GatewayContext
    private let statusService: OperatorStatusService
    private let operating: OperationService

    package static let tables = [StoredTable.operations]

    package static let commands: [any ParsableCommand.Type] = [AuditCommand.self]

    package init(_ gateway: GatewayContext) {
        self.gateway = gateway
        statusService = OperatorStatusService(
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
    package var operatorServices: [any Service] { [statusService] }

    package func addRoutes(to routes: inout OperatorRoutes, _ context: OperatorContext) {
        let (store, http) = (gateway.store, gateway.configuration)
        routes.addPages(at: "/console", ConsoleEndpoint().read)
        routes.addPages(at: "/") { _ in
            var answer = Answer(.found)
            answer.headers[.location] = "/console"
            return answer
        }
        let session = SessionEndpoints(
            authenticator: context.authenticator,
            bodies: context.bodies,
            logger: gateway.logger
        )
        routes.addOpen(.post, "/console/session", session.signIn)
        routes.addOpen(.delete, "/console/session", session.signOut)
        routes.read(at: "/admin/me", MeEndpoint(store: store, configuration: http).read)
        let now = NowEndpoints(statusService: statusService, configuration: http)
        routes.read(at: "/admin/now", now.read)
        routes.read(at: "/admin/events", answers: NowEndpoints.eventType, now.listen)
        routes.read(at: "/admin/audit", AuditEndpoint(log: store.audit).list)
        addActivity(to: &routes)
        addFailures(to: &routes, context)
        addOperations(to: &routes, context)
    }

    /// Mutations in every status, entities, and throughput.
    private func addActivity(to routes: inout OperatorRoutes) {
        let organization = "/admin/organizations/{id}"
        let activity = ActivityEndpoints(store: gateway.store)
        routes.read(at: organization + "/mutations/recent", activity.mutations)
        // reading documents is recorded in the audit log by the endpoint itself
        routes.read(at: organization + "/entities", activity.entities)
        routes.read(at: organization + "/throughput", activity.throughput)
    }

    /// Failed and blocked mutations, the lanes that they halt, and the operators' actions that settle them.
    private func addFailures(to routes: inout OperatorRoutes, _ context: OperatorContext) {
        let store = gateway.store
        let failures = FailureEndpoints(store: store)
        routes.read(at: "/admin/failures", failures.groups)
        routes.read(at: "/admin/mutations", failures.list)
        routes.read(at: "/admin/lanes", failures.lanes)
        let user = "/admin/organizations/{id}/users/{user}"
        let insight = UserInsightEndpoints(store: store)
        routes.read(at: user + "/lane", insight.lane)
        routes.read(at: user + "/explain", insight.explain)
        let mutation = user + "/mutations/{mutation}"
        // reading payloads is recorded in the audit log by the endpoint itself
        routes.read(at: mutation, MutationHistoryEndpoint(store: store).read)
        let settle = OperatorSettleEndpoints(
            store: store,
            settling: SettleEndpoints(store: store, bodies: context.bodies, limits: gateway.configuration.limits)
        )
        routes.write("retryMutationOfUser", .post, mutation + "/retry", needs: .settle, settle.retry)
        routes.write("discardMutationOfUser", .post, mutation + "/discard", needs: .settle, settle.discard)
        routes.write("resolveConflictOfUser", .post, mutation + "/resolve", needs: .settle, settle.resolve)
        let mutations = BulkEndpoints(store: store, bodies: context.bodies)
        let all = "/admin/organizations/{id}/mutations"
        routes.read(
            at: all,
            needs: .settle,
            audited: "listOrganizationMutations",
            auditTarget: mutations.auditTarget,
            mutations.list
        )
        routes.write("retryMutationsOfOrganization", .post, all + "/retry", needs: .settle, mutations.retry)
        routes.write("discardMutationsOfOrganization", .post, all + "/discard", needs: .settle, mutations.discard)
    }

    /// Bulk operations, which settle many mutations in the background.
    private func addOperations(to routes: inout OperatorRoutes, _ context: OperatorContext) {
        let store = gateway.store
        let operations = OperationEndpoints(store: store, operations: store.operations, bodies: context.bodies)
        routes.read(at: "/admin/operations", operations.listAll)
        let all = "/admin/organizations/{id}/operations"
        routes.read(at: all, operations.list)
        routes.write("startOperation", .post, all, needs: .settle, operations.make)
        routes.write("previewOperation", .post, all + "/preview", needs: .settle, operations.preview)
        let operation = all + "/{operation_id}"
        routes.read(at: operation, operations.read)
        routes.write("cancelOperation", .post, operation + "/cancel", needs: .settle, operations.cancel)
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
