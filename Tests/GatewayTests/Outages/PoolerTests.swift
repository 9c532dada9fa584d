import Foundation
import GatewaySupport
import JSONText
import Postgres
import SyncModel
import TestSupport
import Testing

/// A real PgBouncer between the gateway and the database is accepted in session mode, and rejected in other modes.
@Suite(
    .timeLimit(.minutes(10)),
    .onOneServer("has a pooler before the tests' own server"),
    .enabled(if: BouncerServer.isInstalled, "PgBouncer is not installed")
)
struct PoolerTests {
    private static let remedy = "to PostgreSQL itself, or to a pool in session mode"

    @Test(arguments: [BouncerServer.Mode.transaction, .statement])
    func `every command rejects a pooler that shares sessions`(mode: BouncerServer.Mode) async throws {
        let database = try await LiveGateway.migratedDatabase()
        let bouncer = try await BouncerServer.start(mode, before: database)
        let environment = ["SLUICE_DATABASE_URL": bouncer.uri(of: database)]
        for command in [
            ["migrate"], ["migrate", "--dry-run"], ["organizations", "list"], ["retention"], ["after-restore"],
        ] {
            let result = try await Program.run(command, environment: environment)
            #expect(result.status == 78, "\(command): \(result.output)")
            #expect(result.output == "")
            #expect(result.complaint.contains("transaction or statement mode"), "\(result.complaint)")
            #expect(result.complaint.contains(Self.remedy), "\(result.complaint)")
        }
        let gateway = try GatewayProcess(database: bouncer.uri(of: database))
        #expect(try await gateway.end() == 78)
        let last = try #require(gateway.lines.last)
        #expect(last["level"]?.string == "critical")
        #expect(last["message"]?.string?.contains(Self.remedy) == true)

        let doctor = try await Program.run(["doctor"], environment: environment)
        #expect(doctor.status == 1)
        #expect(doctor.output.contains("failed   pooler: a pooler that shares sessions between clients"))
        #expect(doctor.output.contains("→ Set SLUICE_DATABASE_URL " + Self.remedy))
        #expect(!doctor.output.contains("schema:"), "the pooler gets no further queries")
    }

    @Test func `detects a pooler in transaction mode while other clients use it`() async throws {
        let database = try await TestDatabase.make()
        let bouncer = try await BouncerServer.start(.transaction, before: database)
        let uri = bouncer.uri(of: database)
        // several sessions that are acquired and released continuously
        let others = (0..<6).map { _ in
            Task {
                var configuration = ConnectionConfiguration(uri: uri)
                configuration.ownsSession = false
                let connection = try await Connection.open(configuration)
                while !Task.isCancelled { try await connection.execute(script: "SELECT pg_sleep(0.002)") }
                await connection.closeAndWait()
            }
        }
        for _ in 0..<20 { #expect(try await Pooling.check(at: uri) == .shared) }
        for other in others { other.cancel() }
        for other in others { _ = await other.result }
        #expect(try await Pooling.check(at: database.uri) == .none)
    }

    @Test func `works through a pooler in session mode`() async throws {
        let database = try await TestDatabase.make()
        let bouncer = try await BouncerServer.start(.session, before: database)
        let uri = bouncer.uri(of: database)
        for _ in 0..<5 { #expect(try await Pooling.check(at: uri) == .session) }
        let migration = try await Program.run(
            ["migrate", "--partitions", "2"],
            environment: ["SLUICE_DATABASE_URL": uri]
        )
        #expect(migration.status == 0, "\(migration.complaint)")
        let doctor = try await Program.run(["doctor"], environment: ["SLUICE_DATABASE_URL": uri])
        #expect(doctor.output.contains("warning  pooler: a pooler in session mode"), "\(doctor.output)")

        let gateway = try await GatewayProcess.start(database: uri, settings: ["SLUICE_LOG_LEVEL": "notice"])
        #expect(gateway.messages.contains("Database is behind a pooler"))
        let worker = try await SingleWorker(gateway)
        let nginx = try await NginxServer.start(
            configuration: #"location / { default_type application/json; return 201 '{"id":"n-1"}'; }"#
        )
        try await gateway.operate("/upstream", of: worker.organization, #"{"base_url":"\#(nginx.baseURL)"}"#)
        try await gateway.operate("/entity-types/note", of: worker.organization, #"{"upstream":false}"#)

        let listener = try await EventListener(gateway.address, token: worker.token)
        let drafts = [worker.draft(1, ["endpoint": #""/tasks""#]), worker.draft(2, ["entity_type": #""note""#])]
        let reply = try await worker.push(drafts, prefer: "wait=60")
        #expect(reply.statuses == ["succeeded", "succeeded"], "\(reply.text)")
        #expect(reply.results.first?["server_id"]?.string == "n-1")
        _ = try await listener.until { $0.summary == "\(drafts[0].id) succeeded" }
        #expect(try await worker.push(drafts).results.allSatisfy { $0["replayed"]?.bool == true })
        #expect(try await gateway.terminate() == 0)
    }

    /// The pooler and the database are started after the gateway.
    @Test func `readiness and log report a pooler that appears after the start`() async throws {
        let database = try await LiveGateway.migratedDatabase()
        let port = try LoopbackPort.reserve()
        let name = URLComponents(string: database.uri)?.path.dropFirst() ?? ""
        let gateway = try GatewayProcess(
            database: "postgresql://postgres@127.0.0.1:\(port)/\(name)",
            settings: ["SLUICE_STATEMENT_SECONDS": "5"]
        )
        try await waitUntil("it starts without a database") {
            await gateway.readiness()?.contains("cannot be reached") == true
        }
        let shared = try await BouncerServer.start(.transaction, before: database, port: port)
        try await waitUntil("readiness contains the reason") {
            await gateway.readiness()?.contains("transaction or statement mode") == true
        }
        #expect(gateway.status == nil, "the gateway keeps running")
        // readiness may change shortly before the log
        try await waitUntil("the log contains the reason") {
            gateway.lines.contains {
                $0["message"]?.string == "Database is reachable, but cannot be used"
                    && $0["reason"]?.string?.contains(Self.remedy) == true
            }
        }
        try await shared.end()
        let session = try await BouncerServer.start(.session, before: database, port: port)
        try await gateway.waitUntilReady()
        #expect(try await gateway.terminate() == 0)
        try await session.end()
    }

    /// An operator inserts a pooler between a running gateway and its database.
    @Test func `the log names a pooler that replaces the database`() async throws {
        let database = try await LiveGateway.migratedDatabase()
        let port = try LoopbackPort.reserve()
        let session = try await BouncerServer.start(.session, before: database, port: port)
        let gateway = try await GatewayProcess.start(
            database: session.uri(of: database),
            settings: ["SLUICE_STATEMENT_SECONDS": "5"]
        )
        let worker = try await SingleWorker(gateway)
        try await session.end()
        let shared = try await BouncerServer.start(.transaction, before: database, port: port)
        try await waitUntil("the log names the cause") {
            _ = try await worker.push([worker.draft(1)])
            _ = try await worker.get("/v1/mutations")
            return gateway.lines.contains {
                $0["message"]?.string == "Store lost its prepared statements"
                    && $0["reason"]?.string?.contains("transaction mode") == true
            }
        }
        let reply = try await worker.get("/v1/mutations")
        #expect(reply.status == 503 || reply.status == 200, "\(reply.text)")
        #expect(try await gateway.terminate() == 0)
        try await shared.end()
    }
}

extension GatewayProcess {
    /// The response of `/readyz`; nil if no gateway listens.
    func readiness() async -> String? {
        try? await Self.get(operations + "/readyz", token: "-").text
    }
}
