import Foundation
import GatewaySupport
import JSONText
import NIOHTTP1
import SyncModel
import Testing

/// `GET /v1/changes`
@Suite struct ReadingChangesTests {
    private static func page(_ worker: SyncWorker, _ query: String = "") async throws -> Reply {
        try await worker.page(of: "changes", "/v1/changes" + query)
    }

    private static func ids(_ reply: Reply) -> [String] { reply.changes.compactMap { $0["id"]?.string } }

    @Test func `a change has the members of the contract, and its client id only for the creator`() async throws {
        let fixture = try await TwoTenantFixture()
        let local = UUID()
        let pushed = try await fixture.ada.push([fixture.ada.create("task", local: local, #"{"a" : 1.0}"#)])
        let own = try #require(try await Self.page(fixture.ada).changes.first)
        let names = [
            "entity_type", "id", "client_id", "version", "etag", "deleted", "document", "updated_at", "updated_by",
        ]
        #expect(own.names == names)
        #expect(own["entity_type"]?.string == "task")
        #expect(own["id"]?.string == pushed.results[0]["server_id"]?.string)
        #expect(own["client_id"]?.string == local.lowercased)
        #expect(own["version"]?.int64 == 1)
        #expect(own["deleted"]?.bool == false)
        #expect(own["document"]?.text == #"{"a" : 1.0}"#)
        #expect(own["updated_at"]?.string == fixture.gateway.clock.now.rfc3339)
        #expect(own["updated_by"]?.string == fixture.ada.user.lowercased)
        let other = try #require(try await Self.page(fixture.bob).changes.first)
        #expect(other.names == names.filter { $0 != "client_id" })
    }

    @Test func `the feed contains the latest state of each entity once, at its latest position`() async throws {
        let fixture = try await TwoTenantFixture()
        let pushed = try await fixture.ada.push((0..<3).map { _ in fixture.ada.create() })
        let servers = pushed.results.compactMap { $0["server_id"]?.string }
        fixture.gateway.clock.advance(seconds: 5)
        _ = try await fixture.bob.push([
            fixture.bob.change(server: servers[0]), fixture.bob.change("delete", server: servers[1]),
        ])
        let reply = try await Self.page(fixture.ada)
        #expect(Self.ids(reply) == [servers[2], servers[0], servers[1]])
        #expect(reply.changes.map { $0["version"]?.int64 } == [1, 2, 2])
        #expect(reply.changes.map { $0["deleted"]?.bool } == [false, false, true])
        #expect(reply.changes.map { $0["document"]?.text } == [#"{"title":"x"}"#, #"{"title":"y"}"#, "null"])
        let (ada, bob) = (fixture.ada.user.lowercased, fixture.bob.user.lowercased)
        #expect(reply.changes.map { $0["updated_by"]?.string } == [ada, bob, bob])
        #expect(reply.isUpToDate == true)
    }

    @Test(arguments: [1, 2, 3, 5, 6, 1_000])
    func `pages contain every change once and report when they are up to date`(limit: Int) async throws {
        let fixture = try await TwoTenantFixture()
        let pushed = try await fixture.ada.push((0..<6).map { _ in fixture.ada.create() })
        var pages: [[String]] = []
        var cursor: String?
        while pages.count < 20 {
            let since = cursor.map { "&since=" + $0 } ?? ""
            let reply = try await Self.page(fixture.bob, "?limit=\(limit)\(since)")
            pages.append(Self.ids(reply))
            cursor = reply.next
            if reply.isUpToDate == true { break }
        }
        #expect(pages.flatMap { $0 } == pushed.results.compactMap { $0["server_id"]?.string })
        #expect(pages.allSatisfy { $0.count <= limit })
        let end = try #require(cursor)
        let again = try await Self.page(fixture.bob, "?since=\(end)")
        #expect(again.changes.isEmpty)
        #expect(again.next == end)
        #expect(again.isUpToDate == true)
    }

    @Test func `a pull up to the push's cursor includes the push`() async throws {
        let fixture = try await TwoTenantFixture()
        let first = try await fixture.ada.push([fixture.ada.create()])
        let second = try await fixture.ada.push([fixture.ada.create()])
        let cursors = [first, second].compactMap { $0.json?["feed"]?.string }
        #expect(try await Self.page(fixture.bob).next == cursors[1])
        let reply = try await Self.page(fixture.bob, "?since=\(cursors[0])")
        #expect(Self.ids(reply) == [second.results[0]["server_id"]?.string])
        #expect(try await Self.page(fixture.bob, "?since=\(cursors[1])").changes.isEmpty)
    }

    @Test func `the filter accepts several types in any order and binds its cursors`() async throws {
        let fixture = try await TwoTenantFixture()
        let pushed = try await fixture.ada.push([
            fixture.ada.create("task"), fixture.ada.create("note"), fixture.ada.create("contact"),
            fixture.ada.create("note"),
        ])
        let servers = pushed.results.compactMap { $0["server_id"]?.string }
        #expect(Self.ids(try await Self.page(fixture.bob, "?entity_type=note")) == [servers[1], servers[3]])
        #expect(try await Self.page(fixture.bob, "?entity_type=unheard-of").changes.isEmpty)
        let two = try await Self.page(fixture.bob, "?entity_type=note,task&limit=1")
        #expect(Self.ids(two) == [servers[0]])
        #expect(two.isUpToDate == false)
        let cursor = try #require(two.next)
        for same in ["entity_type=note,task", "entity_type=task&entity_type=note", "entity_type=task,note,task"] {
            let rest = try await Self.page(fixture.bob, "?\(same)&since=\(cursor)")
            #expect(Self.ids(rest) == [servers[1], servers[3]], "\(same)")
            #expect(rest.isUpToDate == true)
        }
        for other in ["", "entity_type=task&", "entity_type=task,note,contact&"] {
            expectProblem(
                try await fixture.bob.get("/v1/changes?\(other)since=\(cursor)"),
                .invalidRequest,
                errors: [" parameter_invalid"]
            )
        }
    }

    @Test func `rejects invalid parameters of a pull`() async throws {
        let fixture = try await TwoTenantFixture()
        for query in [
            "limit=0", "limit=1001", "limit=-1", "limit=many", "limit=1&limit=2", "since=x", "since=f1-1-1-1",
            "since=f1-1-1-1-1-1", "since=f2-1-1-1-0", "since=f1-1--1-1-0", "since=f1-zzzzzzzzzzzzzzzz-1-1-0",
            "since=m1-1-0", "since=%00", "since=a&since=b", "entity_type=Task", "entity_type=task,%20note",
        ] {
            expectProblem(
                try await fixture.ada.get("/v1/changes?" + query),
                .invalidRequest,
                errors: [" parameter_invalid"]
            )
        }
    }

    @Test func `names unknown parameters`() async throws {
        let fixture = try await TwoTenantFixture()
        for query in ["cursor=x", "status=failed", "Since=x", "entity_types=task"] {
            let reply = try await fixture.ada.get("/v1/changes?" + query)
            expectProblem(reply, .invalidRequest, errors: [" parameter_unknown"])
            let name = String(query.prefix { $0 != "=" })
            #expect(reply.json?["detail"]?.string?.contains("'\(name)'") == true)
        }
    }

    @Test func `a cursor of another epoch or before the horizon is expired, and the response names the restart`()
        async throws
    {
        let fixture = try await TwoTenantFixture()
        let organization = fixture.ada.organization.lowercased
        _ = try await fixture.ada.push([fixture.ada.create("task"), fixture.ada.create("note")])
        let all = try #require(try await Self.page(fixture.ada, "?limit=1").next)
        let seen = try #require(try await Self.page(fixture.ada).next)
        let tasks = try #require(try await Self.page(fixture.ada, "?entity_type=task").next)
        _ = try await fixture.ada.push([fixture.ada.create("task")])
        try await fixture.execute(
            "UPDATE feeds SET horizon = last_position WHERE organization_id = '\(organization)'"
        )
        for (query, snapshot) in [("", "/v1/changes"), ("&entity_type=task", "/v1/changes?entity_type=task")] {
            let reply = try await fixture.ada.get("/v1/changes?since=\(query.isEmpty ? seen : tasks)\(query)")
            expectProblem(reply, .cursorExpired)
            #expect(reply.json?["snapshot"]?.string == snapshot)
            #expect(try await Self.page(fixture.ada, String(snapshot.dropFirst(11))).changes.isEmpty == false)
        }
        expectProblem(try await fixture.ada.get("/v1/changes?since=\(all)"), .cursorExpired)

        let begun = try #require(try await Self.page(fixture.ada, "?limit=1").next)
        #expect(try await Self.page(fixture.ada, "?since=\(begun)").changes.count == 2, "a first pull continues")
        try await fixture.execute("UPDATE feeds SET epoch = epoch + 1 WHERE organization_id = '\(organization)'")
        expectProblem(try await fixture.ada.get("/v1/changes?since=\(begun)"), .cursorExpired)
    }

    @Test func `an entity visible only to its owner is in no other user's feed`() async throws {
        let fixture = try await TwoTenantFixture()
        _ = try await fixture.operate(.PUT, fixture.admin + "/entity-types/diary", #"{"visibility":"user"}"#)
        let pushed = try await fixture.ada.push([fixture.ada.create("diary"), fixture.ada.create("task")])
        let servers = pushed.results.compactMap { $0["server_id"]?.string }
        #expect(Self.ids(try await Self.page(fixture.ada)) == servers)
        let bobs = try await Self.page(fixture.bob)
        #expect(Self.ids(bobs) == [servers[1]])
        #expect(bobs.isUpToDate == true)
        #expect(try await Self.page(fixture.bob, "?entity_type=diary").changes.isEmpty)
    }
}
