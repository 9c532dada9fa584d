import Foundation
import Postgres

/// A private, throwaway PostgreSQL server in a temporary directory, reachable by a Unix socket there.
///
/// A watchdog process starts the server and waits for a pipe from this process to close. Therefore the server and its
/// directory are removed when the test process ends for any reason.
package actor TestCluster {
    /// The reason why no server could be started.
    package struct Failure: Error, CustomStringConvertible {
        /// The error.
        package let description: String
    }

    private static let sharedCluster = Task { try await start(external: citusURI ?? externalURI) }

    /// A libpq URI for a superuser of the coordinator of a Citus cluster, for a database in which its servers are
    /// registered. Then tests run there, each in a separate database that is distributed over these servers. nil: on
    /// one server.
    package static var citusURI: String? { ProcessInfo.processInfo.environment["SLUICE_TEST_CITUS_URI"] }

    /// A libpq URI or keyword string for a superuser of a server to use instead of starting one; others are created
    /// from its database.
    private static var externalURI: String? { ProcessInfo.processInfo.environment["SLUICE_TEST_CLUSTER_URI"] }

    /// The server that all tests of this process share, started at the first call.
    package static func shared() async throws -> TestCluster { try await sharedCluster.value }

    /// A separate server, to stop and start.
    ///
    /// - Parameters:
    ///   - isDurable: whether commits are flushed, so that they survive a crash as in production; slower on disk.
    ///   - address: an additional IP address of this machine on which the server listens, at the usual port, and which
    ///     no other test uses; empty for a Unix socket alone.
    package static func dedicated(isDurable: Bool = false, address: String = "") async throws -> TestCluster {
        try await start(external: nil, isDurable: isDurable, address: address)
    }

    /// Three separate servers that form a cluster, a coordinator and two workers, to kill and start individually. Their
    /// commits are flushed. Citus must be installed here.
    ///
    /// - Parameter addresses: addresses of this machine, one per server, which no other test uses.
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

    /// A streaming standby of a dedicated server, on a separate server.
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

    /// The settings that docs/citus.md requires of each server; the servers reach each other only on this machine.
    private static let citus = [
        "shared_preload_libraries=citus", "citus.node_conninfo=sslmode=disable", "wal_level=logical",
        "max_prepared_transactions=600",
        "max_worker_processes=32", "wal_retrieve_retry_interval=100ms",
    ]

    private let base: String
    /// Started by this process: one, or those of `nodes`; empty if an external server is used.
    private let servers: [ServerProcess]
    /// The servers of a cluster; the first one is its coordinator. Empty without a cluster.
    package nonisolated let nodes: [Node]

    /// A server of a cluster, by the address that the others use.
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

    /// The configuration for a superuser's session without a statement time-out.
    nonisolated var configuration: ConnectionConfiguration { configuration(uri()) }

    /// The configurations for such sessions on every server.
    nonisolated var configurations: [ConnectionConfiguration] {
        nodes.isEmpty ? [configuration] : nodes.map { configuration(uri(database: "postgres", on: $0)) }
    }

    private nonisolated func configuration(_ uri: String) -> ConnectionConfiguration {
        ConnectionConfiguration(uri: uri, connectTimeout: Waiting.limit, statementTimeout: .zero)
    }

    /// Starts the server again after `stop`.
    package func start() async throws { for server in servers { try await server.start() } }

    /// Stops the server. Immediately means as in a crash: clients are disconnected abruptly, and the next start
    /// recovers. Otherwise clients are disconnected in order.
    package func stop(immediate: Bool = false) async throws {
        for server in servers { try await server.stop(signal: immediate ? "QUIT" : "INT") }
    }

    /// Kills a server's main process with SIGKILL; its children notice and end.
    ///
    /// - Parameter node: the index in ``nodes``; 0 for a single server.
    package func kill(_ node: Int = 0) async throws { try await servers[node].stop(signal: "KILL") }

    /// Stops and starts the server.
    package func restart(immediate: Bool = false) async throws {
        try await stop(immediate: immediate)
        try await start()
    }

    /// Stops the server and removes its directory. Without this call, that happens with the last reference.
    package func close() async { for server in servers { await server.end() } }

    /// Freezes (`true`) or continues the server's main process, which then answers no new connection.
    package func freeze(_ frozen: Bool) async throws { for server in servers { try await server.freeze(frozen) } }

    /// Freezes (`true`) or continues a server with its sessions, as if its machine were disconnected.
    ///
    /// - Parameter node: the index in ``nodes``.
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
            nodes.append(
                Node(host: try row.read("nodename", as: String.self), port: try row.read("nodeport", as: Int32.self))
            )
        }
        return nodes
    }
}
