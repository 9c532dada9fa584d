import Foundation
import GatewaySupport
import JSONText
import NIOHTTP1
import OperatorsFeature
import Postgres
import SyncModel
import SyncStore
import Synchronization
import TestSupport
import Testing

/// Tests with a separate cluster. If `SLUICE_TEST_CITUS_URI` is set, the extension is installed. Shards are moved and
/// servers are killed while devices push through gateways on all servers.
@Suite(.enabled(if: TestCluster.citusURI != nil), .timeLimit(.minutes(15))) struct ClusterFaultTests {
    @Test func `no mutation is lost or applied twice while tenants move and servers fail`() async throws {
        let place = try await Place(addresses: ["127.0.57.1", "127.0.57.2", "127.0.57.3"])
        let pushers = try await place.pushers(16)
        let isOver = Flag()
        try await withThrowingTaskGroup(of: Void.self) { group in
            for (index, pusher) in pushers.enumerated() {
                group.addTask {
                    while !isOver.isSet {
                        try await pusher.pushPair(through: place.gateways, from: index)
                    }
                }
            }
            group.addTask {
                defer { isOver.set() }
                try await Self.trouble(place, pushers)
            }
            try await group.waitForAll()
        }
        try await Self.expectAllOnce(place, pushers)
        try await place.end()
    }

    /// The faults of the cluster during the pushes.
    private static func trouble(_ place: Place, _ pushers: [Pusher]) async throws {
        try await expectProgress(of: pushers)
        let tenant = pushers[0].worker.organization
        let home = try await place.home(of: tenant)
        let other = 3 - home
        // the tenant is moved to the other server and back, together with the other tenants of its shard
        try await place.move(tenant, from: home, to: other)
        #expect(try await place.home(of: tenant) == other)
        try await expectProgress(of: pushers)
        try await place.move(tenant, from: other, to: home)
        try await expectProgress(of: pushers)
        // the tenant gets a separate shard, without the other tenants
        try await place.coordinator.execute(
            script: """
                SELECT isolate_tenant_to_new_shard('organizations', '\(tenant.lowercased)', 'CASCADE',
                    shard_transfer_mode := 'block_writes')
                """,
            timeout: Waiting.limit
        )
        try await expectProgress(of: pushers)
        try await place.move(tenant, from: home, to: other)
        try await expectProgress(of: pushers)

        // a server is killed, and the organizations on the other servers continue
        let homes = try await pushers.asyncMap { try await place.home(of: $0.worker.organization) }
        let theirs = zip(pushers, homes).filter { $1 == 1 }.map(\.0)
        let others = zip(pushers, homes).filter { $1 == 2 }.map(\.0)
        #expect(!theirs.isEmpty && !others.isEmpty, "\(homes)")
        try await place.cluster.kill(1)
        let before = theirs.map(\.refusals)
        try await expectProgress(of: others)
        try await waitUntil("each of them has been rejected") {
            zip(theirs, before).allSatisfy { $0.refusals > $1 }
        }
        #expect(try await send(.GET, place.gateways[0].operations + "/readyz").status == 200)
        try await place.cluster.start()
        try await expectProgress(of: pushers)

        // another server hangs without an error; the gateways detect this, and serve the organizations on the other
        // servers
        try await hang(2, place, theirs: others, others: theirs)
        try await expectProgress(of: pushers)

        // a server is killed during a move to it, and the move is undone
        let moving = pushers[1].worker.organization
        let (source, target) = (try await place.home(of: moving), 3 - (try await place.home(of: moving)))
        let move = Task { try await place.move(moving, from: source, to: target) }
        try await place.awaitCopy(to: target)
        try await place.cluster.kill(target)
        await #expect(throws: PostgresError.self) { try await move.value }
        try await place.cluster.start()
        try await expectProgress(of: pushers)
        #expect(try await place.home(of: moving) == source)
        try await place.coordinator.execute(script: "CALL citus_cleanup_orphaned_resources()", timeout: Waiting.limit)
        try await place.move(moving, from: source, to: target)
        try await expectProgress(of: pushers)
    }

    private static func hang(_ node: Int, _ place: Place, theirs: [Pusher], others: [Pusher]) async throws {
        let name = "\(place.cluster.nodes[node].host):\(place.cluster.nodes[node].port)"
        try await place.cluster.hang(node, true)
        for gateway in place.gateways.prefix(2) {
            try await gateway.metric("sluice_cluster_server_up{server=\"\(name)\"}", reaches: 0)
        }
        let before = theirs.map(\.refusals)
        for _ in 0..<3 {
            try await expectProgress(of: others)
            #expect(try await send(.GET, place.gateways[0].operations + "/readyz").status == 200)
        }
        try await waitUntil("each of them has been rejected") {
            zip(theirs, before).allSatisfy { $0.refusals > $1 }
        }
        try await place.cluster.hang(node, false)
        for gateway in place.gateways.prefix(2) {
            try await gateway.metric("sluice_cluster_server_up{server=\"\(name)\"}", reaches: 1)
        }
    }

    /// Waits until each device had further pushes accepted.
    private static func expectProgress(of pushers: [Pusher]) async throws {
        let before = pushers.map(\.accepted)
        try await waitUntil("each device had more accepted") {
            zip(pushers, before).allSatisfy { $0.accepted >= $1 + 4 }
        }
    }

    private static func expectAllOnce(_ place: Place, _ pushers: [Pusher]) async throws {
        for pusher in pushers {
            let worker = pusher.worker
            var changes: [JSONValue] = []
            var page = try await worker.get("/v1/changes?limit=500")
            while true {
                changes += page.changes
                guard page.isUpToDate == false, let next = page.next else { break }
                page = try await worker.get("/v1/changes?limit=500&since=\(next)")
            }
            // each created and edited entity exists once, in its second version
            #expect(changes.count == pusher.accepted / 2)
            #expect(changes.allSatisfy { $0["version"]?.int64 == 2 })
            #expect(Set(changes.map { $0["id"]?.text }).count == changes.count)
            let counts = try await place.coordinator.run(
                Query(
                    Statement(
                        "",
                        """
                        SELECT count(*), count(DISTINCT position), count(DISTINCT id), count(*) FILTER (WHERE status = 'succeeded')
                        FROM mutations WHERE organization_id = '\(worker.organization.lowercased)'
                        """
                    )
                )
            )
            for column in 0..<4 { #expect(try counts.read(0, column, as: Int64.self) == Int64(pusher.accepted)) }
        }
        try await place.awaitNoPreparedTransactions()
    }

    /// The removed server keeps its catalog, which is no longer updated, so rows written through it could be lost.
    @Test func `a gateway whose server was removed from the cluster rejects all requests`() async throws {
        let place = try await Place(addresses: ["127.0.57.7", "127.0.57.8", "127.0.57.9"])
        let worker = try await SingleWorker(place.gateways[2])
        #expect(try await worker.push([worker.draft(1)]).statuses == ["succeeded"])
        // a transaction that began before the server's shards were moved must not commit, because its writes could be
        // lost
        var configuration = ConnectionConfiguration(uri: place.database.uri, statementTimeout: Waiting.limit)
        configuration.dialect = Cluster().dialect
        let amid = try await Connection.open(configuration)
        _ = try await amid.run([.begin, Query(Statement("", "SELECT 1"))])
        let out = place.cluster.nodes[2]
        let steps = [
            "SELECT citus_drain_node('\(out.host)', \(out.port))", "CALL citus_cleanup_orphaned_resources()",
            "SELECT citus_remove_node('\(out.host)', \(out.port))",
        ]
        for step in steps { try await place.coordinator.execute(script: step, timeout: Waiting.limit) }
        await #expect {
            try await amid.run(.commit)
        } throws: {
            ($0 as? PostgresError)?.sqlState == "40001"
        }
        _ = try await amid.run(.rollback)
        _ = try await amid.run([.begin, Query(Statement("", "SELECT 1")), .commit])
        amid.close()

        let gateway = place.gateways[2]
        try await waitUntil("the failure is reported") {
            let answer = try await send(.GET, gateway.operations + "/readyz")
            return answer.status == 503 && answer.text.contains("removed from its cluster")
        }
        #expect(try await worker.push([worker.draft(2)]).status == 503)
        #expect(try await worker.get("/v1/changes").status == 503)
        let other = SingleWorker(place.gateways[0], as: worker)
        #expect(try await other.push([other.draft(1)]).statuses == ["succeeded"])
        let doctor = try await Program.run(["doctor"], environment: gateway.environment)
        #expect(
            doctor.output.contains("failed   cluster servers: this one was removed from the cluster"),
            "\(doctor.output)"
        )
        #expect(gateway.lines.contains { $0["level"]?.string == "critical" })
        for gateway in place.gateways.prefix(2) {
            #expect(try await send(.GET, gateway.operations + "/readyz").status == 200)
        }
        try await place.end()
    }

    /// A notification stays on the server where it is sent, so gateways on several servers notify each other through
    /// the same server.
    @Test func `gateways on different servers notify each other of pushes immediately`() async throws {
        let place = try await Place(addresses: ["127.0.57.4", "127.0.57.5", "127.0.57.6"])
        for gateway in place.gateways {
            try await gateway.metric("sluice_replica_peers", reaches: 2)
            try await gateway.metric("sluice_replica_hints_arrive", reaches: 1)
        }
        for (index, gateway) in place.gateways.enumerated() {
            let listening = place.gateways[(index + 1) % 3]
            let worker = try await SingleWorker(gateway)
            let events = try await EventListener(listening.address, token: worker.token)
            #expect(try await events.next()?.summary == "opening")
            async let pulled = SingleWorker(listening, as: worker).get("/v1/changes?wait=60")
            try await listening.metric("sluice_http_requests_in_flight", reaches: 1)
            let draft = worker.draft(1)
            #expect(try await worker.push([draft]).statuses == ["succeeded"])
            #expect(try await events.next(3).map(\.event) == ["mutation", "id_mapping", "changes"])
            #expect(try await pulled.changes.count == 1)
            events.stop()
        }
        // tables are created on the coordinator only
        let empty = try await TestDatabase.make(template: "empty", on: place.cluster)
        for (arguments, uri) in zip([["migrate"], ["migrate", "--citus"]], empty.uris(user: "postgres").suffix(2)) {
            let run = try await Program.run(arguments, environment: ["SLUICE_DATABASE_URL": uri])
            #expect(run.status == 1, "\(run.complaint)")
            #expect(run.complaint.contains("this server is a worker of a Citus cluster"), "\(run.complaint)")
        }
        let coordinator = ["SLUICE_DATABASE_URL": empty.uris(user: "postgres")[0]]
        let alone = try await Program.run(["migrate"], environment: coordinator)
        #expect(alone.status == 0, "\(alone.complaint)")
        #expect(alone.complaint.contains("to distribute them while they are empty"), "\(alone.complaint)")
        let finding = try await Program.run(["doctor"], environment: coordinator)
        #expect(finding.output.contains("Its 2 workers store no tables."), "\(finding.output)")
        let spread = try await Program.run(["migrate", "--citus"], environment: coordinator)
        #expect(spread.output.contains("distributed over 2 servers, in 4"), "\(spread.output)\(spread.complaint)")
        // operators can use any gateway, independent of the organization's server
        for gateway in place.gateways {
            for _ in 0..<6 { try await gateway.makeOrganization(UUID()) }
        }
        let findings = [
            "yes": "ok       cluster commits: directly to 2 servers",
            "no": "warning  cluster commits: sent through another server, although all servers can be reached directly",
        ]
        for (isDirect, finding) in findings {
            let doctor = try await Program.run(
                ["doctor"],
                environment: place.gateways[1].environment.merging(["SLUICE_DIRECT_COMMITS": isDirect]) { $1 }
            )
            for finding in [finding, "ok       cluster entrance: gateways are connected to 3 servers"] {
                #expect(doctor.output.contains(finding), "\(doctor.output)")
            }
        }
        try await place.end()
    }

    /// A cluster with a gateway on each server.
    private struct Place {
        let cluster: TestCluster
        let database: TestDatabase
        let gateways: [GatewayProcess]
        let coordinator: Connection

        init(addresses: [String]) async throws {
            cluster = try await TestCluster.spread(over: addresses)
            database = try await LiveGateway.migratedDatabase(on: cluster)
            coordinator = try await database.connect()
            let uris = database.uris(user: "postgres")
            // two gateways connect directly to the servers that have the rows, and one gateway uses the coordinator
            gateways = try await zip(uris, ["no", "yes", "yes"]).asyncMap { uri, isDirect in
                let settings = ["SLUICE_HINTS_DATABASE_URL": uris[0], "SLUICE_DIRECT_COMMITS": isDirect]
                return try await GatewayProcess.start(database: uri, settings: settings)
            }
        }

        func pushers(_ count: Int) async throws -> [Pusher] {
            try await (0..<count).asyncMap { _ in Pusher(worker: try await SingleWorker(gateways[0])) }
        }

        /// The index of the server that has an organization's rows.
        func home(of organization: UUID) async throws -> Int {
            let statement = Statement(
                "test_home",
                """
                SELECT p.nodename FROM pg_dist_shard_placement p
                WHERE p.shardid = get_shard_id_for_distribution_column('organizations', $1)
                """
            )
            let parameters = Parameters([organization.lowercased])
            let host: String = try await coordinator.run(Query(statement, parameters)).read(0, 0)
            return try #require(cluster.nodes.firstIndex { $0.host == host })
        }

        func move(_ organization: UUID, from source: Int, to target: Int) async throws {
            let connection = try await database.connect()
            defer { connection.close() }
            let (from, to) = (cluster.nodes[source], cluster.nodes[target])
            try await waitUntil("a shard moved") {
                do {
                    try await connection.execute(
                        script: """
                            SELECT citus_move_shard_placement(
                                get_shard_id_for_distribution_column('organizations', '\(organization.lowercased)'),
                                '\(from.host)', \(from.port), '\(to.host)', \(to.port),
                                shard_transfer_mode := 'force_logical')
                            """,
                        timeout: Waiting.limit
                    )
                    return true
                } catch let error as PostgresError where error.message.contains("orphaned shard") {
                    // a session still locks the copy that remained after an earlier move
                    return false
                }
            }
        }

        /// Waits until a move has started to copy to a server.
        func awaitCopy(to node: Int) async throws {
            let uri = database.uris(user: "postgres")[node]
            let connection = try await Connection.open(ConnectionConfiguration(uri: uri))
            let statement = Statement(
                "test_copies",
                "SELECT count(*) FROM pg_subscription WHERE subname LIKE 'citus_shard%'"
            )
            try await waitUntil("shards are copied") {
                try await connection.run(Query(statement)).read(0, 0, as: Int64.self) > 0
            }
            await connection.closeAndWait()
        }

        /// Waits until the cluster has resolved transactions that a crash interrupted between the two phases of a
        /// commit.
        func awaitNoPreparedTransactions() async throws {
            let statement = Statement("test_prepared", "SELECT count(*) FROM pg_prepared_xacts")
            for uri in database.uris(user: "postgres") {
                let connection = try await Connection.open(ConnectionConfiguration(uri: uri))
                try await waitUntil("no prepared transaction is left") {
                    try await connection.run(Query(statement)).read(0, 0, as: Int64.self) == 0
                }
                await connection.closeAndWait()
            }
        }

        func end() async throws {
            for gateway in gateways { #expect(try await gateway.terminate() == 0) }
            coordinator.close()
            await cluster.close()
        }
    }

    private final class Flag: Sendable {
        private let value = Atomic(false)
        var isSet: Bool { value.load(ordering: .relaxed) }
        func set() { value.store(true, ordering: .relaxed) }
    }

    /// A device that pushes a create and an edit together, and repeats both through another gateway until they are
    /// accepted.
    private final class Pusher: Sendable {
        let worker: SingleWorker
        private let counts = Mutex((accepted: 0, refusals: 0))

        init(worker: SingleWorker) { self.worker = worker }

        var accepted: Int { counts.withLock(\.accepted) }
        var refusals: Int { counts.withLock(\.refusals) }

        func pushPair(through gateways: [GatewayProcess], from first: Int) async throws {
            let number = Int64(accepted) + 1
            let create = worker.draft(number)
            let edit = worker.draft(
                number + 1,
                ["operation": #""update""#, "local_id": create["local_id"] ?? "", "payload": #"{"title":"y"}"#]
            )
            let body = worker.envelope([create, edit])
            for attempt in 0... {
                let gateway = gateways[(first + attempt) % gateways.count]
                let reply = try await GatewayProcess.post(
                    gateway.address + "/v1/mutations",
                    token: worker.token,
                    body: body
                )
                if reply.status == 200 {
                    #expect(reply.statuses == ["succeeded", "succeeded"], "\(reply.text)")
                    counts.withLock { $0.accepted += 2 }
                    return
                }
                // a statement that waits for a hanging server reaches its time-out
                let code: ProblemCode = reply.text.contains("problem:overloaded") ? .overloaded : .storeUnavailable
                expectProblem(reply, code, errors: [])
                if reply.status == 500 { Issue.record("\(gateway.log.suffix(3_000))") }
                counts.withLock { $0.refusals += 1 }
                // like a client that pauses before it retries
                try await Task.sleep(for: .milliseconds(50))
            }
        }
    }
}
