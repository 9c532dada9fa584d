package import Postgres

extension ClusterServers {
    /// Which server of which cluster this is. A copy of it, such as a backup that was recovered, was started at another
    /// time, in microseconds.
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

    /// Asks one server at a time, as one that hangs uses all the statement's time.
    ///
    /// It also asks whether the server counts the asking one among the cluster's: a server that was removed keeps its
    /// catalog, and is not updated any more.
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

    /// The statements of the census.
    static let looks: Set = [nodes.name, homes.name, answer.name]

    /// Asks each server by way of the one that is connected to.
    package static func servers(on connection: Connection) async throws -> [Server] {
        let nodes = try await connection.run(Query(nodes)).read { row in
            (host: try row.string("nodename"), port: try row.int32("nodeport"))
        }
        var servers: [Server] = []
        for (host, port) in nodes { servers.append(try await server(host, port, on: connection)) }
        return servers
    }

    private static func server(_ host: String, _ port: Int32, on connection: Connection) async throws -> Server {
        var answer: String?
        do throws(PostgresError) {
            var row = try await connection.run(Query(Self.answer, Parameters(host, port)))[0]
            let (isThere, text) = (try row.bool("is_there"), try row.optionalString("result"))
            answer = isThere ? text : nil
        } catch {
            // it hangs, or its host does not exist any more
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

    /// By shard of `organizations`, the name of the server that has it.
    ///
    /// The source is the catalog that each server has.
    package static func homes(on connection: Connection) async throws -> [Int: String] {
        let homes = try await connection.run(Query(homes)).read { row in
            (Int(try row.int64("shardid")), try row.string("server"))
        }
        return Dictionary(homes) { first, _ in first }
    }
}
