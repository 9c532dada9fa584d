package import Foundation
import IngestFeature
import Logging
import OperatorsFeature
import Postgres
import RetentionFeature
import ServiceLifecycle
package import StandardWebhooks
import SyncDispatch
package import SyncHTTP
package import SyncModel
package import SyncStore
import SyncUpstream
import Synchronization
import Telemetry
package import TestSupport
package import Tokens
import WebhooksFeature

@testable import Sluice

/// A whole gateway in this process. Both servers use ports that the system chooses and a private database. The test
/// controls the clock.
package final class LiveGateway: RunningGateway {
    package static let operatorToken = "operators-token-of-the-tests"
    package static let tokens = TokenConfiguration(secret: Array("a secret of the tests, at least 32 bytes long".utf8))

    package let database: TestDatabase
    package let store: Store
    package let verifier: TokenVerifier
    package let clock: Clock
    /// The base URL of `/v1`, such as `http://127.0.0.1:8080`.
    package let address: String
    package let operations: String
    package let port: Int
    package let hasOwnKeys: Bool
    private let tokens: TokenConfiguration
    private let service: Task<Void, Never>

    /// - Parameters:
    ///   - database: a migrated database; nil creates one.
    ///   - role: the database role that the gateway uses; nil for the owner.
    ///   - tokens: the tokens that the gateway accepts.
    ///   - forwards: whether lanes are run, against real upstreams.
    ///   - polls: whether sources are polled, at real upstreams.
    ///   - retains: whether scheduled retention runs are executed.
    ///   - operates: whether operations are executed.
    ///   - delivers: the key that webhooks are signed with. They are sent to this machine only. Nil delivers no
    /// webhooks.
    ///   - timeouts: the time-outs for the database. The default tolerates a slow machine.
    ///   - masterKeys: the text of the file of master keys. Nil for no key, or for one if `SLUICE_TEST_SEALED` is set.
    ///   - configure: changes the servers' settings.
    package static func start(
        on database: TestDatabase? = nil,
        as role: String? = nil,
        tokens: TokenConfiguration = tokens,
        forwards: Bool = false,
        polls: Bool = false,
        retains: Bool = false,
        operates: Bool = false,
        delivers: WebhookSigningKey? = nil,
        timeouts: DatabaseTimeouts = timeouts(true),
        masterKeys: String? = nil,
        configure: (inout HTTPConfiguration) -> Void = { _ in }
    ) async throws -> LiveGateway {
        _ = GatewayMetrics.bootstrap
        let clock = Clock()
        var configuration = HTTPConfiguration(now: { clock.now })
        configuration.publicAddress.port = 0
        configuration.operationsAddress.port = 0
        configuration.operatorTokens = OperatorTokens(parsing: operatorToken)
        configuration.version = "test"
        if let delivers {
            configuration.webhookAddresses = AddressPolicy(allowed: IPNetwork.list("127.0.0.0/8") ?? [])
            configuration.webhookPublicKey = delivers.publicKey.text
        }
        configure(&configuration)
        let database = if let database { database } else { try await migratedDatabase() }
        let registry = PrometheusRegistry()
        HTTPMetrics.describe(in: registry)
        return try await GatewayMetrics.$registry.withValue(registry) { [configuration] in
            try await LiveGateway(
                database,
                role,
                clock,
                tokens,
                forwards,
                polls,
                retains,
                operates,
                delivers,
                timeouts,
                masterKeys,
                configuration
            )
        }
    }

    private init(
        _ database: TestDatabase,
        _ role: String?,
        _ clock: Clock,
        _ tokens: TokenConfiguration,
        _ forwards: Bool,
        _ polls: Bool,
        _ retains: Bool,
        _ operates: Bool,
        _ delivers: WebhookSigningKey?,
        _ timeouts: DatabaseTimeouts,
        _ masterKeys: String?,
        _ configuration: HTTPConfiguration
    ) async throws {
        hasOwnKeys = masterKeys != nil
        var logger = Logger(label: "gateway") { _ in SwiftLogNoOpLogHandler() }
        logger.logLevel = .critical
        let uri = role.map { database.uri(user: $0) } ?? database.uri
        var settings = StoreConfiguration(databaseURL: uri, poolSize: 3, committers: 2)
        settings.timeouts = timeouts
        settings.tables = Assembly.tables
        settings.participants = Assembly.features.flatMap { $0.participants }
        settings.masterKeys = try (masterKeys ?? TestKeys.ofEnvironment).map { try MasterKeys(parsing: $0) }
        let store = Store(settings, now: { clock.now }, logger: logger)
        let (publicPorts, tellPublic) = AsyncStream<Int>.makeStream()
        let (operationsPorts, tellOperations) = AsyncStream<Int>.makeStream()
        let verifier = try await TokenVerifier(configuration: tokens)
        var upstreams = HTTPUpstreamConfiguration()
        upstreams.connectTimeout = .seconds(60)
        let upstream = HTTPUpstream(
            configuration: upstreams,
            sign: nil,
            now: { clock.now },
            logger: logger
        )
        var configuration = configuration
        configuration.probes = upstream
        let reader = HTTPReader(version: "test", logger: logger)
        let keeper = JWKSRefresher(verifier: verifier, fetch: reader.keySet, now: { clock.now }, logger: logger)
        var dispatch = DispatchConfiguration(now: { clock.now })
        dispatch.pollInterval = 0.05
        var delivery = WebhookDispatcher.Configuration(now: { clock.now })
        delivery.pollInterval = 0.05
        let sender = WebhookSender(
            policy: configuration.webhookAddresses,
            version: "test",
            now: { clock.now },
            logger: logger
        )
        let webhookDispatcher = WebhookDispatcher(
            store: store.webhooks,
            post: .signing(by: delivers, with: sender) { clock.now },
            configuration: delivery,
            logger: logger
        )
        let dispatcher = Dispatcher(
            store: store,
            upstream: upstream,
            configuration: dispatch,
            logger: logger,
            worker: store.notifier.gatewayID,
            recordUpstream: webhookDispatcher.record(upstream:isDown:reason:)
        )
        var gateway = GatewayContext(
            store: store,
            configuration: configuration,
            registry: GatewayMetrics.registry,
            logger: logger
        )
        gateway.verifier = verifier
        gateway.circuits = { dispatcher.openCircuits(limit: $0) }
        let features = Assembly.features.map { $0.init(gateway) }
        let operations = OperationsServer(gateway, features: features, onRunning: { tellOperations.yield($0.port) })
        let server = PublicServer(
            gateway,
            verifier: verifier,
            features: features,
            onRunning: { tellPublic.yield($0.port) }
        )
        let lanes: [any Service] = forwards ? [store.lanes, dispatcher] : []
        let retention = RetentionService(
            store: store,
            policy: configuration.retention,
            interval: 3_600,
            now: { clock.now },
            logger: logger
        )
        let operating = OperationService(store: store, retentionDays: 365, pollInterval: 0.05, logger: logger)
        var polling = Poller.Configuration(now: { clock.now })
        polling.pollInterval = 0.05
        let poller = Poller(store: store, upstream: upstream, configuration: polling, logger: logger)
        let keeping: [any Service] =
            (retains ? [retention] : []) + (operates ? [operating] : []) + (delivers == nil ? [] : [webhookDispatcher])
            + (polls ? [poller] : [])
        let group = ServiceGroup(
            services: [keeper, store.notifier, store.quotas, store.pushes, store.ingest] + lanes + keeping + [
                operations, server,
            ],
            logger: logger
        )
        service = Task {
            try? await group.run()
            await upstream.shutdown()
            await reader.shutdown()
            tellPublic.finish()
            tellOperations.finish()
            await store.close()
        }
        guard let port = await publicPorts.first(where: { _ in true }),
            let operationsPort = await operationsPorts.first(where: { _ in true })
        else { throw Program.Failure("the servers do not start") }
        self.tokens = tokens
        self.database = database
        self.store = store
        self.verifier = verifier
        self.clock = clock
        self.port = port
        address = "http://127.0.0.1:\(port)"
        self.operations = "http://127.0.0.1:\(operationsPort)"
        // an orchestrator probes repeatedly, but a test that expects readiness probes once
        try await waitUntil("the first write has succeeded or failed") { store.hasTriedToWrite }
    }

    deinit {
        service.cancel()
    }

    /// The time-outs: long ones for a busy machine, or those of the service for tests of time-outs.
    package static func timeouts(_ isLong: Bool) -> DatabaseTimeouts {
        isLong ? DatabaseTimeouts(statement: .seconds(60)) : DatabaseTimeouts()
    }

    package static func migratedDatabase(on cluster: TestCluster? = nil) async throws -> TestDatabase {
        let cluster = if let cluster { cluster } else { try await TestCluster.shared() }
        return try await TestDatabase.make(template: "gateway", on: cluster) { connection in
            _ = try await Schema.migrator(partitions: 2).migrate(on: connection)
            guard !cluster.nodes.isEmpty else { return }
            try await Distribution.spread(shards: 4, on: connection)
            TestDatabase.dialect.withLock { $0 = Cluster().dialect }
        }
    }

    /// A token that this gateway accepts for an hour of its clock.
    package func token(organization: UUID, user: UUID, seconds: Int64 = 3_600) async throws -> String {
        try await TokenIssuer(configuration: tokens)
            .issue(organization: organization, user: user, ttlSeconds: seconds, now: clock.now.seconds)
    }

    /// A clock that advances only when the test advances it.
    package final class Clock: Sendable {
        private let moment = Mutex(Timestamp(microseconds: 1_795_000_000_000_000))

        package var now: Timestamp { moment.withLock { $0 } }

        package func advance(seconds: Double) {
            moment.withLock { $0 = $0.adding(seconds: seconds) }
        }
    }
}
