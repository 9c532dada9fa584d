import Foundation
import Logging
import Metrics
import Postgres
import ServiceLifecycle
import SyncHTTP
import SyncModel
import SyncStore
import Synchronization
import Telemetry
import TestSupport
import Tokens

/// A whole gateway in this process: both servers on ports of the system's choice, on a database of its own, with a
/// clock that the test moves.
final class LiveGateway: Sendable {
    static let operatorToken = "an operator's token of the tests"
    static let tokens = TokenConfiguration(secret: Array("a secret of the tests, at least 32 bytes long".utf8))

    /// The metrics of every gateway in this process: swift-metrics knows one registry.
    static let registry: PrometheusRegistry = {
        let registry = PrometheusRegistry()
        HTTPMetrics.describe(in: registry)
        MetricsSystem.bootstrap(PrometheusMetricsFactory(registry))
        return registry
    }()

    let database: TestDatabase
    let store: Store
    let clock: Clock
    /// `http://127.0.0.1:…`, of `/v1` and of operations.
    let address: String
    let operations: String
    let port: Int
    private let service: Task<Void, Never>

    /// - Parameters:
    ///   - database: nil makes a migrated one.
    ///   - configure: changes the servers' settings.
    static func start(
        on database: TestDatabase? = nil,
        configure: (inout HTTPConfiguration) -> Void = { _ in }
    ) async throws -> LiveGateway {
        _ = registry
        let clock = Clock()
        var configuration = HTTPConfiguration(now: { clock.now })
        configuration.publicAddress.port = 0
        configuration.operationsAddress.port = 0
        configuration.operatorToken = operatorToken
        configuration.version = "test"
        configure(&configuration)
        let database = if let database { database } else { try await migratedDatabase() }
        return try await LiveGateway(database, clock, configuration)
    }

    private init(_ database: TestDatabase, _ clock: Clock, _ configuration: HTTPConfiguration) async throws {
        var logger = Logger(label: "gateway") { _ in SwiftLogNoOpLogHandler() }
        logger.logLevel = .critical
        let store = Store(
            StoreConfiguration(databaseURL: database.uri, poolSize: 3, committers: 2),
            now: { clock.now },
            logger: logger
        )
        let (publicPorts, tellPublic) = AsyncStream<Int>.makeStream()
        let (operationsPorts, tellOperations) = AsyncStream<Int>.makeStream()
        let operations = OperationsServer(
            store: store,
            registry: Self.registry,
            configuration: configuration,
            logger: logger,
            onRunning: { tellOperations.yield($0.port) }
        )
        let server = PublicServer(
            store: store,
            verifier: try await TokenVerifier(configuration: Self.tokens),
            configuration: configuration,
            logger: logger,
            onRunning: { tellPublic.yield($0.port) }
        )
        let group = ServiceGroup(services: [store.pushes, operations, server], logger: logger)
        service = Task {
            try? await group.run()
            tellPublic.finish()
            tellOperations.finish()
            await store.close()
        }
        guard let port = await publicPorts.first(where: { _ in true }),
            let operationsPort = await operationsPorts.first(where: { _ in true })
        else { throw Unavailable() }
        self.database = database
        self.store = store
        self.clock = clock
        self.port = port
        address = "http://127.0.0.1:\(port)"
        self.operations = "http://127.0.0.1:\(operationsPort)"
    }

    deinit {
        service.cancel()
    }

    /// The servers did not start.
    struct Unavailable: Error {}

    static func migratedDatabase(on cluster: TestCluster? = nil) async throws -> TestDatabase {
        try await TestDatabase.make(template: "gateway", on: cluster) { connection in
            _ = try await Schema.migrator(partitions: 2).migrate(on: connection)
        }
    }

    /// A token that this gateway accepts for an hour of its clock.
    func token(organization: UUID, user: UUID, seconds: Int64 = 3_600) async throws -> String {
        try await TokenIssuer(configuration: Self.tokens)
            .issue(organization: organization, user: user, ttlSeconds: seconds, now: clock.now.seconds)
    }

    /// Stands still until it is moved.
    final class Clock: Sendable {
        private let moment = Mutex(Timestamp(microseconds: 1_795_000_000_000_000))

        var now: Timestamp { moment.withLock { $0 } }

        func advance(seconds: Double) {
            moment.withLock { $0 = $0.adding(seconds: seconds) }
        }
    }
}
