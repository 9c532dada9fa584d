import AsyncHTTPClient
import Foundation
import GatewaySupport
import JSONText
import NIOCore
import NIOHTTP1
import OperatorsFeature
import SyncHTTP
import SyncModel
import TestSupport
import Testing

/// `/admin/now` and `/admin/events`.
@Suite struct NowTests {
    private func now(_ fixture: TwoTenantFixture) async throws -> JSONValue {
        let reply = try await fixture.operate(.GET, "/admin/now")
        #expect(reply.status == 200, "\(reply.text)")
        return try #require(reply.json)
    }

    @Test func `the overview contains all members of the contract`() async throws {
        let fixture = try await TwoTenantFixture()
        let now = try await now(fixture)
        #expect(
            now.names == [
                "at", "gateway_id", "replicas", "rates", "totals", "stuck", "oldest_waiting", "circuits", "retention",
                "history",
            ]
        )
        #expect(now["stuck"]?.names == ["failed", "conflict", "halted_lanes", "waiting_lanes"])
        #expect(now["stuck"]?["failed"]?.text == #"{"count":0,"is_more":false}"#)
        #expect(now["oldest_waiting"]?.isNull == true && now["circuits"]?.text == "[]")
        #expect(now["retention"]?.names == ["running_since", "next_run_at", "last_run_at", "last_run"])
        #expect(
            now["history"]?["series"]?.names == ["pushes", "accepted", "applied", "failed", "oldest_waiting_seconds"]
        )
        #expect(now["rates"]?["scope"]?.string == "gateway")
        #expect(now["history"]?["day"]?["series"]?.names == ["pushes", "accepted", "applied", "failed"])
        #expect(now["history"]?["day"]?["step_seconds"]?.int64 == 300)
        #expect(now["totals"]?.names == ["scope", "since", "hour", "day"])
        let me = try await fixture.operate(.GET, "/admin/me").json?["gateway_id"]?.string
        #expect(now["gateway_id"]?.string == me)
    }

    @Test func `counts stuck and waiting mutations over all organizations`() async throws {
        let fixture = try await TwoTenantFixture()
        try await fixture.stick(failed: 3, conflicts: 2, of: fixture.ada)
        try await fixture.stick(failed: 1, conflicts: 0, of: fixture.eve)
        try await fixture.execute(
            """
            UPDATE lanes SET halted_by = '\(UUID())' WHERE user_id = '\(fixture.ada.user)';
            UPDATE lanes SET ready_at = '2027-01-01', queued_since = '2026-11-17T00:00:00Z'
            WHERE user_id = '\(fixture.eve.user)'
            """
        )
        try await waitUntil("it is read again") {
            try await now(fixture)["stuck"]?.text
                == #"{"failed":{"count":4,"is_more":false},"conflict":{"count":2,"is_more":false},"#
                + #""halted_lanes":{"count":1,"is_more":false},"waiting_lanes":{"count":1,"is_more":false}}"#
        }
        let waiting = try await now(fixture)["oldest_waiting"]
        #expect(waiting?["organization_id"]?.string == fixture.eve.organization.lowercased)
        #expect(waiting?["user_id"]?.string == fixture.eve.user.lowercased)
        #expect(waiting?["accepted_at"]?.string == "2026-11-17T00:00:00.000Z")
        let listed = try await fixture.operate(.GET, "/admin/organizations?counts=true")
        let counts = listed.json?["organizations"]?.elements?.reduce(into: [String: String]()) { found, one in
            found[one["id"]?.string ?? "-"] = one["counts"]?.text
        }
        #expect(
            counts?[fixture.ada.organization.lowercased]
                == #"{"failed":{"count":3,"is_more":false},"conflict":{"count":2,"is_more":false},"#
                + #""halted_lanes":{"count":1,"is_more":false}}"#
        )
        #expect(counts?[fixture.eve.organization.lowercased]?.contains(#""failed":{"count":1,"#) == true)
    }

    @Test func `lists blocked lanes with their users`() async throws {
        let fixture = try await TwoTenantFixture()
        let ada = fixture.ada.organization.lowercased
        for worker in [fixture.ada, fixture.bob, fixture.eve] { _ = try await worker.push([worker.create()]) }
        let (first, second) = (UUID(), UUID())
        try await fixture.execute(
            """
            UPDATE lanes SET halted_by = '\(first)', queued_count = 0 WHERE user_id = '\(fixture.ada.user)';
            UPDATE lanes SET halted_by = '\(second)' WHERE user_id = '\(fixture.eve.user)';
            UPDATE lanes SET ready_at = '2100-01-01', queued_since = '2026-11-17T00:00:00Z'
            WHERE user_id = '\(fixture.bob.user)'
            """
        )
        func lanes(_ query: String) async throws -> (Reply, [String?]) {
            let reply = try await fixture.operate(.GET, "/admin/lanes" + query)
            #expect(reply.status == 200, "\(reply.text)")
            return (reply, reply.json?["lanes"]?.elements?.map { $0["user_id"]?.string } ?? [])
        }
        let everybody = [fixture.ada, fixture.eve].sorted { $0.organization.lowercased < $1.organization.lowercased }
            .map(
                \.user.lowercased
            )
        let (all, users) = try await lanes("")
        #expect(users == everybody)
        #expect(all.json?["users"]?.elements?.compactMap { $0["id"]?.string } == everybody)
        let (one, those) = try await lanes("?state=halted&organization_id=\(ada)")
        #expect(those == [fixture.ada.user.lowercased])
        let halted = one.json?.value(at: "/lanes/0")
        #expect(halted?["halted_by"]?.string == first.lowercased && halted?["organization_id"]?.string == ada)
        let (waits, waiting) = try await lanes("?state=waiting&organization_id=\(ada)")
        #expect(waiting == [fixture.bob.user.lowercased])
        let lane = waits.json?.value(at: "/lanes/0")
        #expect(lane?["ready_at"]?.string == "2100-01-01T00:00:00.000Z" && lane?["halted_by"]?.isNull == true)
        #expect(lane?["queued_since"]?.string == "2026-11-17T00:00:00.000Z")

        // each page has a cursor for its filter
        let (page, part) = try await lanes("?limit=1")
        let next = try #require(page.next)
        #expect(part + (try await lanes("?limit=1&cursor=\(next)").1) == everybody)
        for query in ["cursor=x", "state=failed", "limit=0", "state=waiting&cursor=\(next)"] {
            expectProblem(try await fixture.operate(.GET, "/admin/lanes?\(query)"), .invalidRequest)
        }
        #expect(try await lanes("?organization_id=\(UUID())").1 == [])
    }

    @Test func `the traffic has rates and history points`() async throws {
        let fixture = try await TwoTenantFixture()
        func points() async throws -> Int {
            try await now(fixture).value(at: "/history/series/accepted")?.elements.map { Array($0).count } ?? 0
        }
        let before = try await points()
        _ = try await fixture.ada.push((0..<20).map { _ in fixture.ada.create() })
        fixture.gateway.clock.advance(seconds: 5)
        try await waitUntil("a rate") { try await now(fixture).value(at: "/rates/accepted_per_second")?.text == "4" }
        #expect(try await now(fixture).value(at: "/rates/applied_per_second")?.text == "4")
        // a push is counted immediately, and remains in the sums when the rate is 0 again
        for period in ["hour", "day"] {
            #expect(try await now(fixture).value(at: "/totals/\(period)/accepted")?.int64 == 20)
        }
        fixture.gateway.clock.advance(seconds: 10)
        try await waitUntil("a point") { try await points() == before + 1 }
        #expect(try await now(fixture).value(at: "/history/series/accepted")?.text == "[1.3]")
        #expect(try await now(fixture).value(at: "/history/series/failed")?.text == "[0]")
    }

    @Test func `an operator's event stream reports changes`() async throws {
        let fixture = try await TwoTenantFixture.withOperators()
        let cookie = try await fixture.signIn(Operators.reader)
        var request = HTTPClientRequest(url: fixture.gateway.operations + "/admin/events")
        request.headers.add(name: "cookie", value: cookie)
        request.headers.add(name: "accept", value: "text/event-stream")
        let response = try await HTTPClient.shared.execute(request, deadline: .now() + .minutes(5))
        #expect(response.status == .ok)
        #expect(response.headers["content-type"] == ["text/event-stream"])
        #expect(response.headers["cache-control"] == ["no-store"])
        try await fixture.reaches("sluice_operator_event_streams 1")
        _ = try await fixture.eve.push([fixture.eve.create()])
        let (wantsNow, wantsChange) = (
            "event: now\ndata: {\"at\":",
            "event: changed\ndata: {\"organization_id\":\"\(fixture.eve.organization.lowercased)\"}"
        )
        var text = ""
        for try await part in response.body {
            text += String(buffer: part)
            if text.contains(wantsNow), text.contains(wantsChange) { break }
        }
        #expect(text.hasPrefix("retry: 2000\n\nevent: now\n"))
        #expect(!text.contains("history"))
    }

    @Test func `operators' changes are published as events, but their tests are not published`() async throws {
        let fixture = try await TwoTenantFixture.withOperators()
        var request = HTTPClientRequest(url: fixture.gateway.operations + "/admin/events")
        request.headers.add(name: "authorization", value: "Bearer \(Operators.reader)")
        let response = try await HTTPClient.shared.execute(request, deadline: .now() + .minutes(5))
        #expect(response.status == .ok)
        try await fixture.reaches("sluice_operator_event_streams 1")
        func changed(_ organization: UUID) -> String {
            "event: changed\ndata: {\"organization_id\":\"\(organization.lowercased)\"}"
        }
        let trial = try await fixture.act(
            .POST,
            "/admin/organizations/\(fixture.eve.organization.lowercased)/operations/preview",
            #"{"kind":"retry","filter":{}}"#
        )
        #expect(trial.status == 200, "\(trial.text)")
        let (ada, new) = (fixture.ada.organization, UUID())
        let mapping = #"{"rules":[{"entity_type":"task","operation":"delete","id":"/id","version":"/v"}]}"#
        let acts: [(UUID, HTTPMethod, String, String?)] = [
            (new, .PUT, "", #"{"name":"New"}"#), (ada, .PUT, "", #"{"status":"suspended"}"#),
            (ada, .PUT, "", #"{"status":"active"}"#), (ada, .PUT, "/upstream", #"{"base_url":"http://127.0.0.1:9"}"#),
            (ada, .PUT, "/entity-types/contact", #"{"visibility":"user"}"#),
            (ada, .PUT, "/users/\(UUID().lowercased)", nil), (ada, .POST, "/service-tokens", #"{"source":"crm"}"#),
            (ada, .PUT, "/sources/crm", #"{"kind":"webhook","settings":{"mapping":\#(mapping)}}"#),
            (ada, .POST, "/webhooks", #"{"url":"https://hooks.example/events"}"#),
        ]
        var parts = response.body.makeAsyncIterator()
        var all = ""
        for (organization, method, path, body) in acts {
            let reply = try await fixture.act(method, "/admin/organizations/\(organization.lowercased)" + path, body)
            #expect((200..<300).contains(reply.status), "\(path): \(reply.text)")
            var text = ""
            while !text.contains(changed(organization)) {
                guard let part = try await parts.next() else {
                    Issue.record("\(path) was not published: \(text)")
                    return
                }
                text += String(buffer: part)
            }
            all += text
        }
        #expect(!all.contains(changed(fixture.eve.organization)))
    }

    @Test func `limits the number of operator streams and their duration`() async throws {
        let fixture = try await TwoTenantFixture.withOperators { $0.maximumStream = .milliseconds(100) }
        // each stream ends after its maximum duration
        for _ in 0..<3 {
            let reply = try await fixture.operate(.GET, "/admin/events")
            #expect(reply.status == 200 && reply.text.hasPrefix("retry: 2000\n\n"))
        }
        #expect(try await fixture.operate(.HEAD, "/admin/events").status == 200)
        try await fixture.reaches("sluice_operator_event_streams 0")
        expectProblem(try await fixture.operate(.GET, "/admin/events?since=1"), .invalidRequest)
        #expect(try await fixture.call(.GET, "/admin/events").status == 401)
        #expect(try await fixture.operate(.GET, "/admin/events", headers: [("Accept", "text/html")]).status == 406)
    }
}

extension TwoTenantFixture {
    /// Marks mutations of a user as stuck, in the database.
    func stick(failed: Int, conflicts: Int, of worker: SyncWorker) async throws {
        let drafts = (0..<failed + conflicts).map { _ in worker.create() }
        _ = try await worker.push(drafts)
        for (index, draft) in drafts.enumerated() {
            try await execute(
                """
                UPDATE mutations SET status = '\(index < failed ? "failed" : "conflict")', error = '{}', synced_at = NULL,
                    error_code = '\(index < failed ? "upstream_rejected" : "conflict")', error_status = 409, stuck_at = now()
                WHERE organization_id = '\(worker.organization)' AND id = '\(draft.id)'
                """
            )
        }
    }
}
