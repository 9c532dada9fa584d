import GroupCommit
import Logging
package import Postgres
import Synchronization

/// The known state of a cluster's servers, some seconds old (``ClusterStatsCollector``).
///
/// The state is only a hint that saves work and waiting. If a committer sends a group of writes directly to the server
/// that has the group's shard, the group is planned and executed there. If the group is sent through another server,
/// that server converts the group's values to text and back. If a shard has moved after the poll, the only cost is this
/// conversion.
package final class ClusterServers: Sendable {
    /// A server, from the view of the connected server.
    package struct Server: Sendable {
        package let host: String
        package let port: Int32
        /// The server's result of `ClusterServers.identity`; nil if the server does not answer.
        package let identity: String?
        /// The server's `max_prepared_transactions`; nil if the server does not answer.
        package let preparedTransactions: Int?
        /// The server's `max_worker_processes`; nil if the server does not answer.
        package let workerProcesses: Int?
        /// The server's `wal_retrieve_retry_interval`; nil if the server does not answer.
        package let retryMilliseconds: Int?
        /// Whether this server's catalog lists the connected server as a member of the cluster; true if this server
        /// does not answer.
        package let isConnectedServer: Bool

        package var isThere: Bool { identity != nil }
        /// The server's host and port.
        package var name: String { "\(host):\(port)" }
        var address: ServerAddress? { identity.map { ServerAddress(host: host, port: port, identity: $0) } }
    }

    private struct State {
        var servers: [Server] = []
        /// The number of consecutive polls without an answer, by the server's name.
        var misses: [String: Int] = [:]
        var addresses: [String: ServerAddress] = [:]
        /// The server's name for each shard of the table `organizations`, by the shard's id.
        var homes: [Int: String] = [:]
        var checkedAt: ContinuousClock.Instant?
        /// The number of consecutive polls in which a server's catalog did not list the connected server as a member.
        var disownings = 0
    }

    /// The number of consecutive polls without an answer after which a server is considered unavailable.
    ///
    /// After a single poll without an answer, the server may only be busy.
    private static let maxAttempts = 2

    private let state = Mutex(State())

    /// Whether each server answered, by host and port; empty until the first poll.
    package var findings: [String: Bool] {
        state.withLock { state in
            Dictionary(state.servers.map { ($0.name, $0.isThere) }) { first, _ in first }
        }
    }

    /// The unavailable servers, by host and port.
    var silent: [String] {
        state.withLock { state in state.misses.filter { $0.value >= Self.maxAttempts }.keys.sorted() }
    }

    /// Whether the connected server was removed from its cluster.
    ///
    /// A removed server still uses the catalog from the time of its removal. Therefore its writes may go to a shard's
    /// former server.
    package var isDisowned: Bool { state.withLock { $0.disownings >= Self.maxAttempts } }

    static let disowned = "the server to which the gateway connects was removed from its cluster"

    /// Refuses statements on a server that was removed from its cluster.
    ///
    /// Only the statements that check the membership are allowed.
    func requireMembership(for statement: Statement) throws(PostgresError) {
        guard isDisowned, !Self.pollStatements.contains(statement.name),
            statement.name != Query.rollback.statement.name
        else {
            return
        }
        throw PostgresError(.unavailable, Self.disowned, statement: statement.name)
    }

    /// Refuses statements that query all servers while one of them is unavailable.
    func requireAll(for statement: Statement) throws(PostgresError) {
        guard let server = silent.first, CitusSQLRewriter.ofAllServers[statement.name] != nil else { return }
        let message = "\(server) does not respond, but the statement requires all servers"
        throw PostgresError(.unavailable, message, statement: statement.name)
    }

    /// Whether the last poll found a failure that a further poll must confirm.
    ///
    /// Either a server did not answer, or a server's catalog did not list the connected server as a member.
    var isInDoubt: Bool {
        state.withLock { state in
            state.misses.values.contains { $0 < Self.maxAttempts } || 1..<Self.maxAttempts ~= state.disownings
        }
    }

    /// Whether the server of a shard is unavailable.
    ///
    /// If so, requests of the shard's organizations are refused immediately, so that other requests do not wait for
    /// them.
    func isSilent(_ shard: Int) -> Bool {
        state.withLock { state in state.homes[shard].map { state.misses[$0, default: 0] >= Self.maxAttempts } ?? false }
    }

    /// The server of a shard of the table `organizations`; nil until the server is known.
    func address(of shard: Int) -> ServerAddress? {
        state.withLock { state in state.homes[shard].flatMap { state.addresses[$0] } }
    }

    /// Whether the connected server answered a poll recently, whether or not the other servers answered.
    func wasSeen(within time: Duration) -> Bool {
        state.withLock { $0.checkedAt }.map { .now - $0 <= time } ?? false
    }

    func learn(_ servers: [Server], homes: [Int: String]) {
        state.withLock { state in
            state.servers = servers
            state.homes = homes
            state.checkedAt = .now
            state.disownings = servers.allSatisfy(\.isConnectedServer) ? 0 : state.disownings + 1
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

    /// Deletes the servers' states if even the connected server does not answer.
    ///
    /// In that case the states of the other servers are unknown. Other metrics report the failure.
    func forget() {
        state.withLock { state in (state.servers, state.misses) = ([], [:]) }
    }

    /// Returns the routing of groups to servers. The routing logs each server that cannot be reached directly.
    func routes(_ logger: Logger) -> ShardRouting {
        ShardRouting(to: address(of:)) { server, error in
            logger.warning(
                "cannot reach a server directly, so its groups are committed through another server",
                metadata: ["server": "\(server)", "error": "\(error.message)"]
            )
        }
    }
}

extension ClusterServers {
    /// SQL for the identity of a server and its cluster.
    ///
    /// The identity contains the start time in microseconds, which differs in a copy of the server, such as a recovered
    /// backup.
    private static let identityText =
        "SELECT l.groupid || ' ' || extract(epoch FROM pg_postmaster_start_time()) AS identity FROM pg_dist_local_group l"

    static let identity = Statement("cluster_identity", identityText)

    private static let nodes = Statement(
        "cluster_nodes",
        """
        SELECT n.nodename, n.nodeport FROM pg_dist_node n
        WHERE n.isactive AND n.noderole = 'primary' ORDER BY n.groupid
        """
    )

    private static let homes = Statement(
        "cluster_homes",
        """
        SELECT s.shardid, n.nodename || ':' || n.nodeport AS server
        FROM pg_dist_shard s
        JOIN pg_dist_placement p ON p.shardid = s.shardid
        JOIN pg_dist_node n ON n.groupid = p.groupid AND n.isactive AND n.noderole = 'primary'
        WHERE s.logicalrelid = 'organizations'::regclass
        """
    )

    /// Queries one server. Each server has its own query, because one server that hangs can use up the whole timeout of
    /// a statement.
    ///
    /// The result also shows whether the catalog of the queried server lists the connected server as a member of the
    /// cluster. The catalog of a removed server is no longer updated.
    private static let answer = Statement(
        "cluster_answer",
        ["host", "port"],
        """
        SELECT a.success AS is_there, a.result
        FROM pg_dist_local_group l
        CROSS JOIN LATERAL master_run_on_worker(ARRAY[:host::text], ARRAY[:port::int4], ARRAY[format($command$
            SELECT current_setting('max_prepared_transactions')
                || CASE WHEN %1$s = 0 OR EXISTS (
                        SELECT FROM pg_dist_node n WHERE n.groupid = %1$s AND n.isactive AND n.hasmetadata)
                    THEN ' known ' ELSE ' unknown ' END
                || current_setting('max_worker_processes') || ' '
                || (SELECT g.setting FROM pg_settings g WHERE g.name = 'wal_retrieve_retry_interval') || ' '
                || x.identity
            FROM (\(identityText)) x
            $command$, l.groupid)], false) a
        """
    )

    /// The names of the statements that read the state of the servers.
    static let pollStatements: Set = [nodes.name, homes.name, answer.name]

    /// Queries each server through the connected server.
    package static func servers(on connection: Connection) async throws -> [Server] {
        let nodes = try await connection.run(Query(nodes)).read { row in
            (host: try row.read("nodename", as: String.self), port: try row.read("nodeport", as: Int32.self))
        }
        var servers: [Server] = []
        for (host, port) in nodes { servers.append(try await server(host, port, on: connection)) }
        return servers
    }

    private static func server(_ host: String, _ port: Int32, on connection: Connection) async throws -> Server {
        var answer: String?
        do throws(PostgresError) {
            var row = try await connection.run(Query(Self.answer, Parameters(host, port)))[0]
            let (isThere, text) = (try row.read("is_there", as: Bool.self), try row.read("result", as: String?.self))
            answer = isThere ? text : nil
        } catch {
            // the server hangs, or its host no longer exists
            guard error.kind == .timedOut, connection.isUsable else { throw error }
        }
        let words = answer?.split(separator: " ", maxSplits: 4) ?? []
        let isWhole = words.count == 5
        return Server(
            host: host,
            port: port,
            identity: isWhole ? String(words[4]) : nil,
            preparedTransactions: words.first.flatMap { Int($0) },
            workerProcesses: isWhole ? Int(words[2]) : nil,
            retryMilliseconds: isWhole ? Int(words[3]) : nil,
            isConnectedServer: !isWhole || words[1] == "known"
        )
    }

    /// Returns the server's name for each shard of the table `organizations`, by the shard's id.
    ///
    /// The statement reads the catalog, which each server has.
    package static func homes(on connection: Connection) async throws -> [Int: String] {
        let homes = try await connection.run(Query(homes)).read { row in
            (Int(try row.read("shardid", as: Int64.self)), try row.read("server", as: String.self))
        }
        return Dictionary(homes) { first, _ in first }
    }
}
