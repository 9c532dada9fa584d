import Foundation
import GatewaySupport
import JSONText
import NIOHTTP1
import OperatorsFeature
import Postgres
import SyncModel
import SyncStore
import TestSupport
import Testing

/// A database that can be read but not written: a standby, a read-only server, a full disk, no free connection.
@Suite(.onOneServer("stops and promotes servers"), .timeLimit(.minutes(15))) struct FailoverTests {
    /// A primary with a migrated database, and its standby.
    private struct Pair {
        let primary: TestCluster
        let standby: TestCluster
        let database: TestDatabase
        let name: String

        init() async throws {
            primary = try await TestCluster.dedicated()
            database = try await LiveGateway.migratedDatabase(on: primary)
            let connection = try await database.connect()
            name = try await connection.run(Query(Statement("test_name", "SELECT current_database()::text")))
                .read(0, 0)
            await connection.closeAndWait()
            standby = try await TestCluster.standby(of: primary)
        }

        /// Opens a connection to one of the servers, even if it is read-only.
        func connect(to cluster: TestCluster) async throws -> Connection {
            var configuration = ConnectionConfiguration(
                uri: cluster.uri(database: name),
                connectTimeout: Waiting.limit,
                statementTimeout: .zero
            )
            configuration.requiresWrites = false
            return try await Connection.open(configuration)
        }

        /// Waits until the standby has replicated everything.
        func catchUp() async throws {
            let (first, second) = (try await connect(to: primary), try await connect(to: standby))
            let end = try await first.run(Query(Statement("test_end", "SELECT pg_current_wal_lsn()::text")))
                .read(0, 0, as: String.self)
            let replayed = Statement("test_replayed", "SELECT pg_last_wal_replay_lsn() >= $1::text::pg_lsn")
            try await waitUntil("the standby has caught up") {
                try await second.run(Query(replayed, Parameters(end))).read(0, 0, as: Bool.self)
            }
            await first.closeAndWait()
            await second.closeAndWait()
        }

        func promote() async throws {
            let connection = try await connect(to: standby)
            _ = try await connection.run(Query(Statement("test_promote", "SELECT pg_promote()")))
            await connection.closeAndWait()
        }

        func close() async {
            await standby.close()
            await primary.close()
        }
    }

    private static func expectUnavailable(_ reply: Reply, sourceLocation: SourceLocation = #_sourceLocation) {
        expectProblem(reply, .storeUnavailable, errors: [], sourceLocation: sourceLocation)
        #expect(reply.header("retry-after") == ["2"], sourceLocation: sourceLocation)
    }

    private static func waitUntilUnready(_ operations: String, _ reason: String) async throws {
        var last = ""
        try await waitUntil("/readyz fails for \(reason): \(last)") {
            let reply = try await send(.GET, operations + "/readyz")
            last = reply.text
            return reply.status == 503 && reply.text.contains(reason)
        }
    }

    @Test func `a gateway with both servers in its URI follows a failover`() async throws {
        let pair = try await Pair()
        let (first, second) = (pair.primary.socketDirectory, pair.standby.socketDirectory)
        // the standby is first in the list, and is skipped
        let gateway = try await GatewayProcess.start(
            database: "postgresql:///\(pair.name)?host=\(second),\(first)&user=postgres",
            settings: ["SLUICE_STATEMENT_SECONDS": "2.5"]
        )
        let worker = try await SingleWorker(gateway)
        #expect(try await worker.push([worker.draft(1)]).statuses == ["succeeded"])
        try await pair.catchUp()
        try await pair.primary.stop(immediate: true)
        let draft = worker.draft(2)
        Self.expectUnavailable(try await worker.push([draft]))
        try await Self.waitUntilUnready(gateway.operations, "database")
        try await pair.promote()
        try await gateway.waitUntilReady()
        #expect(try await worker.push([draft]).statuses == ["succeeded"])
        #expect(try await worker.get("/v1/changes").changes.count == 2)
        #expect(try await gateway.terminate() == 0)
        await pair.close()
    }

    @Test func `a gateway on a standby answers 503 until it is promoted`() async throws {
        let pair = try await Pair()
        let organization = UUID()
        let setup = try await GatewayProcess.start(database: pair.database.uri)
        try await setup.makeOrganization(organization)
        #expect(try await setup.terminate() == 0)
        try await pair.catchUp()
        // the operator's own target_session_attrs takes precedence
        let gateway = try GatewayProcess(
            database: "postgresql:///\(pair.name)?host=\(pair.standby.socketDirectory)&user=postgres"
                + "&target_session_attrs=any"
        )
        try await waitUntil("it listens") {
            LoopbackPort.accepts(gateway.port)
        }
        let worker = try await SingleWorker(gateway, organization: organization)
        let draft = worker.draft(1)
        Self.expectUnavailable(try await worker.push([draft]))
        try await Self.waitUntilUnready(gateway.operations, "read-only")
        Self.expectUnavailable(try await worker.push([draft]))
        try await pair.promote()
        try await gateway.waitUntilReady()
        #expect(try await worker.push([draft]).statuses == ["succeeded"])
        #expect(try await gateway.terminate() == 0)
        await pair.close()
    }

    @Test func `a server that becomes read-only is an unavailable store and recovers`() async throws {
        let cluster = try await TestCluster.dedicated()
        let fixture = try await TwoTenantFixture(
            on: try await LiveGateway.migratedDatabase(on: cluster),
            isPatient: false
        )
        #expect(try await fixture.ada.push([fixture.ada.create()]).status == 200)
        let superuser = try await fixture.gateway.database.connect()
        for text in ["ALTER SYSTEM SET default_transaction_read_only = on", "SELECT pg_reload_conf()"] {
            try await superuser.execute(script: text)
        }
        // the postmaster distributes the new setting with a delay
        var reply = try await fixture.ada.push([fixture.ada.create()])
        try await waitUntil("writes are refused") {
            if reply.status == 200 { reply = try await fixture.ada.push([fixture.ada.create()]) }
            return reply.status != 200
        }
        Self.expectUnavailable(reply)
        let draft = fixture.ada.create()
        Self.expectUnavailable(try await fixture.ada.push([draft]))
        Self.expectUnavailable(try await fixture.operate(.PUT, fixture.admin, #"{"name":"x"}"#))
        try await Self.waitUntilUnready(fixture.gateway.operations, "read-only")
        for text in ["ALTER SYSTEM RESET default_transaction_read_only", "SELECT pg_reload_conf()"] {
            try await superuser.execute(script: text)
        }
        try await waitUntil("it is ready again") {
            try await send(.GET, fixture.gateway.operations + "/readyz").status == 200
        }
        // a session that has not reloaded its settings yet rejects another write
        try await waitUntil("the push is taken") { try await fixture.ada.push([draft]).statuses == ["succeeded"] }
        superuser.close()
        await cluster.close()
    }

    @Test func `a full disk makes the gateway unready until a push is committed`() async throws {
        let fixture = try await TwoTenantFixture()
        #expect(try await fixture.ada.push([fixture.ada.create()]).status == 200)
        let superuser = try await fixture.gateway.database.connect()
        try await superuser.execute(
            script: """
                CREATE FUNCTION test_disk_full() RETURNS trigger LANGUAGE plpgsql AS $$
                BEGIN RAISE EXCEPTION 'could not extend file: No space left on device' USING ERRCODE = '53100'; END $$;
                CREATE TRIGGER test_disk_full BEFORE INSERT ON mutations
                    FOR EACH ROW EXECUTE FUNCTION test_disk_full()
                """
        )
        let draft = fixture.ada.create()
        Self.expectUnavailable(try await fixture.ada.push([draft]))
        try await Self.waitUntilUnready(fixture.gateway.operations, "the database does not accept writes")
        // a known push is still answered, which does not prove that writing works
        Self.expectUnavailable(try await fixture.ada.push([draft]))
        #expect(try await send(.GET, fixture.gateway.operations + "/readyz").status == 503)
        try await superuser.acceptRows(in: "test_disk_full")
        #expect(try await fixture.ada.push([draft]).statuses == ["succeeded"])
        try await waitUntil("it is ready again") {
            try await send(.GET, fixture.gateway.operations + "/readyz").status == 200
        }
        superuser.close()
    }

    @Test func `a gateway is not ready before its first write succeeds`() async throws {
        let database = try await LiveGateway.migratedDatabase()
        let superuser = try await database.connect()
        try await superuser.execute(script: "BEGIN; LOCK TABLE gateways IN EXCLUSIVE MODE")
        let gateway = try GatewayProcess(database: database.uri)
        try await Self.waitUntilUnready(gateway.operations, "no write to the database has succeeded since the start")
        try await superuser.execute(script: "COMMIT")
        try await gateway.waitUntilReady()
        #expect(try await gateway.terminate() == 0)
        await superuser.closeAndWait()
    }

    @Test func `committers without a connection make the gateway unready`() async throws {
        let cluster = try await TestCluster.dedicated()
        let database = try await LiveGateway.migratedDatabase(on: cluster)
        let superuser = try await database.connect()
        try await superuser.execute(
            script: """
                CREATE ROLE crowded LOGIN CONNECTION LIMIT 3;
                GRANT ALL ON ALL TABLES IN SCHEMA public TO crowded
                """
        )
        let gateway = try GatewayProcess(database: database.uri(user: "crowded"))
        try await waitUntil("it listens") { LoopbackPort.accepts(gateway.port) }
        try await Self.waitUntilUnready(gateway.operations, "the database allows the gateway too few connections")
        try await superuser.execute(script: "ALTER ROLE crowded CONNECTION LIMIT -1")
        try await gateway.waitUntilReady()
        let worker = try await SingleWorker(gateway)
        #expect(try await worker.push([worker.draft(1)]).statuses == ["succeeded"])
        #expect(try await gateway.terminate() == 0)
        superuser.close()
        await cluster.close()
    }

    @Test func `a tenant with rejected pushes leaves the gateway ready`() async throws {
        let fixture = try await TwoTenantFixture()
        for _ in 0..<3 {
            let reply = try await fixture.ada.push([fixture.ada.create("no type")])
            #expect(reply.status < 500)
        }
        #expect(try await send(.GET, fixture.gateway.operations + "/readyz").status == 200)
    }
}

/// The limit of open files.
@Suite(.timeLimit(.minutes(10))) struct FileLimitTests {
    private static func environment(_ database: String) throws -> [String: String] {
        GatewayProcess.environment(
            database: database,
            ports: (try LoopbackPort.reserve(), try LoopbackPort.reserve())
        ).merging(["SLUICE_STATEMENT_SECONDS": "5"]) { $1 }
    }

    @Test(arguments: [8, 10, 16, 24, 32, 64])
    func `serve exits if too few files may be opened`(limit: Int) async throws {
        let environment = try Self.environment("postgresql:///x?host=/nowhere")
        let program = try Program(shell: "ulimit -n \(limit); exec '\(Program.path)' serve", environment: environment)
        let result = try await program.result()
        #expect(result.status == 78, "\(result)")
        #expect(result.complaint.contains("may open \(limit) files, but needs at least "), "\(result.complaint)")
        #expect(result.complaint.split(separator: "\n").count == 1)
    }

    @Test func `serve runs with exactly as many files as it requires`() async throws {
        let database = try await LiveGateway.migratedDatabase()
        let environment = try Self.environment(database.uri)
        let refused = try await Program(shell: "ulimit -n 64; exec '\(Program.path)' serve", environment: environment)
            .result()
        let needed = try #require(refused.complaint.firstMatch(of: /at least (\d+);/)?.output.1)
        let program = try Program(shell: "ulimit -n \(needed); exec '\(Program.path)' serve", environment: environment)
        let operations = try #require(environment["SLUICE_OPERATIONS_ADDRESS"])
        try await waitUntil("it is ready: \(program.output)\(program.complaint)") {
            #expect(program.status == nil)
            return await (try? send(.GET, "http://\(operations)/readyz"))?.status == 200
        }
        program.send(SIGTERM)
        #expect(try await program.end() == 0)
    }

    /// A process without a free file is ended by libdispatch.
    @Test func `more connections than files do not end the gateway`() async throws {
        let database = try await LiveGateway.migratedDatabase()
        let environment = try Self.environment(database.uri)
        let program = try Program(shell: "ulimit -n 256; exec '\(Program.path)' serve", environment: environment)
        let address = try #require(environment["SLUICE_PUBLIC_ADDRESS"])
        let operations = try #require(environment["SLUICE_OPERATIONS_ADDRESS"])
        func isReady() async -> Bool { await (try? send(.GET, "http://\(operations)/readyz"))?.status == 200 }
        try await waitUntil("it is ready: \(program.output)\(program.complaint)") {
            #expect(program.status == nil)
            return await isReady()
        }
        let port = try #require(address.split(separator: ":").last.flatMap { Int($0) })
        // fewer than the gateway accepts and the system's queue holds
        var clients = try (0..<200).map { _ in try RawConnection(port: port) }
        for _ in 0..<20 { #expect(await isReady()) }
        #expect(clients.count == 200)
        clients = []
        try await waitUntil("it answers clients again") {
            #expect(program.status == nil)
            return await (try? send(.GET, "http://\(address)/openapi.json"))?.status == 200
        }
        program.send(SIGTERM)
        #expect(try await program.end() == 0)
    }

    @Test func `serve raises a low soft limit`() async throws {
        let environment = try Self.environment("postgresql:///x?host=/nowhere")
        let program = try Program(shell: "ulimit -S -n 24; exec '\(Program.path)' serve", environment: environment)
        let operations = try #require(environment["SLUICE_OPERATIONS_ADDRESS"])
        try await waitUntil("it answers") {
            #expect(program.status == nil)
            return await (try? send(.GET, "http://\(operations)/livez"))?.status == 200
        }
        program.send(SIGTERM)
        #expect(try await program.end() == 0)
    }
}
