import Foundation
import GatewaySupport
import JSONText
import Postgres
import SyncStore
import TestSupport
import Testing

/// `sluice migrate` and `sluice organizations`: an operator's commands on a database.
@Suite(.timeLimit(.minutes(10))) struct MigrateCommandTests {
    private struct Fixture {
        let database: TestDatabase

        init(isMigrated: Bool) async throws {
            database = isMigrated ? try await LiveGateway.migratedDatabase() : try await TestDatabase.make()
        }

        func sluice(_ arguments: String...) async throws -> Program.Result {
            try await Program.run(arguments, environment: ["SLUICE_DATABASE_URL": database.uri])
        }

        /// The output of `serve` when it starts on the database and ends immediately.
        func refusalToServe() async throws -> (status: Int32, last: JSONValue?) {
            let gateway = try GatewayProcess(database: database.uri)
            return (try await gateway.end(), gateway.lines.last)
        }

        func execute(_ script: String) async throws {
            let connection = try await database.connect()
            try await connection.execute(script: script)
            await connection.closeAndWait()
        }

        func number(_ sql: String) async throws -> Int64 {
            let connection = try await database.connect()
            defer { connection.close() }
            return try await connection.run(Query(Statement("", sql))).read(0, 0, as: Int64.self)
        }
    }

    private static let names = Schema.migrations.map(\.name)
    private static let partitions = """
        SELECT count(*) FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhparent
        WHERE c.relname = 'mutations'
        """

    @Test func `migrates an empty database once`() async throws {
        let fixture = try await Fixture(isMigrated: false)
        let dry = try await fixture.sluice("migrate", "--dry-run")
        #expect(dry.status == 0)
        #expect(dry.output == Self.names.map { "would apply \($0)\n" }.joined())
        #expect(try await fixture.number("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'") == 0)

        let refusal = try await fixture.refusalToServe()
        #expect(refusal.status == 1)
        #expect(refusal.last?["message"]?.string == "Database is empty; run: sluice migrate")
        let list = try await fixture.sluice("organizations", "list")
        #expect(list.status == 1 && list.complaint == "sluice: the database is empty: run sluice migrate\n")

        let first = try await fixture.sluice("migrate", "--partitions", "3")
        #expect(first.status == 0, "\(first.complaint)")
        #expect(first.output == Self.names.map { "applied \($0)\n" }.joined())
        #expect(try await fixture.number(Self.partitions) == 3)
        let again = try await fixture.sluice("migrate", "--partitions", "7")
        #expect(again.status == 0)
        #expect(again.output == "The schema is up to date.\n")
        #expect(try await fixture.number(Self.partitions) == 3)

        let gateway = try await GatewayProcess.start(database: fixture.database.uri)
        let worker = try await SingleWorker(gateway)
        #expect(try await worker.push([worker.draft(1)]).statuses == ["succeeded"])
        #expect(try await gateway.terminate() == 0)
    }

    /// A database with another encoding is rejected before any change.
    @Test(.onOneServer("creates a database on a single server"), arguments: ["LATIN1", "SQL_ASCII"])
    func `rejects a database whose encoding cannot store every text`(encoding: String) async throws {
        let fixture = try await Fixture(isMigrated: false)
        let name = "encoding_\(UInt32.random(in: 0...(.max)))"
        let script = "CREATE DATABASE \(name) ENCODING '\(encoding)' LOCALE 'C' TEMPLATE template0"
        try await fixture.execute(script)
        let uri = try await TestCluster.shared().uri(database: name)
        let migrated = try await Program.run(["migrate"], environment: ["SLUICE_DATABASE_URL": uri])
        #expect(migrated.status == 1, "\(migrated.output)")
        #expect(migrated.complaint.contains("has the encoding \(encoding)"), "\(migrated.complaint)")
        #expect(migrated.complaint.contains("createdb --encoding UTF8"), "\(migrated.complaint)")
        let gateway = try GatewayProcess(database: uri)
        #expect(try await gateway.end() == 1)
        #expect(gateway.lines.last?["error"]?.string?.contains("has the encoding \(encoding)") == true)
        try await fixture.execute("DROP DATABASE \(name) (FORCE)")
    }

    @Test(arguments: [
        ("CREATE TABLE organizations (id int)", "organizations"), ("CREATE VIEW devices AS SELECT 1", "devices"),
        ("CREATE TYPE server_id AS ENUM ('a')", "server_id"),
        ("CREATE TABLE x (id int); CREATE INDEX feeds ON x (id)", "feeds"),
        ("CREATE TABLE schema_migrations (version bigint)", "schema_migrations"),
    ])
    func `rejects a database of another program without changes`(script: String, name: String) async throws {
        let fixture = try await Fixture(isMigrated: false)
        try await fixture.execute(script)
        let count = "SELECT count(*) FROM pg_class WHERE relnamespace = 'public'::regnamespace"
        let before = try await fixture.number(count)
        for command in ["migrate", "--dry-run"] {
            let result = try await fixture.sluice("migrate", command == "migrate" ? "--partitions=2" : command)
            #expect(result.status == 1, "\(result.output)")
            #expect(result.complaint.contains("(\(name))"), "\(result.complaint)")
            #expect(result.complaint.contains("create a separate database"), "\(result.complaint)")
        }
        #expect(try await fixture.number(count) == before)
        let refusal = try await fixture.refusalToServe()
        #expect(refusal.status == 1)
        #expect(refusal.last?["error"]?.string?.contains("create a separate database") == true)
    }

    @Test(.onOneServer("uses roles of one server")) func `names the privilege missing to create tables`() async throws {
        let fixture = try await Fixture(isMigrated: false)
        let role = "guest_\(UInt32.random(in: 0...(.max)))"
        try await fixture.execute("CREATE ROLE \(role) LOGIN; REVOKE CREATE ON SCHEMA public FROM PUBLIC")
        let environment = ["SLUICE_DATABASE_URL": fixture.database.uri(user: role)]
        let result = try await Program.run(["migrate"], environment: environment)
        #expect(result.status == 1 && result.complaint.contains("OWNER TO \(role)"), "\(result.complaint)")
        try await fixture.execute("DROP ROLE \(role)")
    }

    @Test func `accepts tables of another program whose names differ from the gateway's`() async throws {
        let fixture = try await Fixture(isMigrated: false)
        try await fixture.execute("CREATE TABLE spatial_ref_sys (id int)")
        #expect(try await fixture.sluice("migrate", "--partitions", "2").status == 0)
    }

    @Test func `an empty list of users contains the reason`() async throws {
        let fixture = try await Fixture(isMigrated: true)
        let made = try await fixture.sluice("organizations", "create", "Acme")
        let id = made.output.trimmingCharacters(in: .newlines)
        let list = try await fixture.sluice("users", "list", "--organization", id)
        #expect(list.status == 0 && list.complaint == "sluice: organization \(id) has no users yet\n")
        let one = try await fixture.sluice(
            "users",
            "list",
            "--organization",
            id,
            "--subject",
            "ada",
            "--issuer",
            "https://issuer.example.com"
        )
        #expect(one.complaint == "sluice: organization \(id) has no user with this subject\n", "\(one.complaint)")
    }

    @Test func `concurrent migrations take turns`() async throws {
        let fixture = try await Fixture(isMigrated: false)
        async let first = fixture.sluice("migrate", "--partitions", "2")
        async let second = fixture.sluice("migrate", "--partitions", "2")
        async let third = fixture.sluice("migrate", "--partitions", "2")
        let results = [try await first, try await second, try await third]
        #expect(results.map(\.status) == [0, 0, 0])
        // each migration is applied by exactly one of the processes
        let applied = results.flatMap { $0.output.split(separator: "\n") }.filter { $0.hasPrefix("applied") }.map(
            String.init
        )
        #expect(applied.sorted() == Self.names.map { "applied " + $0 })
    }

    @Test func `leaves a newer schema unchanged and serves it`() async throws {
        let fixture = try await Fixture(isMigrated: true)
        try await fixture.execute("INSERT INTO schema_migrations (name, checksum) VALUES ('9000_future', 'x')")
        let result = try await fixture.sluice("migrate")
        #expect(result.status == 0)
        #expect(result.output == "The schema is up to date.\nA newer version has applied 9000_future.\n")
        let gateway = try await GatewayProcess.start(database: fixture.database.uri)
        #expect(try await gateway.terminate() == 0)
    }

    @Test(arguments: [
        ("UPDATE schema_migrations SET checksum = 'edited'", "0001_base was changed after it had been applied"),
        (
            "INSERT INTO schema_migrations (name, checksum) VALUES ('0000_other', 'x')",
            "0000_other has been applied, but this build does not contain it"
        ),
    ])
    func `migrate and serve reject an inconsistent schema`(script: String, reason: String) async throws {
        let fixture = try await Fixture(isMigrated: true)
        try await fixture.execute(script)
        let result = try await fixture.sluice("migrate")
        #expect(result.status == 1)
        #expect(result.complaint == "sluice: migration \(reason)\n")
        #expect(result.output == "")
        let refusal = try await fixture.refusalToServe()
        #expect(refusal.status == 1)
        #expect(refusal.last?["error"]?.string == "migration \(reason)")
    }

    /// Nothing is changed before the check for a cluster.
    @Test(.onOneServer("needs a single server")) func `rejects plain PostgreSQL as a cluster`() async throws {
        for isMigrated in [false, true] {
            let fixture = try await Fixture(isMigrated: isMigrated)
            let result = try await fixture.sluice("migrate", "--citus", "--shards", "4")
            #expect(result.status == 1)
            let refusal = "sluice: this database is no Citus coordinator: "
            #expect(result.complaint.hasPrefix(refusal), "\(result.complaint)")
            #expect(result.output == "")
            let tables = try await fixture.number("SELECT count(*) FROM pg_tables WHERE tablename = 'organizations'")
            #expect(tables == (isMigrated ? 1 : 0))
        }
        for arguments in [["--shards", "4"], ["--citus", "--shards", "0"], ["--citus", "--shards", "257"]] {
            let result = try await Program.run(["migrate"] + arguments)
            #expect(result.status != 0 && result.complaint.contains("--shards"), "\(result.complaint)")
        }
    }

    /// A table of another program has the name of a table of the gateway. The message names the table, and nothing is
    /// changed.
    @Test func `rejects a database with another program's tables and leaves it unchanged`() async throws {
        let fixture = try await Fixture(isMigrated: false)
        try await fixture.execute("CREATE TABLE users (name text)")
        let result = try await fixture.sluice("migrate")
        #expect(result.status == 1)
        #expect(result.complaint.contains("has tables or types of another program"), "\(result.complaint)")
        #expect(result.complaint.contains("(users)") && result.complaint.contains("Nothing was changed"))
        #expect(try await fixture.number("SELECT count(*) FROM pg_tables WHERE tablename = 'organizations'") == 0)
    }

    // MARK: - Organizations

    @Test func `creates, lists, suspends, activates and purges an organization`() async throws {
        let fixture = try await Fixture(isMigrated: true)
        let none = try await fixture.sluice("organizations", "list")
        #expect(none.status == 0)
        #expect(none.output == "")
        #expect(none.complaint == "sluice: there are no organizations yet\n")

        let id = UUID().lowercased
        let created = try await fixture.sluice("organizations", "create", "Acme Ltd", "--id", id.uppercased())
        #expect(created.status == 0, "\(created.complaint)")
        #expect(created.output == id + "\n")
        let twice = try await fixture.sluice("organizations", "create", "Acme Ltd", "--id", id)
        #expect(twice.status == 1)
        #expect(twice.complaint == "sluice: organization \(id) already exists\n")
        let other = try await fixture.sluice("organizations", "create", "Søstre & sønner", "--json")
        let json = try JSONTree(parsing: Array(other.output.utf8)).root
        let otherID = try #require(json["id"]?.uuid)
        #expect(json["name"]?.string == "Søstre & sønner")
        #expect(json["status"]?.string == "active")

        let list = try await fixture.sluice("organizations", "list")
        #expect(
            list.output.split(separator: "\n").sorted()
                == [
                    "\(id)  active     Acme Ltd", "\(otherID.lowercased)  active     Søstre & sønner",
                ].sorted()
        )
        let lines = try await fixture.sluice("organizations", "list", "--json").output.split(separator: "\n")
        #expect(lines.count == 2)
        for line in lines { #expect((try? JSONTree(parsing: Array(line.utf8)))?.root["id"]?.uuid != nil) }

        // a gateway applies the change
        let gateway = try await GatewayProcess.start(database: fixture.database.uri)
        let worker = try await SingleWorker(gateway, organization: otherID)
        #expect(try await worker.push([worker.draft(1)]).statuses == ["succeeded"])
        #expect(
            try await fixture.sluice("organizations", "suspend", otherID.lowercased).output.hasSuffix("is suspended\n")
        )
        try await expect(worker, comesToBeAnswered: 403)
        #expect(
            try await fixture.sluice("organizations", "activate", otherID.lowercased).output.hasSuffix("is active\n")
        )
        try await expect(worker, comesToBeAnswered: 200)

        let unconfirmed = try await fixture.sluice("organizations", "purge", otherID.lowercased)
        #expect(unconfirmed.status == 1)
        #expect(unconfirmed.complaint.contains("Søstre & sønner") && unconfirmed.complaint.contains("--yes"))
        #expect(unconfirmed.complaint.contains("and all of its data: "), "\(unconfirmed.complaint)")
        for count in ["1 mutations", "1 entities", "1 devices", "1 users"] {
            #expect(unconfirmed.complaint.contains(count), "\(unconfirmed.complaint)")
        }
        let counted = try await fixture.sluice("organizations", "purge", otherID.lowercased, "--json")
        #expect(counted.status == 1 && counted.output.contains(#""purged":false,"rows":{"#), "\(counted.output)")
        #expect(try await fixture.number("SELECT count(*) FROM mutations") == 1)
        let purged = try await fixture.sluice("organizations", "purge", otherID.lowercased, "--yes")
        #expect(purged.status == 0, "\(purged.complaint)")
        #expect(purged.output == "\(otherID.lowercased) is purged\n")
        #expect(try await fixture.number("SELECT count(*) FROM mutations") == 0)
        #expect(try await fixture.sluice("organizations", "list").output.split(separator: "\n").count == 1)
        #expect(try await gateway.terminate() == 0)
    }

    @Test(arguments: [["suspend"], ["activate"], ["purge"], ["purge", "--yes"]])
    func `names an unknown organization`(arguments: [String]) async throws {
        let fixture = try await Fixture(isMigrated: true)
        let id = UUID().lowercased
        let result = try await Program.run(
            ["organizations"] + arguments + [id],
            environment: ["SLUICE_DATABASE_URL": fixture.database.uri]
        )
        #expect(result.status == 1)
        #expect(result.complaint == "sluice: no organization has the id \(id)\n")
        #expect(result.output == "")
    }

    /// Running the command twice by mistake must not create two tenants.
    @Test func `a second organization with the same name requires confirmation`() async throws {
        let fixture = try await Fixture(isMigrated: true)
        let first = try await fixture.sluice("organizations", "create", "Acme Ltd")
        let again = try await fixture.sluice("organizations", "create", "Acme Ltd")
        #expect(again.status == 1 && again.output == "")
        let id = first.output.trimmingCharacters(in: .newlines)
        #expect(again.complaint.contains(#""Acme Ltd" already exists: \#(id)"#) && again.complaint.contains("--force"))
        #expect(try await fixture.sluice("organizations", "create", "Acme Ltd", "--force").status == 0)
        #expect(try await fixture.number("SELECT count(*) FROM organizations") == 2)
    }

    @Test func `rejects an invalid organization name`() async throws {
        let fixture = try await Fixture(isMigrated: true)
        for name in ["", String(repeating: "x", count: 201)] {
            let result = try await fixture.sluice("organizations", "create", name)
            #expect(result.status == 1)
            #expect(result.complaint.contains("name"), "\(result.complaint)")
        }
        #expect(try await fixture.number("SELECT count(*) FROM organizations") == 0)
    }

    @Test func `distinguishes an unmigrated database from an empty list`() async throws {
        let fixture = try await Fixture(isMigrated: false)
        let result = try await fixture.sluice("organizations", "list")
        #expect(result.status == 1)
        #expect(result.complaint == "sluice: the database is empty: run sluice migrate\n")
    }

    /// Other processes apply a change within five seconds, on an idle machine.
    private func expect(_ worker: SingleWorker, comesToBeAnswered status: Int) async throws {
        try await waitUntil("is answered \(status)", every: .milliseconds(50)) {
            try await worker.get("/v1/changes").status == status
        }
    }
}
