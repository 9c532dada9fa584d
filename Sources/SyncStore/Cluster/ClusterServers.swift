import GroupCommit
import Logging
import Postgres
import Synchronization

/// What is known of a cluster's servers, as of some seconds ago (``ClusterCensus``): hints that save work and waiting. A
/// group that is committed over a connection to the server that has its shard is planned and done in one place: by way of
/// another, its values are turned to text and back. A shard that has moved since costs that way, and no more.
package final class ClusterServers: Sendable {
    /// A server as seen from the one that the census asks.
    package struct Server: Sendable {
        package let host: String
        package let port: Int32
        /// What it said to `ClusterServers.identity`; nil where it does not answer.
        package let identity: String?
        /// Its `max_prepared_transactions`; nil where it does not answer.
        package let preparedTransactions: Int?
        /// Its `max_worker_processes`; nil if it does not answer.
        package let workerProcesses: Int?
        /// Its `wal_retrieve_retry_interval`; nil if it does not answer.
        package let retryMilliseconds: Int?
        /// Whether the one that asked is of its cluster; true where it does not answer.
        package let knowsAsker: Bool

        package var isThere: Bool { identity != nil }
        /// Its host and port.
        package var name: String { "\(host):\(port)" }
        var address: ServerAddress? { identity.map { ServerAddress(host: host, port: port, identity: $0) } }
    }

    private struct State {
        var servers: [Server] = []
        /// By server's name: looks in a row to which there was no answer, and the last answer.
        var misses: [String: Int] = [:]
        var addresses: [String: ServerAddress] = [:]
        /// By shard of `organizations`, the name of the server that has it.
        var homes: [Int: String] = [:]
        var lookedAt: ContinuousClock.Instant?
        /// Looks in a row in which a server did not count the one that asked among the cluster's.
        var disownings = 0
    }

    /// Looks without an answer after which a server is taken to be away: one may have been busy.
    private static let patience = 2

    private let state = Mutex(State())

    /// Whether each server answered, by host and port; empty while that is not known.
    package var findings: [String: Bool] {
        state.withLock { state in
            Dictionary(state.servers.map { ($0.name, $0.isThere) }) { first, _ in first }
        }
    }

    /// The servers that are away, by host and port.
    var silent: [String] {
        state.withLock { state in state.misses.filter { $0.value >= Self.patience }.keys.sorted() }
    }

    /// Whether the server that is connected to was taken out of its cluster. It goes by the catalog that it had then: what it
    /// writes may be left behind where a shard was before.
    package var isDisowned: Bool { state.withLock { $0.disownings >= Self.patience } }

    static let disowned = "the server to which the gateway connects was removed from its cluster"

    /// Refuses everything of a server that was taken out of its cluster, but to look whether it still is.
    func requireMembership(for statement: Statement) throws(PostgresError) {
        guard isDisowned, !Self.looks.contains(statement.name), statement.name != Query.rollback.statement.name else {
            return
        }
        throw PostgresError(.unavailable, Self.disowned, statement: statement.name)
    }

    /// Refuses what asks all servers while one of them is away.
    func requireAll(for statement: Statement) throws(PostgresError) {
        guard let server = silent.first, ClusterText.ofAllServers[statement.name] != nil else { return }
        let message = "\(server) does not respond, but the statement requires all servers"
        throw PostgresError(.unavailable, message, statement: statement.name)
    }

    /// Whether one has not answered the last look, and is asked again before it is taken to be away.
    var isInDoubt: Bool {
        state.withLock { state in
            state.misses.values.contains { $0 < Self.patience } || 1..<Self.patience ~= state.disownings
        }
    }

    /// Whether the server of a shard is away. Whoever has its organizations is refused then without waiting for it, so that
    /// others need not wait behind them.
    func isSilent(_ shard: Int) -> Bool {
        state.withLock { state in state.homes[shard].map { state.misses[$0, default: 0] >= Self.patience } ?? false }
    }

    /// The server of a shard of `organizations`; nil while it is not known.
    func address(of shard: Int) -> ServerAddress? {
        state.withLock { state in state.homes[shard].flatMap { state.addresses[$0] } }
    }

    /// Whether the server that is connected to answered a look a short time ago, whatever those behind it do.
    func wasSeen(within time: Duration) -> Bool {
        state.withLock { $0.lookedAt }.map { .now - $0 <= time } ?? false
    }

    func learn(_ servers: [Server], homes: [Int: String]) {
        state.withLock { state in
            state.servers = servers
            state.homes = homes
            state.lookedAt = .now
            state.disownings = servers.allSatisfy(\.knowsAsker) ? 0 : state.disownings + 1
            let before = state.misses
            state.misses = [:]
            for server in servers where !server.isThere {
                state.misses[server.name] = before[server.name, default: 0] + 1
            }
            let names = Set(servers.map(\.name))
            state.addresses = state.addresses.filter { names.contains($0.key) }
            for address in servers.compactMap(\.address) { state.addresses["\(address)"] = address }
        }
    }

    /// Where not even the server that is asked answers, that is known by other metrics, and nothing of the others.
    func forget() {
        state.withLock { state in (state.servers, state.misses) = ([], [:]) }
    }

    /// The way of groups, with a log line for each server that it does not lead to.
    func routes(_ logger: Logger) -> Routes {
        Routes(to: address(of:)) { server, error in
            logger.warning(
                "commits through another server",
                metadata: ["server": "\(server)", "error": "\(error.message)"]
            )
        }
    }
}
