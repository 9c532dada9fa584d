import Foundation
import GatewaySupport
import HTTPTypes
import JSONText
import NIOHTTP1
import OperatorsFeature
import SyncHTTP
import SyncModel
import TestSupport
import Testing

/// Operators list the stuck mutations of two tenants, and settle a single mutation.
@Suite struct FailuresOverHTTPTests {
    static let reader = "readers-token-of-the-tests"
    private static let secret = "nobody-reads-this-by-chance"

    /// Ada has a failure, its dependent, and a conflict. Bob has a failure, and Eve of another tenant has two failures.
    struct Failure {
        let fixture: TwoTenantFixture
        let failed, waiting, conflict, bobs: Draft
        let eves: [Draft]
        let server: String

        init(operates: Bool = false) async throws {
            fixture = try await TwoTenantFixture(#"{"on_conflict":"continue"}"#, operates: operates) { configuration in
                let tokens = "\(LiveGateway.operatorToken) rita@read:\(reader)"
                configuration.operatorTokens = OperatorTokens(parsing: tokens)
            }
            let (ada, bob, eve) = (fixture.ada, fixture.bob, fixture.eve)
            let made = try await ada.push([ada.create()])
            server = try #require(made.results[0]["server_id"]?.string)
            _ = try await bob.push([bob.change(server: server)])
            let unknown = UUID().lowercased
            var failed = ada.change(server: unknown)
            failed["payload"] = #"{"title":"\#(secret)"}"#
            waiting = ada.change(server: unknown)
            conflict = ada.change(server: server, base: 1)
            bobs = bob.change(server: UUID().lowercased)
            eves = [eve.change(server: UUID().lowercased), eve.change(server: UUID().lowercased)]
            self.failed = failed
            #expect(try await ada.push([failed, waiting, conflict]).statuses == ["failed", "blocked", "conflict"])
            fixture.gateway.clock.advance(seconds: 1)
            #expect(try await bob.push([bobs]).statuses == ["failed"])
            fixture.gateway.clock.advance(seconds: 1)
            #expect(try await eve.push(eves).statuses == ["failed", "failed"])
        }

        func look(_ path: String, by token: String = FailuresOverHTTPTests.reader) async throws -> Reply {
            try await send(.GET, fixture.gateway.operations + path, token: token)
        }

        /// The path of a mutation of Ada's.
        func path(_ draft: Draft) -> String {
            "\(fixture.admin)/users/\(fixture.ada.user.lowercased)/mutations/\(draft.id)"
        }
    }

    private static func groups(_ reply: Reply) -> [JSONValue] { reply.json?["groups"]?.elements.map(Array.init) ?? [] }

    @Test func `groups stuck mutations over all organizations`() async throws {
        let trouble = try await Failure()
        let fixture = trouble.fixture
        let all = try await trouble.look("/admin/failures")
        #expect(all.status == 200, "\(all.text)")
        #expect(all.json?["is_partial"]?.bool == false && all.next == nil)
        let found = Self.groups(all)
        #expect(found.compactMap { $0["count"]?.int64 }.sorted() == [1, 2, 2])
        let mine = found.filter { $0["organization_id"]?.uuid == fixture.ada.organization }
        #expect(Set(mine.compactMap { $0["status"]?.string }) == ["failed", "conflict"])
        let failures = try #require(mine.first { $0["status"]?.string == "failed" })
        #expect(failures["entity_type"]?.string == "task" && failures["response_status"]?.int64 == 404)
        #expect(failures["example"]?["mutation_id"]?.string == trouble.bobs.id, "the example is the last mutation")
        #expect(failures["example"]?["detail"]?.string?.isEmpty == false)
        #expect(failures["first_at"]?.string != failures["last_at"]?.string && failures["is_more"]?.bool == false)
        let conflict = try #require(mine.first { $0["status"]?.string == "conflict" })
        #expect(conflict["error_code"]?.string == "conflict" && conflict["count"]?.int64 == 1)

        let filters: [(query: String, count: Int)] = [
            ("organization_id=\(fixture.ada.organization)", 2), ("organization_id=\(fixture.eve.organization)", 1),
            ("organization_id=\(UUID())", 0), ("status=conflict", 1), ("status=failed,conflict", 3),
            ("entity_type=task", 3), ("entity_type=note", 0), ("response_status=404", 2), ("response_status=none", 0),
            ("error_code=conflict", 1),
        ]
        for (query, count) in filters {
            let reply = try await trouble.look("/admin/failures?" + query)
            #expect(Self.groups(reply).count == count, "\(query): \(reply.text)")
        }
        // pages contain each group once
        var keys: [String] = []
        var cursor: String?
        repeat {
            let page = try await trouble.look("/admin/failures?limit=1" + (cursor.map { "&cursor=" + $0 } ?? ""))
            keys += Self.groups(page).map { "\($0["organization_id"]?.string ?? "") \($0["status"]?.string ?? "")" }
            cursor = page.next
        } while cursor != nil && keys.count < 10
        #expect(keys.count == 3 && Set(keys).count == 3)
        let first = try #require(try await trouble.look("/admin/failures?limit=1").next)
        for wrong in [
            "status=pending", "status=x", "entity_type=X", "response_status=99", "error_code=x", "limit=101",
            "cursor=x",
            "status=failed&cursor=\(first)", "user_id=\(UUID())", "organization_id=1",
        ] {
            expectProblem(try await trouble.look("/admin/failures?" + wrong), .invalidRequest)
        }
    }

    @Test func `lists stuck mutations newest first and without payloads`() async throws {
        let trouble = try await Failure()
        let fixture = trouble.fixture
        let all = try await trouble.look("/admin/mutations")
        let newest = Array(trouble.eves.map(\.id).sorted()) + [trouble.bobs.id]
        let ids = all.mutations.compactMap { $0["id"]?.string }
        #expect(
            ids.count == 5 && Set(ids.prefix(2)) == Set(newest.prefix(2)) && ids[2] == trouble.bobs.id,
            "\(all.text)"
        )
        #expect(Set(ids.suffix(2)) == [trouble.failed.id, trouble.conflict.id])
        #expect(!all.text.contains(Self.secret))
        #expect(all.json?["users"]?.elements?.count == 3)
        var pages: [String] = []
        var cursor: String?
        repeat {
            let page = try await trouble.look("/admin/mutations?limit=2" + (cursor.map { "&cursor=" + $0 } ?? ""))
            pages += page.mutations.compactMap { $0["id"]?.string }
            cursor = page.next
        } while cursor != nil && pages.count < 20
        #expect(pages == ids)
        let organization = "organization_id=\(fixture.ada.organization)"
        let group = organization + "&entity_type=task&error_code=conflict&response_status=409"
        let filters: [(query: String, ids: Set<String>)] = [
            (organization, [trouble.failed.id, trouble.conflict.id, trouble.bobs.id]),
            (organization + "&user_id=\(fixture.ada.user)", [trouble.failed.id, trouble.conflict.id]),
            (organization + "&user_id=\(fixture.eve.user)", []),
            (organization + "&status=conflict", [trouble.conflict.id]),
            (group, [trouble.conflict.id]), ("status=conflict", [trouble.conflict.id]),
        ]
        for (query, expected) in filters {
            let reply = try await trouble.look("/admin/mutations?" + query)
            #expect(Set(reply.mutations.compactMap { $0["id"]?.string }) == expected, "\(query): \(reply.text)")
        }
        for wrong in ["user_id=\(fixture.ada.user)", "cursor=x", "status=sent", "limit=0"] {
            expectProblem(try await trouble.look("/admin/mutations?" + wrong), .invalidRequest)
        }
        // settled mutations are not stuck any more
        _ = try await fixture.ada.post("/v1/mutations/\(trouble.conflict.id)/discard", "{}")
        #expect(try await trouble.look("/admin/mutations?status=conflict").mutations.isEmpty)
        #expect(Self.groups(try await trouble.look("/admin/failures?status=conflict")).isEmpty)
    }

    @Test func `payloads in a mutation's details require authorization and are audited`() async throws {
        let trouble = try await Failure()
        let fixture = trouble.fixture
        let path = trouble.path(trouble.failed)
        let story = try await trouble.look(path)
        #expect(story.status == 200, "\(story.text)")
        #expect(!story.text.contains(Self.secret))
        let json = try #require(story.json)
        #expect(json["mutation"]?["id"]?.string == trouble.failed.id && json["mutation"]?["payload"]?.isNull == true)
        #expect(json["withheld"]?.elements?.isEmpty == false && json["sent"]?.isNull == true)
        let waiter = json["waited_for_by"]?["mutations"]?.elements.map(Array.init)?.first?["mutation_id"]?.string
        #expect(waiter == trouble.waiting.id)
        #expect(json["waited_for_by"]?["count"]?["count"]?.int64 == 1)
        #expect(json["lane"]?["position"]?.int64 == 2 && json["attempts"]?.elements?.isEmpty == true)
        let other = try await trouble.look(trouble.path(trouble.waiting))
        let blocker = other.json?["waits_for"]?.elements.map(Array.init)?.first
        #expect(blocker?["mutation_id"]?.string == trouble.failed.id && blocker?["status"]?.string == "failed")
        #expect(other.json?["history"]?.elements.map(Array.init)?.first?["id"]?.string == trouble.failed.id)

        expectProblem(try await trouble.look(path + "?payload=true"), .forbidden)
        #expect(try await fixture.lines("SELECT action FROM audit WHERE action = 'lookAtPayload'").isEmpty)
        let whole = try await trouble.look(path + "?payload=true", by: LiveGateway.operatorToken)
        #expect(whole.json?["pushed"]?["payload"]?["title"]?.string == Self.secret)
        #expect(whole.json?["withheld"]?.elements?.isEmpty == true)
        let noted = try await fixture.lines(
            "SELECT concat_ws(' ', actor, user_id, target ->> 'mutation') FROM audit WHERE action = 'lookAtPayload'"
        )
        #expect(noted == ["operator \(fixture.ada.user.lowercased) \(trouble.failed.id)"])
        let conflict = try await trouble.look(trouble.path(trouble.conflict))
        #expect(
            conflict.json?["entity"]?["version"]?.int64 == 2 && conflict.json?["entity"]?["document"]?.isNull == true
        )
        #expect(conflict.json?["mutation"]?["error"]?["current"] == nil)

        for wrong in [
            trouble.path(trouble.bobs),
            trouble.path(trouble.failed).replacing(
                fixture.ada.organization.lowercased,
                with: fixture.eve.organization.lowercased
            ), "\(fixture.admin)/users/\(fixture.ada.user)/mutations/x",
        ] {
            expectProblem(try await trouble.look(wrong), .notFound)
        }
        expectProblem(try await trouble.look(path + "?payload=1"), .invalidRequest)
    }

    /// Returns a scene whose contacts are sent to an upstream, with an operator who has only the scope `read`.
    private static func forwarding(to url: String) async throws -> TwoTenantFixture {
        let fixture = try await TwoTenantFixture(forwards: true) {
            $0.operatorTokens = OperatorTokens(parsing: "\(LiveGateway.operatorToken) rita@read:\(reader)")
        }
        let base = #"{"base_url":"\#(url)"}"#
        #expect(try await fixture.operate(.PUT, fixture.admin + "/upstream", base).status == 201)
        let type = try await fixture.operate(.PUT, fixture.admin + "/entity-types/contact", #"{"upstream":true}"#)
        #expect(type.status < 300, "\(type.text)")
        return fixture
    }

    /// Endpoints, queries, member names and entity tags are also content of users and upstreams, but ids are not
    /// content.
    @Test func `shows a sent request without its content`() async throws {
        let upstream = try await DemoServer.start()
        let fixture = try await Self.forwarding(to: upstream.baseURL)
        let (ada, contact) = (fixture.ada, UUID())
        let first = ada.create("contact", local: contact, #"{"name":"Kari"}"#)
            .with(["endpoint": #""/contacts?of=hushed-query""#])
        let second = ada.create("contact", #"{"name":"Ola","hushed-name":\#(contact.quoted)}"#)
            .with(["endpoint": #""/contacts?of=hushed-query""#])
        #expect(try await ada.push([first, second], prefer: "wait=30").statuses == ["succeeded", "succeeded"])
        try await fixture.execute(
            """
            UPDATE mutations SET etag = 'hushed-tag' WHERE id = '\(second.id)';
            UPDATE entities SET etag = 'hushed-tag';
            """
        )
        let path = "\(fixture.admin)/users/\(ada.user.lowercased)/mutations/\(second.id)"
        let story = try await send(.GET, fixture.gateway.operations + path, token: Self.reader)
        let json = try #require(story.json)
        #expect(story.status == 200 && !story.text.contains("hushed"), "\(story.text)")
        let redacted = json["withheld"]?.elements?.compactMap(\.string) ?? []
        for place in [
            "mutation.endpoint", "mutation.etag", "pushed.endpoint", "sent.url", "sent.url_path", "sent.headers",
            "sent.body", "sent.rewritten", "entity.etag", "entity.document",
        ] {
            #expect(json.value(at: "/" + place.replacing(".", with: "/"))?.isNull == true, "\(place)")
            #expect(redacted.contains(place), "\(place)")
        }
        #expect(json["sent"]?["method"]?.string == "POST" && json["sent"]?["idempotency_key"]?.uuid != nil)
        #expect(json["entity"]?["id"]?.isNull == false && json["mutation"]?["server_id"]?.isNull == false)

        let whole = try await fixture.operate(.GET, path + "?payload=true").json
        #expect(whole?["withheld"]?.elements?.isEmpty == true)
        #expect(whole?["mutation"]?["endpoint"]?.string == "/contacts?of=hushed-query")
        #expect(whole?["sent"]?["url_path"]?.string == "/contacts?of=hushed-query")
        #expect(whole?["sent"]?["url"]?.string == upstream.baseURL + "/contacts?of=hushed-query")
        let places = whole?["sent"]?["rewritten"]?.elements?.compactMap { $0["pointer"]?.string }
        #expect(places == ["/hushed-name"])
        for kind in ["mutation", "entity"] {
            #expect(whole?.value(at: "/\(kind)/etag")?.string == "hushed-tag", "\(kind)")
        }
    }

    /// A redirect's address usually contains the endpoint.
    @Test func `withholds a redirect's address from operators without access to payloads`() async throws {
        let upstream = try await ListServer { head, number in
            head.uri.contains("hushed")
                ? .whole(301, ["location": head.uri + "/"], "")
                : .whole(201, ["content-type": "application/json"], #"{"id":\#(number)}"#)
        }
        let fixture = try await Self.forwarding(to: upstream.baseURL)
        let (ada, bob, clock) = (fixture.ada, fixture.bob, fixture.gateway.clock)
        let wrong = ada.create("contact").with(["endpoint": #""/people/hushed@example.org""#])
        _ = try await ada.push([wrong])
        try await waitUntil("it is held") {
            try await ada.get("/v1/mutations/\(wrong.id)").json?["last_error_code"]?.int64 == 301
        }
        clock.advance(seconds: 60)
        let taken = bob.create("contact").with(["endpoint": #""/people""#])
        #expect(try await bob.push([taken], prefer: "wait=30").statuses == ["succeeded"])
        // another request has succeeded, so the cause is the mutation itself and not the upstream
        clock.advance(seconds: 60)
        let failed = try await ada.get("/v1/mutations/\(wrong.id)?wait=60")
        #expect(failed.json?["status"]?.string == "failed", "\(failed.text)")
        #expect(failed.json?["error"]?["detail"]?.string?.contains("hushed") == true, "the user may see the address")

        let user = "\(fixture.admin)/users/\(ada.user.lowercased)"
        let path = "\(user)/mutations/\(wrong.id)"
        for look in ["/admin/failures", "/admin/mutations", path, "\(user)/explain?mutation=\(wrong.id)"] {
            let reply = try await send(.GET, fixture.gateway.operations + look, token: Self.reader)
            #expect(reply.status == 200 && !reply.text.contains("hushed"), "\(reply.text)")
            #expect(reply.text.contains("the upstream answered 301 (Location withheld)"), "\(reply.text)")
        }
        let draft = #"{"kind":"retry","filter":{"status":"failed"}}"#
        let preview = try await fixture.operate(.POST, fixture.admin + "/operations/preview", draft)
        #expect(preview.json?["sample"]?.elements?.count == 1 && !preview.text.contains("hushed"), "\(preview.text)")
        let whole = try await fixture.operate(.GET, path + "?payload=true")
        #expect(whole.json?.value(at: "/mutation/error/detail")?.string?.contains("hushed") == true)
    }

    @Test func `an operator can settle one mutation like its user`() async throws {
        let trouble = try await Failure()
        let fixture = trouble.fixture
        let path = trouble.path(trouble.failed)
        for move in ["retry", "discard", "resolve"] {
            let body = move == "resolve" ? #"{"strategy":"server_wins"}"# : "{}"
            let url = fixture.gateway.operations + path + "/" + move
            expectProblem(try await send(.POST, url, token: Self.reader, body: Array(body.utf8)), .forbidden)
            let foreign = path.replacing(fixture.ada.organization.lowercased, with: fixture.eve.organization.lowercased)
            expectProblem(try await fixture.operate(.POST, foreign + "/" + move, body), .notFound)
        }
        let before = try await trouble.look(path).text
        let valid = try await fixture.operate(.POST, path + "/retry?validate=true", #"{"payload":{"title":"z"}}"#)
        #expect(valid.text == #"{"valid":true}"#, "\(valid.text)")
        let invalid = try await fixture.operate(.POST, path + "/retry?validate=true", #"{"endpoint":"x"}"#)
        #expect(invalid.status >= 400 && invalid.errors.count == 1, "\(invalid.text)")
        #expect(try await trouble.look(path).text == before)
        let trials = try await fixture.lines(
            "SELECT outcome::text FROM audit WHERE action = 'retryMutationOfUser' AND outcome ->> 'validated' = 'true'"
        )
        #expect(trials.count == 2 && trials.allSatisfy { !$0.contains("\"z\"") }, "\(trials)")
        let retried = try await fixture.operate(.POST, path + "/retry", #"{"payload":{"title":"z"}}"#)
        #expect(retried.json?["status"]?.string == "pending" && retried.json?["revision"]?.int64 == 2)
        let again = try await fixture.operate(.POST, path + "/retry?validate=true", "{}")
        expectProblem(again, .statusTransitionMustBeValid)
        let resolved = try await fixture.operate(
            .POST,
            trouble.path(trouble.conflict) + "/resolve",
            #"{"strategy":"server_wins"}"#
        )
        #expect(
            resolved.json?["status"]?.string == "discarded" && resolved.json?["resolution"]?.string == "server_wins"
        )
        let discarded = try await fixture.operate(.POST, path + "/discard", #"{"dependents":"discard"}"#)
        #expect(discarded.json?["discarded"]?.elements?.count == 2)
        let acts = try await fixture.lines(
            "SELECT DISTINCT action FROM audit WHERE action LIKE '%OfUser' AND outcome ->> 'status' = '200' ORDER BY 1"
        )
        #expect(acts == ["discardMutationOfUser", "resolveConflictOfUser", "retryMutationOfUser"])
        let real = try await fixture.lines(
            """
            SELECT outcome::text FROM audit WHERE action = 'retryMutationOfUser' AND outcome ->> 'status' = '200' \
            AND outcome -> 'validated' IS NULL
            """
        )
        #expect(real.count == 1, "\(real)")
    }

    @Test func `shows a lane in order and explains why a user's write has not arrived`() async throws {
        let trouble = try await Failure()
        let fixture = trouble.fixture
        let user = "\(fixture.admin)/users/\(fixture.ada.user.lowercased)"
        let lane = try await trouble.look(user + "/lane")
        #expect(
            lane.mutations.compactMap { $0["id"]?.string } == [
                trouble.failed.id, trouble.waiting.id, trouble.conflict.id,
            ]
        )
        #expect(lane.mutations.compactMap { $0["status"]?.string } == ["failed", "blocked", "conflict"])
        #expect(lane.json?["lane"]?["counts"]?["failed"]?.int64 == 1 && lane.json?["devices"]?.elements?.count == 1)
        #expect(!lane.text.contains(Self.secret))
        let first = try await trouble.look(user + "/lane?limit=2")
        let next = try #require(first.next)
        let rest = try await trouble.look(user + "/lane?limit=2&cursor=" + next)
        #expect(rest.mutations.compactMap { $0["id"]?.string } == [trouble.conflict.id] && rest.next == nil)
        expectProblem(try await trouble.look(user + "/lane?cursor=x"), .invalidRequest)

        func codes(_ path: String) async throws -> [String] {
            let reply = try await trouble.look(path)
            #expect(reply.status == 200, "\(reply.text)")
            return reply.json?["findings"]?.elements?.compactMap { $0["code"]?.string } ?? []
        }
        let found = try await codes(user + "/explain?mutation=\(trouble.failed.id)")
        #expect(found.contains("mutation_stuck") && found.contains("stuck"), "\(found)")
        #expect(try await codes(user + "/explain?mutation=\(trouble.waiting.id)").contains("mutation_waits"))
        #expect(try await codes(user + "/explain?mutation=\(trouble.bobs.id)").contains("mutation_unknown"))
        #expect(try await codes(user + "/explain?device=\(UUID())").contains("device_unknown"))
        func provision(_ way: String) async throws {
            let settings = #"{"settings":{"provisioning":"\#(way)"}}"#
            #expect(try await fixture.operate(.PUT, fixture.admin, settings).status == 200)
        }
        try await provision("explicit")
        #expect(try await fixture.operate(.PUT, user, "{}").status < 300)
        #expect(try await !codes(user + "/explain").contains("user_not_let_in"))
        #expect(try await fixture.operate(.DELETE, user).status == 204)
        #expect(try await codes(user + "/explain").first == "user_not_let_in")
        try await provision("on_first_push")
        let stranger = try await codes("\(fixture.admin)/users/\(fixture.eve.user.lowercased)/explain")
        #expect(stranger == ["user_unknown"], "another tenant's user is unknown here")
        fixture.gateway.clock.advance(seconds: 200_000)
        #expect(try await codes(user + "/explain").contains("device_silent"))
        expectProblem(try await trouble.look("/admin/organizations/\(UUID())/users/\(UUID())/explain"), .notFound)
    }
}
