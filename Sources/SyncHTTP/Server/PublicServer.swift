import HTTPTypes
package import Logging
import Metrics
import ServiceLifecycle
import SyncModel
package import SyncStore
package import Tokens

/// The server for the sync workers of devices: `/v1`, and also the contract and the gateway's public key.
package struct PublicServer: Service {
    private let listener: Listener
    private let events: EventHub
    private let budgets: Budgets

    /// Opens nothing yet. Metrics are made here, so `MetricsSystem` must be bootstrapped before.
    ///
    /// - Parameter onRunning: called once it listens, with the address it got; a port of 0 is the system's choice.
    package init(
        store: Store,
        verifier: TokenVerifier,
        configuration: HTTPConfiguration,
        logger: Logger,
        onRunning: @escaping @Sendable (ListenAddress) async -> Void = { _ in }
    ) {
        let authenticator = Authenticator(
            verifier: verifier,
            catalog: store.catalog,
            identities: store.identities,
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
                    configuration,
                    store: store,
                    authenticator: authenticator,
                    events: events,
                    budgets: budgets,
                    logger: logger
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
        try await budgets.turningAway { [events, listener] in
            try await withThrowingTaskGroup(of: Void.self) { group in
                group.addTask { try await events.run() }
                group.addTask { try await listener.run() }
                try await group.waitForAll()
            }
        }
    }

    private static func routes(
        _ configuration: HTTPConfiguration,
        store: Store,
        authenticator: Authenticator,
        events hub: EventHub,
        budgets: Budgets,
        logger: Logger
    ) -> RouteTable {
        let budget = budgets.bodies
        let bodies = BodyReader(limit: configuration.limits.bodyBytes, budget: budget)
        let wait = configuration.maximumWait
        let pushes = PushEndpoint(
            store: store,
            bodies: bodies,
            gate: budgets.decoding,
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
            directly: authenticator.callersAtHand(only: pushes.pushDirectly),
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
        routes.add(.post, "/v1/devices/{device_id}/pull", authenticator.callers(only: pulls.pull))
        routes.add(.get, "/v1/id-mappings", authenticator.callers(only: mappings.list))
        routes.add(.post, "/v1/id-mappings/lookup", authenticator.callers(only: mappings.lookUp))
        routes.add(.get, "/v1/changes", authenticator.callers(only: changes.page))
        let sources = SourceAuthenticator(tokens: store.serviceTokens, authenticator: authenticator)
        let ingest = IngestEndpoint(
            store: store,
            bodies: bodies,
            limits: configuration.limits,
            gate: budgets.decoding
        )
        routes.add(.post, "/v1/ingest", sources.sources(only: ingest.ingest))
        let receiver = ReceiverEndpoint(
            store: store,
            bodies: BodyReader(
                limit: min(configuration.limits.bodyBytes, ReceiverEndpoint.maximumBytes),
                budget: budget
            ),
            limits: configuration.limits,
            gate: budgets.decoding,
            authenticator: authenticator,
            now: configuration.now,
            logger: logger
        )
        routes.add(.post, "/v1/sources/{organization}/{source}", receiver.receive)
        let events = EventsEndpoint(store: store, hub: hub)
        routes.add(.get, "/v1/events", answers: "text/event-stream", authenticator.callers(only: events.listen))
        let keySet = KeySetEndpoint(jwks: configuration.jwks)
        routes.add(.get, "/.well-known/jwks.json", answers: nil, keySet.read)
        routes.add(.get, "/openapi.json", answers: nil, ContractEndpoint().read)
        if let origins = configuration.allowedOrigins { routes.addOptions(CrossOrigin(origins: origins)) }
        return routes
    }
}

extension PublicServer: CustomStringConvertible {
    /// Short, for logs of services: the members hold a lot, and secrets too.
    package var description: String { "PublicServer" }
}
