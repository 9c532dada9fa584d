import GroupCommit
import Logging
import Postgres
import Synchronization

/// Which server of a cluster has a shard, as of some seconds ago. A group that is committed over a connection to that
/// server is planned and done in one place: by way of another, its values are turned to text and back.
///
/// A shard that has moved since costs that way, and no more.
final class ShardHomes: Sendable {
    private struct State {
        var homes: [Int: ServerAddress] = [:]
        /// When reading began last.
        var askedAt: ContinuousClock.Instant?
        var isAsking = false
    }

    /// How long an answer is good.
    private static let freshness: Duration = .seconds(5)

    private let pool: Pool
    private let cluster: Cluster
    private let state = Mutex(State())

    init(pool: Pool, cluster: Cluster) {
        self.pool = pool
        self.cluster = cluster
    }

    /// The way of groups, with a log line for each server that it does not lead to.
    func routes(_ logger: Logger) -> Routes {
        Routes(to: server) { server, error in
            logger.warning(
                "commits by way of another server",
                metadata: ["server": "\(server)", "error": "\(error.message)"]
            )
        }
    }

    /// The server of a shard of `organizations`; nil while it is not known, which waits for nothing.
    func server(of shard: Int) -> ServerAddress? {
        guard cluster.isThere else { return nil }
        let (home, mustAsk) = state.withLock { state in
            let isFresh = state.askedAt.map { .now - $0 < Self.freshness } ?? false
            defer { if !isFresh { (state.askedAt, state.isAsking) = (.now, true) } }
            return (state.homes[shard], !isFresh && !state.isAsking)
        }
        if mustAsk { Task { await ask() } }
        return home
    }

    /// What cannot be read is read again in some seconds; meanwhile what was known holds.
    private func ask() async {
        let answer = try? Self.homes(in: await pool.run([Query(Self.statement)])[0])
        state.withLock { state in
            state.isAsking = false
            if let answer { state.homes = answer }
        }
    }

    private static func homes(in rows: Rows) throws -> [Int: ServerAddress] {
        let homes = try rows.read { row in
            (
                Int(try row.int64("shardid")),
                ServerAddress(
                    host: try row.string("nodename"),
                    port: try row.int32("nodeport"),
                    identity: try row.string("identity")
                )
            )
        }
        return Dictionary(homes) { first, _ in first }
    }

    /// A server's number in its cluster, and when that was made, which no other was at the same microsecond.
    private static func identity(of group: String) -> String {
        """
        \(group) || ' ' || (SELECT min(m.applied_at AT TIME ZONE 'UTC') FROM schema_migrations m)
        """
    }

    static let identity = Statement(
        "cluster_identity",
        "SELECT \(identity(of: "l.groupid")) FROM pg_dist_local_group l"
    )

    /// From the catalog that each server has.
    private static let statement = Statement(
        "cluster_homes",
        """
        SELECT s.shardid, n.nodename, n.nodeport, \(identity(of: "n.groupid")) AS identity
        FROM pg_dist_shard s
        JOIN pg_dist_placement p ON p.shardid = s.shardid
        JOIN pg_dist_node n ON n.groupid = p.groupid AND n.noderole = 'primary' AND n.isactive
        WHERE s.logicalrelid = 'organizations'::regclass
        """
    )

    /// The servers that have shards.
    static func servers(on connection: Connection) async throws -> Set<ServerAddress> {
        Set(try homes(in: await connection.run(Query(statement))).values)
    }
}
