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
        let answer = try? await pool.run([Query(Self.statement)])[0].read { row in
            (
                shard: Int(try row.int64("shardid")),
                server: ServerAddress(host: try row.string("nodename"), port: try row.int32("nodeport"))
            )
        }
        state.withLock { state in
            state.isAsking = false
            if let answer { state.homes = Dictionary(answer.map { ($0.shard, $0.server) }) { first, _ in first } }
        }
    }

    /// From the catalog that each server has.
    static let statement = Statement(
        "cluster_homes",
        """
        SELECT s.shardid, n.nodename, n.nodeport
        FROM pg_dist_shard s
        JOIN pg_dist_placement p ON p.shardid = s.shardid
        JOIN pg_dist_node n ON n.groupid = p.groupid AND n.noderole = 'primary' AND n.isactive
        WHERE s.logicalrelid = 'organizations'::regclass
        """
    )
}
