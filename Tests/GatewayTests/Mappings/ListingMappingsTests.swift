import Foundation
import JSONText
import NIOHTTP1
import SyncModel
import Testing

/// `GET /v1/id-mappings`
@Suite struct ListingMappingsTests {
    private static func page(_ worker: SyncWorker, _ query: String = "") async throws -> Reply {
        try await worker.page(of: "id_mappings", "/v1/id-mappings" + query)
    }

    /// `client id, type, status` of a page's mappings.
    private static func states(_ reply: Reply) -> [String] {
        reply.mappings.map { mapping in
            #expect(mapping.names == ["entity_type", "client_id", "server_id", "status"])
            return ["client_id", "entity_type", "status"].map { mapping[$0]?.string ?? "-" }.joined(separator: " ")
        }
    }

    private static func state(_ local: UUID, _ status: String, _ type: String = "task") -> String {
        "\(local.lowercased) \(type) \(status)"
    }

    /// Halts Ada's lane with a conflict, so that her creates stay pending.
    private static func halt(_ fixture: TwoTenantFixture) async throws {
        let pushed = try await fixture.ada.push([fixture.ada.create()])
        let server = try #require(pushed.results[0]["server_id"]?.string)
        _ = try await fixture.bob.push([fixture.bob.change(server: server)])
        #expect(try await fixture.ada.push([fixture.ada.change(server: server, base: 1)]).statuses == ["conflict"])
    }

    @Test func `a user without mappings gets a cursor to continue from`() async throws {
        let fixture = try await TwoTenantFixture()
        let empty = try await Self.page(fixture.ada)
        #expect(empty.text.hasPrefix(#"{"id_mappings":[],"next":"i1-"#))
        #expect(empty.text.hasSuffix(#"-0-0","up_to_date":true}"#))
        let cursor = try #require(empty.next)
        #expect(try await Self.page(fixture.ada, "?since=\(cursor)").text == empty.text)
        let local = UUID()
        let pushed = try await fixture.ada.push([fixture.ada.create("task", local: local)])
        let found = try await Self.page(fixture.ada, "?since=\(cursor)")
        #expect(Self.states(found) == [Self.state(local, "resolved")])
        #expect(found.mappings[0]["server_id"]?.string == pushed.results[0]["server_id"]?.string)
        #expect(found.isUpToDate == true)
    }

    @Test func `a changed mapping appears again`() async throws {
        let fixture = try await TwoTenantFixture()
        try await Self.halt(fixture)
        let begin = try #require(try await Self.page(fixture.ada).next)
        let (first, second) = (UUID(), UUID())
        let create = fixture.ada.create("task", local: first)
        _ = try await fixture.ada.push([create])
        _ = try await fixture.ada.push([fixture.ada.create("task", local: second)])
        let pending = try await Self.page(fixture.ada, "?since=\(begin)")
        #expect(Self.states(pending) == [Self.state(first, "pending"), Self.state(second, "pending")])
        #expect(pending.mappings.allSatisfy { $0["server_id"]?.isNull == true })
        _ = try await fixture.ada.post("/v1/mutations/\(create.id)/discard", "{}")
        let next = try #require(pending.next)
        #expect(Self.states(try await Self.page(fixture.ada, "?since=\(next)")) == [Self.state(first, "failed")])
        // in a list from the beginning, each mapping appears once, at its last change
        let all = try await Self.page(fixture.ada, "?since=\(begin)")
        #expect(Self.states(all) == [Self.state(second, "pending"), Self.state(first, "failed")])
    }

    @Test func `page limits split mappings of one change without gaps`() async throws {
        let fixture = try await TwoTenantFixture()
        let locals = (0..<4).map { _ in UUID() }
        _ = try await fixture.ada.push(
            locals.flatMap { [fixture.ada.create("task", local: $0), fixture.ada.create("note", local: $0)] }
        )
        let expected = locals.sorted().flatMap { id in ["note", "task"].map { Self.state(id, "resolved", $0) } }
        #expect(Self.states(try await Self.page(fixture.ada)) == expected)
        var seen: [String] = []
        var query = "?limit=1"
        for place in expected.indices {
            let reply = try await Self.page(fixture.ada, query)
            seen += Self.states(reply)
            #expect(reply.isUpToDate == (place == expected.count - 1))
            query = "?limit=1&since=" + (try #require(reply.next))
        }
        #expect(seen == expected)
        #expect(try await Self.page(fixture.ada, query).mappings.isEmpty)
    }

    @Test func `a page holds five hundred mappings by default`() async throws {
        let fixture = try await TwoTenantFixture()
        for _ in 0..<2 { _ = try await fixture.ada.push((0..<300).map { _ in fixture.ada.create() }) }
        #expect(try await Self.page(fixture.ada).mappings.count == 500)
        #expect(try await Self.page(fixture.ada, "?limit=1000").mappings.count == 600)
        #expect(try await Self.page(fixture.ada, "?limit=599").isUpToDate == false)
        #expect(try await Self.page(fixture.ada, "?limit=600").isUpToDate == true)
    }

    @Test func `a status filter narrows the list and binds the cursor`() async throws {
        let fixture = try await TwoTenantFixture()
        try await Self.halt(fixture)
        let (first, second) = (UUID(), UUID())
        let create = fixture.ada.create("task", local: first)
        _ = try await fixture.ada.push([create, fixture.ada.create("task", local: second)])
        _ = try await fixture.ada.post("/v1/mutations/\(create.id)/discard", "{}")
        let failed = try await Self.page(fixture.ada, "?status=failed")
        #expect(Self.states(failed) == [Self.state(first, "failed")])
        #expect(Self.states(try await Self.page(fixture.ada, "?status=pending")) == [Self.state(second, "pending")])
        #expect(try await Self.page(fixture.ada, "?status=resolved").mappings.count == 1)
        let both = try await Self.page(fixture.ada, "?status=failed&status=pending")
        #expect(Self.states(both) == [Self.state(second, "pending"), Self.state(first, "failed")])
        let next = try #require(both.next)
        #expect(try await Self.page(fixture.ada, "?status=pending,failed,failed&since=\(next)").text.contains(next))
        for other in ["", "status=failed&", "status=pending,failed,resolved&"] {
            let reply = try await fixture.ada.get("/v1/id-mappings?\(other)since=\(next)")
            expectProblem(reply, .invalidRequest, errors: [" parameter_invalid"])
        }
    }

    @Test func `each user of each tenant sees only their mappings`() async throws {
        let fixture = try await TwoTenantFixture()
        let twin = try await SyncWorker(fixture.gateway, organization: fixture.eve.organization, user: fixture.ada.user)
        let local = UUID()
        let workers = [fixture.ada, fixture.bob, fixture.eve, twin]
        for worker in workers.prefix(3) { _ = try await worker.push([worker.create("task", local: local)]) }
        var servers: [String] = []
        for worker in workers.prefix(3) {
            let reply = try await Self.page(worker)
            #expect(Self.states(reply) == [Self.state(local, "resolved")])
            servers += reply.mappings.compactMap { $0["server_id"]?.string }
        }
        #expect(Set(servers).count == 3)
        #expect(try await Self.page(twin).mappings.isEmpty)
        // another user's cursor is rejected
        let bobs = try #require(try await Self.page(fixture.bob, "?limit=1").next)
        for stranger in [fixture.ada, fixture.eve, twin] {
            let reply = try await stranger.get("/v1/id-mappings?since=\(bobs)")
            expectProblem(reply, .cursorExpired)
        }
    }

    @Test func `an outdated cursor is expired, and the response names the restart`() async throws {
        let fixture = try await TwoTenantFixture()
        _ = try await fixture.ada.push([fixture.ada.create()])
        let all = try #require(try await Self.page(fixture.ada).next)
        let some = try #require(try await Self.page(fixture.ada, "?status=resolved,failed").next)
        // simulates a restored backup, in which the lane has not reached the cursor's position
        try await fixture.execute("UPDATE lanes SET change_position = change_position - 1")
        for (query, snapshot) in [
            ("?since=\(all)", "/v1/id-mappings"),
            ("?status=resolved,failed&since=\(some)", "/v1/id-mappings?status=resolved,failed"),
        ] {
            let reply = try await fixture.ada.get("/v1/id-mappings" + query)
            expectProblem(reply, .cursorExpired, errors: [])
            #expect(reply.json?["snapshot"]?.string == snapshot)
            #expect(try await fixture.ada.get(snapshot).mappings.count == 1)
        }
        try await fixture.execute("UPDATE lanes SET change_position = change_position + 1")
        #expect(try await Self.page(fixture.ada, "?since=\(all)").mappings.isEmpty)
        try await fixture.execute("UPDATE feeds SET epoch = epoch + 1")
        let reply = try await fixture.ada.get("/v1/id-mappings?since=\(all)")
        expectProblem(reply, .cursorExpired, errors: [])
        #expect(reply.json?["snapshot"]?.string == "/v1/id-mappings")
    }

    @Test func `rejects invalid parameters of the mappings list`() async throws {
        let fixture = try await TwoTenantFixture()
        let pushed = try await fixture.ada.push([fixture.ada.create()])
        let feed = try #require(pushed.json?["feed"]?.string)
        let epoch = feed.split(separator: "-")[1]
        for query in [
            "limit=0", "limit=1001", "limit=x", "limit=1&limit=2", "since=x", "since=i1", "since=i1-\(epoch)-0",
            "since=i1-\(epoch)-0-", "since=i1-\(epoch)-0--1", "since=i1-\(epoch)-0-1-m-1", "since=i1-\(epoch)-0-1-i-x",
            "since=i1-\(epoch)-0-1-i-\(UUID().lowercased)-task", "since=i1-\(epoch)-1-0", "since=\(feed)",
            "since=%00", "since=%F0%9F%92%A9", "since=i1-\(epoch)-0-0&since=i1-\(epoch)-0-0", "status=Failed",
            "status=blocked", "status=failed,nonsense",
        ] {
            let reply = try await fixture.ada.get("/v1/id-mappings?" + query)
            expectProblem(reply, .invalidRequest, errors: [" parameter_invalid"])
            let name = query.prefix { $0 != "=" }
            #expect(reply.json?["detail"]?.string?.contains(name) == true, "\(reply.text)")
        }
        for query in ["cursor=x", "entity_type=task", "client_id=1", "wait=1", "Since=1"] {
            let reply = try await fixture.ada.get("/v1/id-mappings?" + query)
            expectProblem(reply, .invalidRequest, errors: [" parameter_unknown"])
            #expect(reply.json?["detail"]?.string?.contains("limit, since, status") == true)
        }
        let far = try await fixture.ada.get("/v1/id-mappings?since=i1-\(epoch)-0-1y2p0ij32e8e7")
        expectProblem(far, .cursorExpired)
    }
}
