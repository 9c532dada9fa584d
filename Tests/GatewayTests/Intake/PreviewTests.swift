import Foundation
import GatewaySupport
import JSONText
import NIOHTTP1
import Postgres
import SyncHTTP
import SyncModel
import TestSupport
import Testing

@Suite struct PreviewTests {
    /// A scene whose first organization forwards contacts. Nothing is sent, because lanes do not run.
    private func forwarding() async throws -> TwoTenantFixture {
        let fixture = try await TwoTenantFixture()
        let body = #"{"base_url":"http://127.0.0.1:1","credential":{"bearer":"s3cret"},"headers":{"x-app":"hidden"}}"#
        #expect(try await fixture.operate(.PUT, fixture.admin + "/upstream", body).status == 201)
        for (type, upstream) in [("contact", "true"), ("task", "false")] {
            let reply = try await fixture.operate(
                .PUT,
                fixture.admin + "/entity-types/\(type)",
                #"{"upstream":\#(upstream)}"#
            )
            #expect(reply.status == 201)
        }
        return fixture
    }

    private func contact(_ worker: SyncWorker, _ more: [String: String] = [:]) -> Draft {
        worker.create("contact").with(["endpoint": #""/contacts""#]).with(more)
    }

    // MARK: - No writes

    @Test func `a new user's preview writes nothing`() async throws {
        let fixture = try await TwoTenantFixture()
        try await fixture.whileNothingChanges {
            for worker in [fixture.ada, fixture.bob, fixture.eve] {
                let reply = try await worker.preview([worker.create("never_seen"), worker.create("note")])
                #expect(reply.status == 200)
                #expect(reply.statuses == ["succeeded", "succeeded"], "\(reply.text)")
                #expect(reply.json?.names == ["accepted_sequence", "results", "id_mappings"])
                #expect(reply.results.allSatisfy { $0["server_id"]?.isNull == true && $0["request"]?.isNull == true })
                #expect(reply.results.allSatisfy { $0["version"]?.int64 == 1 })
                #expect(reply.mappings.isEmpty)
            }
        }
    }

    @Test func `a preview of any push writes nothing`() async throws {
        let fixture = try await forwarding()
        let local = UUID()
        let first = [fixture.ada.create(local: local), contact(fixture.ada)]
        let pushed = try await fixture.ada.push(first)
        #expect(pushed.statuses == ["succeeded", "pending"])
        let server = try #require(pushed.results[0]["server_id"]?.string)
        #expect(try await fixture.bob.push([fixture.bob.change(server: server, base: 1)]).statuses == ["succeeded"])
        let other = try await SyncWorker(
            fixture.gateway,
            organization: fixture.ada.organization,
            user: fixture.ada.user
        )
        var changed = first[0]
        changed["payload"] = #"{"other":1}"#
        var bad = fixture.ada.create()
        bad["created_at"] = nil
        let bulk = (0..<500).map { _ in fixture.ada.create() }
        let before = try await fixture.tables()
        do {
            let replays = try await fixture.ada.preview(first + [changed])
            #expect(replays.statuses == ["succeeded", "pending", "rejected"])
            #expect(replays.results.map { $0["replayed"]?.bool } == [true, true, false])
            #expect(replays.results[0]["server_id"]?.string == server)
            #expect(replays.results.allSatisfy { $0["request"]?.isNull == true })
            #expect(replays.mappings.map { $0["server_id"]?.string } == [server])

            let device = try await other.preview([other.create(), contact(other)])
            #expect(device.statuses == ["pending", "pending"], "they would run after the lane's waiting mutations")
            #expect(device.json?["accepted_sequence"]?.int64 == 2)

            let edits = [fixture.bob.change(server: server, base: 1), fixture.bob.change(server: server, base: 0)]
            let conflict = try await fixture.bob.preview(edits)
            #expect(conflict.statuses == ["succeeded", "conflict"])
            #expect(conflict.results[0]["version"]?.int64 == 3)
            #expect(conflict.results[1].value(at: "/error/current/version")?.int64 == 3)
            let rejected = try await fixture.bob.preview([bad])
            #expect(rejected.statuses == ["rejected"])
            #expect(rejected.results[0]["request"]?.isNull == true)

            let many = try await fixture.ada.preview(bulk)
            #expect(many.results.count == 500 && Set(many.statuses) == ["pending"])
            let strict = try await fixture.ada.preview([fixture.ada.create(), bad], prefer: "handling=strict")
            expectProblem(strict, .validationFailed)
            let gap = try await fixture.ada.preview([fixture.ada.create()], after: 99)
            expectProblem(gap, .sequenceGap)
            #expect(gap.json?["expected"]?.int64 == 2)
        }
        #expect(try await fixture.tables() == before)
        #expect(try await fixture.metrics().contains("sluice_http_held_body_bytes 0"))
    }

    @Test func `a preview recognizes repeats with mapped ids`() async throws {
        let fixture = try await TwoTenantFixture()
        let local = UUID()
        let create = fixture.ada.create(local: local)
        let note = fixture.ada.create("note", #"{"of":\#(local.quoted)}"#)
        let pushed = try await fixture.ada.push([create, note])
        let server = try #require(pushed.results[0]["server_id"]?.string)
        let before = try await fixture.tables()
        let same = try await fixture.ada.preview([note.with(["payload": #"{"of":"\#(server)"}"#])])
        #expect(same.statuses == ["succeeded"])
        #expect(same.results[0]["replayed"]?.bool == true)
        let other = try await fixture.ada.preview([note.with(["payload": #"{"of":\#(UUID().quoted)}"#])])
        #expect(other.results[0].errorCode == "idempotency_key_reused")
        #expect(try await fixture.tables() == before)
    }

    @Test func `an earlier push blocks its dependents in a preview`() async throws {
        let fixture = try await forwarding()
        let local = UUID()
        let create = contact(fixture.ada, ["local_id": local.quoted])
        #expect(try await fixture.ada.push([create]).statuses == ["pending"])
        let update = fixture.ada.draft(
            "update",
            "contact",
            ["local_id": local.quoted, "endpoint": #""/contacts/{local_id}""#, "payload": "{}"]
        )
        let reply = try await fixture.ada.preview([update])
        #expect(reply.statuses == ["blocked"])
        #expect(reply.results[0]["blocked_by"]?.text == "[\"\(create.id)\"]")
        #expect(reply.results[0].value(at: "/request/path")?.string == "/contacts/\(local.lowercased)")
        #expect(reply.results[0].value(at: "/request/unresolved_ids")?.text == "[\(local.quoted)]")
    }

    @Test func `a preview assigns no transaction id`() async throws {
        let cluster = try await TestCluster.dedicated()
        let fixture = try await TwoTenantFixture(on: try await LiveGateway.migratedDatabase(on: cluster))
        try await fixture.execute("ALTER SYSTEM SET autovacuum = off")
        try await fixture.execute("SELECT pg_reload_conf()")
        let local = UUID()
        let pushed = try await fixture.ada.push([fixture.ada.create(local: local)])
        let server = try #require(pushed.results[0]["server_id"]?.string)
        let connection = try await fixture.gateway.database.connect()
        func next() async throws -> String {
            let statement = Statement("next_xid", "SELECT pg_snapshot_xmax(pg_current_snapshot())::text")
            return try await connection.run(Query(statement)).read(0, 0, as: String.self)
        }
        var before = ""
        for worker in [fixture.ada, fixture.bob, fixture.eve] {
            // a gateway's heartbeat, every five seconds, assigns a transaction id, possibly in between
            try await waitUntil("a preview without a transaction id") {
                before = try await next()
                let reply = try await worker.preview([
                    worker.create("new"), worker.change(server: server, base: 1),
                    worker.change("delete", server: server),
                ])
                #expect(reply.status == 200)
                return try await next() == before
            }
        }
        _ = try await fixture.ada.push([fixture.ada.create()])
        #expect(try await next() != before, "a push assigns a transaction id")
        connection.close()
    }

    @Test func `a preview does not wait for locks`() async throws {
        let fixture = try await TwoTenantFixture()
        let pushed = try await fixture.ada.push([fixture.ada.create()])
        let server = try #require(pushed.results[0]["server_id"]?.string)
        let holder = try await fixture.gateway.database.connect()
        try await holder.execute(script: "BEGIN")
        let organization = "'\(fixture.ada.organization)'"
        let rows = ["lanes", "entities", "feeds"].map { "\($0) WHERE organization_id = \(organization)" }
        for rows in ["organizations WHERE id = \(organization)"] + rows {
            try await holder.execute(script: "SELECT 1 FROM \(rows) FOR UPDATE")
        }
        // a push would wait, and therefore be rejected
        let reply = try await fixture.ada.preview([fixture.ada.change(server: server, base: 1), fixture.ada.create()])
        #expect(reply.statuses == ["succeeded", "succeeded"], "\(reply.text)")
        #expect(try await fixture.bob.preview([fixture.bob.create()]).statuses == ["succeeded"])
        try await holder.execute(script: "ROLLBACK")
        holder.close()
        try await fixture.expectServed()
    }

    // MARK: - Requests to the upstream

    @Test func `a previewed request contains none of the operator's values`() async throws {
        let fixture = try await forwarding()
        let (local, unknown) = (UUID(), UUID())
        let drafts = [
            contact(fixture.ada, ["local_id": local.quoted, "headers": #"{"Accept-Language":"nb"}"#]),
            fixture.ada.draft(
                "update",
                "contact",
                [
                    "local_id": local.quoted, "endpoint": #""/contacts/{local_id}?of=\#(unknown.lowercased)""#,
                    "payload": #"{"me":\#(local.quoted)}"#,
                ]
            ),
            fixture.ada.create(),
        ]
        let reply = try await fixture.ada.preview(drafts)
        #expect(reply.status == 200)
        #expect(reply.statuses == ["pending", "blocked", "pending"])
        for word in ["s3cret", "x-app", "hidden", "127.0.0.1", "authorization"] {
            #expect(!reply.text.lowercased().contains(word), "\(reply.text)")
        }
        let request = try #require(reply.results[0]["request"])
        #expect(request.names == ["method", "path", "headers", "body", "unresolved_ids", "route"])
        #expect(request["method"]?.string == "POST" && request["path"]?.string == "/contacts")
        #expect(request["body"]?.text == #"{"title":"x"}"#)
        #expect(request["unresolved_ids"]?.text == "[]")
        let names = ["idempotency-key", "x-sluice-organization", "x-sluice-user", "accept-language"]
        #expect(request["headers"]?.names == names)
        #expect(request["headers"]?["x-sluice-user"]?.uuid == fixture.ada.user)
        let update = try #require(reply.results[1]["request"])
        #expect(update["path"]?.string == "/contacts/\(local.lowercased)?of=\(unknown.lowercased)")
        #expect(update["unresolved_ids"]?.text == "[\(local.quoted)]")
        #expect(reply.results[1]["blocked_by"]?.text == "[\"\(drafts[0].id)\"]")
        #expect(reply.results[2]["request"]?.isNull == true)
        // without an upstream no request exists
        #expect(try await fixture.operate(.DELETE, fixture.admin + "/upstream").status == 204)
        let stays = try await fixture.ada.preview(drafts)
        #expect(stays.statuses == ["pending", "blocked", "pending"])
        #expect(stays.results.allSatisfy { $0["request"]?.isNull == true })
    }

    @Test func `the upstream receives the same request as the preview shows`() async throws {
        let server = try await HTTPBinServer.shared()
        let fixture = try await TwoTenantFixture(forwards: true)
        let upstream = #"{"base_url":"\#(server.baseURL)","id_pointer":"/json/ref","headers":{"x-app":"hidden"}}"#
        #expect(try await fixture.operate(.PUT, fixture.admin + "/upstream", upstream).status == 201)
        let local = UUID()
        let create = fixture.ada.create("contact", local: local, #"{"ref":"c-17"}"#)
            .with(["endpoint": #""/anything/contacts?of={local_id}""#])
        let one = #""/anything/contacts/{local_id}?me=\#(local.lowercased)""#
        let headers = #"{"Accept-Language":"nb","If-Match":"stale"}"#
        let payload = #"{"nested":[{"of":\#(local.quoted)}], "n": 1.50}"#
        func change(_ operation: String, _ more: [String: String]) -> Draft {
            fixture.ada.draft(operation, "contact", ["local_id": local.quoted, "endpoint": one, "headers": headers])
                .with(more)
        }
        let drafts = [
            create, change("update", ["base_version": "1", "payload": payload]),
            change("replace", ["payload": payload]), change("delete", [:]),
        ]
        for (place, draft) in drafts.enumerated() {
            if place == 1 { try await fixture.execute("UPDATE entities SET etag = '\"e1\"'") }
            let preview = try await fixture.ada.preview([draft])
            let request = try #require(preview.results.first?["request"], "\(preview.text)")
            #expect(preview.statuses == ["pending"])
            #expect(request["unresolved_ids"]?.text == "[]")
            let reply = try await fixture.ada.push([draft], prefer: "wait=30")
            #expect(reply.statuses == ["succeeded"], "\(reply.text)")
            let echo = try #require(reply.results.first?.value(at: "/response/body"))
            #expect(echo["method"]?.string == request["method"]?.string)
            #expect(echo["url"]?.string == request["path"]?.string.map { server.baseURL + $0 })
            #expect((echo["data"]?.string ?? "") == (request["body"]?.isNull == true ? "" : request["body"]?.text))
            let sent = Dictionary(
                uniqueKeysWithValues: (echo["headers"]?.members.map(Array.init) ?? []).map {
                    ($0.name.string.lowercased(), $0.value.string)
                }
            )
            let shown = request["headers"]?.members.map(Array.init) ?? []
            for (name, value) in shown { #expect(sent[name.string] == value.string, "\(name.string)") }
            let defaults = [
                "host", "content-length", "content-type", "accept", "accept-encoding", "user-agent", "traceparent",
                "x-app",
            ]
            #expect(Set(sent.keys).subtracting(shown.map(\.name.string)).isSubset(of: defaults + ["connection"]))
            #expect(request["headers"]?["if-match"]?.string == [nil, #""e1""#, "stale", "stale"][place])
        }
    }

    // MARK: - Access

    @Test func `a preview reveals no data of other users`() async throws {
        let fixture = try await forwarding()
        let type = #"{"visibility":"user","id_space":"shared","upstream":false}"#
        _ = try await fixture.operate(.PUT, fixture.admin + "/entity-types/diary", type)
        let diary = ["server_id": "7", "payload": #"{"text":"top secret"}"#]
        let local = UUID()
        let own = fixture.ada.create("task", local: local, #"{"text":"top secret"}"#)
        let pushed = try await fixture.ada.push([
            own, fixture.ada.draft("create", "diary", diary), contact(fixture.ada),
        ])
        #expect(pushed.statuses == ["succeeded", "succeeded", "pending"])
        let server = try #require(pushed.results[0]["server_id"]?.string)
        // a forwarded entity that only Ada can see
        try await fixture.execute(
            """
            UPDATE entities SET etag = 'top secret', owner_id = '\(fixture.ada.user)' WHERE entity_type = 'diary'
            """
        )
        _ = try await fixture.operate(.PUT, fixture.admin + "/entity-types/diary", #"{"upstream":true}"#)
        for other in [fixture.bob, fixture.eve] {
            let reply = try await other.preview([
                other.draft(
                    "update",
                    "diary",
                    ["server_id": "7", "base_version": "1", "payload": "{}", "endpoint": #""/d/7""#]
                ),
                other.draft("update", "task", ["local_id": local.quoted, "payload": "{}"]),
                other.create("task", #"{"of":\#(local.quoted)}"#),
                own,
            ])
            #expect(reply.status == 200)
            #expect(!reply.text.contains("top secret") && !reply.text.contains(server), "\(reply.text)")
            #expect(!reply.text.contains(fixture.ada.user.lowercased))
            #expect(reply.results[3]["replayed"]?.bool == false, "keys of other queues are independent")
        }
        let shared = try await fixture.bob.preview([fixture.bob.change("update", server: server, base: 0)])
        #expect(shared.statuses == ["conflict"])
        #expect(
            shared.results[0].value(at: "/error/current/document/text")?.string == "top secret",
            "an entity of the organization is shown"
        )
        let foreign = try await fixture.eve.preview([fixture.eve.change("update", server: server, base: 0)])
        #expect(foreign.statuses == ["failed"])
        #expect(foreign.results[0].value(at: "/response/status")?.int64 == 404)
    }

    @Test func `rejected callers get no preview`() async throws {
        let fixture = try await TwoTenantFixture()
        let body = fixture.ada.envelope([fixture.ada.create()])
        let path = fixture.gateway.address + "/v1/mutations/preview"
        expectProblem(try await send(.POST, path, body: Array(body.utf8)), .unauthorized)
        // the status is changed in the database alone, so the cache is outdated; a new user is rejected where a push
        // would create a lane
        let organization = fixture.ada.organization
        _ = try await fixture.ada.push([fixture.ada.create()])
        try await fixture.execute("UPDATE organizations SET status = 'suspended' WHERE id = '\(organization)'")
        for reply in [
            try await fixture.bob.preview([fixture.bob.create()]), try await fixture.bob.push([fixture.bob.create()]),
        ] {
            expectProblem(reply, .organizationUnknown)
        }
        try await fixture.execute("UPDATE organizations SET status = 'active' WHERE id = '\(organization)'")
        #expect(try await fixture.operate(.PUT, fixture.admin, #"{"status":"suspended"}"#).status == 200)
        expectProblem(try await fixture.ada.preview([fixture.ada.create()]), .organizationSuspended)
        #expect(try await fixture.eve.preview([fixture.eve.create()]).statuses == ["succeeded"])
    }

    // MARK: - Invalid requests

    @Test func `a preview has the same envelope and limits as a push`() async throws {
        let fixture = try await TwoTenantFixture {
            $0.limits.mutations = 2
            $0.limits.bodyBytes = 2_000
        }
        let path = "/v1/mutations/preview"
        let good = fixture.ada.envelope([fixture.ada.create()])
        try await fixture.whileNothingChanges {
            expectProblem(try await fixture.ada.post(path, "{"), .invalidJSON)
            expectProblem(try await fixture.ada.post(path, "[]"), .invalidRequest, errors: [" member_type"])
            expectProblem(
                try await fixture.ada.post(path, #"{"mutations":[]}"#),
                .invalidRequest,
                errors: ["/device_id member_required"]
            )
            let three = fixture.ada.envelope((0..<3).map { _ in fixture.ada.create() })
            expectProblem(try await fixture.ada.post(path, three), .payloadTooLarge)
            let large = String(repeating: " ", count: 3_000)
            expectProblem(try await fixture.ada.post(path, large), .payloadTooLarge)
            expectProblem(
                try await fixture.ada.post(path, good, headers: [("content-type", "text/plain")]),
                .unsupportedMediaType
            )
            expectProblem(try await fixture.ada.post(path + "?x=1", good), .invalidRequest)
        }
    }

    @Test func `a preview applies the handling preference but not the wait`() async throws {
        let fixture = try await TwoTenantFixture()
        var bad = fixture.ada.create()
        bad["operation"] = #""destroy""#
        let refused = try await fixture.ada.preview([bad], prefer: "handling=strict, wait=5")
        expectProblem(refused, .validationFailed, errors: ["/mutations/0/operation operation_must_be_valid_verb"])
        #expect(refused.header("preference-applied") == ["handling=strict"])
        let strict = try await fixture.ada.preview([fixture.ada.create()], prefer: "handling=strict, wait=5")
        #expect(strict.header("preference-applied") == ["handling=strict"])
        let lenient = try await fixture.ada.preview([fixture.ada.create(), bad], prefer: "wait=5, handling=lenient")
        #expect(lenient.statuses == ["succeeded", "rejected"])
        #expect(lenient.header("preference-applied") == ["handling=lenient"])
        #expect(
            try await fixture.ada.preview([fixture.ada.create()], prefer: "wait=5").header("preference-applied").isEmpty
        )
    }

    @Test func `previews are not counted as pushes`() async throws {
        let fixture = try await TwoTenantFixture()
        _ = try await fixture.ada.preview([fixture.ada.create()])
        let lines = try await fixture.metrics()
        #expect(!lines.contains { $0.hasPrefix(#"sluice_pushes_total{result="accepted"} 1"#) })
        #expect(lines.contains { $0.contains(#"route="/v1/mutations/preview""#) })
    }
}

extension SyncWorker {
    /// The result of a push.
    func preview(_ drafts: [Draft], after: Int64? = nil, prefer: String? = nil) async throws -> Reply {
        try await post(
            "/v1/mutations/preview",
            envelope(drafts, after: after),
            headers: prefer.map { [("Prefer", $0)] } ?? []
        )
    }
}
