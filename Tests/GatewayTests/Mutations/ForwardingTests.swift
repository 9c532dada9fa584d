import Foundation
import GatewaySupport
import JSONText
import NIOHTTP1
import SyncModel
import TestSupport
import Testing

/// A whole gateway replays mutations to third-party servers: Kinto, httpbin and nginx.
@Suite struct ForwardingTests {
    // MARK: - Kinto: a REST API with its own preconditions

    /// Ada's records in a private collection.
    private func kinto(_ settings: String = "{}") async throws -> (fixture: TwoTenantFixture, url: String) {
        let server = try await KintoServer.shared()
        let fixture = try await TwoTenantFixture(settings, forwards: true)
        let collection = "/buckets/default/collections/notes"
        let login = Data("\(fixture.ada.user.lowercased):x".utf8).base64EncodedString()
        let body = #"""
            {"base_url":"\#(server.baseURL)\#(collection)","id_pointer":"/data/id",
             "credential":{"header":"Authorization","value":"Basic \#(login)"}}
            """#
        #expect(try await fixture.operate(.PUT, fixture.admin + "/upstream", body).status == 201)
        return (fixture, server.baseURL + collection)
    }

    private func edit(_ fixture: TwoTenantFixture, _ url: String, _ data: String) async throws {
        let login = Data("\(fixture.ada.user.lowercased):x".utf8).base64EncodedString()
        let reply = try await send(
            .PATCH,
            url,
            headers: [("Authorization", "Basic \(login)")],
            body: Array(#"{"data":\#(data)}"#.utf8)
        )
        #expect(reply.status == 200, "\(reply.text)")
    }

    private func read(_ fixture: TwoTenantFixture, _ url: String) async throws -> Reply {
        let login = Data("\(fixture.ada.user.lowercased):x".utf8).base64EncodedString()
        return try await send(.GET, url, headers: [("Authorization", "Basic \(login)")])
    }

    @Test func `a whole outbox reaches Kinto with its ids`() async throws {
        let (fixture, url) = try await kinto()
        let (first, second) = (UUID(), UUID())
        let records = ["endpoint": #""/records""#]
        let one = ["endpoint": #""/records/{local_id}""#]
        let drafts = [
            fixture.ada.create("note", local: first, #"{"data":{"title":"a"}}"#).with(records),
            fixture.ada.create("note", local: second, #"{"data":{"title":"b","parent":\#(first.quoted)}}"#).with(
                records
            ),
            fixture.ada.draft("update", "note", ["local_id": first.quoted, "payload": #"{"data":{"done":true}}"#])
                .with(one),
            fixture.ada.draft("delete", "note", ["local_id": second.quoted]).with(one),
        ]
        let reply = try await fixture.ada.push(drafts, prefer: "wait=60")
        #expect(reply.status == 200, "\(reply.text)")
        #expect(reply.statuses == ["succeeded", "succeeded", "succeeded", "succeeded"], "\(reply.text)")
        #expect(reply.mappings.count == 2)
        let ids = reply.results.compactMap { $0["server_id"]?.string }
        #expect(ids.count == 4 && ids[0] == ids[2] && ids[1] == ids[3])
        let stored = try await read(fixture, url + "/records/\(ids[0])")
        #expect(stored.json?.value(at: "/data/done")?.bool == true)
        #expect(try await read(fixture, url + "/records/\(ids[1])").status == 404)
        let changes = try await fixture.ada.get("/v1/changes").changes
        #expect(changes.map { $0["deleted"]?.bool } == [false, true])
        #expect(changes[0]["document"]?["title"]?.string == "a")
        #expect(changes[0]["document"]?["done"]?.bool == true)
        #expect(try await fixture.bob.get("/v1/changes").changes.isEmpty)
        let again = try await fixture.ada.push(drafts)
        #expect(again.results.allSatisfy { $0["replayed"]?.bool == true && $0["status"]?.string == "succeeded" })
    }

    /// Makes an edit at the API that the phone has not received, and then the phone's edit of the older state.
    private func conflict(_ fixture: TwoTenantFixture, _ url: String, strategy: String) async throws -> (
        id: String, draft: Draft
    ) {
        let local = UUID()
        let create = fixture.ada.create("note", local: local, #"{"data":{"title":"a"}}"#)
            .with(["endpoint": #""/records""#])
        let reply = try await fixture.ada.push([create], prefer: "wait=60")
        let id = try #require(reply.results.first?["server_id"]?.string, "\(reply.text)")
        let seen = try #require(reply.results.first?.value(at: "/response/body/data/last_modified")?.int64)
        try await edit(fixture, url + "/records/\(id)", #"{"title":"theirs"}"#)
        let draft = fixture.ada.draft(
            "update",
            "note",
            ["local_id": local.quoted, "payload": #"{"data":{"title":"mine"}}"#]
        )
        .with([
            "endpoint": #""/records/{local_id}""#, "headers": #"{"If-Match":"\"\#(seen)\""}"#,
            "conflict_resolution": #""\#(strategy)""#,
        ])
        return (id, draft)
    }

    @Test func `Kinto's rejection of a stale edit is a manual conflict`() async throws {
        let (fixture, url) = try await kinto()
        let (id, draft) = try await conflict(fixture, url, strategy: "manual")
        let behind = fixture.ada.create("note", #"{"data":{}}"#).with(["endpoint": #""/records""#])
        #expect(try await fixture.ada.push([draft, behind]).statuses == ["pending", "pending"])
        let conflict = try await fixture.ada.get("/v1/mutations/\(draft.id)?wait=60")
        #expect(conflict.json?["status"]?.string == "conflict", "\(conflict.text)")
        #expect(conflict.json?.errorCode == "conflict")
        #expect(conflict.json?.value(at: "/response/status")?.int64 == 412)
        #expect(try await fixture.ada.get("/v1/mutations/\(behind.id)").json?["status"]?.string == "pending")
        let resolved = try await fixture.ada.post("/v1/mutations/\(draft.id)/resolve", #"{"strategy":"client_wins"}"#)
        #expect(resolved.status == 200, "\(resolved.text)")
        let done = try await fixture.ada.get("/v1/mutations/\(draft.id)?wait=60")
        #expect(done.json?["status"]?.string == "succeeded", "\(done.text)")
        #expect(done.json?["resolution"]?.string == "client_wins")
        #expect(done.json?["revision"]?.int64 == 2)
        #expect(try await read(fixture, url + "/records/\(id)").json?.value(at: "/data/title")?.string == "mine")
        #expect(try await fixture.ada.get("/v1/mutations/\(behind.id)?wait=60").json?["status"]?.string == "succeeded")
    }

    @Test(arguments: [("client_wins", "mine", "succeeded"), ("server_wins", "theirs", "discarded")])
    func `strategies resolve Kinto's conflicts`(_ strategy: String, _ title: String, _ status: String) async throws {
        let (fixture, url) = try await kinto()
        let (id, draft) = try await conflict(fixture, url, strategy: strategy)
        let reply = try await fixture.ada.push([draft], prefer: "wait=60")
        #expect(reply.statuses == [status], "\(reply.text)")
        #expect(reply.results[0]["resolution"]?.string == strategy)
        #expect(reply.results[0].errorCode == "conflict")
        #expect(try await read(fixture, url + "/records/\(id)").json?.value(at: "/data/title")?.string == title)
    }

    @Test func `writes of users without the right are not sent if the type checks channels`() async throws {
        let (fixture, url) = try await kinto(#"{"on_failure":"continue"}"#)
        // the payload of a request contains the document as its member `data`
        let type = #"""
            {"upstream":true,"visibility":"channels","channels":["team/{/team}","team/{/data/team}"],"check_channels":true,
             "routes":{"collection":"/records"}}
            """#
        let made = try await fixture.operate(.PUT, fixture.admin + "/entity-types/note", type)
        #expect(made.status == 201 && made.json?["check_channels"]?.bool == true, "\(made.text)")
        func grant(_ role: String, to worker: SyncWorker) async throws {
            let path = fixture.admin + "/users/\(worker.user.uuidString)/channels"
            let reply = try await fixture.operate(.PUT, path, #"{"channel":"team/a","role":"\#(role)"}"#)
            #expect(reply.status < 300, "\(reply.text)")
        }
        func create(_ team: String) async throws -> Reply {
            let draft = fixture.ada.create("note", #"{"data":{"team":"\#(team)"}}"#)
            return try await fixture.ada.push([draft], prefer: "wait=60")
        }
        func edit(_ id: String, at endpoint: String? = nil) async throws -> JSONValue {
            let members = ["server_id": #""\#(id)""#, "payload": #"{"data":{"x":1}}"#]
            var draft = fixture.bob.draft("update", "note", members)
            if let endpoint { draft["endpoint"] = #""\#(endpoint)""# }
            let reply = try await fixture.bob.push([draft], prefer: "wait=60")
            return try #require(reply.results.first, "\(reply.text)")
        }
        try await grant("write", to: fixture.ada)
        let refused = try await create("b").results[0]
        #expect(refused["status"]?.string == "failed" && refused.errorCode == "forbidden")
        // an edit of an own entity in the same push names it by its client id
        let local = UUID()
        let own = [
            fixture.ada.create("note", local: local, #"{"data":{"team":"a"}}"#),
            fixture.ada.draft("update", "note", ["local_id": local.quoted, "payload": #"{"data":{"x":2}}"#]),
        ]
        #expect(try await fixture.ada.push(own, prefer: "wait=60").statuses == ["succeeded", "succeeded"])
        var ids: [String] = []
        for _ in 1...3 {
            let created = try await create("a")
            #expect(created.statuses == ["succeeded"], "\(created.text)")
            ids.append(try #require(created.results[0]["server_id"]?.string))
        }

        // bob holds no channel, then one to read, then one to write; a failure blocks his later edits of its entity
        let (hidden, unknown) = (try await edit(ids[0]), try await edit(UUID().lowercased))
        #expect(hidden.errorCode == "forbidden" && unknown.errorCode == "forbidden")
        #expect(hidden.value(at: "/error/detail")?.string == unknown.value(at: "/error/detail")?.string)
        try await grant("read", to: fixture.bob)
        #expect(try await edit(ids[1]).errorCode == "forbidden")
        try await grant("write", to: fixture.bob)
        // the endpoint of another entity is not used
        #expect(try await edit(ids[2], at: "/records/\(ids[0])")["status"]?.string == "succeeded")
        for (id, value) in zip(ids, [nil, nil, 1] as [Int64?]) {
            #expect(try await read(fixture, url + "/records/\(id)").json?.value(at: "/data/x")?.int64 == value)
        }
    }

    // MARK: - httpbin: statuses, delays, echo

    private func httpbin(_ more: String = "", settings: String = "{}") async throws -> TwoTenantFixture {
        let server = try await HTTPBinServer.shared()
        let fixture = try await TwoTenantFixture(settings, forwards: true)
        let body = #"{"base_url":"\#(server.baseURL)","id_pointer":"/json/ref"\#(more)}"#
        #expect(try await fixture.operate(.PUT, fixture.admin + "/upstream", body).status == 201)
        return fixture
    }

    private func contact(_ fixture: TwoTenantFixture, at endpoint: String, _ more: [String: String] = [:]) -> Draft {
        fixture.ada.create("contact", #"{"ref":"c-17"}"#).with(["endpoint": #""\#(endpoint)""#]).with(more)
    }

    /// Returns a mutation after its first failed attempt. It polls, because the mutation is then pending, and a wait
    /// does not end with this status.
    private func failure(of id: String, _ worker: SyncWorker) async throws -> JSONValue {
        var found: JSONValue?
        try await waitUntil("an attempt has failed") {
            found = try await worker.get("/v1/mutations/\(id)?wait=1").json
            return found?["status"]?.string == "pending" && found?["last_error"]?.isNull == false
        }
        return try #require(found)
    }

    @Test func `the upstream receives the request that the contract promises`() async throws {
        let fixture = try await httpbin(#","headers":{"x-app":"sluice"},"credential":{"bearer":"s3cret"}"#)
        let draft = contact(fixture, at: "/anything/contacts?verbose=1", ["headers": #"{"Accept-Language":"nb"}"#])
        let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
        let reply = try await fixture.ada.post(
            "/v1/mutations",
            fixture.ada.envelope([draft]),
            headers: [("Prefer", "wait=60"), ("traceparent", trace)]
        )
        #expect(reply.statuses == ["succeeded"], "\(reply.text)")
        #expect(reply.results[0]["server_id"]?.string == "c-17")
        let echo = try #require(reply.results[0].value(at: "/response/body"))
        let headers = try #require(echo["headers"])
        #expect(echo["method"]?.string == "POST")
        #expect(echo["url"]?.string?.hasSuffix("/anything/contacts?verbose=1") == true)
        #expect(headers["X-Sluice-Organization"]?.string == fixture.ada.organization.lowercased)
        #expect(headers["X-Sluice-User"]?.string == fixture.ada.user.lowercased)
        #expect(headers["Authorization"]?.string == "Bearer s3cret")
        #expect(headers["Accept-Language"]?.string == "nb")
        #expect(headers["X-App"]?.string == "sluice")
        #expect(headers["Content-Length"]?.string == "14")
        #expect(headers["Content-Type"]?.string == "application/json")
        let key = try #require(headers["Idempotency-Key"]?.uuid)
        #expect(key.lowercased != draft["idempotency_key"]?.dropFirst().dropLast().lowercased())
        let sent = try #require(headers["Traceparent"]?.string)
        #expect(sent.hasPrefix("00-0af7651916cd43dd8448eb211c80319c-") && sent != trace)
    }

    @Test func `a server error is retried at its scheduled time`() async throws {
        let fixture = try await httpbin()
        let draft = contact(fixture, at: "/status/503", ["max_attempts": "2"])
        #expect(try await fixture.ada.push([draft]).status == 202)
        let waiting = try await failure(of: draft.id, fixture.ada)
        #expect(waiting["attempt_count"]?.int64 == 1)
        let due = try #require(waiting["next_retry_at"]?.string.flatMap(Timestamp.init(rfc3339:)))
        let pause = Double(due.microseconds - fixture.gateway.clock.now.microseconds) / 1_000_000
        #expect((4.0...4.9).contains(pause), "\(pause)")
        fixture.gateway.clock.advance(seconds: pause + 0.1)
        let failed = try await fixture.ada.get("/v1/mutations/\(draft.id)?wait=60")
        #expect(failed.json?["status"]?.string == "failed", "\(failed.text)")
        #expect(failed.json?.errorCode == "max_attempts_reached")
        #expect(failed.json?["attempt_count"]?.int64 == 2)
        #expect(failed.json?["last_error_code"]?.int64 == 503)
        #expect(failed.json?["synced_at"]?.isNull == true)
    }

    @Test(arguments: [400, 404, 422])
    func `a rejection is final until a user retries`(_ status: Int) async throws {
        let fixture = try await httpbin()
        let draft = contact(fixture, at: "/status/\(status)")
        let next = contact(fixture, at: "/anything")
        let reply = try await fixture.ada.push([draft, next], prefer: "wait=60")
        #expect(reply.statuses == ["failed", "succeeded"], "\(reply.text)")
        #expect(reply.results[0].errorCode == "upstream_rejected")
        #expect(reply.results[0].value(at: "/response/status")?.int64 == Int64(status))
        let retried = try await fixture.ada.post("/v1/mutations/\(draft.id)/retry", #"{"endpoint":"/anything"}"#)
        #expect(retried.status == 200, "\(retried.text)")
        let done = try await fixture.ada.get("/v1/mutations/\(draft.id)?wait=60")
        #expect(done.json?["status"]?.string == "succeeded", "\(done.text)")
        #expect(done.json?["revision"]?.int64 == 2)
    }

    @Test(arguments: [401, 302, 308])
    func `an error that the operator must fix does not count as an attempt`(_ status: Int) async throws {
        let fixture = try await httpbin()
        let draft = contact(fixture, at: "/status/\(status)", ["max_attempts": "1"])
        #expect(try await fixture.ada.push([draft]).status == 202)
        let now = try await failure(of: draft.id, fixture.ada)
        #expect(now["attempt_count"]?.int64 == 0)
        #expect(now["last_error_code"]?.int64 == Int64(status))
    }

    @Test func `an unanswered request has an unknown outcome`() async throws {
        let fixture = try await httpbin(#","timeout_seconds":1"#)
        let draft = contact(fixture, at: "/delay/5", ["max_attempts": "1"])
        let reply = try await fixture.ada.push([draft], prefer: "wait=60")
        #expect(reply.statuses == ["failed"], "\(reply.text)")
        let refused = try await fixture.ada.post(
            "/v1/mutations/\(draft.id)/retry",
            #"{"payload":{"ref":"other"}}"#
        )
        expectProblem(refused, .statusTransitionMustBeValid)
        let forced = try await fixture.ada.post(
            "/v1/mutations/\(draft.id)/retry",
            #"{"payload":{"ref":"other"},"endpoint":"/anything","force":true}"#
        )
        #expect(forced.status == 200, "\(forced.text)")
        let done = try await fixture.ada.get("/v1/mutations/\(draft.id)?wait=60")
        #expect(done.json?["server_id"]?.string == "other", "\(done.text)")
    }

    // MARK: - nginx: fast, and unreachable

    @Test func `many lanes run concurrently`() async throws {
        let nginx = try await NginxServer.start(
            configuration: """
                location / { default_type application/json; return 201 '{"id":"$request_id"}'; }
                """
        )
        let fixture = try await TwoTenantFixture(forwards: true)
        _ = try await fixture.operate(.PUT, fixture.admin + "/upstream", #"{"base_url":"\#(nginx.baseURL)"}"#)
        let organization = fixture.ada.organization
        try await withThrowingTaskGroup(of: Reply.self) { group in
            for _ in 0..<20 {
                group.addTask {
                    let worker = try await SyncWorker(fixture.gateway, organization: organization)
                    let drafts = (0..<25).map { _ in worker.create("contact").with(["endpoint": #""/contacts""#]) }
                    return try await worker.push(drafts, prefer: "wait=60")
                }
            }
            var ids: Set<String> = []
            for try await reply in group {
                #expect(Set(reply.statuses) == ["succeeded"], "\(reply.text)")
                ids.formUnion(reply.results.compactMap { $0["server_id"]?.string })
            }
            #expect(ids.count == 500)
        }
    }

    @Test func `an unreachable upstream does not affect other organizations`() async throws {
        let nginx = try await NginxServer.start(
            configuration: """
                location / { default_type application/json; return 201 '{"id":"$request_id"}'; }
                """
        )
        let fixture = try await TwoTenantFixture(forwards: true)
        let dead = "http://127.0.0.1:\(try LoopbackPort.reserve())"
        let others = "/admin/organizations/\(fixture.eve.organization.lowercased)"
        _ = try await fixture.operate(.PUT, fixture.admin + "/upstream", #"{"base_url":"\#(dead)"}"#)
        _ = try await fixture.operate(.PUT, others + "/upstream", #"{"base_url":"\#(nginx.baseURL)"}"#)
        let endpoint = ["endpoint": #""/contacts""#]
        let stuck = fixture.ada.create("contact").with(endpoint)
        #expect(try await fixture.ada.push([stuck]).status == 202)
        let mutation = try await failure(of: stuck.id, fixture.ada)
        #expect(mutation["last_error"]?.string?.contains("connection refused") == true, "\(mutation.text)")
        let fine = try await fixture.eve.push([fixture.eve.create("contact").with(endpoint)], prefer: "wait=60")
        #expect(fine.statuses == ["succeeded"], "\(fine.text)")
    }

    @Test func `a forwarded mutation requires an endpoint`() async throws {
        let fixture = try await httpbin()
        let reply = try await fixture.ada.push([fixture.ada.create("contact")])
        #expect(reply.statuses == ["rejected"])
        #expect(reply.results[0]["error"]?.errors == ["/mutations/0/endpoint member_required"])
    }
}

extension Draft {
    /// Returns the entry with other members.
    func with(_ more: [String: String]) -> Draft {
        Draft(members: members.merging(more) { $1 })
    }
}
