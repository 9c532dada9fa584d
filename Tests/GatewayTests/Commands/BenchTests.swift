import Foundation
import GatewaySupport
import Glibc
import JSONText
import Postgres
import SyncModel
import TestSupport
import Testing

/// `sluice bench` on a real database. All measurements are as short as possible, except those that a signal ends.
@Suite(.timeLimit(.minutes(10))) struct BenchTests {
    private let database: TestDatabase

    init() async throws {
        database = try await LiveGateway.migratedDatabase()
    }

    private var environment: [String: String] {
        ["SLUICE_DATABASE_URL": database.uri, "SLUICE_STATEMENT_SECONDS": "20", "SUDO_USER": "ida"]
    }

    private func bench(_ arguments: String...) throws -> Program {
        try Program(["bench"] + arguments, environment: environment)
    }

    private func count(_ table: String, where condition: String = "true") async throws -> Int64 {
        let connection = try await database.connect()
        let sql = "SELECT count(*) FROM \(table) WHERE \(condition)"
        let count: Int64 = try await connection.run(Query(Statement("", sql))).read(0, 0)
        await connection.closeAndWait()
        return count
    }

    private func execute(_ script: String) async throws {
        let connection = try await database.connect()
        try await connection.execute(script: script)
        await connection.closeAndWait()
    }

    /// Starts a measurement that only a signal ends, and waits for its first pushes.
    private func endless(_ arguments: String...) async throws -> Program {
        let program = try Program(["bench", "--seconds", "600"] + arguments, environment: environment)
        try await waitUntil("the benchmark pushes: \(program.complaint)", every: .milliseconds(50)) {
            if let status = program.status { throw Program.Failure("ended with \(status): \(program.complaint)") }
            return try await count("mutations") > 0
        }
        return program
    }

    private func expectNoTrace() async throws {
        for table in ["organizations", "feeds", "lanes", "devices", "users", "mutations", "id_mappings", "entities"] {
            #expect(try await count(table) == 0, "\(table)")
        }
    }

    @Test func `measures three stages and purges its organizations`() async throws {
        let result = try await bench("--seconds", "3", "--connections", "4", "--json").result()
        #expect(result.status == 0, "\(result.complaint)")
        #expect(result.complaint.contains("this loads the database as much as it can for 3 seconds"))
        let report = try JSONTree(parsing: Array(result.output.utf8)).root
        let stages = report["stages"]?.elements.map(Array.init) ?? []
        #expect(stages.map { $0["name"]?.string } == ["single", "concurrent", "batches"])
        #expect(stages.map { $0["connections"]?.int64 } == [1, 4, 2])
        #expect(stages.map { $0["mutations_per_push"]?.int64 } == [1, 1, 50])
        for stage in stages {
            #expect(stage["pushes"]?.int64 ?? 0 > 0)
            #expect(stage["refused"]?.text == "{}")
            for value in [stage["mutations_per_second"], stage["p50_ms"], stage["p99_ms"]] {
                #expect(Double(value?.text ?? "") ?? 0 > 0)
            }
        }
        #expect(report["active_users"]?.int64 ?? 0 > 0)
        #expect(report["commit_ms"]?.isNull == false && report["limit"]?.string != nil)
        try await expectNoTrace()
        #expect(try await count("audit", where: "action = 'measureInstallation' AND actor = 'cli:ida'") == 1)
    }

    @Test func `prints the rates, the limit and the number of users for people`() async throws {
        let result = try await bench("--seconds", "3", "--connections", "2", "--edits-per-day", "200").result()
        #expect(result.status == 0, "\(result.complaint)")
        for text in [
            "one push at a time", "2 connections", "1 connection, pushes of 50", "limited by", "active users a day",
            "about 200 edits a day", "10 times the mean rate",
        ] {
            #expect(result.output.contains(text), "\(text): \(result.output)")
        }
        try await expectNoTrace()
    }

    @Test(arguments: [SIGINT, SIGTERM]) func `purges its organizations after a signal`(signal: Int32) async throws {
        let program = try await endless()
        program.send(signal)
        let result = try await program.result()
        #expect(result.status == 1)
        #expect(result.complaint.contains("sluice: interrupted\n"), "\(result.complaint)")
        #expect(result.output == "")
        try await expectNoTrace()
    }

    @Test func `a second run is refused and does not purge the organizations of the first run`() async throws {
        let first = try await endless()
        let second = try await bench("--seconds", "3").result()
        #expect(second.status == 75)
        #expect(second.complaint.contains("another `sluice bench` measures this database"))
        #expect(try await count("organizations", where: "status = 'active'") == 20)
        first.send(SIGINT)
        #expect(try await first.end() == 1)
        try await expectNoTrace()
    }

    @Test func `purges the organizations of a killed run, but no organization that users can reach`() async throws {
        let killed = try await endless()
        killed.send(SIGKILL)
        _ = try await killed.end()
        #expect(try await count("organizations") == 20)
        let others = (0..<5).map { _ in UUID().uuidString.lowercased() }
        let explicit = #"{"provisioning":"explicit"}"#
        let rows = [
            (others[0], "sluice bench", explicit), (others[1], "sluice bench \(others[0])", explicit),
            (others[2], "sluice bench \(others[2])", "{}"), (others[3], "sluice bench \(others[3])", explicit),
            (others[4], "sluice bench \(others[4])", explicit),
        ]
        for (id, name, settings) in rows {
            try await execute(
                """
                INSERT INTO organizations (id, name, status, settings, created_at, updated_at)
                VALUES ('\(id)', '\(name)', 'active', '\(settings)', now(), now());
                INSERT INTO feeds (organization_id, epoch) VALUES ('\(id)', 1);
                """
            )
        }
        // a user of one organization; and for another organization, a name by which tokens select it
        try await execute(
            """
            INSERT INTO lanes (organization_id, user_id) VALUES ('\(others[3])', gen_random_uuid());
            INSERT INTO external_ids (issuer, external_id, organization_id, created_at)
            VALUES ('i', 'acme', '\(others[4])', now());
            """
        )
        let result = try await bench("--seconds", "3", "--connections", "2", "--json").result()
        #expect(result.status == 0, "\(result.complaint)")
        #expect(try await count("organizations") == 5)
        for id in others { #expect(try await count("organizations", where: "id = '\(id)'") == 1, "\(id)") }
        #expect(try await count("lanes") == 1)
        #expect(try await count("mutations") == 0)
    }

    @Test func `requires --yes while a gateway runs, and the gateway serves no user of the benchmark`() async throws {
        let gateway = try await GatewayProcess.start(database: database.uri)
        let (real, user) = (UUID(), UUID())
        try await gateway.makeOrganization(real)
        try await waitUntil("the gateway is registered") { try await count("gateways") == 1 }
        let refused = try await bench("--seconds", "3").result()
        #expect(refused.status == 1)
        #expect(refused.complaint.contains("a gateway runs on this database"), "\(refused.complaint)")
        #expect(refused.complaint.contains("--yes"))
        #expect(try await count("organizations") == 1)

        let program = try await endless("--yes", "--connections", "2")
        let connection = try await database.connect()
        let statement = Statement("", "SELECT id FROM organizations WHERE name LIKE 'sluice bench %' LIMIT 1")
        let temporary: UUID = try await connection.run(Query(statement)).read(0, 0)
        await connection.closeAndWait()
        for (organization, status) in [(temporary, 403), (real, 200)] {
            let token = try await GatewayProcess.token(organization: organization, user: user)
            #expect(try await GatewayProcess.get(gateway.address + "/v1/changes", token: token).status == status)
        }
        program.send(SIGINT)
        #expect(try await program.end() == 1)
        #expect(try await count("organizations") == 1)
        #expect(try await gateway.terminate() == 0)
    }

    @Test func `is not started without a schema or a database`() async throws {
        let empty = try await TestDatabase.make()
        let unmigrated = try await Program.run(["bench"], environment: ["SLUICE_DATABASE_URL": empty.uri])
        #expect(unmigrated.status == 1 && unmigrated.complaint.contains("sluice migrate"), "\(unmigrated.complaint)")
        let nowhere = ["SLUICE_DATABASE_URL": "postgresql:///sluice?host=/nowhere"]
        #expect(try await Program.run(["bench"], environment: nowhere).status == 69)
    }
}
