import Foundation
import GatewaySupport
import JSONText
import NIOHTTP1
import SyncModel
import TestSupport
import Testing

/// `GET /v1/backlog`
@Suite struct BacklogTests {
    private static let zeros = #"{"pending":0,"blocked":0,"in_flight":0,"conflict":0,"failed":0}"#
    private static let empty =
        #"{"devices":[],"lane":{"counts":\#(zeros),"is_truncated":false,"head":null,"held_by":null}}"#

    private static func backlog(_ worker: SyncWorker) async throws -> JSONValue {
        let reply = try await worker.get("/v1/backlog")
        #expect(reply.status == 200, "\(reply.text)")
        let json = try #require(reply.json)
        #expect(json.names == ["devices", "lane"])
        #expect(json["lane"]?.names == ["counts", "is_truncated", "head", "held_by"])
        return json
    }

    /// A lane after its worker has released it.
    private static func settled(_ worker: SyncWorker, _ reason: String) async throws -> JSONValue {
        var found: JSONValue?
        try await waitUntil("the lane is held: \(reason)") {
            found = try await backlog(worker)
            return found?.value(at: "/lane/held_by/reason")?.string == reason
        }
        return try #require(found)
    }

    private static func held(_ backlog: JSONValue) -> (reason: String?, until: String?, ids: [String]) {
        let held = backlog.value(at: "/lane/held_by")
        #expect(held?.names == ["reason", "until", "mutation_ids"])
        let ids = held?["mutation_ids"]?.elements?.compactMap(\.string) ?? []
        return (held?["reason"]?.string, held?["until"]?.string, ids)
    }

    private static func counts(_ backlog: JSONValue) -> String {
        backlog.value(at: "/lane/counts")?.text ?? "-"
    }

    /// Ada's organization with httpbin as its upstream.
    private static func httpbin(_ settings: String = "{}") async throws -> TwoTenantFixture {
        let server = try await HTTPBinServer.shared()
        let fixture = try await TwoTenantFixture(settings, forwards: true)
        let body = #"{"base_url":"\#(server.baseURL)","id_pointer":"/json/ref"}"#
        #expect(try await fixture.operate(.PUT, fixture.admin + "/upstream", body).status == 201)
        return fixture
    }

    private static func contact(_ worker: SyncWorker, at endpoint: String, local: UUID = UUID()) -> Draft {
        worker.create("contact", local: local, #"{"ref":"c-17"}"#).with(["endpoint": #""\#(endpoint)""#])
    }

    // MARK: - Without upstreams

    @Test func `a user who never pushed has an empty backlog`() async throws {
        let fixture = try await TwoTenantFixture()
        #expect(try await fixture.ada.get("/v1/backlog").text == Self.empty)
        #expect(try await fixture.gateway.token(organization: fixture.ada.organization, user: UUID()).isEmpty == false)
    }

    @Test func `completed mutations leave the backlog but their device is listed`() async throws {
        let fixture = try await TwoTenantFixture()
        _ = try await fixture.ada.push([fixture.ada.create(), fixture.ada.create()])
        let now = fixture.gateway.clock.now.rfc3339
        let device = #"{"device_id":\#(fixture.ada.device.quoted),"accepted_sequence":2,"last_seen_at":"\#(now)","#
        #expect(
            try await fixture.ada.get("/v1/backlog").text
                == Self.empty.replacingOccurrences(
                    of: #""devices":[]"#,
                    with: #""devices":[\#(device)"counts":\#(Self.zeros),"oldest_pending":null}]"#
                )
        )
    }

    @Test func `a conflict halts the lane and the backlog names the conflicting mutation`() async throws {
        let fixture = try await TwoTenantFixture()
        let tablet = try await SyncWorker(
            fixture.gateway,
            organization: fixture.ada.organization,
            user: fixture.ada.user
        )
        let pushed = try await fixture.ada.push([fixture.ada.create()])
        let server = try #require(pushed.results[0]["server_id"]?.string)
        _ = try await fixture.bob.push([fixture.bob.change(server: server)])
        let stale = fixture.ada.change(server: server, base: 1)
        let behind = fixture.ada.create()
        fixture.gateway.clock.advance(seconds: 1)
        let halting = try await fixture.ada.push([stale, behind])
        #expect(halting.statuses == ["conflict", "pending"])
        #expect(halting.json?["held_by"]?["mutation_ids"]?.elements.map { $0.map(\.string) } == [stale.id])
        fixture.gateway.clock.advance(seconds: 1)
        let later = tablet.create()
        #expect(try await tablet.push([later]).statuses == ["pending"])

        let backlog = try await Self.backlog(fixture.ada)
        #expect(Self.counts(backlog) == #"{"pending":2,"blocked":0,"in_flight":0,"conflict":1,"failed":0}"#)
        let head = try #require(backlog.value(at: "/lane/head"))
        #expect(
            head.names == [
                "id", "device_id", "sequence_number", "status", "operation", "entity_type", "attempt_count",
                "next_retry_at", "blocked_by",
            ]
        )
        #expect(head["id"]?.string == stale.id && head["status"]?.string == "conflict")
        #expect(head["device_id"]?.string == fixture.ada.device.lowercased)
        #expect(head["sequence_number"]?.int64 == 2)
        #expect(head["operation"]?.string == "update" && head["entity_type"]?.string == "task")
        #expect(Self.held(backlog) == ("conflict", nil, [stale.id]))

        let devices = backlog["devices"]?.elements.map(Array.init) ?? []
        #expect(devices.map { $0["device_id"]?.string } == [tablet, fixture.ada].map(\.device.lowercased))
        #expect(devices.map { $0["accepted_sequence"]?.int64 } == [1, 3])
        #expect(devices.map { $0.value(at: "/counts/pending")?.int64 } == [1, 1])
        #expect(devices.map { $0.value(at: "/counts/conflict")?.int64 } == [0, 1])
        #expect(devices.map { $0.value(at: "/oldest_pending/id")?.string } == [later.id, behind.id])
        let oldest = try #require(devices[1]["oldest_pending"])
        #expect(oldest.names == ["id", "sequence_number", "status", "created_at", "accepted_at"])
        #expect(oldest["sequence_number"]?.int64 == 3 && oldest["status"]?.string == "pending")
        #expect(oldest["created_at"]?.string == "2026-11-18T07:00:00.000Z")
        #expect(oldest["accepted_at"]?.string == fixture.gateway.clock.now.adding(seconds: -1).rfc3339)

        // other users' backlogs do not contain these mutations
        for other in [fixture.bob, fixture.eve] {
            let others = try await Self.backlog(other)
            #expect(Self.counts(others) == Self.zeros && others.value(at: "/lane/held_by")?.isNull == true)
        }
        _ = try await fixture.ada.post("/v1/mutations/\(stale.id)/discard", "{}")
        #expect(try await Self.backlog(fixture.ada).value(at: "/lane/head/id")?.string == behind.id)
    }

    @Test func `the same user in two organizations has two separate backlogs`() async throws {
        let fixture = try await TwoTenantFixture()
        let twin = try await SyncWorker(fixture.gateway, organization: fixture.eve.organization, user: fixture.ada.user)
        let pushed = try await fixture.ada.push([fixture.ada.create()])
        let server = try #require(pushed.results[0]["server_id"]?.string)
        _ = try await fixture.bob.push([fixture.bob.change(server: server)])
        _ = try await fixture.ada.push([fixture.ada.change(server: server, base: 1)])
        #expect(try await Self.backlog(fixture.ada).value(at: "/lane/counts/conflict")?.int64 == 1)
        #expect(try await twin.get("/v1/backlog").text == Self.empty)
    }

    @Test func `rejects query parameters of the backlog`() async throws {
        let fixture = try await TwoTenantFixture()
        for query in ["limit=1", "device_id=x", "x"] {
            let reply = try await fixture.ada.get("/v1/backlog?" + query)
            expectProblem(reply, .invalidRequest, errors: [" parameter_unknown"])
        }
    }

    // MARK: - With upstreams

    @Test func `reports that a failed head delays the lane until its next attempt`() async throws {
        let fixture = try await Self.httpbin()
        let drafts = [Self.contact(fixture.ada, at: "/status/503"), Self.contact(fixture.ada, at: "/anything")]
        #expect(try await fixture.ada.push(drafts).status == 202)
        let backlog = try await Self.settled(fixture.ada, "back_off")
        let head = try #require(backlog.value(at: "/lane/head"))
        #expect(head["id"]?.string == drafts[0].id && head["status"]?.string == "pending")
        #expect(head["attempt_count"]?.int64 == 1)
        let due = try #require(head["next_retry_at"]?.string)
        #expect(due > fixture.gateway.clock.now.rfc3339)
        #expect(Self.held(backlog) == ("back_off", due, []))
        #expect(Self.counts(backlog) == #"{"pending":2,"blocked":0,"in_flight":0,"conflict":0,"failed":0}"#)
    }

    /// Only an operator may send earlier than the upstream allows (product rule 11).
    @Test func `a retry by an operator ends a back-off, and a retry by a user does not`() async throws {
        let fixture = try await Self.httpbin()
        let draft = Self.contact(fixture.ada, at: "/status/503")
        #expect(try await fixture.ada.push([draft]).status == 202)
        _ = try await Self.settled(fixture.ada, "back_off")
        let own = try await fixture.ada.post("/v1/mutations/\(draft.id)/retry", "{}")
        expectProblem(own, .statusTransitionMustBeValid)
        let mutations = fixture.admin + "/users/\(fixture.ada.user.lowercased)/mutations/"
        let retry = mutations + "\(draft.id)/retry"
        expectProblem(
            try await fixture.operate(.POST, retry, #"{"payload":{"ref":"c-18"}}"#),
            .statusTransitionMustBeValid
        )
        expectProblem(try await fixture.operate(.POST, mutations + "\(UUID().lowercased)/retry"), .notFound)
        #expect(try await fixture.operate(.POST, retry + "?validate=true").text == #"{"valid":true}"#)
        let retried = try await fixture.operate(.POST, retry)
        #expect(retried.status == 200 && retried.json?["next_retry_at"]?.isNull == true, "\(retried.text)")
        #expect(retried.json?["attempt_count"]?.int64 == 1 && retried.json?["revision"]?.int64 == 1)
        try await waitUntil("it is sent again") {
            try await fixture.ada.get("/v1/mutations/\(draft.id)").json?["attempt_count"]?.int64 == 2
        }
    }

    @Test func `repeated upstream failures delay all lanes of the organization`() async throws {
        let fixture = try await Self.httpbin()
        let carol = try await SyncWorker(fixture.gateway, organization: fixture.ada.organization)
        // an error that the operator may have caused delays the lane in which it occurred
        for worker in [fixture.ada, fixture.bob, carol] {
            let draft = Self.contact(worker, at: "/status/401")
            #expect(try await worker.push([draft]).status == 202)
            let backlog = try await Self.settled(worker, "back_off")
            #expect(backlog.value(at: "/lane/head/id")?.string == draft.id)
            #expect(backlog.value(at: "/lane/head/attempt_count")?.int64 == 0)
            let held = Self.held(backlog)
            #expect((held.until ?? "") > fixture.gateway.clock.now.rfc3339 && held.ids.isEmpty)
        }
        // after three lanes failed, a fourth waits as well
        let dan = try await SyncWorker(fixture.gateway, organization: fixture.ada.organization)
        #expect(try await dan.push([Self.contact(dan, at: "/anything")]).status == 202)
        let others = try await Self.settled(dan, "circuit_open")
        let held = Self.held(others)
        #expect(held.reason == "circuit_open" && held.ids.isEmpty)
        #expect((held.until ?? "") > fixture.gateway.clock.now.rfc3339)
    }

    /// The response to a push reports the delay immediately, because its mutations wait as well.
    @Test func `a push into a delayed lane returns the reason`() async throws {
        let fixture = try await Self.httpbin()
        let first = Self.contact(fixture.ada, at: "/status/503")
        let fresh = try await fixture.ada.push([first])
        #expect(fresh.status == 202 && fresh.json?["held_by"]?.isNull == true, "\(fresh.text)")
        let backlog = try await Self.settled(fixture.ada, "back_off")
        let next = try await fixture.ada.push([Self.contact(fixture.ada, at: "/anything")])
        #expect(next.json?["held_by"]?.raw == backlog.value(at: "/lane/held_by")?.raw, "\(next.text)")
        #expect(next.json?["held_by"]?["reason"]?.string == "back_off")
        // a repeat of a completed push returns the reason as well
        #expect(try await fixture.ada.push([first]).json?["held_by"]?["reason"]?.string == "back_off")
        // another user's lane is not delayed
        let done = try await fixture.bob.push([Self.contact(fixture.bob, at: "/anything")], prefer: "wait=30")
        #expect(done.status == 200 && done.json?["held_by"]?.isNull == true, "\(done.text)")
    }

    @Test func `a forwarded mutation waits until its organization has an upstream`() async throws {
        let fixture = try await Self.httpbin()
        let type = #"{"upstream":true}"#
        #expect(try await fixture.operate(.PUT, fixture.admin + "/entity-types/contact", type).status == 201)
        #expect(try await fixture.operate(.DELETE, fixture.admin + "/upstream").status == 204)
        let draft = Self.contact(fixture.ada, at: "/anything")
        #expect(try await fixture.ada.push([draft]).status == 202)
        let backlog = try await Self.settled(fixture.ada, "no_upstream")
        #expect(backlog.value(at: "/lane/head/id")?.string == draft.id)
        let held = Self.held(backlog)
        #expect(held.reason == "no_upstream" && held.ids.isEmpty)
        #expect(held.until == nil || held.until == fixture.gateway.clock.now.adding(seconds: 30).rfc3339)
    }

    @Test func `a failed mutation blocks its dependents`() async throws {
        let fixture = try await Self.httpbin()
        let local = UUID()
        let create = Self.contact(fixture.ada, at: "/status/422", local: local)
        let update = fixture.ada.draft("update", "contact", ["local_id": local.quoted, "payload": "{}"])
            .with(["endpoint": #""/anything/{local_id}""#])
        #expect(try await fixture.ada.push([create, update], prefer: "wait=30").statuses == ["failed", "blocked"])
        let backlog = try await Self.backlog(fixture.ada)
        #expect(backlog.value(at: "/lane/head/id")?.string == update.id)
        #expect(backlog.value(at: "/lane/head/blocked_by/0")?.string == create.id)
        #expect(Self.held(backlog) == ("blocked", nil, [create.id]))
        #expect(backlog.value(at: "/devices/0/oldest_pending/status")?.string == "blocked")
        #expect(Self.counts(backlog) == #"{"pending":0,"blocked":1,"in_flight":0,"conflict":0,"failed":1}"#)
    }

    @Test(arguments: [("on_failure", "422", "failure", "failed"), ("on_conflict", "412", "conflict", "conflict")])
    func `the halting mutation is the head`(_ setting: String, _ code: String, _ reason: String, _ status: String)
        async throws
    {
        let fixture = try await Self.httpbin(#"{"\#(setting)":"halt"}"#)
        let first = Self.contact(fixture.ada, at: "/status/\(code)")
        let behind = Self.contact(fixture.ada, at: "/anything")
        #expect(try await fixture.ada.push([first, behind]).status == 202)
        let backlog = try await Self.settled(fixture.ada, reason)
        #expect(Self.held(backlog) == (reason, nil, [first.id]))
        #expect(backlog.value(at: "/lane/head/status")?.string == status)
        let push = try await fixture.ada.push([Self.contact(fixture.ada, at: "/anything")])
        #expect(push.json?["held_by"]?["reason"]?.string == reason, "\(push.text)")
        #expect(push.json?["held_by"]?["mutation_ids"]?.elements.map { $0.map(\.string) } == [first.id])
        #expect(backlog.value(at: "/lane/counts/pending")?.int64 == 1)
        #expect(backlog.value(at: "/devices/0/oldest_pending/id")?.string == behind.id)
    }

    /// The response contains the lane's state when the response is created, not when the push was accepted.
    @Test(arguments: [("on_failure", "422", "failure"), ("on_conflict", "412", "conflict")])
    func `a push that halts the lane returns why`(_ setting: String, _ code: String, _ reason: String) async throws {
        let fixture = try await Self.httpbin(#"{"\#(setting)":"halt"}"#)
        let draft = Self.contact(fixture.ada, at: "/status/\(code)")
        let push = try await fixture.ada.push([draft], prefer: "wait=60")
        #expect(push.status == 200 && push.json?["held_by"]?["reason"]?.string == reason, "\(push.text)")
        #expect(push.json?["held_by"]?["mutation_ids"]?.elements.map { $0.map(\.string) } == [draft.id])
    }

    @Test func `a mutation in flight is not reported as delayed`() async throws {
        let fixture = try await Self.httpbin()
        let draft = Self.contact(fixture.ada, at: "/delay/4")
        #expect(try await fixture.ada.push([draft]).status == 202)
        var backlog = try await Self.backlog(fixture.ada)
        try await waitUntil("it is in flight", every: .zero) {
            #expect(backlog.value(at: "/lane/held_by")?.isNull == true, "the lane is due")
            backlog = try await Self.backlog(fixture.ada)
            return backlog.value(at: "/lane/head/status")?.string == "in_flight"
        }
        #expect(backlog.value(at: "/lane/head/id")?.string == draft.id)
        #expect(backlog.value(at: "/lane/held_by")?.isNull == true)
        #expect(backlog.value(at: "/lane/counts/in_flight")?.int64 == 1)
        #expect(backlog.value(at: "/devices/0/oldest_pending/status")?.string == "in_flight")
    }
}
