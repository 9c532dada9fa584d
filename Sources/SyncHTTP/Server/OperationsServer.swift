import HTTPTypes
package import Logging
import ServiceLifecycle
import SyncMaintenance
package import SyncStore
package import Telemetry
package import Tokens

/// The server for operators and monitoring: health, metrics and, with an operator token, `/admin`.
package struct OperationsServer: Service {
    private let listener: Listener
    private let budgets: Budgets

    /// Opens nothing yet. Metrics are made here, so `MetricsSystem` must be bootstrapped before.
    ///
    /// - Parameters:
    ///   - verifier: whose settings say what tokens are taken for; nil: nobody's say a user's own id.
    ///   - readiness: why requests can't be served, beside the store's reasons; empty when they can.
    ///   - notices: what an operator should know although they can.
    ///   - onRunning: called once it listens, with the address it got; a port of 0 is the system's choice.
    package init(
        store: Store,
        registry: PrometheusRegistry,
        configuration: HTTPConfiguration,
        verifier: TokenVerifier? = nil,
        readiness: @escaping @Sendable () async -> [String] = { [] },
        notices: @escaping @Sendable () -> [String] = { [] },
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
        if let token = configuration.operatorTokens {
            let bodies = BodyReader(limit: configuration.adminBodyBytes, budget: budgets.bodies)
            Self.addAdministration(
                to: &routes,
                configuration,
                store: store,
                verifier: verifier,
                token: token,
                bodies: bodies,
                logger: logger
            )
        }
        listener = Listener(
            address: configuration.operationsAddress,
            maximumConnections: configuration.maximumOperationsConnections,
            configuration: configuration,
            responder: Responder(routes: routes, budgets: budgets, logger: logger, now: configuration.now),
            onRunning: onRunning
        )
    }

    var routes: RouteTable { listener.responder.routes }

    /// Serves until graceful shutdown.
    package func run() async throws {
        try await budgets.turningAway { [listener] in try await listener.run() }
    }

    private static func addAdministration(
        to routes: inout RouteTable,
        _ configuration: HTTPConfiguration,
        store: Store,
        verifier: TokenVerifier?,
        token: OperatorTokens,
        bodies: BodyReader,
        logger: Logger
    ) {
        let organizations = OrganizationEndpoints(store: store, bodies: bodies)
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
            limits: configuration.limits
        )
        let mutations = BulkEndpoints(store: store, bodies: bodies)
        let retention = RetentionEndpoints(
            store: store.retention,
            policy: configuration.retention,
            now: configuration.now,
            logger: logger
        )

        routes.add(.get, "/admin/organizations", token.operators(only: organizations.list))
        let organization = "/admin/organizations/{id}"
        routes.add(.get, organization, token.operators(only: organizations.read))
        routes.add(.put, organization, token.operators(only: organizations.write))
        routes.add(.delete, organization, token.operators(only: organizations.purge))
        routes.add(.get, organization + "/users", token.operators(only: users.list))
        routes.add(.post, organization + "/users", token.operators(only: users.letIn))
        let user = organization + "/users/{user}"
        routes.add(.get, user, token.operators(only: users.read))
        routes.add(.put, user, token.operators(only: users.add))
        routes.add(.delete, user, token.operators(only: users.remove))
        let exports = UserExportEndpoint(exports: store.exports)
        routes.add(.get, user + "/export", answers: UserExportEndpoint.mediaType, token.operators(only: exports.export))
        routes.add(.post, user + "/join", token.operators(only: joins.join))
        let type = organization + "/entity-types/{name}"
        routes.add(.get, type, token.operators(only: types.read))
        routes.add(.put, type, token.operators(only: types.write))
        let upstream = organization + "/upstream"
        routes.add(.get, upstream, token.operators(only: upstreams.read))
        routes.add(.put, upstream, token.operators(only: upstreams.write))
        routes.add(.delete, upstream, token.operators(only: upstreams.remove))
        let tokens = organization + "/service-tokens"
        routes.add(.get, tokens, token.operators(only: serviceTokens.list))
        routes.add(.post, tokens, token.operators(only: serviceTokens.make))
        routes.add(.delete, tokens + "/{token_id}", token.operators(only: serviceTokens.revoke))
        addSources(sources, to: &routes, below: organization, token)
        addWebhooks(webhooks, to: &routes, below: organization, token)
        routes.add(.get, organization + "/mutations", token.operators(only: mutations.list))
        routes.add(.post, organization + "/mutations/retry", token.operators(only: mutations.retry))
        routes.add(.post, organization + "/mutations/discard", token.operators(only: mutations.discard))
        routes.add(.get, "/admin/retention", token.operators(only: retention.forecast))
        routes.add(.post, "/admin/retention", token.operators(only: retention.runNow))
    }

    private static func addSources(
        _ sources: SourceEndpoints,
        to routes: inout RouteTable,
        below organization: String,
        _ token: OperatorTokens
    ) {
        let all = organization + "/sources"
        routes.add(.get, all, token.operators(only: sources.list))
        let source = all + "/{name}"
        routes.add(.get, source, token.operators(only: sources.read))
        routes.add(.put, source, token.operators(only: sources.write))
        routes.add(.delete, source, token.operators(only: sources.remove))
        routes.add(.post, source + "/secret", token.operators(only: sources.rotate))
        routes.add(.post, source + "/test", token.operators(only: sources.test))
        routes.add(.post, source + "/run", token.operators(only: sources.run))
    }

    private static func addWebhooks(
        _ webhooks: WebhookEndpoints,
        to routes: inout RouteTable,
        below organization: String,
        _ token: OperatorTokens
    ) {
        let all = organization + "/webhooks"
        routes.add(.get, all, token.operators(only: webhooks.list))
        routes.add(.post, all, token.operators(only: webhooks.add))
        let webhook = all + "/{webhook}"
        routes.add(.get, webhook, token.operators(only: webhooks.read))
        routes.add(.patch, webhook, token.operators(only: webhooks.change))
        routes.add(.delete, webhook, token.operators(only: webhooks.remove))
        routes.add(.post, webhook + "/secret", token.operators(only: webhooks.rotate))
        routes.add(.post, webhook + "/test", token.operators(only: webhooks.test))
        let deliveries = webhook + "/deliveries"
        routes.add(.get, deliveries, token.operators(only: webhooks.deliveries))
        routes.add(.post, deliveries + "/retry", token.operators(only: webhooks.retryAll))
        routes.add(.post, deliveries + "/{delivery}/retry", token.operators(only: webhooks.retry))
    }
}

extension OperationsServer: CustomStringConvertible {
    /// Short, for logs of services: the members hold a lot, and secrets too.
    package var description: String { "OperationsServer" }
}
