import HTTPTypes
import ServiceLifecycle
import SyncStore

/// The server for operators and monitoring: health, metrics and, with an operator token, `/admin`.
package struct OperationsServer: Service {
    private let listener: Listener
    private let budgets: Budgets
    /// Services that end streams at shutdown; empty if no operator token is configured.
    private let companions: [any Service]

    /// Creates the server without opening a connection.
    ///
    /// The caller must bootstrap `MetricsSystem` before this call, because the server creates metrics.
    ///
    /// - Parameters:
    ///   - gateway: the engine's parts.
    ///   - features: the features, which add routes for operators.
    ///   - readiness: returns the reasons why requests cannot be served, in addition to the store's reasons; empty if
    ///     they can be served.
    ///   - notices: returns notices for operators that do not prevent requests from being served.
    ///   - onRunning: called once, when the server listens, with the server's address. If the configured port is 0, the
    ///     system chooses the port.
    package init(
        _ gateway: GatewayContext,
        features: [any Feature],
        readiness: @escaping @Sendable () async -> [String] = { [] },
        notices: @escaping @Sendable () -> [String] = { [] },
        onRunning: @escaping @Sendable (ListenAddress) async -> Void = { _ in }
    ) {
        let (store, configuration, logger) = (gateway.store, gateway.configuration, gateway.logger)
        var routes = RouteTable()
        let reasons: @Sendable () async -> [String] = {
            async let reasons = store.readiness()
            return await reasons + readiness()
        }
        let health = HealthEndpoints(version: configuration.version, reasons: reasons) { store.notices + notices() }
        routes.add(.get, "/livez", answers: nil, health.live)
        routes.add(.get, "/readyz", answers: nil, health.ready)
        routes.add(.get, "/metrics", answers: nil, MetricsEndpoint(registry: gateway.registry, reasons: reasons).scrape)
        // all operators share one set of budgets, which is separate from the budgets of the public server
        budgets = Budgets(configuration)
        if let tokens = configuration.operatorTokens {
            let authenticator = OperatorAuthenticator(
                tokens: tokens,
                ended: store.endedSessions,
                now: configuration.now
            )
            let bodies = BodyReader(limit: configuration.adminBodyBytes, budget: budgets.bodies)
            let context = OperatorContext(authenticator: authenticator, bodies: bodies)
            var administration = OperatorRoutes(
                adding: routes,
                behind: authenticator,
                log: store.audit,
                notifier: store.notifier
            )
            for feature in features { feature.addRoutes(to: &administration, context) }
            routes = administration.table
            companions = features.flatMap(\.operatorServices)
        } else {
            companions = []
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
                    ? "; /console and /admin require an operator token: set SLUICE_OPERATOR_TOKEN"
                    : "; the console is at /console"
            ),
            onRunning: onRunning
        )
    }

    var routes: RouteTable { listener.responder.routes }

    /// Serves until graceful shutdown.
    package func run() async throws {
        try await budgets.expiringWaiters { [listener, companions] in
            try await withThrowingTaskGroup(of: Void.self) { group in
                for service in companions { group.addTask { try await service.run() } }
                group.addTask { try await listener.run() }
                try await group.waitForAll()
            }
        }
    }
}

extension OperationsServer: CustomStringConvertible {
    /// A short text for logs of services, because the members are large and contain secrets.
    package var description: String { "OperationsServer" }
}
