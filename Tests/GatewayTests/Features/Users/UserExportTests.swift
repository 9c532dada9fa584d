import Foundation
import GatewaySupport
import JSONText
import NIOHTTP1
import Postgres
import Sluice
import SyncHTTP
import SyncModel
import TestSupport
import Testing

@testable import UsersFeature

/// `GET /admin/organizations/{id}/users/{user}/export`
@Suite struct UserExportTests {
    private func export(_ fixture: TwoTenantFixture, _ worker: SyncWorker) async throws -> Reply {
        try await fixture.operate(
            .GET,
            "/admin/organizations/\(worker.organization.lowercased)/users/\(worker.user.lowercased)/export"
        )
    }

    private func lines(_ reply: Reply) throws -> [JSONValue] {
        try reply.text.split(separator: "\n").map { try JSONTree(parsing: Array($0.utf8)).root }
    }

    @Test(arguments: [nil, TestKeys.first]) func `an export contains all data of a user and no data of others`(
        masterKeys: String?
    ) async throws {
        let fixture = try await TwoTenantFixture(masterKeys: masterKeys)
        for worker in [fixture.ada, fixture.bob, fixture.eve] {
            var bad = worker.create()
            bad["priority"] = "-1"
            let word = "secret of \(worker.user.lowercased)"
            let first = worker.create("task", "{\"title\":\"\(word)\",\n\"digits\":1.10}")
            let pushed = try await worker.push([first, worker.create("note"), bad])
            try #require(pushed.status == 200, "\(pushed.text)")
            let server = try #require(pushed.results[1]["server_id"]?.string)
            _ = try await worker.push([worker.change("delete", "note", server: server)])
        }
        let reply = try await export(fixture, fixture.ada)
        #expect(reply.status == 200)
        #expect(reply.headers.first(name: "Content-Type") == "application/x-ndjson")
        #expect(reply.headers.first(name: "Cache-Control") == "no-store")
        let found = try lines(reply)
        let kinds = found.compactMap { $0["kind"]?.string }
        #expect(
            kinds == [
                "export", "user", "device", "mutation", "mutation", "mutation", "rejection", "id_mapping", "id_mapping",
                "entity", "entity", "end",
            ]
        )
        #expect(found.last?["lines"]?.int64 == 11)
        #expect(found[0]["user"]?.string == fixture.ada.user.lowercased)
        let mutation = try #require(found.first { $0["kind"]?.stringEquals("mutation") == true })
        #expect(mutation.value(at: "/payload/title")?.string == "secret of \(fixture.ada.user.lowercased)")
        #expect(mutation.value(at: "/payload/digits")?.text == "1.10", "numbers are exact")
        let documents = found.filter { $0["kind"]?.stringEquals("entity") == true }
        #expect(documents.contains { $0.value(at: "/document/digits")?.text == "1.10" })
        #expect(found.contains { $0["kind"]?.stringEquals("rejection") == true && $0["error"]?.kind == .object })
        for other in [fixture.bob, fixture.eve] {
            #expect(!reply.text.contains(other.user.lowercased) && !reply.text.contains(other.device.lowercased))
        }
    }

    @Test func `an export contains only the webhook messages about its user`() async throws {
        let fixture = try await TwoTenantFixture()
        let hook = try await fixture.operate(
            .POST,
            fixture.admin + "/webhooks",
            #"{"url":"https://hooks.example/events"}"#
        )
        try #require(hook.status == 201, "\(hook.text)")
        for worker in [fixture.ada, fixture.bob] {
            let made = try await worker.push([worker.create()])
            let server = try #require(made.results.first?["server_id"]?.string)
            let tablet = try await SyncWorker(fixture.gateway, organization: worker.organization, user: worker.user)
            #expect(try await tablet.push([tablet.change(server: server)]).statuses == ["succeeded"])
            #expect(try await worker.push([worker.change(server: server, base: 1)]).statuses == ["conflict"])
        }
        let messages = try lines(try await export(fixture, fixture.ada)).filter { $0["kind"]?.string == "message" }
        #expect(messages.compactMap { $0["type"]?.string }.sorted() == ["lane.halted", "mutation.conflict"])
        for message in messages {
            #expect(message.value(at: "/data/user_id")?.string == fixture.ada.user.lowercased)
            #expect(message["webhook_id"]?.string == hook.json?["id"]?.string)
        }
    }

    @Test func `an export contains webhook messages about users merged into its user`() async throws {
        let fixture = try await TwoTenantFixture { $0.joinTimeout = .zero }
        _ = try await fixture.operate(.POST, fixture.admin + "/webhooks", #"{"url":"https://hooks.example/events"}"#)
        let (ada, bob) = (fixture.ada, fixture.bob)
        let server = try #require(try await ada.push([ada.create()]).results.first?["server_id"]?.string)
        #expect(try await bob.push([bob.change(server: server)]).statuses == ["succeeded"])
        #expect(try await ada.push([ada.change(server: server, base: 1)]).statuses == ["conflict"])
        let (path, body) = (
            fixture.admin + "/users/\(ada.user.lowercased)/join", #"{"into":"\#(bob.user.lowercased)"}"#
        )
        #expect(try await fixture.operate(.POST, path, body).status == 202)
        fixture.gateway.clock.advance(seconds: 9)
        #expect(try await fixture.operate(.POST, path, body).json?["state"]?.string == "done")
        let messages = try lines(try await export(fixture, bob)).filter { $0["kind"]?.string == "message" }
        #expect(messages.compactMap { $0["type"]?.string }.sorted() == ["lane.halted", "mutation.conflict"])
        #expect(messages.allSatisfy { $0.value(at: "/data/user_id")?.string == ada.user.lowercased })
    }

    /// In an earlier version, ids were exported as text, and times in PostgreSQL's format.
    @Test func `ids and times have the formats of the API`() async throws {
        let fixture = try await TwoTenantFixture()
        let pushed = try await fixture.ada.push([fixture.ada.create(), fixture.ada.create("note")])
        #expect(pushed.status == 200)
        let (user, organization) = (fixture.ada.user, fixture.ada.organization)
        _ = try await fixture.lines(
            """
            WITH m AS (
                UPDATE mutations SET server_id = '18446744073709551616', server_id_is_integer = true, local_number = 7
                WHERE user_id = '\(user)' AND entity_type = 'task' RETURNING 1),
            i AS (
                UPDATE id_mappings SET server_id = '4711', server_id_is_integer = true
                WHERE user_id = '\(user)' AND entity_type = 'task' RETURNING 1),
            e AS (
                UPDATE entities SET id = '4711', id_is_integer = true, created_at = '2026-11-20 07:00:00.272784+00'
                WHERE owner_id = '\(user)' AND entity_type = 'task' RETURNING 1),
            l AS (
                INSERT INTO local_ids (organization_id, user_id, device_id, entity_type, local_id, server_id,
                    server_id_is_integer)
                VALUES ('\(organization)', '\(user)', '\(fixture.ada.device)', 'folder', 1, '42', true),
                    ('\(organization)', '\(user)', '\(fixture.ada.device)', 'folder', 2, '43', false) RETURNING 1)
            SELECT 1::text FROM m, i, e, l
            """
        )
        let found = try lines(try await export(fixture, fixture.ada))
        func line(_ kind: String, _ type: String) -> JSONValue? {
            found.first { $0["kind"]?.string == kind && $0["entity_type"]?.string == type }
        }
        let mutation = try #require(line("mutation", "task"))
        #expect(mutation["server_id"]?.text == "18446744073709551616" && mutation["local_id"]?.text == "7")
        #expect(line("mutation", "note")?["server_id"]?.kind == .string)
        #expect(line("mutation", "note")?["local_id"]?.kind == .string)
        #expect(line("id_mapping", "task")?["server_id"]?.text == "4711")
        #expect(line("entity", "task")?["id"]?.text == "4711")
        #expect(line("entity", "task")?["created_at"]?.string == "2026-11-20T07:00:00.272Z")
        let numbers = found.filter { $0["kind"]?.string == "local_id" }.compactMap { $0["server_id"]?.text }
        #expect(numbers == ["42", #""43""#])
        let accepted = try await fixture.ada.get("/v1/mutations/\(mutation["id"]?.string ?? "-")")
        for member in ["created_at", "accepted_at", "synced_at"] as [StaticString] {
            #expect(mutation[member]?.text == accepted.json?[member]?.text, "\(member)")
        }
        // the export contains no other format of a time
        let text = found.map(\.text).joined()
        #expect(!text.contains("+00:00") && text.firstMatch(of: /[0-9]{2}:[0-9]{2}\.[0-9]{4,}/) == nil, "\(text)")
    }

    /// Operators' tools read an export with their types for the API.
    @Test func `each kind of line has the members that the OpenAPI document lists`() async throws {
        let fixture = try await TwoTenantFixture()
        let (ada, bob) = (fixture.ada, fixture.bob)
        _ = try await fixture.operate(.POST, fixture.admin + "/webhooks", #"{"url":"https://hooks.example/events"}"#)
        var bad = ada.create()
        bad["priority"] = "-1"
        let pushed = try await ada.push([ada.create(), ada.create("note"), bad])
        let server = try #require(pushed.results.first?["server_id"]?.string)
        let note = try #require(pushed.results[1]["server_id"]?.string)
        _ = try await ada.push([ada.change("delete", "note", server: note)])
        #expect(try await bob.push([bob.change(server: server)]).statuses == ["succeeded"])
        #expect(try await ada.push([ada.change(server: server, base: 1)]).statuses == ["conflict"])
        let (user, organization) = (ada.user.lowercased, ada.organization.lowercased)
        let own = "organization_id = '\(organization)' AND user_id = '\(user)'"
        let device = ada.device.lowercased
        _ = try await fixture.lines(
            """
            WITH one AS (SELECT id FROM mutations WHERE \(own) ORDER BY position LIMIT 1),
            m AS (
                UPDATE mutations SET sent_method = 'POST', sent_endpoint = '/tasks', sent_payload = '{"a":1}',
                    response_status = 201, response_body = '{"id":1}', server_id = '4711', server_id_is_integer = true,
                    key_user_id = '\(bob.user)', next_retry_at = now()
                WHERE \(own) AND id IN (SELECT id FROM one) RETURNING 1),
            a AS (
                INSERT INTO attempts (organization_id, user_id, mutation_id, slot, ordinal, revision, number, sent_at,
                    duration_ms, status, outcome)
                SELECT '\(organization)', '\(user)', id, 1, 1, 1, 1, now(), 12, 201, 'succeeded' FROM one RETURNING 1),
            s AS (
                INSERT INTO user_subjects (organization_id, issuer, subject, user_id, created_at)
                VALUES ('\(organization)', 'https://id.example', 'ada', '\(user)', now()) RETURNING 1),
            j AS (
                INSERT INTO user_joins (organization_id, user_id, into_id, started_at, feed_end, finished_at)
                VALUES ('\(organization)', '\(UUID())', '\(user)', now(), 1, now()) RETURNING 1),
            q AS (
                INSERT INTO mutation_quotas (organization_id, user_id, missing, as_of)
                VALUES ('\(organization)', '\(user)', 3, now()) RETURNING 1),
            l AS (
                INSERT INTO local_ids (organization_id, user_id, device_id, entity_type, local_id, server_id, same_as,
                    server_id_is_integer)
                VALUES ('\(organization)', '\(user)', '\(device)', 'folder', 1, '42', NULL, true),
                    ('\(organization)', '\(user)', '\(device)', 'folder', 2, NULL, 'x', false) RETURNING 1),
            p AS (
                INSERT INTO local_id_pages (organization_id, user_id, device_id, page, since_page, counters,
                    entity_types, local_ids, server_ids, are_integers)
                VALUES ('\(organization)', '\(user)', '\(device)', 1, 0, '{}', '{folder,folder}', '{3,4}', '{43,y}',
                    '{true,false}') RETURNING 1),
            g AS (
                INSERT INTO channel_grants (organization_id, user_id, channel, source, since, name, role, changed_at)
                VALUES ('\(organization)', '\(user)', gen_random_uuid(), 'operator', 1, 'team/7', 'read', 1)
                RETURNING 1)
            SELECT count(*)::text FROM m, a, s, j, q, l, p, g
            """
        )
        let reply = try await export(fixture, ada)
        let file = FileManager.default.temporaryDirectory.appending(path: "export-\(UUID().uuidString)")
        try Data(reply.text.utf8).write(to: file)
        defer { try? FileManager.default.removeItem(at: file) }
        try await Contract.run("export.py", [Contract.path, file.path])
        let found = try lines(reply)
        func all(_ kind: String) -> [JSONValue] { found.filter { $0["kind"]?.string == kind } }
        #expect(all("local_id").map { $0["server_id"]?.text } == ["42", #""x""#])
        #expect(all("local_id_page").first?["local_ids"]?.elements?.map { $0["server_id"]?.text } == ["43", #""y""#])
        #expect(all("channel_grant").first?["name"]?.string == "team/7")
        // a mutation has the members of the API, with their values
        let exported = try #require(all("mutation").first)
        let shown = try await ada.get("/v1/mutations/\(exported["id"]?.string ?? "-")")
        for name in try #require(shown.json).names {
            #expect(exported.value(at: "/\(name)")?.text == shown.json?.value(at: "/\(name)")?.text, "\(name)")
        }
    }

    @Test func `pages of an export have no gaps`() async throws {
        let fixture = try await TwoTenantFixture()
        var keys: Set<String> = []
        for _ in 0..<4 {
            let drafts = (0..<30).map { _ in fixture.ada.create() }
            keys.formUnion(drafts.map(\.id))
            _ = try await fixture.ada.push(drafts)
        }
        let found = try lines(try await export(fixture, fixture.ada))
        let mutations = found.filter { $0["kind"]?.stringEquals("mutation") == true }
        #expect(mutations.count == 120)
        #expect(Set(mutations.compactMap { $0["id"]?.string }) == keys)
        #expect(found.count { $0["kind"]?.stringEquals("entity") == true } == 120)
        #expect(found.count { $0["kind"]?.stringEquals("id_mapping") == true } == 120)
    }

    /// The test reads the list of columns from the database. A new column must be exported, or listed here.
    @Test func `exports every column of a user's rows`() async throws {
        let fixture = try await TwoTenantFixture()
        let columns = try await fixture.lines(
            """
            SELECT c.relname || '.' || a.attname
            FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
            WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition
                AND EXISTS (SELECT FROM pg_attribute u WHERE u.attrelid = c.oid
                    AND u.attname IN ('user_id', 'owner_id'))
            ORDER BY 1
            """
        )
        let statements = ExportedRows.statements(Assembly.tables).map { (name: $0.name, sql: $0.sql) }
        let missing = columns.filter { column in
            let parts = column.split(separator: ".").map { String($0) }
            guard parts[1] != "organization_id", parts[1] != "user_id" else { return false }
            return !statements.contains { statement in
                statement.name.contains(parts[0])
                    && ["x", "m"].contains { statement.sql.contains("\($0).\(parts[1])") }
            }
        }
        // pending events belong to the source until they are evaluated, seconds later; operators' actions belong to the
        // operators
        let others = ["parked_events.", "audit.", "operations."]
        let reported = missing.filter { column in
            !Self.ofTheGateway.contains(column) && !others.contains { column.hasPrefix($0) }
        }
        #expect(reported == [])
    }

    /// Columns about the gateway's processing. Other columns contain all of their personal data.
    private static let ofTheGateway: Set<String> = [
        "attempts.slot", "channel_grants.changed_at", "channel_grants.channel", "devices.stray_ids",
        "entities.channels",
        "entities.feed_position", "entities.id_is_integer", "entities.run_base",
        "entities.source_at", "entities.source_at_fraction", "entities.source_version",
        "id_mappings.change_position", "id_mappings.retry_count", "id_mappings.server_id_is_integer",
        "lanes.change_position", "lanes.halted_by", "lanes.head_position", "lanes.in_flight_id", "lanes.lease_owner",
        "lanes.lease_step", "lanes.lease_token", "lanes.next_position", "lanes.open_count", "lanes.queued_count",
        "lanes.queued_since",
        "lanes.ready_at", "local_id_pages.are_integers", "local_id_pages.counters", "local_id_pages.is_superseded",
        "local_id_pages.since_page", "local_ids.client_id", "local_ids.server_id_is_integer",
        "mutations.change_position", "mutations.conflict_retries",
        "mutations.error_code", "mutations.error_status", "mutations.stuck_at",
        "mutations.fingerprint", "mutations.fingerprint_places", "mutations.held_since", "mutations.hold_count",
        "mutations.is_outcome_unknown", "mutations.reference_types", "mutations.server_id_is_integer",
        "token_channels.digest", "token_channels.issued_at", "token_channels.source",
        "user_joins.closed_until", "user_joins.feed_end",
        "user_keys.created_at", "user_keys.made_for", "user_keys.master_key", "user_keys.wrapped_key",
    ]

    @Test func `answers 404 to an export of an unknown user`() async throws {
        let fixture = try await TwoTenantFixture()
        _ = try await fixture.ada.push([fixture.ada.create()])
        _ = try await fixture.eve.push([fixture.eve.create()])
        let path = fixture.admin + "/users/"
        expectProblem(try await fixture.operate(.GET, path + "\(UUID().lowercased)/export"), .notFound, errors: [])
        let eves = path + "\(fixture.eve.user.lowercased)/export"
        expectProblem(try await fixture.operate(.GET, eves), .notFound, errors: [])
        let stranger = "/admin/organizations/\(UUID().lowercased)/users/\(fixture.ada.user.lowercased)/export"
        expectProblem(try await fixture.operate(.GET, stranger), .notFound, errors: [])
        let html = [("Accept", "text/html")]
        let ada = path + "\(fixture.ada.user.lowercased)/export"
        expectProblem(try await fixture.operate(.GET, ada, headers: html), .notAcceptable, errors: [])
    }

    @Test func `the command exports the same lines`() async throws {
        let fixture = try await TwoTenantFixture(masterKeys: TestKeys.first)
        _ = try await fixture.ada.push([fixture.ada.create(), fixture.ada.create("note")])
        let file = FileManager.default.temporaryDirectory.appending(path: "master-keys-\(UUID().uuidString)")
        try Data(TestKeys.first.utf8).write(to: file)
        defer { try? FileManager.default.removeItem(at: file) }
        let environment = [
            "SLUICE_DATABASE_URL": fixture.gateway.database.uri, "SLUICE_MASTER_KEY_FILE": file.path,
        ]
        let place = ["--organization", fixture.ada.organization.uuidString]
        let result = try await Program.run(
            ["users", "export", fixture.ada.user.uuidString] + place,
            environment: environment
        )
        #expect(result.status == 0, "\(result.complaint)")
        let reply = try await export(fixture, fixture.ada)
        #expect(result.output.split(separator: "\n").dropFirst() == reply.text.split(separator: "\n").dropFirst())
        let unknown = try await Program.run(["users", "export", UUID().uuidString] + place, environment: environment)
        #expect(unknown.status == 1 && unknown.complaint.contains("has no user") && unknown.output.isEmpty)
    }
}
