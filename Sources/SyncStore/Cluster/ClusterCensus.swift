import Postgres
import ServiceLifecycle
import Synchronization

/// Looks now and then which servers of a cluster answer, for metrics. Does nothing where the database is none.
package final class ClusterCensus: Service {
    private static let interval: Duration = .seconds(15)

    private let pool: Pool
    private let cluster: Cluster
    private let found = Mutex([String: Bool]())

    package init(store: Store) {
        pool = store.pool
        cluster = store.cluster
    }

    /// Whether each server answered, by host and port, as of the last look; empty before the first.
    package var findings: [String: Bool] { found.withLock { $0 } }

    package func run() async throws {
        await cancelWhenGracefulShutdown {
            while !Task.isCancelled {
                await self.look()
                try? await Task.sleep(for: Self.interval)
            }
        }
    }

    /// Where not even the server that is asked answers, that is known by other metrics, and nothing of the others.
    private func look() async {
        guard cluster.isThere else { return }
        let servers = try? await pool.withConnection { connection in try await Distribution.servers(on: connection) }
        let answers = servers.map { Dictionary($0.map { ($0.name, $0.isThere) }) { first, _ in first } }
        found.withLock { $0 = answers ?? [:] }
    }
}
