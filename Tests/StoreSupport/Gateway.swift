import AdministrationFeature
package import Foundation
import Logging
import Postgres
import Sluice
import SyncHTTP
package import SyncModel
package import SyncStore
import Synchronization
package import TestSupport

/// A store on a separate database, as the HTTP layer uses it, with a test clock.
package final class Gateway: Sendable {
    package let database: TestDatabase
    package let store: Store
    package let clock = ManualClock()
    /// The tables of the engine and of all features.
    package static let tables = Assembly.tables
    private let service: Task<Void, Never>
    /// Whether the test has chosen its master keys, instead of the environment.
    private let hasOwnKeys: Bool

    /// - Parameters:
    ///   - replicaOf: another gateway whose database this one shares.
    ///   - masterKeys: the text of its file; nil for no keys, or for one key if `SLUICE_TEST_SEALED` is set.
    ///   - pollInterval: how often it polls for changes without a notification; nil for the interval in service.
    ///   - lockTimeout: how long a statement waits for a lock; nil for 48 seconds.
    package init(
        replicaOf other: Gateway? = nil,
        committers: Int = 2,
        masterKeys: String? = nil,
        pollInterval: Duration? = nil,
        lockTimeout: Duration? = nil
    ) async throws {
        hasOwnKeys = masterKeys != nil
        database = if let other { other.database } else { try await Self.migratedDatabase() }
        let clock = clock
        var logger = Logger(label: "test")
        logger.logLevel = .error
        var settings = StoreConfiguration(databaseURL: database.uri, poolSize: 4, committers: committers)
        // a slow machine causes no time-out; real time-outs are tested on real processes
        settings.timeouts = DatabaseTimeouts(statement: .seconds(60))
        if let lockTimeout { settings.timeouts.lock = lockTimeout }
        if let pollInterval { settings.pollInterval = pollInterval }
        settings.tables = Self.tables
        settings.participants = Assembly.features.flatMap { $0.participants }
        settings.masterKeys = try (masterKeys ?? TestKeys.ofEnvironment).map { try MasterKeys(parsing: $0) }
        let store = Store(settings, now: { clock.now }, logger: logger)
        self.store = store
        service = Task {
            async let notifier: Void = store.notifier.run()
            async let pushes: Void = store.pushes.run()
            async let lanes: Void = store.lanes.run()
            async let quotas: Void = store.quotas.run()
            async let ingest: Void = store.ingest.run()
            _ = try? await (notifier, pushes, lanes, quotas, ingest)
        }
    }

    deinit {
        service.cancel()
    }

    /// A separate database with the current schema, in few partitions or shards.
    package static func migratedDatabase() async throws -> TestDatabase {
        let cluster = try await TestCluster.shared()
        return try await TestDatabase.make(template: "sluice", on: cluster) { connection in
            _ = try await Schema.migrator(partitions: 4).migrate(on: connection)
            guard !cluster.nodes.isEmpty else { return }
            try await Distribution.spread(shards: 4, on: connection)
            TestDatabase.dialect.withLock { $0 = Cluster().dialect }
        }
    }

    /// A new organization with settings as JSON text.
    package func organization(_ settings: String = "{}") async throws -> Organization {
        let id = UUID()
        let settings = TestKeys.settings(settings, hasOwnKeys: hasOwnKeys)
        let body = #"{"name":"Test","settings":\#(settings)}"#
        _ = try await store.administration.put(id, OrganizationUpdate(body: Array(body.utf8)))
        return try await known(id)
    }

    /// An organization as the catalog currently has it.
    package func known(_ organization: UUID) async throws -> Organization {
        guard let found = try await store.catalog.organization(organization) else { throw Missing() }
        return found
    }

    private struct Missing: Error {}
}
