import HTTPTypes
package import Logging
import ServiceLifecycle
import SyncMaintenance
package import SyncModel
package import SyncStore
package import Telemetry
package import Tokens

/// The server for operators and monitoring: health, metrics and, with an operator token, `/admin`.
package struct OperationsServer: Service {
    private let listener: Listener
    private let budgets: Budgets
    /// What operators look on; nil without operators.
    private let desk: OperatorDesk?

    /// Opens nothing yet. Metrics are made here, so `MetricsSystem` must be bootstrapped before.
    ///
    /// - Parameters:
    ///   - verifier: whose settings say what tokens are taken for; nil: nobody's say a user's own id.
    ///   - readiness: why requests can't be served, beside the store's reasons; empty when they can.
    ///   - notices: what an operator should know although they can.
    ///   - circuits: up to so many circuits of upstreams that are open here.
    ///   - onRunning: called once it listens, with the address it got; a port of 0 is the system's choice.
    package init(
        store: Store,
        registry: PrometheusRegistry,
        configuration: HTTPConfiguration,
        verifier: TokenVerifier? = nil,
        readiness: @escaping @Sendable () async -> [String] = { [] },
        notices: @escaping @Sendable () -> [String] = { [] },
        circuits: @escaping @Sendable (Int) -> [CircuitReport] = { _ in [] },
        logger: Logger,
        onRunning: @escaping @Sendable (ListenAddress) async -> Void = { _ in }
    ) {
        var routes = RouteTable()
        let reasons: @Sendable () async -> [String] = {
            async let reasons = store.readiness()
            return await reasons + readiness()
        }
        let health = HealthEndpoints(version: configuration.version, reasons: reasons) { store.notices + notices() }
        routes.add(.get, "/livez", answers: nil, health.live)
        routes.add(.get, "/readyz", answers: nil, health.ready)
        routes.add(.get, "/metrics", answers: nil, MetricsEndpoint(registry: registry, reasons: reasons).scrape)
        // operators share budgets of their own
        budgets = Budgets(configuration)
        if let tokens = configuration.operatorTokens {
            let bodies = BodyReader(limit: configuration.adminBodyBytes, budget: budgets.bodies)
            let door = OperatorDoor(tokens: tokens, ended: store.endedSessions, now: configuration.now)
            Self.addConsole(to: &routes, door: door, bodies: bodies, logger: logger)
            let desk = OperatorDesk(store: store, registry: registry, configuration: configuration, circuits: circuits)
            self.desk = desk
            var administration = OperatorRoutes(
                adding: routes,
                behind: door,
                log: store.audit,
                notifier: store.notifier
            )
            Self.addAdministration(
                to: &administration,
                configuration,
                store: store,
                verifier: verifier,
                bodies: bodies,
                desk: desk,
                logger: logger
            )
            routes = administration.table
        } else {
            desk = nil
        }
        listener = Listener(
            address: configuration.operationsAddress,
            maximumConnections: configuration.maximumOperationsConnections,
            configuration: configuration,
            responder: Responder(
                routes: routes,
                budgets: budgets,
                logger: logger,
                now: configuration.now,
                isForOperators: true,
                signpost: configuration.operatorTokens == nil
                    ? "; /console and /admin need an operator's token: set SLUICE_OPERATOR_TOKEN"
                    : "; the console is at /console"
            ),
            onRunning: onRunning
        )
    }

    var routes: RouteTable { listener.responder.routes }

    /// Serves until graceful shutdown.
    package func run() async throws {
        try await budgets.turningAway { [listener, desk] in
            try await withThrowingTaskGroup(of: Void.self) { group in
                if let desk { group.addTask { try await desk.run() } }
                group.addTask { try await listener.run() }
                try await group.waitForAll()
            }
        }
    }

    private static func addConsole(
        to routes: inout RouteTable,
        door: OperatorDoor,
        bodies: BodyReader,
        logger: Logger
    ) {
        routes.addPages(at: "/console", ConsoleEndpoint().read)
        routes.addPages(at: "/") { _ in
            var answer = Answer(.found)
            answer.headers[.location] = "/console"
            return answer
        }
        let session = SessionEndpoints(door: door, bodies: bodies, logger: logger)
        routes.add(.post, "/console/session", answers: nil, session.signIn)
        routes.add(.delete, "/console/session", answers: nil, session.signOut)
    }

    private static func addAdministration(
        to routes: inout OperatorRoutes,
        _ configuration: HTTPConfiguration,
        store: Store,
        verifier: TokenVerifier?,
        bodies: BodyReader,
        desk: OperatorDesk,
        logger: Logger
    ) {
        let organizations = OrganizationEndpoints(store: store, bodies: bodies, reader: desk.reader)
        var erasing = store.erasing
        erasing.upstream = configuration.upstream
        erasing.settling = configuration.joinSettling
        let users = UserEndpoints(
            store: store,
            bodies: bodies,
            erasing: erasing,
            userCalled: { subject throws(TokenConfiguration.NobodysText) in
                try verifier?.user(called: subject.text, by: subject.issuer) ?? .subject(subject.text)
            },
            patience: configuration.joinPatience
        )
        var joining = store.joining
        joining.settling = configuration.joinSettling
        let joins = UserJoinEndpoint(
            joining: joining,
            administration: store.administration,
            bodies: bodies,
            patience: configuration.joinPatience
        )
        let types = EntityTypeEndpoints(store: store, bodies: bodies)
        let rules = UpstreamRules(canSign: configuration.canSign, leaseSeconds: configuration.leaseSeconds)
        let upstreams = UpstreamEndpoints(store: store, bodies: bodies, rules: rules)
        let serviceTokens = ServiceTokenEndpoints(store: store, bodies: bodies)
        let webhooks = WebhookEndpoints(
            administration: store.webhookAdministration,
            bodies: bodies,
            policy: configuration.webhookAddresses,
            publicKey: configuration.webhookPublicKey
        )
        let sources = SourceEndpoints(
            administration: store.sourceAdministration,
            bodies: bodies,
            limits: configuration.limits,
            policy: configuration.webhookAddresses
        )
        let mutations = BulkEndpoints(store: store, bodies: bodies)
        let retention = RetentionEndpoints(
            store: store.retention,
            policy: configuration.retention,
            now: configuration.now,
            logger: logger
        )

        routes.look(at: "/admin/me", MeEndpoint(store: store, version: configuration.version).read)
        routes.look(at: "/admin/organizations", organizations.list)
        let organization = "/admin/organizations/{id}"
        routes.look(at: organization, organizations.read)
        routes.act("putOrganization", .put, organization, organizations.write)
        routes.act("deleteOrganization", .delete, organization, organizations.purge)
        routes.look(at: organization + "/users", users.list)
        routes.act("letUserIn", .post, organization + "/users", users.letIn)
        let user = organization + "/users/{user}"
        routes.look(at: user, users.read)
        routes.act("putUser", .put, user, users.add)
        routes.act("deleteUser", .delete, user, told: users.removed, users.remove)
        let exports = UserExportEndpoint(exports: store.exports)
        routes.look(
            at: user + "/export",
            needs: .admin,
            audited: "exportUser",
            answers: UserExportEndpoint.mediaType,
            exports.export
        )
        routes.act("joinUser", .post, user + "/join", joins.join)
        routes.look(at: organization + "/entity-types", types.list)
        let type = organization + "/entity-types/{name}"
        routes.look(at: type, types.read)
        routes.act("putEntityType", .put, type, types.write)
        let upstream = organization + "/upstream"
        routes.look(at: upstream, upstreams.read)
        routes.act("putUpstream", .put, upstream, upstreams.write)
        routes.act("deleteUpstream", .delete, upstream, upstreams.remove)
        let probe = UpstreamProbeEndpoint(
            catalog: store.catalog,
            probes: configuration.probes,
            bodies: bodies
        )
        routes.act("testUpstream", .post, upstream + "/test", probe.send)
        routes.look(at: organization + "/keys", KeyEndpoint(store: store).list)
        let tokens = organization + "/service-tokens"
        routes.look(at: tokens, serviceTokens.list)
        routes.act("makeServiceToken", .post, tokens, serviceTokens.make)
        routes.act("revokeServiceToken", .delete, tokens + "/{token_id}", serviceTokens.revoke)
        addSources(sources, to: &routes, below: organization)
        addWebhooks(webhooks, to: &routes, below: organization)
        routes.look(
            at: organization + "/mutations",
            needs: .settle,
            audited: "listOrganizationMutations",
            told: mutations.looked,
            mutations.list
        )
        routes.act(
            "retryMutationsOfOrganization",
            .post,
            organization + "/mutations/retry",
            needs: .settle,
            mutations.retry
        )
        routes.act(
            "discardMutationsOfOrganization",
            .post,
            organization + "/mutations/discard",
            needs: .settle,
            mutations.discard
        )
        addStuck(to: &routes, store: store, bodies: bodies, limits: configuration.limits)
        addOperations(to: &routes, store: store, bodies: bodies)
        let now = NowEndpoints(desk: desk, configuration: configuration)
        routes.look(at: "/admin/now", now.read)
        routes.look(at: "/admin/events", answers: NowEndpoints.eventType, now.listen)
        routes.look(at: "/admin/audit", AuditEndpoint(log: store.audit).list)
        routes.look(at: "/admin/retention", retention.forecast)
        routes.act("runRetention", .post, "/admin/retention", retention.runNow)
    }

    /// What stands still, and what operators do about it.
    private static func addStuck(
        to routes: inout OperatorRoutes,
        store: Store,
        bodies: BodyReader,
        limits: IntakeLimits
    ) {
        let failures = FailureEndpoints(store: store)
        routes.look(at: "/admin/failures", failures.groups)
        routes.look(at: "/admin/mutations", failures.list)
        routes.look(at: "/admin/lanes", failures.lanes)
        let user = "/admin/organizations/{id}/users/{user}"
        let insight = UserInsightEndpoints(store: store)
        routes.look(at: user + "/lane", insight.lane)
        routes.look(at: user + "/explain", insight.explain)
        let mutation = user + "/mutations/{mutation}"
        // who looks at payloads is told to the audit by itself
        routes.look(at: mutation, StoryEndpoint(store: store).read)
        let settle = OperatorSettleEndpoints(
            store: store,
            settling: SettleEndpoints(store: store, bodies: bodies, limits: limits)
        )
        routes.act("retryMutationOfUser", .post, mutation + "/retry", needs: .settle, settle.retry)
        routes.act("discardMutationOfUser", .post, mutation + "/discard", needs: .settle, settle.discard)
        routes.act("resolveConflictOfUser", .post, mutation + "/resolve", needs: .settle, settle.resolve)
    }

    /// What operators have settled by and by.
    private static func addOperations(to routes: inout OperatorRoutes, store: Store, bodies: BodyReader) {
        let operations = OperationEndpoints(store: store, operations: store.operations, bodies: bodies)
        routes.look(at: "/admin/operations", operations.listAll)
        let all = "/admin/organizations/{id}/operations"
        routes.look(at: all, operations.list)
        routes.act("startOperation", .post, all, needs: .settle, operations.make)
        routes.act("previewOperation", .post, all + "/preview", needs: .settle, operations.preview)
        let operation = all + "/{operation_id}"
        routes.look(at: operation, operations.read)
        routes.act("cancelOperation", .post, operation + "/cancel", needs: .settle, operations.cancel)
    }

    private static func addSources(
        _ sources: SourceEndpoints,
        to routes: inout OperatorRoutes,
        below organization: String
    ) {
        let all = organization + "/sources"
        routes.look(at: all, sources.list)
        let source = all + "/{name}"
        routes.look(at: source, sources.read)
        routes.act("putSource", .put, source, sources.write)
        routes.act("deleteSource", .delete, source, sources.remove)
        routes.act("rotateSourceSecret", .post, source + "/secret", sources.rotate)
        routes.act("testSource", .post, source + "/test", sources.test)
        routes.act("runSource", .post, source + "/run", sources.run)
    }

    private static func addWebhooks(
        _ webhooks: WebhookEndpoints,
        to routes: inout OperatorRoutes,
        below organization: String
    ) {
        let all = organization + "/webhooks"
        routes.look(at: all, webhooks.list)
        routes.act("addWebhook", .post, all, webhooks.add)
        let webhook = all + "/{webhook}"
        routes.look(at: webhook, webhooks.read)
        routes.act("changeWebhook", .patch, webhook, webhooks.change)
        routes.act("deleteWebhook", .delete, webhook, webhooks.remove)
        routes.act("rotateWebhookSecret", .post, webhook + "/secret", webhooks.rotate)
        routes.act("testWebhook", .post, webhook + "/test", webhooks.test)
        let deliveries = webhook + "/deliveries"
        routes.look(at: deliveries, webhooks.deliveries)
        routes.act("retryWebhookDeliveries", .post, deliveries + "/retry", needs: .settle, webhooks.retryAll)
        routes.act("retryWebhookDelivery", .post, deliveries + "/{delivery}/retry", needs: .settle, webhooks.retry)
    }
}

extension OperationsServer: CustomStringConvertible {
    /// Short, for logs of services: the members hold a lot, and secrets too.
    package var description: String { "OperationsServer" }
}
