import Foundation
import GatewaySupport
import JSONText
import NIOHTTP1
import Postgres
import SyncHTTP
import SyncModel
import TestSupport
import Testing

/// `DELETE /admin/organizations/{id}`
@Suite struct PurgeTests {
    @Test func `a purge deletes all rows of the tenant and no rows of others`() async throws {
        let fixture = try await TwoTenantFixture()
        let eves = try await fixture.eve.push([fixture.eve.create(), fixture.eve.create("note")])
        let others = try await Self.rows(fixture, of: fixture.eve)
        for worker in [fixture.ada, fixture.bob] {
            var bad = worker.create()
            bad["priority"] = "-1"
            let pushed = try await worker.push([worker.create("task"), worker.create("note"), bad])
            let server = pushed.results[0]["server_id"]?.string ?? "-"
            _ = try await worker.push([worker.change("delete", server: server)])
        }
        let upstream = #"{"base_url":"http://127.0.0.1:1","credential":{"bearer":"x"}}"#
        #expect(try await fixture.operate(.PUT, fixture.admin + "/upstream", upstream).status == 201)
        #expect(try await Self.rows(fixture, of: fixture.ada).values.reduce(0, +) > 15)
        let feed = try #require(try await fixture.ada.get("/v1/changes").next)
        let mapping = try #require(try await fixture.ada.get("/v1/id-mappings").next)
        let (_, event) = try await fixture.ada.listen()

        let reply = try await fixture.operate(.DELETE, fixture.admin)
        #expect(reply.status == 204)
        #expect(reply.body.isEmpty)
        for id in [fixture.ada.organization, fixture.ada.user, fixture.bob.user, fixture.ada.device].map(\.lowercased) {
            #expect(try await fixture.mentions(of: id).filter { $0.value > 0 } == [:])
        }
        #expect(try await Self.rows(fixture, of: fixture.eve) == others)
        #expect(try await fixture.eve.get("/v1/changes").changes.count == 2)
        #expect(eves.statuses == ["succeeded", "succeeded"])

        expectProblem(try await fixture.operate(.GET, fixture.admin), .notFound, errors: [])
        expectProblem(try await fixture.operate(.DELETE, fixture.admin), .notFound, errors: [])
        for answer in [try await fixture.ada.get("/v1/changes"), try await fixture.ada.push([fixture.ada.create()])] {
            expectProblem(answer, .organizationUnknown, errors: [])
        }

        // a new organization with the same id is independent
        #expect(try await fixture.operate(.PUT, fixture.admin, #"{"name":"Again"}"#).status == 201)
        #expect(try await fixture.ada.get("/v1/changes").text.hasPrefix(#"{"changes":[]"#))
        #expect(try await fixture.ada.get("/v1/mutations").mutations.isEmpty)
        let expired = try await fixture.ada.get("/v1/changes?since=\(feed)")
        expectProblem(expired, .cursorExpired)
        #expect(expired.json?["snapshot"]?.string == "/v1/changes")
        expectProblem(try await fixture.ada.get("/v1/id-mappings?since=\(mapping)"), .cursorExpired)
        let events = try await send(
            .GET,
            fixture.gateway.address + "/v1/events",
            token: fixture.ada.token,
            headers: [("Last-Event-ID", event)]
        )
        expectProblem(events, .cursorExpired)
        let device = try await SyncWorker(
            fixture.gateway,
            organization: fixture.ada.organization,
            user: fixture.ada.user
        )
        #expect(try await device.push([device.create()]).json?["accepted_sequence"]?.int64 == 1)
    }

    @Test func `concurrent pushes are accepted or rejected, and leave no rows`() async throws {
        let fixture = try await TwoTenantFixture()
        var phones: [SyncWorker] = []
        for _ in 0..<6 { phones.append(try await SyncWorker(fixture.gateway, organization: fixture.ada.organization)) }
        let replies = try await withThrowingTaskGroup(of: Reply.self) { [phones] group in
            for worker in phones {
                for _ in 0..<5 { group.addTask { try await worker.push([worker.create(), worker.create()]) } }
            }
            group.addTask { try await fixture.operate(.DELETE, fixture.admin) }
            return try await group.reduce(into: [Reply]()) { $0.append($1) }
        }
        #expect(replies.filter { $0.status == 204 }.count == 1)
        for reply in replies where reply.status != 204 && reply.status != 200 {
            expectProblem(reply, .organizationUnknown, errors: [])
        }
        #expect(try await fixture.mentions(of: fixture.ada.organization.lowercased).filter { $0.value > 0 } == [:])
    }

    @Test func `a suspended organization can be purged`() async throws {
        let fixture = try await TwoTenantFixture()
        _ = try await fixture.ada.push([fixture.ada.create()])
        _ = try await fixture.operate(.PUT, fixture.admin, #"{"status":"suspended"}"#)
        #expect(try await fixture.operate(.DELETE, fixture.admin).status == 204)
        #expect(try await fixture.mentions(of: fixture.ada.organization.lowercased).filter { $0.value > 0 } == [:])
    }

    // MARK: - Every table

    /// The test reads the list of tables from the database, so new tables are covered automatically.
    @Test func `a purge covers every table and leaves the other tenant's rows unchanged`() async throws {
        let fixture = try await TwoTenantFixture(#"{"requests_per_second":1000,"mutations_per_day_per_user":1000}"#)
        _ = try await fixture.operate(
            .PUT,
            "/admin/organizations/\(fixture.eve.organization.lowercased)",
            #"{"settings":{"requests_per_second":1000,"mutations_per_day_per_user":1000}}"#
        )
        for worker in [fixture.ada, fixture.bob, fixture.eve] {
            var bad = worker.create()
            bad["priority"] = "-1"
            _ = try await worker.push([worker.create("task"), worker.create("note"), bad])
            let path = "/admin/organizations/\(worker.organization.lowercased)/upstream"
            _ = try await fixture.operate(.PUT, path, #"{"base_url":"http://127.0.0.1:1"}"#)
        }
        for organization in [fixture.ada.organization, fixture.eve.organization] {
            let path = "/admin/organizations/\(organization.lowercased)/webhooks"
            let made = try await fixture.operate(.POST, path, #"{"url":"https://hooks.example/"}"#)
            let id = try #require(made.json?["id"]?.string)
            #expect(try await fixture.operate(.POST, "\(path)/\(id)/test").status == 202)
        }
        for (worker, role) in [(fixture.ada, "somebody"), (fixture.eve, "somebody_else")] {
            try await fixture.execute("INSERT INTO readers VALUES ('\(worker.organization)', '\(role)', now())")
            try await fixture.execute("INSERT INTO retention_places VALUES ('\(worker.organization)')")
            try await fixture.execute(
                """
                INSERT INTO organization_keys (organization_id, number, master_key, wrapped_key, created_at)
                VALUES ('\(worker.organization)', 1, 'of-a-test 00000000', decode(repeat('00', 60), 'hex'), now());
                INSERT INTO user_keys (organization_id, made_for, user_id, master_key, wrapped_key, created_at)
                VALUES ('\(worker.organization)', '\(UUID())', '\(worker.user)', 'of-a-test 00000000',
                    decode(repeat('00', 60), 'hex'), now())
                """
            )
            try await fixture.execute(
                """
                INSERT INTO local_ids (organization_id, user_id, device_id, entity_type, local_id, server_id)
                VALUES ('\(worker.organization)', '\(worker.user)', gen_random_uuid(), 'task', 1, 'a'),
                    ('\(worker.organization)', '\(worker.user)', gen_random_uuid(), 'task', 1, 'b');
                INSERT INTO local_id_pages (organization_id, user_id, device_id, page, since_page, counters)
                VALUES ('\(worker.organization)', '\(worker.user)', gen_random_uuid(), 1, 0, '{}');
                INSERT INTO entity_channels (organization_id, channel, changed_at, joined_at)
                VALUES ('\(worker.organization)', gen_random_uuid(), 1, 1);
                INSERT INTO ended_stays (organization_id, channel, left_at, joined_at, entity_type, id, id_is_integer)
                VALUES ('\(worker.organization)', gen_random_uuid(), 2, 1, 'task', 'a', false);
                INSERT INTO channel_grants (organization_id, user_id, channel, source, since, name, role, changed_at)
                VALUES ('\(worker.organization)', '\(worker.user)', gen_random_uuid(), 'operator', 1, 'a', 'read', 1);
                INSERT INTO token_channels (organization_id, user_id, source, issued_at, digest)
                VALUES ('\(worker.organization)', '\(worker.user)', 'issuer', 1, gen_random_uuid());
                INSERT INTO user_subjects (organization_id, issuer, subject, user_id, created_at)
                VALUES ('\(worker.organization)', 'issuer', 'somebody', gen_random_uuid(), now());
                INSERT INTO external_ids (organization_id, issuer, external_id, created_at)
                VALUES ('\(worker.organization)', 'issuer', '\(role)', now());
                INSERT INTO user_joins (organization_id, user_id, into_id, started_at, feed_end, finished_at)
                VALUES ('\(worker.organization)', gen_random_uuid(), gen_random_uuid(), now(), 0, now());
                INSERT INTO user_erasures (organization_id, user_hash, started_at, state, finished_at)
                VALUES ('\(worker.organization)', sha256('a'), now(), 'done', now());
                INSERT INTO erased_subjects (organization_id, subject_hash, user_hash)
                VALUES ('\(worker.organization)', sha256('b'), sha256('a'));
                INSERT INTO erased_names (organization_id, user_hash, name_hash)
                VALUES ('\(worker.organization)', sha256('a'), sha256('c'));
                INSERT INTO erasure_salts (organization_id, salt) VALUES ('\(worker.organization)', sha256('d'))
                """
            )
        }
        for worker in [fixture.ada, fixture.eve] {
            let id = worker.organization
            try await fixture.execute(
                """
                INSERT INTO service_tokens (organization_id, id, source, secret_hash, created_at)
                VALUES ('\(id)', gen_random_uuid(), 'crm', decode(repeat('00', 32), 'hex'), now());
                INSERT INTO ingested_events VALUES ('\(id)', 'crm', 'a', 'applied', now());
                INSERT INTO parked_events (organization_id, source, event_id, entity_type, id, id_is_integer, operation,
                    received_at, look_at)
                VALUES ('\(id)', 'crm', 'b', 'task', '1', true, 'delete', now(), now() + interval '100 years');
                INSERT INTO sent_requests (organization_id, idempotency_key, entity_type, sent_at)
                VALUES ('\(id)', gen_random_uuid(), 'task', now());
                INSERT INTO sources (organization_id, name, kind, status, settings, created_at, updated_at)
                VALUES ('\(id)', 'crm', 'webhook', 'disabled', '{}', now(), now());
                INSERT INTO attempts (organization_id, user_id, mutation_id, slot, ordinal, revision, number, sent_at, outcome)
                VALUES ('\(id)', '\(worker.user)', gen_random_uuid(), 1, 1, 1, 1, now(), 'retry');
                INSERT INTO entity_references (organization_id, to_type, to_id, entity_type, id, member)
                VALUES ('\(id)', 'task', '1', 'note', '1', 'task_id');
                INSERT INTO operations (organization_id, id, kind, statuses, reason, actor, per_second, state, created_at,
                    changed_at, ended_at)
                VALUES ('\(id)', gen_random_uuid(), 'retry', '{}', 'x', 'anna', 1, 'done', now(), now(), now())
                """
            )
        }
        let tables = try await Self.tables(fixture)
        #expect(tables.count >= 14)
        let purged = try await Self.checksums(fixture, of: fixture.ada)
        let kept = try await Self.checksums(fixture, of: fixture.eve)
        for table in tables.keys {
            #expect(purged[table]?.hasPrefix("0 ") == false, "\(table) has no row to be purged: give it one here")
            #expect(kept[table]?.hasPrefix("0 ") == false, "\(table) has no row to be kept: give it one here")
        }
        #expect(try await fixture.operate(.DELETE, fixture.admin).status == 204)
        for (table, rows) in try await Self.checksums(fixture, of: fixture.ada) { #expect(rows == "0 -", "\(table)") }
        #expect(try await Self.checksums(fixture, of: fixture.eve) == kept)
    }

    /// The purge is interrupted between any two statements, and the next attempt purges the rest.
    @Test(.onOneServer("has a trigger on a table")) func `an interrupted purge continues`() async throws {
        for table in ["mutations", "id_mappings", "entities", "devices", "feeds", "organizations"] {
            let fixture = try await TwoTenantFixture()
            _ = try await fixture.ada.push([fixture.ada.create(), fixture.ada.create()])
            _ = try await fixture.eve.push([fixture.eve.create()])
            let kept = try await Self.checksums(fixture, of: fixture.eve)
            // the database fails at this table, for this organization's rows
            try await fixture.execute(
                """
                CREATE FUNCTION cut_off() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                    RAISE EXCEPTION 'cut off' USING ERRCODE = 'admin_shutdown'; END $$;
                CREATE TRIGGER cut_off BEFORE DELETE ON \(table) FOR EACH ROW EXECUTE FUNCTION cut_off();
                """
            )
            #expect(try await fixture.operate(.DELETE, fixture.admin).status >= 500, "\(table)")
            // the organization accepts no requests from the first step on
            expectProblem(try await fixture.ada.push([fixture.ada.create()]), .organizationUnknown, errors: [])
            expectProblem(
                try await fixture.operate(.PUT, fixture.admin, #"{"status":"active"}"#),
                .notFound,
                errors: []
            )
            #expect(try await fixture.eve.get("/v1/changes").status == 200)
            try await fixture.execute("DROP TRIGGER cut_off ON \(table)")
            #expect(try await fixture.operate(.DELETE, fixture.admin).status == 204, "\(table)")
            for (table, rows) in try await Self.checksums(fixture, of: fixture.ada) {
                #expect(rows == "0 -", "\(table)")
            }
            #expect(try await Self.checksums(fixture, of: fixture.eve) == kept)
        }
    }

    @Test func `a purge ends event streams and waiting requests`() async throws {
        let fixture = try await TwoTenantFixture {
            $0.keepAlive = .milliseconds(50)
            $0.checkInterval = .milliseconds(50)
        }
        let (ada, _) = try await fixture.ada.listen()
        let (eve, _) = try await fixture.eve.listen()
        async let waiting = fixture.bob.get("/v1/changes?wait=60")
        try await fixture.reaches("sluice_http_requests_in_flight 1")
        #expect(try await fixture.operate(.DELETE, fixture.admin).status == 204)
        #expect(try await ada.next() == nil)
        expectProblem(try await waiting, .organizationUnknown, errors: [])
        #expect(try await eve.nextFrame()?.comment == "keep-alive")
    }

    /// The organization is purged while its lanes run and two gateways accept pushes.
    @Test func `a purge during pushes and lanes of two gateways leaves no rows`() async throws {
        let fixture = try await TwoTenantFixture(#"{"mutations_per_day_per_user":100000}"#, forwards: true)
        let other = try await LiveGateway.start(on: fixture.gateway.database, forwards: true)
        let upstream = #"{"base_url":"http://127.0.0.1:1","timeout_seconds":1}"#
        #expect(try await fixture.operate(.PUT, fixture.admin + "/upstream", upstream).status == 201)
        var workers: [SyncWorker] = []
        for number in 0..<8 {
            let gateway = number.isMultiple(of: 2) ? fixture.gateway : other
            workers.append(try await SyncWorker(gateway, organization: fixture.ada.organization))
        }
        let replies = try await withThrowingTaskGroup(of: Reply.self) { [workers] group in
            for worker in workers {
                group.addTask {
                    var last = try await worker.push([worker.create("note").with(["endpoint": #""/notes""#])])
                    for _ in 0..<20 where last.status < 300 {
                        last = try await worker.push([
                            worker.create(), worker.create("note").with(["endpoint": #""/notes""#]),
                        ])
                    }
                    return last
                }
            }
            group.addTask { try await fixture.operate(.DELETE, fixture.admin) }
            return try await group.reduce(into: [Reply]()) { $0.append($1) }
        }
        #expect(replies.contains { $0.status == 204 })
        for (table, rows) in try await Self.checksums(fixture, of: fixture.ada) { #expect(rows == "0 -", "\(table)") }
        withExtendedLifetime(other) {}
    }

    /// Every table with rows of organizations, and the column of the organization.
    private static func tables(_ fixture: TwoTenantFixture) async throws -> [String: String] {
        let connection = try await fixture.gateway.database.connect()
        defer { connection.close() }
        let statement = Statement(
            "tables_of_organizations",
            """
            SELECT c.relname::text, a.attname::text
            FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
            WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition
                AND (a.attname = 'organization_id' OR c.relname = 'organizations' AND a.attname = 'id')
                AND c.relname <> 'audit'
            """
        )
        let rows = try await connection.run(Query(statement))
        return try Dictionary(
            uniqueKeysWithValues: (0..<rows.count).map {
                (try rows.read($0, 0, as: String.self), try rows.read($0, 1, as: String.self))
            }
        )
    }

    /// Row counts and checksums of an organization's rows in each table. Quota usage is excluded, because it changes
    /// with every request.
    private static func checksums(_ fixture: TwoTenantFixture, of worker: SyncWorker) async throws -> [String: String] {
        let connection = try await fixture.gateway.database.connect()
        defer { connection.close() }
        let parts = try await tables(fixture).map { table, column in
            let row = table == "request_quotas" ? "x.organization_id::text" : "x::text"
            return """
                SELECT '\(table)', count(*) || ' ' || coalesce(md5(string_agg(t, '' ORDER BY t)), '-')
                FROM (SELECT \(row) AS t FROM \(table) x WHERE \(column) = '\(worker.organization)') s
                """
        }
        let rows = try await connection.run(Query(Statement("", parts.joined(separator: " UNION ALL "))))
        return try Dictionary(
            uniqueKeysWithValues: (0..<rows.count).map {
                (try rows.read($0, 0, as: String.self), try rows.read($0, 1, as: String.self))
            }
        )
    }

    private static func rows(_ fixture: TwoTenantFixture, of worker: SyncWorker) async throws -> [String: Int] {
        try await fixture.mentions(of: worker.organization.lowercased)
    }
}
