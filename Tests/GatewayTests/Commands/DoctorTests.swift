import Foundation
import GatewaySupport
import JSONText
import NIOHTTP1
import Postgres
import SyncStore
import TestSupport
import Testing

/// `sluice doctor`: its findings, its advice, and its exit status.
@Suite(.timeLimit(.minutes(10))) struct DoctorTests {
    /// A finding of `doctor --json`.
    private struct Check {
        let status: String?
        let finding: String
        let advice: String?
    }

    private static func examine(
        _ settings: [String: String]
    ) async throws -> (result: Program.Result, isOK: Bool?, checks: [String: Check]) {
        let result = try await Program.run(["doctor", "--json"], environment: settings)
        let root = try JSONTree(parsing: Array(result.output.utf8)).root
        var checks: [String: Check] = [:]
        for check in root["checks"]?.elements.map(Array.init) ?? [] {
            checks[check["subject"]?.string ?? "-"] = Check(
                status: check["status"]?.string,
                finding: check["finding"]?.string ?? "-",
                advice: check["advice"]?.string
            )
        }
        return (result, root["ok"]?.bool, checks)
    }

    private static func settings(_ database: TestDatabase) throws -> [String: String] {
        GatewayProcess.environment(
            database: database.uri,
            ports: (try LoopbackPort.reserve(), try LoopbackPort.reserve())
        )
    }

    @Test func `reports a working setup as healthy`() async throws {
        let cluster = try await TestCluster.dedicated(isDurable: true)
        let database = try await LiveGateway.migratedDatabase(on: cluster)
        let settings = try Self.settings(database)
        let (result, isOK, checks) = try await Self.examine(settings)
        #expect(result.status == 0)
        #expect(result.complaint == "")
        #expect(isOK == true)
        for subject in [
            "configuration", "keys", "operator token", "database", "encoding", "durability", "connections", "clock",
            "autovacuum", "schema", "master keys", "upstreams", "listener \(settings["SLUICE_PUBLIC_ADDRESS"] ?? "")",
            "listener \(settings["SLUICE_OPERATIONS_ADDRESS"] ?? "")",
        ] {
            #expect(checks[subject]?.status == "ok", "\(subject): \(checks[subject]?.finding ?? "not looked at")")
            #expect(checks[subject]?.advice == nil)
        }
        let text = try await Program.run(["doctor"], environment: settings)
        #expect(text.status == 0)
        #expect(text.output.contains("ok       schema: up to date\n"))
        #expect(text.output.split(separator: "\n").count == checks.count + checks.values.count { $0.advice != nil })
        await cluster.close()
    }

    @Test func `distinguishes an unreachable database from an unmigrated database`() async throws {
        let database = try await TestDatabase.make()
        let unmigrated = try await Self.examine(try Self.settings(database))
        #expect(unmigrated.result.status == 1)
        #expect(unmigrated.isOK == false)
        #expect(unmigrated.checks["database"]?.status == "ok")
        #expect(unmigrated.checks["schema"]?.status == "failed")
        #expect(unmigrated.checks["schema"]?.finding == "the database is empty")
        #expect(unmigrated.checks["schema"]?.advice == "Run: sluice migrate")

        var settings = try Self.settings(database)
        settings["SLUICE_DATABASE_URL"] = "postgresql://somebody:hushhush@/sluice?host=/nowhere"
        let away = try await Self.examine(settings)
        #expect(away.result.status == 1)
        #expect(away.isOK == false)
        #expect(away.checks["database"]?.status == "failed")
        #expect(away.checks["database"]?.finding.hasPrefix("cannot be reached: ") == true)
        #expect(away.checks["database"]?.advice?.contains("SLUICE_DATABASE_URL") == true)
        #expect(away.checks["schema"] == nil, "no schema can be checked")
        #expect(away.checks["keys"]?.status == "ok", "the other subjects are still checked")
        #expect(!away.result.output.contains("hushhush"))
    }

    @Test func `a database that can lose pushes is not healthy`() async throws {
        // the tests' database does not flush
        let database = try await LiveGateway.migratedDatabase(on: try await TestCluster.dedicated())
        let (result, _, checks) = try await Self.examine(try Self.settings(database))
        #expect(result.status == 1)
        #expect(checks["fsync"]?.status == "failed")
        #expect(checks["fsync"]?.advice?.contains("fsync = on") == true)
        #expect(checks["full_page_writes"]?.status == "warning")
    }

    @Test func `names each invalid setting`() async throws {
        let (result, isOK, checks) = try await Self.examine([
            "SLUICE_MAX_MUTATIONS": "many", "SLUICE_LOG_LEVEL": "loud",
        ])
        #expect(result.status == 1)
        #expect(isOK == false)
        #expect(checks.keys.sorted() == ["configuration"])
        #expect(result.output.contains("SLUICE_MAX_MUTATIONS is \\\"many\\\", but must be a whole number"))
        #expect(result.output.contains("SLUICE_LOG_LEVEL is \\\"loud\\\", but must be one of "))
    }

    @Test func `reports questionable settings as warnings`() async throws {
        let database = try await LiveGateway.migratedDatabase()
        var settings = try Self.settings(database)
        let occupant = try Listening()
        let port = occupant.port
        settings["SLUICE_PUBLIC_ADDRESS"] = "127.0.0.1:\(port)"
        settings["SLUICE_OPERATIONS_ADDRESS"] = "192.0.2.1:8081"
        settings["SLUICE_JWT_SECRET"] = nil
        settings["SLUICE_MAX_MUTATION"] = "3"
        let (result, _, checks) = try await Self.examine(settings)
        #expect(result.status == 1)
        #expect(checks["listener 127.0.0.1:\(port)"]?.status == "warning")
        #expect(checks["listener 127.0.0.1:\(port)"]?.finding == "in use")
        #expect(checks["listener 192.0.2.1:8081"]?.status == "failed")
        #expect(checks["keys"]?.status == "failed")
        #expect(checks["keys"]?.finding.contains("SLUICE_JWT_SECRET") == true)
        #expect(result.output.contains("did you mean SLUICE_MAX_MUTATIONS?"))
        withExtendedLifetime(occupant) {}
    }

    // MARK: - Keys and upstreams

    @Test func `counts the fetched keys`() async throws {
        let key = IdentityKey("1")
        let text = #"{"keys":[\#(key.jwk),{"kty":"oct","k":"hushhush"},{"kty":"new"}]}"#
        let provider = try await KeyProvider(.document(text))
        let database = try await LiveGateway.migratedDatabase()
        var settings = try Self.settings(database)
        settings["SLUICE_JWT_JWKS_URL"] = provider.url + "?client=hushhush"
        let open = try await Self.examine(settings).checks["keys"]
        #expect(open?.status == "failed" && open?.finding.contains("SLUICE_JWT_ISSUER and SLUICE_JWT_AUDIENCE") == true)
        settings["SLUICE_JWT_EXCLUSIVE_KEYS"] = "yes"
        let exclusive = try await Self.examine(settings).checks["exclusive keys"]
        #expect(exclusive?.status == "warning" && exclusive?.advice?.contains("SLUICE_JWT_AUDIENCE") == true)
        settings["SLUICE_JWT_EXCLUSIVE_KEYS"] = nil
        settings["SLUICE_JWT_ISSUER"] = "https://id.example"
        settings["SLUICE_JWT_AUDIENCE"] = "sluice"
        let (_, _, checks) = try await Self.examine(settings)
        #expect(checks["exclusive keys"] == nil)
        let good = checks["keys of \(provider.url)"]
        #expect(good?.status == "ok")
        #expect(
            good?.finding
                == "1 usable; not used: key 2: a shared secret, key 3: of a type, curve or algorithm that is not supported"
        )
        for (manner, reason) in [
            (KeyProvider.Manner.status(500), "status 500"), (.document("{}"), "not a JWKS document"),
            (.document(#"{"keys":[]}"#), "0 usable"), (.status(301, headers: [("Location", "/x")]), "not followed"),
            (.silence, "timed out after 5 s"),
        ] {
            provider.behave(manner)
            let (result, _, checks) = try await Self.examine(settings)
            let bad = checks["keys of \(provider.url)"]
            #expect(result.status == 1)
            #expect(bad?.status == "failed")
            #expect(bad?.finding.contains(reason) == true, "\(bad?.finding ?? "-")")
            #expect(bad?.advice != nil)
            #expect(checks["keys"]?.status == "ok", "a secret is configured as well")
            #expect(!result.output.contains("hushhush"))
        }
    }

    @Test func `reports an invalid signing key`() async throws {
        let database = try await LiveGateway.migratedDatabase()
        var settings = try Self.settings(database)
        settings["SLUICE_SIGNING_KEY_FILE"] = "/nowhere"
        let (_, _, checks) = try await Self.examine(settings)
        #expect(checks["signing key"]?.status == "failed")
        #expect(checks["signing key"]?.finding == "SLUICE_SIGNING_KEY_FILE names /nowhere, which cannot be read.")
    }

    @Test func `checks a limited number of upstreams`() async throws {
        let server = try await KeyProvider(.status(404))
        let database = try await LiveGateway.migratedDatabase()
        let settings = try Self.settings(database)
        #expect(try await Self.examine(settings).checks["upstreams"]?.finding == "none")
        let address = "http://127.0.0.1:\(server.port)"
        let connection = try await database.connect()
        let rows = """
            INSERT INTO organizations (id, name, status, settings, created_at, updated_at)
            SELECT gen_random_uuid(), 'x', 'active', '{}', clock_timestamp(), clock_timestamp()
            FROM generate_series(1, 3);
            INSERT INTO upstreams (organization_id, base_url, credential, timeout_seconds, max_concurrency, id_pointer,
                headers, updated_at)
            SELECT id, CASE row_number() OVER () WHEN 1 THEN 'http://127.0.0.1:9/api' ELSE '\(address)' END,
                '{"bearer":"hushhush"}', 30, 16, '/id', '{}', clock_timestamp()
            FROM organizations;
            """
        try await connection.execute(script: rows)
        let some = try await Self.examine(settings)
        #expect(some.checks["upstream \(address)"]?.finding == "responds (status 404); used by 2 organizations")
        let dead = some.checks["upstream http://127.0.0.1:9/api"]
        #expect(dead?.status == "warning")
        #expect(dead?.finding == "does not respond: connection refused; used by 1 organization")
        #expect(some.result.output.contains("hushhush") == false)
        #expect(server.requests.allSatisfy { !$0.headers.contains(name: "Authorization") })

        let many = """
            INSERT INTO organizations (id, name, status, settings, created_at, updated_at)
            SELECT gen_random_uuid(), 'y', 'active', '{}', clock_timestamp(), clock_timestamp()
            FROM generate_series(1, 60);
            INSERT INTO upstreams (organization_id, base_url, timeout_seconds, max_concurrency, id_pointer,
                headers, updated_at)
            SELECT id, '\(address)/' || row_number() OVER (), 30, 16, '/id', '{}', clock_timestamp()
            FROM organizations WHERE name = 'y';
            """
        try await connection.execute(script: many)
        await connection.closeAndWait()
        let all = try await Self.examine(settings)
        #expect(all.checks.keys.count { $0.hasPrefix("upstream http") } == 50)
        #expect(all.checks["upstreams"]?.status == "warning")
    }

    // MARK: - The database

    @Test func `reports a role that owns the tables or lacks privileges`() async throws {
        let cluster = try await TestCluster.dedicated()
        let database = try await LiveGateway.migratedDatabase(on: cluster)
        var settings = try Self.settings(database)
        let super_ = try await Self.examine(settings).checks["role"]
        #expect(super_?.status == "warning")
        #expect(super_?.finding.contains("superuser") == true)
        let connection = try await database.connect()
        let script = """
            CREATE ROLE gateway LOGIN; CREATE ROLE owner LOGIN; CREATE ROLE bypasser LOGIN BYPASSRLS;
            GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO gateway, bypasser;
            """
        try await connection.execute(script: script)
        settings["SLUICE_DATABASE_URL"] = database.uri + "&user=gateway"
        let good = try await Self.examine(settings).checks["role"]
        #expect(good?.status == "ok")
        #expect(good?.finding == "gateway owns no tables, and has all required rights")

        try await connection.execute(
            script: "REVOKE DELETE ON lanes FROM gateway; REVOKE UPDATE, INSERT ON feeds FROM gateway"
        )
        let lacking = try await Self.examine(settings)
        #expect(lacking.result.status == 1)
        #expect(lacking.checks["role"]?.finding == "gateway has no rights on feeds (INSERT, UPDATE), lanes (DELETE)")

        settings["SLUICE_DATABASE_URL"] = database.uri + "&user=bypasser"
        #expect(try await Self.examine(settings).checks["role"]?.finding == "bypasser has BYPASSRLS")
        let own = "GRANT ALL ON ALL TABLES IN SCHEMA public TO owner; ALTER TABLE feeds OWNER TO owner"
        try await connection.execute(script: own)
        settings["SLUICE_DATABASE_URL"] = database.uri + "&user=owner"
        let owning = try await Self.examine(settings).checks["role"]
        #expect(owning?.status == "warning")
        #expect(owning?.finding.contains("owns 1 of the tables") == true)

        try await connection.execute(script: "ALTER ROLE gateway CONNECTION LIMIT 3")
        try await connection.execute(script: "ALTER SYSTEM SET autovacuum = off")
        try await connection.execute(script: "SELECT pg_reload_conf()")
        settings["SLUICE_DATABASE_URL"] = database.uri + "&user=gateway"
        while true {
            let found = try await Self.examine(settings).checks
            guard found["autovacuum"]?.status == "failed" else { continue }
            #expect(found["autovacuum"]?.advice?.contains("autovacuum = on") == true)
            #expect(found["connections"]?.status == "failed")
            #expect(found["connections"]?.finding == "a gateway uses up to 16 of 3")
            break
        }
        await connection.closeAndWait()
    }
}
