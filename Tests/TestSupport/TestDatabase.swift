import Foundation
package import Postgres
package import Synchronization

/// A new database for a test, dropped by `close` or with the last reference.
package final class TestDatabase: Sendable {
    /// How test connections rewrite statements for a cluster; set by tests that depend on it.
    package static let dialect = Mutex(Dialect?.none)

    /// The URI for a superuser.
    package let uri: String
    private let name: String
    private let cluster: TestCluster
    private let isDropped = Mutex(false)

    private init(name: String, cluster: TestCluster) {
        self.name = name
        self.cluster = cluster
        uri = cluster.uri(database: name)
    }

    deinit {
        if isDropped.withLock({ $0 }) { return }
        Task { [name, cluster] in try await Self.drop(name, cluster) }
    }

    /// Creates an empty database, or a copy of the template of this name, which `migrate` fills when this process first
    /// requests it.
    package static func make(
        template: String? = nil,
        on cluster: TestCluster? = nil,
        migrate: @escaping @Sendable (Connection) async throws -> Void = { _ in }
    ) async throws -> TestDatabase {
        let cluster = if let cluster { cluster } else { try await TestCluster.shared() }
        guard let template else { return try await create(cluster, from: "template1") }
        return try await create(cluster, from: Templates.shared.database(template, cluster, migrate))
    }

    /// The URI for another role, which the server trusts.
    package func uri(user: String) -> String {
        if uri.contains("user=postgres") { return uri.replacing("user=postgres", with: "user=\(user)") }
        guard var components = URLComponents(string: uri) else { return uri }
        components.user = user
        return components.string ?? uri
    }

    /// The URIs for a superuser on every server of a cluster, its coordinator first.
    package var uris: [String] {
        cluster.nodes.isEmpty ? [uri] : cluster.nodes.map { cluster.uri(database: name, on: $0) }
    }

    /// The URIs for another role on every server of a cluster.
    package func uris(user: String) -> [String] {
        guard !cluster.nodes.isEmpty else { return [uri(user: user)] }
        return uris.map { uri in
            var components = URLComponents(string: uri)
            components?.user = user
            return components?.string ?? uri
        }
    }

    /// A connection without a statement time-out.
    ///
    /// - Parameter server: one of ``uris``; nil for the server that gateways connect to.
    package func connect(to server: String? = nil, settings: [(String, String)] = []) async throws -> Connection {
        var configuration = ConnectionConfiguration(
            uri: server ?? uri,
            settings: settings,
            connectTimeout: Waiting.limit,
            statementTimeout: .zero
        )
        configuration.dialect = Self.dialect.withLock { $0 }
        return try await Connection.open(configuration)
    }

    /// Drops the database and disconnects its clients.
    package func close() async throws {
        let wasDropped = isDropped.withLock { isDropped in
            defer { isDropped = true }
            return isDropped
        }
        if !wasDropped { try await Self.drop(name, cluster) }
    }

    /// Unique among the processes that may share a server.
    static func uniqueName() -> String { "t_\(UInt64.random(in: 0...(.max)))" }

    static func create(_ cluster: TestCluster, from template: String) async throws -> TestDatabase {
        let name = uniqueName()
        for configuration in cluster.configurations {
            let connection = try await Connection.open(configuration)
            try await waitUntil("no session uses \(template)", every: .milliseconds(25)) {
                do {
                    if !cluster.nodes.isEmpty { try await connection.execute(script: Self.throwOut(of: template)) }
                    try await connection.execute(
                        script: "CREATE DATABASE \(name) TEMPLATE \(template) STRATEGY FILE_COPY"
                    )
                    return true
                } catch let error as PostgresError where error.sqlState == "55006" {
                    // Another session is still connected to the template, or copies it without sharing.
                    return false
                }
            }
            await connection.closeAndWait()
        }
        return TestDatabase(name: name, cluster: cluster)
    }

    /// On a cluster each database has a maintenance process.
    private static func throwOut(of database: String) -> String {
        "DO $$BEGIN PERFORM pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '\(database)'; END$$"
    }

    /// Makes an empty database a database of a cluster, over all of its servers.
    private func join() async throws {
        guard let coordinator = cluster.nodes.first else { return }
        for node in cluster.nodes {
            let uri = cluster.uri(database: name, on: node)
            let connection = try await Connection.open(ConnectionConfiguration(uri: uri, connectTimeout: Waiting.limit))
            try await connection.execute(script: "CREATE EXTENSION citus", timeout: Waiting.limit)
            await connection.closeAndWait()
        }
        let connection = try await connect()
        let others = cluster.nodes.dropFirst().map { "SELECT citus_add_node('\($0.host)', \($0.port));" }
        let host = "SELECT citus_set_coordinator_host('\(coordinator.host)', \(coordinator.port));"
        try await connection.execute(script: host, timeout: Waiting.limit)
        for other in others { try await connection.execute(script: other, timeout: Waiting.limit) }
        await connection.closeAndWait()
    }

    private static func drop(_ name: String, _ cluster: TestCluster) async throws {
        for configuration in cluster.configurations {
            let connection = try await Connection.open(configuration)
            try await connection.execute(script: "DROP DATABASE IF EXISTS \(name) WITH (FORCE)")
            await connection.closeAndWait()
        }
    }

    fileprivate var databaseName: String { name }

    /// The templates of this process, each filled once.
    private actor Templates {
        static let shared = Templates()
        private var made: [String: Task<TestDatabase, any Error>] = [:]

        func database(
            _ template: String,
            _ cluster: TestCluster,
            _ migrate: @escaping @Sendable (Connection) async throws -> Void
        ) async throws -> String {
            let key = "\(cluster.uri())/\(template)"
            if let task = made[key] { return try await task.value.databaseName }
            let task = Task {
                let database = try await TestDatabase.create(cluster, from: "template1")
                try await database.join()
                let connection = try await database.connect()
                try await migrate(connection)
                await connection.closeAndWait()
                return database
            }
            made[key] = task
            return try await task.value.databaseName
        }
    }
}
