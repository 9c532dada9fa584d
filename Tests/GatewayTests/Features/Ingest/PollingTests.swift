import Foundation
import GatewaySupport
import JSONText
import NIOHTTP1
import Postgres
import SyncModel
import Synchronization
import TestSupport
import Testing

/// A whole gateway that polls APIs for changes.
@Suite struct PollingTests {
    private static let rule = """
        {"entity_type": "contact", "operation": {"at": "/deleted", "values": {"true": "delete"}, "otherwise": "upsert"},
         "id": "/id", "version": "/version", "occurred_at": "/updated_at", "document": "/document"}
        """
    /// The configuration of docs/ingest.md.
    private static let changes = """
        {"path": "/contacts?view=changes", "paging": {"link": true}, "page_size": {"parameter": "limit", "value": 2},
         "updated_since": {"parameter": "updated_since", "form": "rfc3339", "from": "/updated_at"},
         "mapping": {"rules": [\(rule)]}}
        """

    private func admin(_ worker: SyncWorker) -> String { "/admin/organizations/\(worker.organization.lowercased)" }

    private func setUpstream(_ fixture: TwoTenantFixture, _ worker: SyncWorker, _ url: String) async throws {
        let reply = try await fixture.operate(.PUT, admin(worker) + "/upstream", #"{"base_url":"\#(url)"}"#)
        #expect(reply.status == 201, "\(reply.text)")
    }

    private func poll(
        _ fixture: TwoTenantFixture,
        _ worker: SyncWorker,
        _ settings: String = changes,
        name: String = "crm"
    ) async throws {
        // the types are visible to the organization, because private types would require an owner in each item
        for type in ["contact", "note"] {
            let reply = try await fixture.operate(
                .PUT,
                admin(worker) + "/entity-types/\(type)",
                #"{"visibility":"organization"}"#
            )
            #expect([200, 201].contains(reply.status), "\(reply.text)")
        }
        let body = #"{"kind": "poller", "settings": \#(settings)}"#
        let reply = try await fixture.operate(.PUT, admin(worker) + "/sources/\(name)", body)
        #expect(reply.status == 201, "\(reply.text)")
    }

    private func row(_ fixture: TwoTenantFixture, _ worker: SyncWorker, name: String = "crm") async throws -> JSONValue
    {
        let reply = try await fixture.operate(.GET, admin(worker) + "/sources/\(name)")
        return try #require(reply.json, "\(reply.text)")
    }

    private func waitFor(
        _ fixture: TwoTenantFixture,
        _ worker: SyncWorker,
        _ what: String,
        name: String = "crm",
        _ holds: (JSONValue) -> Bool
    ) async throws {
        var last = ""
        try await waitUntil("\(what): \(last)", every: .milliseconds(20)) {
            let row = try await row(fixture, worker, name: name)
            last = row.text
            return holds(row)
        }
    }

    /// Waits until a source was read to its last page, because each page counts as a success.
    ///
    /// - Parameter moment: the time that the success must have; nil for any time.
    private func waitUntilPolled(
        _ fixture: TwoTenantFixture,
        _ worker: SyncWorker,
        name: String = "crm",
        at moment: String? = nil
    ) async throws {
        try await waitFor(fixture, worker, "\(name) was polled", name: name) { row in
            guard let success = row["last_success_at"]?.string, success == moment ?? success else { return false }
            return row["activity"]?.string == "waiting" && row["state"]?["pass"] == nil
        }
    }

    /// Triggers a poll of a source, and waits until it has finished.
    private func run(_ fixture: TwoTenantFixture, _ worker: SyncWorker) async throws {
        fixture.gateway.clock.advance(seconds: 30)
        try await waitUntilPolled(fixture, worker, at: fixture.gateway.clock.now.rfc3339)
    }

    private func colleague(_ method: HTTPMethod, _ url: String, _ body: String? = nil) async throws {
        let reply = try await send(method, url, body: body.map { Array($0.utf8) })
        #expect((200..<300).contains(reply.status), "\(reply.text)")
    }

    // MARK: - Edits

    @Test func `from an API without webhooks, phones receive colleagues' edits, but not their own`()
        async throws
    {
        let fixture = try await TwoTenantFixture(forwards: true, polls: true)
        let lines = Mutex<[String]>([])
        let api = try await DemoServer.start(
            report: { line in lines.withLock { $0.append(line) } },
            now: { fixture.gateway.clock.now }
        )
        try await setUpstream(fixture, fixture.ada, api.baseURL)
        try await poll(fixture, fixture.ada)
        try await waitUntilPolled(fixture, fixture.ada)
        fixture.gateway.clock.advance(seconds: 6)
        let local = UUID()
        let create = fixture.ada.create("contact", local: local, #"{"name":"Kari"}"#).with(["endpoint": #""/contacts""#]
        )
        let pushed = try await fixture.ada.push([create], prefer: "wait=60")
        #expect(pushed.statuses == ["succeeded"], "\(pushed.text)")
        let before = try await fixture.ada.get("/v1/changes")
        #expect(before.changes.count == 1)
        // the phone's own edit is not returned
        try await run(fixture, fixture.ada)
        let since = try #require(before.next)
        #expect(try await fixture.ada.get("/v1/changes?since=\(since)").changes.isEmpty)
        try await fixture.reaches(#"sluice_source_events_total{kind="poller",result="echo"} 1"#)

        try await colleague(.PATCH, api.baseURL + "/contacts/1", #"{"city":"Bergen"}"#)
        for name in ["Per", "Ola", "Liv", "Siv"] {
            try await colleague(.POST, api.baseURL + "/contacts", #"{"name":"\#(name)"}"#)
        }
        try await run(fixture, fixture.ada)
        let news = try await fixture.ada.get("/v1/changes?since=\(since)").changes
        #expect(news.count == 5)
        let kari = news.first { $0["id"]?.int64 == 1 }
        #expect(kari?["document"]?["city"]?.string == "Bergen" && kari?["document"]?["name"]?.string == "Kari")
        #expect(lines.withLock { $0.contains { $0.contains("after=") } }, "the poll took several pages")

        try await colleague(.DELETE, api.baseURL + "/contacts/1")
        let next = try #require(try await fixture.ada.get("/v1/changes?since=\(since)").next)
        try await run(fixture, fixture.ada)
        let gone = try await fixture.ada.get("/v1/changes?since=\(next)").changes
        #expect(gone.count == 1 && gone[0]["deleted"]?.bool == true, "\(gone.map(\.text))")
        #expect(try await row(fixture, fixture.ada)["last_error"]?.isNull == true)
    }

    @Test func `an unchanged list is not transferred again`() async throws {
        let fixture = try await TwoTenantFixture(polls: true)
        let lines = Mutex<[String]>([])
        let api = try await DemoServer.start { line in lines.withLock { $0.append(line) } }
        try await setUpstream(fixture, fixture.ada, api.baseURL)
        try await colleague(.POST, api.baseURL + "/contacts", #"{"name":"Per"}"#)
        try await poll(
            fixture,
            fixture.ada,
            #"{"path": "/contacts?view=changes", "mapping": {"rules": [\#(Self.rule)]}}"#
        )
        try await waitUntilPolled(fixture, fixture.ada)
        let state = try await row(fixture, fixture.ada)["state"]?.text
        try await run(fixture, fixture.ada)
        #expect(lines.withLock { $0.last } == "upstream: GET /contacts?view=changes → 304 (no changes)")
        #expect(try await row(fixture, fixture.ada)["state"]?.text == state)
        try await colleague(.PATCH, api.baseURL + "/contacts/1", #"{"name":"Pål"}"#)
        try await run(fixture, fixture.ada)
        #expect(try await fixture.ada.get("/v1/changes").changes.map { $0["document"]?["name"]?.string } == ["Pål"])
    }

    /// Kinto is a third-party server.
    @Test func `polls Kinto by its timestamps, including deletions`() async throws {
        let server = try await KintoServer.shared()
        let fixture = try await TwoTenantFixture(polls: true)
        let login = Data("\(fixture.ada.user.lowercased):x".utf8).base64EncodedString()
        let url = server.baseURL + "/buckets/default/collections/notes"
        let upstream = #"{"base_url":"\#(url)","credential":{"header":"Authorization","value":"Basic \#(login)"}}"#
        #expect(try await fixture.operate(.PUT, fixture.admin + "/upstream", upstream).status == 201)
        func edit(_ method: HTTPMethod, _ path: String, _ body: String?) async throws -> Reply {
            let reply = try await send(
                method,
                url + path,
                headers: [("Authorization", "Basic \(login)")],
                body: body.map { Array($0.utf8) }
            )
            #expect((200..<300).contains(reply.status), "\(reply.text)")
            return reply
        }
        let made = try await edit(.POST, "/records", #"{"data":{"title":"a"}}"#)
        let id = try #require(made.json?["data"]?["id"]?.string)
        let settings = """
            {"path": "/records?_sort=last_modified", "items": "/data",
             "updated_since": {"parameter": "_since", "form": "text", "from": "/last_modified"},
             "mapping": {"rules": [{"entity_type": "note", "id": "/id", "version": "/last_modified", "document": "",
               "operation": {"at": "/deleted", "values": {"true": "delete"}, "otherwise": "upsert"}}]}}
            """
        try await poll(fixture, fixture.ada, settings)
        try await waitUntilPolled(fixture, fixture.ada)
        #expect(try await fixture.ada.get("/v1/changes").changes.map { $0["document"]?["title"]?.string } == ["a"])
        _ = try await edit(.PATCH, "/records/\(id)", #"{"data":{"title":"b"}}"#)
        try await run(fixture, fixture.ada)
        #expect(try await fixture.ada.get("/v1/changes").changes.map { $0["document"]?["title"]?.string } == ["b"])
        try await run(fixture, fixture.ada)
        _ = try await edit(.DELETE, "/records/\(id)", nil)
        try await run(fixture, fixture.ada)
        #expect(try await fixture.ada.get("/v1/changes").changes.map { $0["deleted"]?.bool } == [true])
    }

    @Test func `polls each organization's own API with its own credential`() async throws {
        let fixture = try await TwoTenantFixture(polls: true)
        func api(_ name: String) async throws -> ListServer {
            try await ListServer { head, _ in
                guard head.headers["authorization"] == ["Bearer \(name)"] else { return .whole(401, [:], "{}") }
                let item = #"{"id":1,"version":1,"document":{"of":"\#(name)"}}"#
                return .whole(200, [:], "[\(item)]")
            }
        }
        let (first, second) = (try await api("first"), try await api("second"))
        for (worker, api, name) in [(fixture.ada, first, "first"), (fixture.eve, second, "second")] {
            let body = #"{"base_url":"\#(api.baseURL)","credential":{"bearer":"\#(name)"}}"#
            #expect(try await fixture.operate(.PUT, admin(worker) + "/upstream", body).status == 201)
            try await poll(fixture, worker, #"{"path": "/list", "mapping": {"rules": [\#(Self.rule)]}}"#)
            try await waitUntilPolled(fixture, worker)
            #expect(try await worker.get("/v1/changes").changes.map { $0["document"]?["of"]?.string } == [name])
        }
        #expect(
            first.requests.allSatisfy { $0.headers["x-sluice-organization"] == [fixture.ada.organization.lowercased] }
        )
    }

    // MARK: - Hostile upstreams

    @Test func `a hostile upstream affects only its own source, whose error is reported`() async throws {
        let fixture = try await TwoTenantFixture(polls: true)
        let elsewhere = try await ListServer { _, _ in .whole(200, [:], "[]") }
        let away = elsewhere.baseURL
        let json: HTTPHeaders = ["content-type": "application/json"]
        let api = try await ListServer { head, number in
            let item = #"{"id":\#(number),"version":1,"document":{}}"#
            switch head.uri.split(separator: "?").first ?? "" {
            case "/huge": return .whole(200, ["content-length": "209715200"], "[")
            case "/endless": return .endless(["transfer-encoding": "chunked"])
            case "/redirect": return .whole(302, ["location": away + "/"], "")
            case "/link": return .whole(200, ["link": "<\(away)/list>; rel=\"next\""], "[\(item)]")
            case "/round":
                let next = head.uri.contains("c=a") ? "b" : "a"
                return .whole(200, json, #"{"next":"\#(next)","d":[\#(item)]}"#)
            case "/same": return .whole(200, json, #"[{"id":1,"version":1,"document":{}}]"#)
            case "/html": return .whole(200, ["content-type": "text/html; charset=utf-8"], "<html>Log in</html>")
            case "/later": return .whole(429, ["retry-after": "600"], "")
            case "/good": return .whole(200, json, #"[{"id":"good","version":1,"document":{}}]"#)
            default: return .whole(200, json, "[\(item)]")
            }
        }
        try await setUpstream(fixture, fixture.ada, api.baseURL)
        let mapping = #""mapping": {"rules": [\#(Self.rule)]}"#
        // an endless list; after a limited number of pages, the other sources have their turn
        try await poll(
            fixture,
            fixture.ada,
            #"{"path": "/pages", "paging": {"page": {"parameter": "p"}}, \#(mapping)}"#,
            name: "pages"
        )
        for (name, paging, error) in [
            ("huge", "", "the response is longer than 4194304 bytes"),
            ("endless", "", "the response is longer than 4194304 bytes"),
            ("redirect", "", "the upstream answered 302, a redirect, which is not followed"),
            ("link", #""paging": {"link": true},"#, "the next page is at another origin"),
            (
                "round", #""items": "/d", "paging": {"cursor": {"parameter": "c", "pointer": "/next"}},"#,
                "the pages form a cycle"
            ),
            ("same", #""paging": {"page": {"parameter": "p"}},"#, "the pages repeat"),
            ("html", "", "the response is not JSON but text/html"), ("later", "", "the upstream answered 429"),
        ] {
            try await poll(fixture, fixture.ada, #"{"path": "/\#(name)", \#(paging) \#(mapping)}"#, name: name)
            try await waitFor(fixture, fixture.ada, "\(name) fails", name: name) {
                $0["last_error"]?.string?.hasPrefix(error) == true
            }
            #expect(try await row(fixture, fixture.ada, name: name)["failure_count"]?.int64 ?? 0 >= 1)
        }
        let later = try await row(fixture, fixture.ada, name: "later")["next_run_at"]?.string
        #expect(later == fixture.gateway.clock.now.adding(seconds: 600).rfc3339)
        #expect(elsewhere.requests.isEmpty)
        try await poll(fixture, fixture.ada, #"{"path": "/good", \#(mapping)}"#, name: "good")
        try await waitUntilPolled(fixture, fixture.ada, name: "good")
        #expect(try await row(fixture, fixture.ada, name: "pages")["failure_count"]?.int64 == 0)
        #expect(try await fixture.operate(.GET, "/readyz").status == 200)
    }

    @Test func `rejects invalid settings by pointer`() async throws {
        let fixture = try await TwoTenantFixture()
        for (settings, errors) in [
            ("{}", ["/settings/path member_required", "/settings/mapping member_required"]),
            (
                #"{"path": "//elsewhere.example/", "interval_seconds": 1, "mapping": {"rules": [\#(Self.rule)]}}"#,
                ["/settings/path endpoint_must_be_relative_path", "/settings/interval_seconds member_range"]
            ),
        ] {
            let body = #"{"kind": "poller", "settings": \#(settings)}"#
            let reply = try await fixture.operate(.PUT, fixture.admin + "/sources/crm", body)
            #expect(reply.status == 422 && reply.errors == errors, "\(reply.text)")
        }
    }

    @Test func `another gateway continues the poll of a killed gateway`() async throws {
        let database = try await LiveGateway.migratedDatabase()
        let api = try await ListServer { head, _ in
            let page = head.uri.split(separator: "=").last.flatMap { Int($0) } ?? 1
            let items = page > 60 ? "" : #"{"id":\#(page),"version":1,"document":{}}"#
            return .whole(200, ["content-type": "application/json"], "[\(items)]")
        }
        let first = try await GatewayProcess.start(database: database.uri)
        let organization = UUID()
        try await first.makeOrganization(organization)
        try await first.operate("/upstream", of: organization, #"{"base_url":"\#(api.baseURL)"}"#)
        try await first.operate("/entity-types/contact", of: organization, #"{"visibility":"organization"}"#)
        let settings = """
            {"path": "/list", "paging": {"page": {"parameter": "p"}}, "interval_seconds": 3600,
             "mapping": {"rules": [\(Self.rule)]}}
            """
        try await first.operate("/sources/crm", of: organization, #"{"kind": "poller", "settings": \#(settings)}"#)
        try await waitUntil("the poll is in progress") { api.requests.count > 5 }
        try await first.crash()
        let killedAt = api.requests.count
        let second = try await GatewayProcess.start(database: database.uri)
        // expires the dead gateway's lease, as if a minute had passed
        let connection = try await database.connect()
        try await connection.execute(
            script: """
                UPDATE sources SET leased_until = now() - interval '1 s', next_run_at = now() - interval '1 s'
                WHERE leased_until IS NOT NULL
                """
        )
        let token = try await GatewayProcess.token(organization: organization, user: UUID())
        try await waitUntil("all items have arrived") {
            let reply = try await send(.GET, second.address + "/v1/changes?limit=1000", token: token)
            return reply.changes.count == 60
        }
        let paths = api.requests.map(\.uri)
        #expect(paths.filter { $0 == "/list?p=1" }.count == 1, "the poll continued at its position")
        #expect(paths.count <= 62 && killedAt > 5, "at most one page is read again: \(paths.count)")
        connection.close()
        _ = try await second.terminate()
    }
}
