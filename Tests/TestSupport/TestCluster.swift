import Foundation
import Postgres

/// A private, throwaway PostgreSQL server in a temporary directory, reachable by a Unix socket there.
///
/// A watchdog process starts the server and waits for a pipe from this process to close. So the server and its
/// directory go when the test process ends, however it ends.
package actor TestCluster {
    /// Why no server could be started.
    package struct Failure: Error, CustomStringConvertible {
        /// What went wrong.
        package let description: String
    }

    private static let sharedCluster = Task { try await start(external: citusURI ?? externalURI) }

    /// A libpq URI for a superuser of the coordinator of a Citus cluster, for a database in which its servers are known;
    /// then tests run there, each in a database of its own that is spread over these servers. nil: on one server.
    package static var citusURI: String? { ProcessInfo.processInfo.environment["SLUICE_TEST_CITUS_URI"] }

    /// A libpq URI or keyword string for a superuser of a server to use instead of starting one; its database is the
    /// one from which others are created.
    private static var externalURI: String? { ProcessInfo.processInfo.environment["SLUICE_TEST_CLUSTER_URI"] }

    /// The server that all tests of this process share, started at the first call.
    package static func shared() async throws -> TestCluster { try await sharedCluster.value }

    /// A server of one's own, to stop and start.
    ///
    /// - Parameters:
    ///   - isDurable: whether what is committed is flushed, so that it survives a crash as in production; slower.
    ///   - address: an IP address of this machine on which the server listens, too, at the usual port, and which no
    ///     other test has; empty for a Unix socket alone.
    package static func dedicated(isDurable: Bool = false, address: String = "") async throws -> TestCluster {
        try await start(external: nil, isDurable: isDurable, address: address)
    }

    /// Three servers of one's own that are a cluster, a coordinator and two workers, to kill and start one by one. What
    /// they commit is flushed. Citus must be installed here.
    ///
    /// - Parameter addresses: of this machine, one a server, which no other test has.
    package static func spread(over addresses: [String]) async throws -> TestCluster {
        var servers: [ServerProcess] = []
        for address in addresses {
            let server = try await ServerProcess(
                isDurable: true,
                address: address,
                settings: citus + ["citus.local_hostname=\(address)"]
            )
            try await server.start()
            servers.append(server)
        }
        let nodes = addresses.map { Node(host: $0, port: 5_432) }
        return TestCluster(base: "postgresql://postgres@\(nodes[0].host)", servers: servers, nodes: nodes)
    }

    /// A streaming standby of a dedicated server, on a server of its own.
    package static func standby(of primary: TestCluster) async throws -> TestCluster {
        guard let server = primary.servers.first else {
            throw Failure(description: "the primary is not this process's")
        }
        let standby = try await ServerProcess(isDurable: false, address: "", standbyOf: server.directory)
        try await standby.start()
        return TestCluster(base: "host=\(standby.directory)&user=postgres", servers: [standby])
    }

    /// The directory of a dedicated server's Unix socket.
    package nonisolated var socketDirectory: String { servers.first?.directory ?? "" }

    /// What docs/citus.md asks of each server; they reach each other on this machine alone.
    private static let citus = [
        "shared_preload_libraries=citus", "citus.node_conninfo=sslmode=disable", "wal_level=logical",
        "max_prepared_transactions=600",
        "max_worker_processes=32", "wal_retrieve_retry_interval=100ms",
    ]

    private let base: String
    /// Started by this process: one, or those of `nodes`; empty where another is used.
    private let servers: [ServerProcess]
    /// The servers of a cluster; the first one is its coordinator. Empty where there is none.
    package nonisolated let nodes: [Node]

    /// A server of a cluster, as the others reach it.
    package struct Node: Sendable {
        package let host: String
        package let port: Int32
    }

    private init(base: String, servers: [ServerProcess] = [], nodes: [Node] = []) {
        self.base = base
        self.servers = servers
        self.nodes = nodes
    }

    /// The URI of a database of this server.
    package nonisolated func uri(database: String = "postgres") -> String {
        if !base.contains("://") { return "postgresql:///\(database)?\(base)" }
        guard var components = URLComponents(string: base) else { return base }
        components.path = "/\(database)"
        return components.string ?? base
    }

    /// The URI of a database of one of the servers of a cluster.
    package nonisolated func uri(database: String, on node: Node) -> String {
        guard var components = URLComponents(string: base) else { return base }
        (components.host, components.port, components.path) = (node.host, Int(node.port), "/\(database)")
        return components.string ?? base
    }

    /// For a session as the superuser whose statements may take as long as they do.
    nonisolated var configuration: ConnectionConfiguration { configuration(uri()) }

    /// The same on every server there is.
    nonisolated var configurations: [ConnectionConfiguration] {
        nodes.isEmpty ? [configuration] : nodes.map { configuration(uri(database: "postgres", on: $0)) }
    }

    private nonisolated func configuration(_ uri: String) -> ConnectionConfiguration {
        ConnectionConfiguration(uri: uri, connectTimeout: Waiting.limit, statementTimeout: .zero)
    }

    /// Starts the server again after `stop`.
    package func start() async throws { for server in servers { try await server.start() } }

    /// Stops the server. Immediately means as in a crash: clients are cut off, and the next start recovers. Otherwise
    /// clients are disconnected in good order.
    package func stop(immediate: Bool = false) async throws {
        for server in servers { try await server.stop(signal: immediate ? "QUIT" : "INT") }
    }

    /// Kills a server's main process with SIGKILL; its children notice and end.
    ///
    /// - Parameter node: the place among ``nodes``; of a single server, 0.
    package func kill(_ node: Int = 0) async throws { try await servers[node].stop(signal: "KILL") }

    /// Stops and starts.
    package func restart(immediate: Bool = false) async throws {
        try await stop(immediate: immediate)
        try await start()
    }

    /// Ends the server and removes its directory; otherwise that happens when the last reference goes.
    package func close() async { for server in servers { await server.end() } }

    /// Freezes (`true`) or continues the server's main process, which then answers no new connection.
    package func freeze(_ frozen: Bool) async throws { for server in servers { try await server.freeze(frozen) } }

    /// Freezes (`true`) or continues a server with its sessions, as if its machine were cut off.
    ///
    /// - Parameter node: the place among ``nodes``.
    package func hang(_ node: Int, _ hung: Bool) async throws {
        try await servers[node].freeze(hung, wholly: true)
    }

    private static func start(
        external: String?,
        isDurable: Bool = false,
        address: String = ""
    ) async throws -> TestCluster {
        if let external {
            return TestCluster(base: external, nodes: citusURI == nil ? [] : try await nodes(of: external))
        }
        let server = try await ServerProcess(isDurable: isDurable, address: address)
        try await server.start()
        return TestCluster(base: "host=\(server.directory)&user=postgres", servers: [server])
    }

    private static func nodes(of coordinator: String) async throws -> [Node] {
        let connection = try await Connection.open(ConnectionConfiguration(uri: coordinator))
        defer { connection.close() }
        let statement = Statement(
            "test_nodes",
            "SELECT nodename, nodeport FROM pg_dist_node WHERE noderole = 'primary' ORDER BY groupid"
        )
        var nodes: [Node] = []
        for var row in try await connection.run(Query(statement)) {
            nodes.append(Node(host: try row.string("nodename"), port: try row.int32("nodeport")))
        }
        return nodes
    }
}
