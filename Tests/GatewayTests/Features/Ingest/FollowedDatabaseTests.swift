import Foundation
import GatewaySupport
import JSONText
import NIOHTTP1
import OperatorsFeature
import Postgres
import TestSupport
import Testing

/// A whole gateway that follows an organization's database over TCP, as an operator configures it.
@Suite(.serialized) struct FollowedDatabaseTests {
    /// A server with logical replication and password authentication, on an address of this machine that no other test
    /// uses.
    private struct Server {
        let cluster: TestCluster
        let host: String

        init() async throws {
            host =
                "127.\((1...250).randomElement() ?? 1).\((1...250).randomElement() ?? 1).\((2...250).randomElement() ?? 2)"
            cluster = try await TestCluster.dedicated(address: host)
            try await run("ALTER SYSTEM SET wal_level = logical")
            try await run(
                """
                DO $$ BEGIN
                    EXECUTE format(
                        'COPY (VALUES (''local all all trust''), (''host all all 127.0.0.0/8 scram-sha-256'')) TO %L',
                        current_setting('hba_file'));
                END $$
                """
            )
            try await cluster.restart()
            try await run("CREATE ROLE sluice LOGIN REPLICATION PASSWORD 'p@ss/''w\\ord'")
            try await run("CREATE TABLE contact (id uuid PRIMARY KEY, name text)")
            try await run("CREATE PUBLICATION sluice FOR TABLE contact")
        }

        func run(_ sql: String) async throws {
            let uri = cluster.uri()
            let connection = try await Connection.open(
                ConnectionConfiguration(uri: uri, connectTimeout: Waiting.limit, statementTimeout: .zero)
            )
            try await connection.execute(script: sql)
            await connection.closeAndWait()
        }

        func uri(password: String = "p%40ss%2F%27w%5Cord", query: String = "") -> String {
            "postgresql://sluice:\(password)@\(host)/postgres\(query)"
        }
    }

    private struct Place {
        let gateway: GatewayProcess
        let organization = UUID()
        let phone: String

        init(_ gateway: GatewayProcess) async throws {
            self.gateway = gateway
            phone = try await GatewayProcess.token(organization: organization, user: UUID())
            let made = try await operate(.PUT, "", #"{"name":"Fjord"}"#)
            #expect([200, 201].contains(made.status), "\(made.text)")
        }

        func operate(_ method: HTTPMethod, _ path: String, _ body: String? = nil) async throws -> Reply {
            try await send(
                method,
                "\(gateway.operations)/admin/organizations/\(organization.uuidString.lowercased())\(path)",
                token: GatewayProcess.operatorToken,
                body: body.map { Array($0.utf8) }
            )
        }

        func put(_ uri: String) async throws -> Reply {
            let table = #"{"table":"public.contact","entity_type":"contact","id":"id"}"#
            return try await operate(
                .PUT,
                "/sources/crm",
                """
                {"kind":"postgres","secret":"\(uri)","settings":{"slot":"sluice","publication":"sluice",\
                "create_slot":true,"tables":[\(table)]}}
                """
            )
        }

        /// The names of the contacts that the phone receives.
        var names: [String] {
            get async throws {
                let reply = try await send(.GET, gateway.address + "/v1/changes", token: phone)
                return (reply.json?["changes"]?.elements.map(Array.init) ?? [])
                    .compactMap { $0["document"]?["name"]?.string }.sorted()
            }
        }

        func waitForError(_ words: String) async throws {
            var last: String?
            try await waitUntil("the source reports '\(words)', not '\(last ?? "nothing")'", every: .milliseconds(50)) {
                last = try await operate(.GET, "/sources/crm").json?["last_error"]?.string
                return last?.contains(words) == true
            }
        }
    }

    @Test func `a phone pulls rows inserted by SQL despite gateway restarts`() async throws {
        let server = try await Server()
        let database = try await LiveGateway.migratedDatabase()
        defer { withExtendedLifetime(database) {} }
        let gateway = try await GatewayProcess.start(
            database: database.uri,
            settings: ["SLUICE_WEBHOOK_ALLOWED_NETWORKS": "127.0.0.0/8"]
        )
        let place = try await Place(gateway)
        let made = try await place.put(server.uri())
        #expect(made.status == 201, "\(made.text)")
        #expect(!made.text.contains("ss%2F") && !made.text.contains("p@ss"))
        try await waitUntil("it is followed", every: .milliseconds(50)) {
            try await place.operate(.GET, "/sources/crm").json?["state"]?["slot"]?.string == "sluice"
        }
        try await server.run("INSERT INTO contact VALUES (gen_random_uuid(), 'Kari')")
        try await waitUntil("the phone has it", every: .milliseconds(50)) { try await place.names == ["Kari"] }
        let metrics = try await send(.GET, gateway.operations + "/metrics").text
        #expect(metrics.contains("sluice_replications_running 1"))
        try await gateway.crash()
        try await server.run("INSERT INTO contact VALUES (gen_random_uuid(), 'Ola')")
        try gateway.restart()
        try await gateway.waitUntilReady()
        // an operator's run ends the dead gateway's lease; otherwise the source continues only when the lease expires
        #expect(try await place.operate(.POST, "/sources/crm/run").status == 202)
        try await waitUntil("the phone has it", every: .milliseconds(50)) { try await place.names == ["Kari", "Ola"] }
        // the secret is changed while the gateway runs
        #expect(try await place.put(server.uri(password: "wrong")).status == 200)
        try await place.waitForError("Correct the user and password in the source's secret.")
        #expect(try await place.put(server.uri(query: "?sslmode=verify-full")).status == 200)
        try await place.waitForError("SSL")
        let refused = try await place.put("postgresql://u:p@169.254.169.254/d?sslmode=require")
        #expect(refused.status == 422 && refused.text.contains("link-local"), "\(refused.text)")
        #expect(try await place.put(server.uri()).status == 200)
        try await server.run("UPDATE contact SET name = 'K' WHERE name = 'Kari'")
        try await waitUntil("the phone has it", every: .milliseconds(50)) { try await place.names == ["K", "Ola"] }
        #expect(try await gateway.terminate() == 0)
        await server.cluster.close()
    }

    @Test func `rejects an invalid source by pointer without repeating its secret`() async throws {
        // the reference is kept until the end, because a database is deleted with its last reference
        let database = try await LiveGateway.migratedDatabase()
        defer { withExtendedLifetime(database) {} }
        let gateway = try await GatewayProcess.start(database: database.uri)
        let place = try await Place(gateway)
        for uri in [
            "postgresql://u:s3cret@db/d?sslcert=/etc/passwd", "host=db password=s3cret", "postgresql://u:s3cret@",
        ] {
            let reply = try await place.put(uri)
            #expect(reply.status == 422, "\(reply.text)")
            #expect(reply.json?.value(at: "/errors/0/pointer")?.string == "/secret", "\(reply.text)")
            #expect(!reply.text.contains("s3cret"))
        }
        let settings = try await place.operate(
            .PUT,
            "/sources/crm",
            #"{"kind":"postgres","secret":"postgresql://u:p@db/d","settings":{"slot":"S","publication":"p","tables":[{}]}}"#
        )
        #expect(settings.status == 422)
        #expect(
            settings.json?["errors"]?.elements?.compactMap { $0["pointer"]?.string } == [
                "/settings/slot", "/settings/tables/0/table", "/settings/tables/0/entity_type", "/settings/tables/0/id",
            ],
            "\(settings.text)"
        )
        // an address is rejected immediately, and a host name when it resolves to such an address
        for uri in [
            "postgresql://u:s3cret@127.0.0.1/d?sslmode=require", "postgresql://u:s3cret@10.1.2.3/d?sslmode=require",
            "postgresql://u:s3cret@[::1]/d?sslmode=require", "postgresql://u:s3cret@0x7f.1/d?sslmode=require",
            "postgresql://u:s3cret@db.example.org/d",
        ] {
            let reply = try await place.put(uri)
            #expect(reply.status == 422, "\(reply.text)")
            #expect(reply.json?.value(at: "/errors/0/pointer")?.string == "/secret", "\(reply.text)")
            #expect(!reply.text.contains("s3cret"))
        }
        #expect(try await place.put("postgresql://u:p@localhost/d?sslmode=require").status == 201)
        try await place.waitForError("has not allowed")
        #expect(try await gateway.terminate() == 0)
    }
}
