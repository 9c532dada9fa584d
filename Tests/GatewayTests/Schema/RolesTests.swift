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

/// `sluice migrate --roles` and `sluice organizations readers`: gateways without ownership, and analysts who read their
/// organization's rows by SQL.
@Suite(.timeLimit(.minutes(10))) struct RolesTests {
    /// A migrated database with the roles, and login roles of this test.
    private struct Place {
        let database: TestDatabase
        let gateway = "t_gateway_\(UInt32.random(in: 0...(.max)))"
        let analyst = "t_analyst_\(UInt32.random(in: 0...(.max)))"
        let other = "t_other_\(UInt32.random(in: 0...(.max)))"

        init() async throws {
            database = try await LiveGateway.migratedDatabase()
            let migrated = try await sluice("migrate", "--roles")
            #expect(migrated.status == 0, "\(migrated.complaint)")
            #expect(
                migrated.output
                    == "The schema is up to date.\nThe roles sluice_gateway and sluice_reader are set up.\n"
            )
            for role in [gateway, analyst, other] { try await execute("CREATE ROLE \(role) LOGIN") }
            try await execute("GRANT sluice_gateway TO \(gateway)")
        }

        func sluice(_ arguments: String...) async throws -> Program.Result {
            try await Program.run(arguments, environment: ["SLUICE_DATABASE_URL": database.uri])
        }

        func execute(_ script: String) async throws {
            let connection = try await database.connect()
            defer { connection.close() }
            try await connection.execute(script: script)
        }

        /// The first column of a query's result for a role.
        func ask(_ sql: String, as role: String? = nil, after script: String? = nil) async throws -> [String] {
            let uri = role.map { database.uri(user: $0) } ?? database.uri
            let connection = try await Connection.open(ConnectionConfiguration(uri: uri))
            defer { connection.close() }
            if let script { try await connection.execute(script: script) }
            let rows = try await connection.run(Query(Statement("", sql)))
            return try (0..<rows.count).map { try rows.read($0, 0, as: String.self) }
        }

        /// The SQLSTATE of a role's rejected query.
        func refusal(_ script: String, as role: String) async throws -> String? {
            let configuration = ConnectionConfiguration(uri: database.uri(user: role))
            let connection = try await Connection.open(configuration)
            defer { connection.close() }
            do {
                try await connection.execute(script: script)
                return nil
            } catch {
                return error.sqlState
            }
        }

        func tables() async throws -> [String] {
            try await ask(
                """
                SELECT relname::text FROM pg_class WHERE relnamespace = 'public'::regnamespace
                    AND relkind IN ('r', 'p') AND NOT relispartition AND relname NOT LIKE 'schema_migrations%'
                ORDER BY 1
                """
            )
        }

        func partitions() async throws -> [String] {
            try await ask("SELECT relname::text FROM pg_class WHERE relispartition AND relkind = 'r' ORDER BY 1")
        }

        func end() async throws {
            for role in [gateway, analyst, other] { try await execute("DROP ROLE \(role)") }
        }
    }

    private static let readable: Set = [
        "organizations", "entity_types", "feeds", "users", "devices", "lanes", "mutations", "rejections",
        "id_mappings", "local_ids", "entities",
    ]

    private static func column(_ table: String) -> String { table == "organizations" ? "id" : "organization_id" }

    /// The database provides the list, so tables of later migrations are included.
    @Test func `every table and partition is secured, and analysts can read only the listed ones`() async throws {
        let place = try await Place()
        let open = try await place.ask(
            """
            SELECT relname::text FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p')
                AND NOT relrowsecurity AND relname NOT LIKE 'schema_migrations%'
            """
        )
        #expect(open == [])
        let tables = try await place.tables()
        let policies = try await place.ask("SELECT tablename || ' ' || policyname FROM pg_policies ORDER BY 1")
        for table in tables { #expect(policies.contains("\(table) gateway"), "\(table)") }
        let readers = policies.filter { $0.hasSuffix(" reader") }.map { $0.replacing(" reader", with: "") }
        #expect(Set(readers) == Self.readable.union(["readers"]))
        let granted = try await place.ask(
            """
            SELECT table_name || ' ' || string_agg(privilege_type, ',' ORDER BY privilege_type)
            FROM information_schema.role_table_grants WHERE grantee = 'sluice_reader' GROUP BY table_name
            """
        )
        #expect(Set(granted) == Set(Self.readable.union(["readers"]).map { "\($0) SELECT" }))
        let gateway = try await place.ask(
            """
            SELECT table_name || ' ' || string_agg(privilege_type, ',' ORDER BY privilege_type)
            FROM information_schema.role_table_grants WHERE grantee = 'sluice_gateway' GROUP BY table_name
            """
        )
        var expected = Set(tables.map { "\($0) DELETE,INSERT,SELECT,UPDATE" })
        expected.remove("readers DELETE,INSERT,SELECT,UPDATE")
        expected.formUnion(["readers DELETE,SELECT", "schema_migrations SELECT", "schema_migrations_lock SELECT"])
        #expect(Set(gateway) == expected)

        // the next run covers new tables without an option
        try await place.execute("CREATE TABLE later (organization_id uuid PRIMARY KEY, secret bytea)")
        #expect(try await place.sluice("migrate").output == "The schema is up to date.\n")
        #expect(try await place.refusal("SELECT FROM later", as: place.gateway) == nil)
        try await place.execute("GRANT sluice_reader TO \(place.analyst)")
        #expect(try await place.refusal("SELECT FROM later", as: place.analyst) == "42501")
        #expect(try await place.ask("SELECT relrowsecurity::text FROM pg_class WHERE relname = 'later'") == ["true"])
        try await place.end()
    }

    /// Two tenants, each with an analyst. ``ClusterRolesTests`` covers clusters, where the other servers receive the
    /// queries with the role that was set.
    @Test(.enabled(if: TestCluster.citusURI == nil))
    func `an analyst sees only the rows of the organization despite all attempts`() async throws {
        let place = try await Place()
        let fixture = try await TwoTenantFixture(
            #"{"requests_per_second":1000,"mutations_per_day_per_user":1000}"#,
            on: place.database
        )
        for worker in [fixture.ada, fixture.bob, fixture.eve] {
            var bad = worker.create()
            bad["priority"] = "-1"
            _ = try await worker.push([worker.create("task"), worker.create("note"), bad])
            let path = "/admin/organizations/\(worker.organization.lowercased)/upstream"
            let upstream = #"{"base_url":"http://127.0.0.1:1","credential":{"bearer":"hush-hush"}}"#
            #expect(try await fixture.operate(.PUT, path, upstream).status < 300)
            try await fixture.execute(
                """
                INSERT INTO local_ids (organization_id, user_id, device_id, entity_type, local_id, server_id)
                VALUES ('\(worker.organization)', '\(worker.user)', gen_random_uuid(), 'task', 1, 'a')
                """
            )
        }
        let (own, others) = (fixture.ada.organization.lowercased, fixture.eve.organization.lowercased)
        for (organization, role) in [(own, place.analyst), (others, place.other)] {
            let added = try await place.sluice("organizations", "readers", "add", organization, role)
            #expect(added.status == 0 && added.output == "\(role) reads \(organization)\n", "\(added.complaint)")
        }

        // none of these changes the current role
        let tricks = [
            "", "SET ROLE sluice_reader", "SET row_security = on",
            "SELECT set_config('app.organization_id', '\(others)', false)",
            "SET search_path = pg_temp, public; CREATE TEMP TABLE readers AS SELECT '\(others)'::uuid AS "
                + "organization_id, session_user AS role_name",
            "CREATE FUNCTION pg_temp.session_user() RETURNS name LANGUAGE sql AS $$ SELECT '\(place.other)'::name $$",
            "SET default_transaction_isolation = serializable",
        ]
        for table in try await place.tables() where Self.readable.contains(table) {
            let column = Self.column(table)
            let all = try await place.ask("SELECT x::text FROM \(table) x WHERE \(column) = '\(own)' ORDER BY 1")
            #expect(!all.isEmpty, "\(table)")
            for trick in tricks {
                let seen = try await place.ask(
                    "SELECT x::text FROM public.\(table) x ORDER BY 1",
                    as: place.analyst,
                    after: trick
                )
                #expect(seen == all, "\(table) after \(trick)")
            }
            let sought = try await place.ask(
                "SELECT x::text FROM \(table) x WHERE \(column) = '\(others)'",
                as: place.analyst
            )
            #expect(sought == [], "\(table)")
            // a leaking function receives no rows of other organizations
            let reported = try await place.ask(
                "SELECT \(column)::text FROM \(table) WHERE pg_temp.tell(\(column))",
                as: place.analyst,
                after: """
                    CREATE FUNCTION pg_temp.tell(id uuid) RETURNS boolean LANGUAGE plpgsql COST 0.0000001 AS $$ BEGIN
                        IF id = '\(others)' THEN RAISE EXCEPTION 'seen'; END IF; RETURN true; END $$
                    """
            )
            #expect(Set(reported) == [own], "\(table)")
        }

        var forbidden = [
            "SET ROLE sluice_gateway", "SET ROLE postgres", "SET ROLE \(place.other)",
            "SET SESSION AUTHORIZATION \(place.other)", "SELECT credential FROM upstreams", "SELECT 1 FROM upstreams",
            "SELECT 1 FROM request_quotas", "SELECT 1 FROM mutation_quotas", "SELECT 1 FROM schema_migrations",
            "SELECT 1 FROM pg_statistic", "CREATE TABLE mine ()", "SET row_security = off; SELECT 1 FROM mutations",
            "INSERT INTO readers VALUES ('\(others)', '\(place.analyst)', now())", "SELECT pg_read_file('/etc/passwd')",
            "UPDATE readers SET organization_id = '\(others)'", "COPY mutations FROM '/dev/null'",
            "SELECT 1 FROM organizations FOR UPDATE", "SELECT 1 FROM lanes FOR SHARE", "BEGIN; LOCK TABLE lanes",
            "CREATE POLICY mine ON mutations USING (true)", "ALTER TABLE mutations DISABLE ROW LEVEL SECURITY",
        ]
        for table in try await place.tables() {
            forbidden += ["DELETE FROM \(table)", "TRUNCATE \(table)", "UPDATE \(table) SET created_at = now()"]
        }
        forbidden += try await place.partitions().map { "SELECT 1 FROM \($0)" }
        for script in forbidden {
            let state = try await place.refusal(script, as: place.analyst)
            #expect(state == "42501" || script.contains("created_at") && state == "42703", "\(script): \(state ?? "-")")
        }
        // only the role's own binding is visible
        #expect(try await place.ask("SELECT role_name::text FROM readers", as: place.analyst) == [place.analyst])
        // the planner's statistics over all organizations are not visible
        try await place.execute("ANALYZE")
        let statistics = "SELECT tablename::text FROM pg_stats WHERE schemaname = 'public'"
        #expect(try await place.ask(statistics, as: place.analyst) == [])
        #expect(try await place.ask("SELECT 'hush' FROM pg_stats WHERE tablename ~ 'mutations'").isEmpty == false)

        // a removal takes effect immediately, also for open connections
        let connection = try await Connection.open(
            ConnectionConfiguration(uri: place.database.uri(user: place.analyst))
        )
        let count = Query(Statement("n", "SELECT count(*) FROM mutations"))
        #expect(try await connection.run(count).read(0, 0, as: Int64.self) == 4)
        let removed = try await place.sluice("organizations", "readers", "remove", own, place.analyst)
        #expect(removed.status == 0, "\(removed.complaint)")
        await #expect(throws: PostgresError.self) { try await connection.run(count) }
        connection.close()
        try await place.end()
    }

    @Test func `binds a reader to one organization, and only a role that row-level security restricts`() async throws {
        let place = try await Place()
        let (first, second) = (UUID().lowercased, UUID().lowercased)
        for id in [first, second] {
            #expect(try await place.sluice("organizations", "create", "Tenant", "--id", id, "--force").status == 0)
        }
        func readers(_ arguments: String...) async throws -> Program.Result {
            try await Program.run(
                ["organizations", "readers"] + arguments,
                environment: ["SLUICE_DATABASE_URL": place.database.uri]
            )
        }
        let none = try await readers("list", first)
        #expect(none.status == 0 && none.output == "")
        #expect(try await readers("add", first, place.analyst).status == 0)
        #expect(try await readers("add", first, place.analyst).output == "\(place.analyst) reads \(first) already\n")
        #expect(try await readers("list", first).output == "\(place.analyst)\n")
        #expect(try await readers("list", second).output == "")
        let json = try await readers("list", first, "--json").output
        #expect(json.hasPrefix(#"{"readers":[{"role":"\#(place.analyst)","created_at":"20"#))

        // roles are not part of a copied database
        try await place.execute("REVOKE sluice_reader FROM \(place.analyst)")
        let listed = try await readers("list", first)
        #expect(listed.output == "\(place.analyst)\n" && listed.complaint.contains("a membership is missing"))
        #expect(try await readers("list", first, "--json").output.contains(#""effective":false"#))
        #expect(try await readers("add", first, place.analyst).output == "\(place.analyst) reads \(first)\n")
        #expect(try await readers("list", first).complaint == "")

        let twice = try await readers("add", second, place.analyst)
        #expect(twice.status == 1)
        #expect(twice.complaint == "sluice: \"\(place.analyst)\" reads another organization; a role reads one\n")
        // a role that bypasses row-level security, or that can assume such a role, is refused
        try await place.execute("GRANT \(place.gateway) TO \(place.other)")
        for role in ["postgres", place.gateway, place.other] {
            let refused = try await readers("add", first, role)
            #expect(refused.status == 1)
            #expect(refused.complaint.contains("would see every organization"), "\(refused.complaint)")
        }
        let unknown = try await readers("add", first, #"no"body"#)
        #expect(unknown.complaint.contains("there is no role"))
        #expect(try await readers("add", UUID().lowercased, place.analyst).complaint.contains("no organization"))
        #expect(try await readers("remove", second, place.analyst).status == 1)
        let removed = try await readers("remove", first, place.analyst)
        #expect(removed.output == "\(place.analyst) no longer reads \(first)\n")
        #expect(try await place.ask("SELECT role_name::text FROM readers") == [])

        // a purge ends the binding as well
        #expect(try await readers("add", second, place.analyst).status == 0)
        #expect(try await place.sluice("organizations", "purge", second, "--yes").status == 0)
        #expect(try await place.ask("SELECT role_name::text FROM readers") == [])
        #expect(try await place.ask("SELECT count(*)::text FROM organizations", as: place.analyst) == ["0"])
        try await place.end()
    }

    /// The typical setup: the owner of the tables is not a superuser, and cannot create roles.
    @Test func `an owner without the privilege to grant gets the command to run and continues`() async throws {
        let place = try await Place()
        let owner = "t_owner_\(UInt32.random(in: 0...(.max)))"
        let empty = try await TestDatabase.make()
        let administrator = try await empty.connect()
        try await administrator.execute(script: "CREATE ROLE \(owner) LOGIN; GRANT ALL ON SCHEMA public TO \(owner)")
        func sluice(_ arguments: String...) async throws -> Program.Result {
            try await Program.run(arguments, environment: ["SLUICE_DATABASE_URL": empty.uri(user: owner)])
        }
        // the roles exist, created for another database of the server
        let migrated = try await sluice("migrate", "--roles", "--partitions", "2")
        #expect(migrated.status == 0, "\(migrated.complaint)")
        let id = UUID().lowercased
        #expect(try await sluice("organizations", "create", "Tenant", "--id", id).status == 0)
        let refused = try await sluice("organizations", "readers", "add", id, place.analyst)
        #expect(refused.status == 1)
        let membership = "GRANT sluice_reader TO \(place.analyst)"
        #expect(refused.complaint.contains("as a superuser, run: \(membership);"), "\(refused.complaint)")
        #expect(try await sluice("organizations", "readers", "list", id).output == "")
        try await administrator.execute(script: membership)
        #expect(try await sluice("organizations", "readers", "add", id, place.analyst).status == 0)

        let analyst = try await Connection.open(ConnectionConfiguration(uri: empty.uri(user: place.analyst)))
        let count = Query(Statement("n", "SELECT count(*) FROM organizations"))
        #expect(try await analyst.run(count).read(0, 0, as: Int64.self) == 1)
        // the role is still a member of the readers, but no longer bound to an organization
        #expect(try await sluice("organizations", "readers", "remove", id, place.analyst).status == 0)
        #expect(try await analyst.run(count).read(0, 0, as: Int64.self) == 0)
        analyst.close()
        // the owner of the tables would see all rows
        let own = try await sluice("organizations", "readers", "add", id, owner)
        #expect(own.complaint.contains("would see every organization"), "\(own.complaint)")
        try await administrator.execute(script: "DROP OWNED BY \(owner) CASCADE; DROP ROLE \(owner)")
        await administrator.closeAndWait()
        try await place.end()
    }

    @Test func `a gateway without ownership can do all of its work`() async throws {
        let place = try await Place()
        let server = try await KintoServer.shared()
        let fixture = try await TwoTenantFixture(
            #"{"requests_per_second":1000,"mutations_per_day_per_user":1000}"#,
            on: place.database,
            as: place.gateway,
            forwards: true
        )
        #expect(try await send(.GET, fixture.gateway.operations + "/readyz").status == 200)
        let login = Data("\(fixture.ada.user.lowercased):x".utf8).base64EncodedString()
        let upstream = #"""
            {"base_url":"\#(server.baseURL)/buckets/default/collections/notes","id_pointer":"/data/id",
             "credential":{"header":"Authorization","value":"Basic \#(login)"}}
            """#
        #expect(try await fixture.operate(.PUT, fixture.admin + "/upstream", upstream).status == 201)
        let type = fixture.admin + "/entity-types/task"
        #expect(try await fixture.operate(.PUT, type, #"{"upstream":false,"visibility":"organization"}"#).status < 300)
        let (note, task) = (UUID(), UUID())
        let (listener, _) = try await fixture.ada.listen()
        let drafts = [
            fixture.ada.create("note", local: note, #"{"data":{"a":1}}"#).with(["endpoint": #""/records""#]),
            fixture.ada.draft("update", "note", ["local_id": note.quoted, "payload": #"{"data":{"b":2}}"#])
                .with(["endpoint": #""/records/{local_id}""#]),
            fixture.ada.create("task", local: task),
        ]
        let pushed = try await fixture.ada.push(drafts, prefer: "wait=30")
        #expect(pushed.statuses == ["succeeded", "succeeded", "succeeded"], "\(pushed.text)")
        #expect(try await fixture.ada.push(drafts).results.allSatisfy { $0["replayed"]?.bool == true })
        #expect(try await listener.next()?.event == "mutation")
        // a conflict, settled
        let server_id = try #require(pushed.results[2]["server_id"]?.string)
        #expect(try await fixture.bob.push([fixture.bob.change(server: server_id)]).statuses == ["succeeded"])
        let late = fixture.ada.change(server: server_id, base: 0)
        #expect(try await fixture.ada.push([late]).statuses == ["conflict"])
        let settled = try await send(
            .POST,
            fixture.gateway.address + "/v1/mutations/\(late.id)/resolve",
            token: fixture.ada.token,
            body: Array(#"{"strategy":"client_wins"}"#.utf8)
        )
        #expect(settled.status == 200, "\(settled.text)")
        #expect(try await fixture.ada.get("/v1/mutations/\(late.id)?wait=30").json?["status"]?.string == "succeeded")
        for path in ["/v1/changes", "/v1/id-mappings", "/v1/backlog", "/v1/mutations"] {
            #expect(try await fixture.ada.get(path).status == 200, "\(path)")
        }
        #expect(try await fixture.ada.preview([fixture.ada.create()]).status == 200)
        let user = fixture.admin + "/users/\(UUID().lowercased)"
        #expect(try await fixture.operate(.PUT, user).status == 201)
        #expect(try await fixture.operate(.DELETE, user).status == 204)
        #expect(try await fixture.operate(.DELETE, fixture.admin).status == 204)
        #expect(try await fixture.mentions(of: fixture.ada.organization.lowercased).filter { $0.value > 0 } == [:])

        // the gateway's role may do nothing else
        for script in [
            "TRUNCATE mutations", "DROP TABLE mutations", "ALTER TABLE mutations ADD x int", "CREATE TABLE mine ()",
            "INSERT INTO schema_migrations VALUES ('9', 'x')", "DELETE FROM schema_migrations",
            "INSERT INTO readers VALUES ('\(UUID())', 'me', now())", "UPDATE readers SET role_name = 'me'",
            "ALTER TABLE mutations DISABLE ROW LEVEL SECURITY",
        ] + (TestCluster.citusURI == nil ? ["SELECT 1 FROM mutations_p0"] : []) {
            #expect(try await place.refusal(script, as: place.gateway) == "42501", "\(script)")
        }
    }

    /// Row-level security adds no cost, because the gateway's plans equal the owner's. The test runs on a single
    /// server, because a cluster has other plans.
    @Test(.enabled(if: TestCluster.citusURI == nil))
    func `the gateway's plans equal the owner's`() async throws {
        let place = try await Place()
        let queries = [
            "SELECT * FROM mutations WHERE organization_id = $1 AND user_id = $1 AND idempotency_key = $1",
            """
            SELECT m.* FROM unnest(ARRAY[$1::uuid]) k (id) CROSS JOIN LATERAL (
                SELECT * FROM lanes x WHERE x.organization_id = k.id AND x.user_id = k.id FOR UPDATE) m
            """,
            """
            INSERT INTO devices AS d SELECT $1, $1, $1, 1, now(), now()
            ON CONFLICT (organization_id, user_id, device_id) DO UPDATE SET last_seen_at = excluded.last_seen_at
            """,
            "SELECT * FROM entities WHERE organization_id = $1 AND entity_type = 'a' AND id = 'b'",
            "SELECT * FROM entities WHERE organization_id = $1 AND feed_position > 5 ORDER BY feed_position LIMIT 10",
            "UPDATE lanes l SET ready_at = NULL FROM unnest(ARRAY[$1::uuid]) k (id) WHERE l.organization_id = k.id",
        ]
        for query in queries {
            let explain = "EXPLAIN (COSTS off) " + query.replacing("$1", with: "'\(UUID())'")
            let plans = (
                try await place.ask(explain.replacing("now()", with: "'2026-01-01'")),
                try await place.ask(explain.replacing("now()", with: "'2026-01-01'"), as: place.gateway)
            )
            #expect(plans.0 == plans.1, "\(plans.1.joined(separator: "\n"))")
        }
        try await place.end()
    }

    @Test func `an owner who cannot create roles gets the commands to run`() async throws {
        let cluster = try await TestCluster.dedicated()
        let database = try await TestDatabase.make(on: cluster)
        let superuser = try await database.connect()
        try await superuser.execute(script: "CREATE ROLE owner LOGIN; GRANT ALL ON SCHEMA public TO owner")
        func sluice(_ arguments: String...) async throws -> Program.Result {
            try await Program.run(
                arguments + ["--partitions", "2"],
                environment: ["SLUICE_DATABASE_URL": database.uri(user: "owner")]
            )
        }
        let refused = try await sluice("migrate", "--roles")
        #expect(refused.status == 1)
        #expect(refused.output.hasPrefix("applied 0001_base\n"), "the permitted part is done")
        let creation = "CREATE ROLE sluice_gateway NOLOGIN; CREATE ROLE sluice_reader NOLOGIN"
        #expect(refused.complaint.contains("as a superuser, run: \(creation);"), "\(refused.complaint)")
        #expect(try await sluice("migrate").status == 0)
        try await superuser.execute(script: creation)
        let dry = try await sluice("migrate", "--roles", "--dry-run")
        #expect(dry.output.contains("would set up the roles sluice_gateway and sluice_reader"))
        #expect(try await sluice("migrate", "--roles").status == 0)
        #expect(try await sluice("migrate").output == "The schema is up to date.\n")

        // an unrestricted role with the same name is not accepted
        try await superuser.execute(script: "ALTER ROLE sluice_reader SUPERUSER")
        #expect(try await sluice("migrate").complaint.contains("bypasses row-level security"))
        await superuser.closeAndWait()
        await cluster.close()
    }

    /// If a long read locks the tables, the change gives up and is retried, so that gateways do not queue after it.
    @Test func `setting up roles does not wait long for locks`() async throws {
        let place = try await Place()
        try await place.execute("ALTER TABLE lanes DISABLE ROW LEVEL SECURITY")
        let reader = try await place.database.connect()
        try await reader.execute(script: "BEGIN; SELECT FROM lanes")
        async let migrated = place.sluice("migrate")
        let waiting = Statement(
            "waiting",
            "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'lanes'::regclass"
        )
        let other = try await place.database.connect()
        try await waitUntil("it waits for the reader") {
            try await other.run(Query(waiting)).read(0, 0, as: Int64.self) > 0
        }
        // the reader continues, so the change does not succeed because the reader ended
        try await other.execute(script: "SELECT FROM lanes")
        try await reader.execute(script: "COMMIT")
        #expect(try await migrated.status == 0)
        #expect(try await place.ask("SELECT relrowsecurity::text FROM pg_class WHERE relname = 'lanes'") == ["true"])
        reader.close()
        other.close()
        try await place.end()
    }

    @Test func `a migration does not add the roles to a database without them`() async throws {
        let database = try await LiveGateway.migratedDatabase()
        let result = try await Program.run(["migrate"], environment: ["SLUICE_DATABASE_URL": database.uri])
        #expect(result.output == "The schema is up to date.\n")
        let connection = try await database.connect()
        let policies = try await connection.run(Query(Statement("n", "SELECT count(*) FROM pg_policies")))
        #expect(try policies.read(0, 0, as: Int64.self) == 0)
        connection.close()
    }

    @Test func `the doctor accepts a gateway without ownership that may check migrations`() async throws {
        let place = try await Place()
        let environment = GatewayProcess.environment(
            database: place.database.uri(user: place.gateway),
            ports: (try LoopbackPort.reserve(), try LoopbackPort.reserve())
        )
        let doctor = try await Program.run(["doctor"], environment: environment)
        #expect(doctor.output.contains("ok       role: \(place.gateway) owns no tables"), "\(doctor.output)")
        let migrate = try await Program.run(["migrate"], environment: environment)
        #expect(migrate.status == 0, "\(migrate.complaint)")
        #expect(migrate.output == "The schema is up to date.\n")
        let roles = try await Program.run(["migrate", "--roles"], environment: environment)
        #expect(roles.status == 1 && roles.complaint.contains("as the owner of the tables"), "\(roles.complaint)")
        let restored = try await Program.run(["after-restore"], environment: environment)
        #expect(restored.status == 0, "\(restored.complaint)")
        let retention = try await Program.run(["retention"], environment: environment)
        #expect(retention.status == 0, "\(retention.complaint)")
    }
}
