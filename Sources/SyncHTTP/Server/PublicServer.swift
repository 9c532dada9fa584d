import HTTPTypes
import Metrics
import ServiceLifecycle
import Spans
import SyncModel
import SyncStore
package import Tokens

/// The server for devices and other programs: `/v1`, the contract, and the gateway's public key.
package struct PublicServer: Service {
    private let listener: Listener
    private let events: EventHub
    private let budgets: Budgets

    /// Creates the server without opening a connection.
    ///
    /// The caller must bootstrap `MetricsSystem` before this call, because the server creates metrics.
    ///
    /// - Parameters:
    ///   - gateway: the engine's parts.
    ///   - verifier: verifies the tokens of users.
    ///   - features: the features, which add routes.
    ///   - onRunning: called once, when the server listens, with the server's address. If the configured port is 0, the
    ///     system chooses the port.
    package init(
        _ gateway: GatewayContext,
        verifier: TokenVerifier,
        features: [any Feature],
        onRunning: @escaping @Sendable (ListenAddress) async -> Void = { _ in }
    ) {
        let (store, configuration, logger) = (gateway.store, gateway.configuration, gateway.logger)
        store.catalog.setUUIDIssuers { verifier.uuidIssuers }
        let authenticator = Authenticator(
            verifier: verifier,
            catalog: store.catalog,
            identities: store.identities,
            tokenGrants: store.tokenGrants,
            quotas: QuotaGate(quotas: store.quotas, logger: logger),
            now: configuration.now,
            checkInterval: configuration.checkInterval
        )
        events = EventHub(store: store, authenticator: authenticator, configuration: configuration)
        budgets = Budgets(configuration)
        listener = Listener(
            address: configuration.publicAddress,
            maximumConnections: configuration.maximumConnections,
            configuration: configuration,
            responder: Responder(
                routes: Self.routes(
                    gateway,
                    PublicContext(
                        authenticator: authenticator,
                        budgets: budgets,
                        bodies: BodyReader(limit: configuration.limits.bodyBytes, budget: budgets.bodies)
                    ),
                    events: events,
                    features: features
                ),
                budgets: budgets,
                logger: logger,
                now: configuration.now,
                inFlight: Meter(label: HTTPMetrics.inFlight),
                crossOrigin: configuration.allowedOrigins.map(CrossOrigin.init),
                signpost: "; /openapi.json describes every path"
            ),
            onRunning: onRunning
        )
    }

    var routes: RouteTable { listener.responder.routes }

    /// Serves until graceful shutdown.
    package func run() async throws {
        try await budgets.expiringWaiters { [events, listener] in
            try await withThrowingTaskGroup(of: Void.self) { group in
                group.addTask { try await events.run() }
                group.addTask { try await listener.run() }
                try await group.waitForAll()
            }
        }
    }

    private static func routes(
        _ gateway: GatewayContext,
        _ context: PublicContext,
        events hub: EventHub,
        features: [any Feature]
    ) -> RouteTable {
        let (store, configuration) = (gateway.store, gateway.configuration)
        let (authenticator, bodies, budget) = (context.authenticator, context.bodies, context.budgets.bodies)
        let wait = configuration.maximumWait
        let pushes = PushEndpoint(
            store: store,
            bodies: bodies,
            gate: context.budgets.decoding,
            limits: configuration.limits,
            longestWait: wait
        )
        let mutations = MutationEndpoints(store: store, longestWait: wait)
        let settling = SettleEndpoints(
            store: store,
            bodies: BodyReader(limit: configuration.limits.settlingBytes, budget: budget),
            limits: configuration.limits
        )
        let mappings = MappingEndpoint(store: store, bodies: bodies)
        let changes = ChangesEndpoint(store: store, longestWait: wait)
        let backlog = BacklogEndpoint(store: store)
        let devices = DeviceEndpoint(store: store, budget: budget)
        let pulls = PullEndpoint(store: store, budget: budget, longestWait: wait)

        var routes = RouteTable()
        routes.add(
            .post,
            "/v1/mutations",
            directly: authenticator.cachedCallers(only: pushes.pushDirectly),
            authenticator.callers(only: pushes.push)
        )
        routes.add(.post, "/v1/mutations/preview", authenticator.callers(only: pushes.preview))
        routes.add(.get, "/v1/mutations", authenticator.callers(only: mutations.list))
        routes.add(.get, "/v1/mutations/{id}", authenticator.callers(only: mutations.read))
        routes.add(.post, "/v1/mutations/{id}/retry", authenticator.callers(only: settling.retry))
        routes.add(.post, "/v1/mutations/{id}/discard", authenticator.callers(only: settling.discard))
        routes.add(.post, "/v1/mutations/{id}/resolve", authenticator.callers(only: settling.resolve))
        routes.add(.get, "/v1/backlog", authenticator.callers(only: backlog.read))
        routes.add(.put, "/v1/devices/{device_id}", authenticator.callers(only: devices.register))
        routes.add(.post, "/v1/devices/{device_id}/pull", authenticator.callers(only: Spans.during("pull", pulls.pull)))
        routes.add(.get, "/v1/id-mappings", authenticator.callers(only: mappings.list))
        routes.add(.post, "/v1/id-mappings/lookup", authenticator.callers(only: mappings.lookUp))
        routes.add(.get, "/v1/changes", authenticator.callers(only: Spans.during("pull", changes.page)))
        let events = EventsEndpoint(store: store, hub: hub)
        routes.add(.get, "/v1/events", answers: "text/event-stream", authenticator.callers(only: events.listen))
        let keySet = KeySetEndpoint(jwks: configuration.jwks)
        routes.add(.get, "/.well-known/jwks.json", answers: nil, keySet.read)
        routes.add(.get, "/openapi.json", answers: nil, ContractEndpoint().read)
        for feature in features { feature.addRoutes(to: &routes, context) }
        if let origins = configuration.allowedOrigins { routes.addOptions(CrossOrigin(origins: origins)) }
        return routes
    }
}

extension PublicServer: CustomStringConvertible {
    /// A short text for logs of services, because the members are large and contain secrets.
    package var description: String { "PublicServer" }
}
