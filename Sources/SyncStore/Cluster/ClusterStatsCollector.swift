import Logging
import Postgres
import ServiceLifecycle
import Synchronization

/// Polls every few seconds which servers of a cluster answer, and what they have.
///
/// Does nothing where the database is not a cluster.
package final class ClusterStatsCollector: Service {
    private static let interval: Duration = .seconds(5)

    /// A separate connection: those of the pool may all wait for a server that hangs.
    private let configuration: ConnectionConfiguration
    private let cluster: Cluster
    private let logger: Logger
    private let connection = Mutex<Connection?>(nil)

    init(_ configuration: ConnectionConfiguration, cluster: Cluster, logger: Logger) {
        self.configuration = configuration
        self.cluster = cluster
        self.logger = logger
    }

    package func run() async throws {
        await cancelWhenGracefulShutdown {
            while !Task.isCancelled {
                await self.poll()
                try? await Task.sleep(for: self.cluster.servers.isInDoubt ? .seconds(1) : Self.interval)
            }
        }
        await connection.withLock { $0 }?.closeAndWait()
    }

    private func poll() async {
        guard cluster.isThere else { return }
        do {
            let connection = try await opened()
            let homes = try await ClusterServers.homes(on: connection)
            let wasDisowned = cluster.servers.isDisowned
            cluster.servers.learn(try await ClusterServers.servers(on: connection), homes: homes)
            if cluster.servers.isDisowned, !wasDisowned {
                logger.critical("\(ClusterServers.disowned): requests are rejected until it connects to another server")
            }
        } catch {
            cluster.servers.forget()
        }
    }

    private func opened() async throws -> Connection {
        if let connection = connection.withLock({ $0 }), connection.isUsable { return connection }
        let connection = try await Connection.open(configuration)
        self.connection.withLock { $0 = connection }
        return connection
    }
}
