import CommandSupport
import FoundationEssentials
import JSONText
import Logging
import Metrics
import Postgres
import ServiceLifecycle
import StandardWebhooks
import SyncDispatch
import SyncHTTP
import SyncModel
import SyncStore
import SyncUpstream
import Synchronization
import Telemetry
import Tokens
import TraceExport
import UnixSignals

/// Creates the parts of the gateway from settings and connects them. No other code uses all of these parts.
enum GatewayAssembly {
    /// Sends logs of the whole process to standard output, in the configured format.
    static func bootstrapLogging(_ settings: Settings) -> Logger {
        let format = settings.logFormat ?? (LineWriter.standardOutput.isTerminal ? .text : .json)
        let level = settings.logLevel
        LoggingSystem.bootstrap { LineLogHandler($0, format, level: level, metadataProvider: LogContext.provider) }
        return Logger(label: "sluice")
    }

    /// Collects all metrics of the process in one registry. Call it before any metric is created.
    static func bootstrapMetrics() -> PrometheusRegistry {
        let registry = PrometheusRegistry()
        MetricsSystem.bootstrap(PrometheusMetricsFactory(registry))
        HTTPMetrics.describe(in: registry)
        registry.describeEngine()
        for feature in Assembly.features { feature.describeMetrics(in: registry) }
        registry.addProcessMetrics()
        registry.addBuildInformation()
        return registry
    }

    /// Sends spans of the whole process to the configured receiver.
    ///
    /// Call it after ``bootstrapMetrics()``, and before any part of the gateway is created.
    ///
    /// - Returns: the service that sends the spans; nil if no receiver is configured.
    static func bootstrapTraces(_ settings: Settings, _ registry: PrometheusRegistry, _ logger: Logger)
        -> TraceExporter?
    {
        guard let receiver = settings.traceReceiver,
            let sampler = TraceSampler(settings.traceSampler, ratio: settings.traceRatio)
        else { return nil }
        let encoder = OTLPEncoder(
            resource: [
                ("service.name", settings.serviceName), ("service.version", Version.current),
                ("service.instance.id", UUID().lowercased),
            ],
            version: Version.current,
            showsOrganizations: settings.metricsOrganizations > 0
        )
        let sender = OTLPSender(
            endpoint: receiver,
            headers: settings.traceHeaders,
            version: Version.current,
            logger: logger
        )
        let exporter = TraceExporter(to: sender, encoder: encoder, logger: logger)
        registry.addTraceMetrics(of: exporter.queue)
        exporter.bootstrap(sampler)
        return exporter
    }

    /// Runs the gateway until a signal ends it.
    ///
    /// HTTP ends first, so that requests in progress are still committed. Then the dispatcher, the committers and the
    /// pool end.
    ///
    /// - Parameters:
    ///   - signer: signs tokens for upstreams; nil if there is no key for it.
    ///   - companions: services that start before the gateway's services and end after them.
    ///   - database: checks a database that was unavailable at the start.
    ///   - demo: the organization and the user of `sluice dev`.
    ///   - whenListening: called once, when both listeners accept connections, with the addresses.
    static func run(
        _ settings: Settings,
        verifier: TokenVerifier,
        signer: RequestSigner? = nil,
        registry: PrometheusRegistry,
        logger: Logger,
        companions: [any Service] = [],
        database: DatabaseWatcher? = nil,
        demo: LaneKey? = nil,
        whenListening: @escaping @Sendable (_ public: ListenAddress, _ operations: ListenAddress) -> Void
    ) async throws {
        let store = settings.store(logger: logger)
        await store.warnOfUnknownMasterKeys()
        registry.addStoreMetrics(of: store)
        let reader = HTTPReader(version: Version.current, logger: logger)
        let keeper = JWKSRefresher(
            verifier: verifier,
            fetch: reader.keySet,
            load: settings.tokenConfiguration,
            now: SystemClock.now,
            logger: logger
        )
        registry.addTokenMetrics(of: verifier, keeper)
        let upstream = upstream(settings, signer: signer, logger: logger)
        registry.addUpstreamMetrics(of: upstream)
        var http = httpConfiguration(settings, signer: signer, upstream: upstream)
        http.demo = demo
        var gateway = GatewayContext(store: store, configuration: http, registry: registry, logger: logger)
        gateway.verifier = verifier
        // features report the dispatcher's circuits, and the dispatcher reports upstreams to features
        let dispatching = Dispatching()
        gateway.circuits = dispatching.openCircuits(limit:)
        gateway.workers = workers(settings)
        let features: [any Feature] = Assembly.features.map { $0.init(gateway) }
        for feature in features { feature.addMetrics(to: registry) }
        let dispatcher = dispatcher(settings, store: store, upstream: upstream, features: features, logger: logger)
        dispatching.dispatcher.withLock { $0 = dispatcher }
        let stats = LaneStatsCollector(
            store: store.lanes,
            organizations: settings.metricsOrganizations,
            now: SystemClock.now
        )
        registry.addDispatchMetrics(of: dispatcher, stats, organizations: settings.metricsOrganizations)
        registry.addClusterMetrics(of: store.cluster.servers)
        let state = ServingState(logger: logger, onEnding: dispatcher.drain, notify: whenListening)
        let health = GatewayHealth(serving: state, dispatcher: dispatcher, verifier: verifier, database: database)
        let operations = OperationsServer(
            gateway,
            features: features,
            readiness: { health.reasons },
            notices: { health.notices },
            onRunning: state.operationsListens
        )
        let server = PublicServer(gateway, verifier: verifier, features: features, onRunning: state.publicListens)
        let services =
            [SecondInterrupt(logger: logger)] + companions + [database].compactMap { $0 }
            + [keeper, store.notifier, store.quotas, store.pushes, store.lanes, store.ingest]
            + features.flatMap(\.services)
            + [dispatcher, stats, store.clusterStats, operations, server, state]
        // 13 s by default: a push in progress gets its usual time, and the remaining services some seconds more
        try await run(services, within: settings.databaseTimeouts.push + .milliseconds(8_500), logger: logger)
        await upstream.shutdown()
        await reader.shutdown()
        await store.close()
        logger.info("Sluice ended")
    }

    /// Runs services until a signal ends them.
    ///
    /// The services start in this order, and end in the opposite order: each service ends after all services that
    /// follow it in the list.
    private static func run(_ services: [any Service], within limit: Duration, logger: Logger) async throws {
        var configuration = ServiceGroupConfiguration(
            services: services.map { .init(service: $0, failureTerminationBehavior: .gracefullyShutdownGroup) },
            gracefulShutdownSignals: [.sigterm, .sigint],
            logger: logger
        )
        configuration.maximumGracefulShutdownDuration = limit
        configuration.maximumCancellationDuration = .seconds(1)
        try await ServiceGroup(configuration: configuration).run()
    }

    private static func upstream(_ settings: Settings, signer: RequestSigner?, logger: Logger) -> HTTPUpstream {
        var configuration = HTTPUpstreamConfiguration()
        // many organizations may use one hosting provider; the connections to this provider must not be the bottleneck
        let requests = FileShares.inForce(settings).requests
        configuration.connectionsPerHost = max(configuration.connectionsPerHost, requests)
        configuration.version = Version.current
        var sign: HTTPUpstream.Sign?
        if let signer { sign = { try await signer.sign(organization: $0, user: $1) } }
        return HTTPUpstream(configuration: configuration, sign: sign, now: SystemClock.now, logger: logger)
    }

    private static func dispatcher(
        _ settings: Settings,
        store: Store,
        upstream: HTTPUpstream,
        features: [any Feature],
        logger: Logger
    ) -> Dispatcher {
        var configuration = DispatchConfiguration(now: SystemClock.now)
        configuration.policy = RetryPolicy(base: settings.retryBaseSeconds, cap: settings.retryCapSeconds)
        let requests = FileShares.inForce(settings).requests
        configuration.maximumRequests = requests
        configuration.maximumLanes = min(settings.maxLanes, requests)
        return Dispatcher(
            store: store,
            upstream: upstream,
            configuration: configuration,
            logger: logger,
            worker: store.notifier.gatewayID
        ) { organization, isDown, reason in
            for feature in features { feature.upstreamChanged(of: organization, isDown: isDown, reason: reason) }
        }
    }

    private static func workers(_ settings: Settings) -> WorkerSettings {
        var workers = WorkerSettings()
        let shares = FileShares.inForce(settings)
        workers.webhooks = shares.webhooks
        workers.webhookSigningKey = settings.webhookSigningKey
        workers.replications = settings.maxReplications
        workers.polls = shares.polls
        workers.retentionInterval = settings.retentionIntervalSeconds
        return workers
    }

    private static func httpConfiguration(
        _ settings: Settings,
        signer: RequestSigner?,
        upstream: HTTPUpstream
    ) -> HTTPConfiguration {
        var configuration = HTTPConfiguration(now: SystemClock.now)
        configuration.upstream = upstream
        configuration.probes = upstream
        configuration.publicAddress = settings.publicAddress
        configuration.operationsAddress = settings.operationsAddress
        configuration.operatorTokens = settings.operatorTokens
        configuration.limits.mutations = settings.maxMutations
        configuration.limits.bodyBytes = settings.maxBodyBytes
        configuration.limits.payloadBytes = settings.maxPayloadBytes
        let shares = FileShares.inForce(settings)
        configuration.maximumConnections = shares.connections
        configuration.maximumListeners = shares.listeners
        configuration.maximumOperationsConnections = shares.operations
        configuration.allowedOrigins = settings.allowedOrigins
        configuration.heldBodyBytes = settings.maxBodyBytesInFlight
        configuration.heldAnswerBytes = settings.maxAnswerBytesInFlight
        // for each committer the bytes of the largest group, and as many bytes for the next group
        configuration.decodedBodyBytes = max(2, settings.committers) * 2 * GroupLimits().bytes
        // reading more pages at once than there are cores would slow down all of these reads, and also pushes
        let cores = ProcessInfo.processInfo.activeProcessorCount
        configuration.concurrentPages = max(2, min(settings.databasePoolSize / 4, cores + 1))
        configuration.leaseSeconds = Int(settings.leaseSeconds)
        configuration.retention = settings.retentionPolicy
        configuration.webhookAddresses = settings.webhookAddresses
        configuration.webhookPublicKey = settings.webhookSigningKey?.publicKey.text
        configuration.jwks = signer?.jwks ?? RequestSigner.noKeys
        configuration.canSign = signer != nil
        configuration.version = Version.current
        configuration.commit = Version.commit
        return configuration
    }
}

/// The dispatcher, once it is created.
private final class Dispatching: Sendable {
    let dispatcher = Mutex<Dispatcher?>(nil)

    func openCircuits(limit: Int) -> [CircuitReport] {
        dispatcher.withLock { $0 }?.openCircuits(limit: limit) ?? []
    }
}
