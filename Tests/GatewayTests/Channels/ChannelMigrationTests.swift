import Foundation
import GatewaySupport
import JSONText
import NIOHTTP1
import SyncHTTP
import SyncModel
import TestSupport
import Testing

/// A type with entities gets channels while devices have older cursors and pending edits.
@Suite struct ChannelMigrationTests {
    private let fixture: TwoTenantFixture

    init() async throws { fixture = try await TwoTenantFixture(operates: true) { $0.joinTimeout = .zero } }

    private var type: String { fixture.admin + "/entity-types/visit" }

    private func put(_ body: String, _ query: String = "") async throws -> Reply {
        try await fixture.operate(.PUT, type + query, body)
    }

    private func visit(for worker: SyncWorker) async throws -> String {
        let document = #"{"assignee":\#(worker.user.quoted),"team":"a"}"#
        let reply = try await fixture.ada.push([fixture.ada.create("visit", document)])
        return try #require(reply.results[0]["server_id"]?.string, "\(reply.text)")
    }

    private func pull(_ worker: SyncWorker, _ cursor: inout String?) async throws -> Set<String> {
        var changes: Set<String> = []
        while true {
            let page = try await worker.get("/v1/changes?limit=2" + (cursor.map { "&since=\($0)" } ?? ""))
            #expect(page.status == 200, "\(page.text)")
            for change in page.changes {
                changes.insert((change["removed"]?.bool == true ? "-" : "+") + (change["id"]?.string ?? ""))
            }
            cursor = page.next
            if page.isUpToDate != false { return changes }
        }
    }

    /// Waits for the operation that a change of the settings has started.
    private func evaluated(_ count: Int) async throws {
        // an evaluation begins when all gateways have the new settings
        fixture.gateway.clock.advance(seconds: 10)
        try await waitUntil("\(count) evaluations are done", every: .milliseconds(50)) {
            let reply = try await fixture.operate(.GET, fixture.admin + "/operations?state=done")
            return reply.json?["operations"]?.elements?.count { $0["kind"]?.string == "evaluate" } == count
        }
    }

    @Test func `devices keep the entities that their users still see when a type gets channels`() async throws {
        let (ada, bob) = (fixture.ada, fixture.bob)
        #expect(try await put(#"{"visibility":"organization"}"#).status == 201)
        let (mine, theirs) = (try await visit(for: ada), try await visit(for: bob))
        var (adas, bobs): (String?, String?) = (nil, nil)
        #expect(try await pull(ada, &adas) == ["+" + mine, "+" + theirs])
        #expect(try await pull(bob, &bobs) == ["+" + mine, "+" + theirs])

        let change = #"{"visibility":"channels","channels":["user/{/assignee}"]}"#
        let dry = try await put(change, "?validate=true")
        #expect(dry.status == 200 && dry.json?["entity_type"]?["visibility"]?.string == "channels", "\(dry.text)")
        let counts = dry.json?["channels"]
        #expect(counts?["entities"]?.int64 == 2 && counts?["examined"]?.int64 == 2, "\(dry.text)")
        #expect(counts?["changed"]?.int64 == 2 && counts?["without_channels"]?.int64 == 0, "\(dry.text)")
        #expect(dry.json?["entity_type"]?["channels"]?.text == #"["user/{/assignee}"]"#, "\(dry.text)")
        let members = #"{"default_priority":7,"relations":{"to":"task"},"on_delete":{"to":"ignore"}}"#
        let others = try await put(members, "?validate=true").json?["entity_type"]
        #expect(others?["default_priority"]?.int64 == 7 && others?["on_delete"]?["to"]?.string == "ignore")
        #expect(others?["visibility"]?.string == "organization" && others?["relations"]?["to"]?.string == "task")
        expectProblem(try await put(#"{"id_space":"shared"}"#, "?validate=true"), .idSpaceIsImmutable)
        #expect(try await fixture.operate(.GET, type).json?["visibility"]?.string == "organization")

        #expect(try await put(change).status == 200)
        #expect(try await pull(bob, &bobs).isEmpty, "entities are not shown before they are evaluated")
        try await evaluated(1)
        let metric = #"sluice_channel_evaluated_entities_total{result="written"} 2"#
        #expect(try await fixture.metrics().contains(metric))
        #expect(try await pull(ada, &adas) == ["+" + mine, "-" + theirs])
        #expect(try await pull(bob, &bobs) == ["-" + mine, "+" + theirs])
        #expect(try await pull(ada, &adas).isEmpty)
        // a device made this edit before the change
        let late = try await ada.push([ada.change("update", "visit", server: theirs)])
        #expect(late.statuses == ["failed"], "\(late.text)")
        #expect(try await bob.push([bob.change("update", "visit", server: theirs)]).statuses == ["succeeded"])
        var first: String?
        #expect(try await pull(ada, &first) == ["+" + mine])
    }

    @Test func `devices receive everything again when a type loses its channels`() async throws {
        let (ada, bob) = (fixture.ada, fixture.bob)
        let grants = #"[{"user":"/assignee","channels":["team/{/team}"],"role":"write"}]"#
        let settings = #"{"visibility":"channels","channels":["user/{/assignee}"],"grants":\#(grants)}"#
        #expect(try await put(settings).status == 201)
        let mine = try await visit(for: ada)
        var bobs: String?
        #expect(try await pull(bob, &bobs).isEmpty)
        let held = fixture.admin + "/users/\(ada.user.lowercased)/channels"
        #expect(try await fixture.operate(.GET, held).json?["grants"]?.elements?.count { _ in true } == 1)
        #expect(try await put(#"{"visibility":"organization","channels":[],"grants":[]}"#).status == 200)
        try await evaluated(1)
        #expect(try await pull(bob, &bobs) == ["+" + mine])
        #expect(try await fixture.operate(.GET, held).json?["grants"]?.elements?.count { _ in true } == 0)
    }

    @Test(arguments: ["organization", "user"])
    func `owners keep their entities when a type gets the owners' channels`(_ before: String) async throws {
        let (ada, bob) = (fixture.ada, fixture.bob)
        #expect(try await put(#"{"visibility":"\#(before)"}"#).status == 201)
        let (mine, gone, theirs) = (
            try await visit(for: ada), try await visit(for: ada), try await visit(for: bob)
        )
        var (adas, bobs): (String?, String?) = (nil, nil)
        #expect(try await pull(ada, &adas) == ["+" + mine, "+" + gone, "+" + theirs])
        #expect(try await pull(bob, &bobs).count == (before == "user" ? 0 : 3))
        #expect(try await ada.push([ada.change("delete", "visit", server: gone)]).statuses == ["succeeded"])

        #expect(try await put(#"{"visibility":"channels","channels":["user/{owner}","team/{/team}"]}"#).status == 200)
        try await evaluated(1)
        // all visits were created by Ada; the deletion was before the change
        #expect(try await pull(ada, &adas) == ["+" + mine, "-" + gone, "+" + theirs])
        #expect(try await pull(bob, &bobs) == (before == "user" ? [] : ["-" + mine, "-" + gone, "-" + theirs]))
        #expect(try await ada.push([ada.change("update", "visit", server: mine)]).statuses == ["succeeded"])
        #expect(try await pull(ada, &adas) == ["+" + mine])
        var first: String?
        #expect(try await pull(ada, &first) == ["+" + mine, "+" + theirs])
    }

    @Test func `devices start over when a type changes between the user's and the organization's visibility`()
        async throws
    {
        let (ada, bob) = (fixture.ada, fixture.bob)
        #expect(try await put(#"{"visibility":"organization"}"#).status == 201)
        let mine = try await visit(for: ada)
        var (adas, bobs): (String?, String?) = (nil, nil)
        #expect(try await pull(ada, &adas) == ["+" + mine])
        #expect(try await pull(bob, &bobs) == ["+" + mine])
        for (visibility, isVisible) in [("user", false), ("organization", true)] {
            #expect(try await put(#"{"visibility":"\#(visibility)"}"#).status == 200)
            for (worker, cursor) in [(ada, adas), (bob, bobs)] {
                expectProblem(try await worker.get("/v1/changes?since=\(cursor ?? "")"), .cursorExpired)
            }
            (adas, bobs) = (nil, nil)
            #expect(try await pull(ada, &adas) == ["+" + mine])
            #expect(try await pull(bob, &bobs) == (isVisible ? ["+" + mine] : []))
        }
        #expect(try await put(#"{"visibility":"organization"}"#).status == 200)
        #expect(try await pull(ada, &adas).isEmpty, "the visibility has not changed")
    }

    @Test(arguments: ["organization", "user"])
    func `devices start over when a type loses channels that were never evaluated`(_ before: String) async throws {
        let (ada, bob) = (fixture.ada, fixture.bob)
        let after = before == "user" ? "organization" : "user"
        #expect(try await put(#"{"visibility":"\#(before)"}"#).status == 201)
        let mine = try await visit(for: ada)
        var bobs: String?
        #expect(try await pull(bob, &bobs) == (before == "user" ? [] : ["+" + mine]))
        #expect(try await put(#"{"visibility":"channels","channels":["user/{/assignee}"]}"#).status == 200)
        #expect(try await put(#"{"visibility":"\#(after)","channels":[]}"#).status == 200)
        expectProblem(try await bob.get("/v1/changes?since=\(bobs ?? "")"), .cursorExpired)
        try await evaluated(1)
        bobs = nil
        #expect(try await pull(bob, &bobs) == (before == "user" ? ["+" + mine] : []))
    }

    @Test func `a grant to a joined user is a grant to the other user within a push`() async throws {
        let (ada, bob) = (fixture.ada, fixture.bob)
        let grants = #"[{"user":"/u","channels":["p/{/p}"],"role":"write"}]"#
        let granting = #"{"visibility":"channels","channels":["user/{owner}"],"grants":\#(grants)}"#
        #expect(try await put(granting).status == 201)
        let other = fixture.admin + "/entity-types/note"
        let inChannel = #"{"visibility":"channels","channels":["p/{/p}"]}"#
        #expect(try await fixture.operate(.PUT, other, inChannel).status == 201)
        for worker in [ada, bob] { _ = try await worker.push([worker.create()]) }
        try await join(ada, into: bob)
        let document = #"{"u":\#(ada.user.quoted),"p":1}"#
        let made = try await bob.push([bob.create("visit", document), bob.create("note", #"{"p":1}"#)])
        #expect(made.statuses == ["succeeded", "succeeded"], "\(made.text)")
        let ids = made.results.compactMap { $0["server_id"]?.string }
        let edits = zip(["visit", "note"], ids).map { bob.change("update", $0, server: $1) }
        let edited = try await bob.push(edits)
        #expect(edited.statuses == ["succeeded", "succeeded"], "\(edited.text)")
    }

    @Test func `an evaluation of an unknown type is refused`() async throws {
        let body = #"{"kind":"evaluate","filter":{"entity_type":"none"},"reason":"a test"}"#
        let reply = try await fixture.operate(.POST, fixture.admin + "/operations", body)
        expectProblem(reply, .validationFailed, errors: ["/filter/entity_type entity_type_valid_enum"])
    }

    @Test func `a user has the own channel of a user who was joined before there were channels`() async throws {
        let (ada, bob) = (fixture.ada, fixture.bob)
        _ = try await ada.push([ada.create()])
        _ = try await bob.push([bob.create()])
        try await join(ada, into: bob)
        let settings = #"{"visibility":"channels","channels":["user/{/assignee}","team/{/team}"]}"#
        #expect(try await put(settings).status == 201)
        let old = #"{"assignee":\#(ada.user.quoted),"team":"x"}"#
        let reply = try await fixture.ada.push([bob.create("visit", old)])
        let id = try #require(reply.results[0]["server_id"]?.string, "\(reply.text)")
        for query in ["", "?channel=team/a&others=true"] {
            #expect(try await bob.get("/v1/changes" + query).changes.contains { $0["id"]?.string == id }, "\(query)")
        }
    }

    @Test func `a join moves entities to the channels of their new owner`() async throws {
        let (ada, bob) = (fixture.ada, fixture.bob)
        #expect(try await put(#"{"visibility":"channels","channels":["own/{owner}","user/{owner}"]}"#).status == 201)
        let mine = try await visit(for: ada)
        _ = try await bob.push([bob.create()])
        try await join(ada, into: bob)
        func count(_ user: UUID) async throws -> Int64? {
            let path = fixture.admin + "/channels?channel=own/\(user.lowercased)"
            return try await fixture.operate(.GET, path).json?["entities"]?.int64
        }
        #expect(try await count(ada.user) == 0)
        #expect(try await count(bob.user) == 1)
        #expect(try await bob.get("/v1/changes").changes.contains { $0["id"]?.string == mine })
    }

    private func join(_ worker: SyncWorker, into other: SyncWorker) async throws {
        let path = fixture.admin + "/users/\(worker.user.lowercased)/join"
        let body = #"{"into":\#(other.user.quoted)}"#
        var reply = try await fixture.operate(.POST, path, body)
        fixture.gateway.clock.advance(seconds: 9)
        reply = try await fixture.operate(.POST, path, body)
        #expect(reply.json?["state"]?.string == "done", "\(reply.text)")
    }

    @Test func `an erasure leaves no entity in the channels of the erased user`() async throws {
        let (ada, bob) = (fixture.ada, fixture.bob)
        let settings = #"{"visibility":"channels","on_erase":"blank_owner","channels":["user/{owner}","team/{/team}"]}"#
        #expect(try await put(settings).status == 201)
        let grant = fixture.admin + "/users/\(bob.user.lowercased)/channels"
        #expect(try await fixture.operate(.PUT, grant, #"{"channel":"team/a","role":"read"}"#).status == 201)
        let shared = try await visit(for: ada)
        let own = try await ada.push([ada.create("visit", #"{"title":"Geheimnis"}"#)])
        let hidden = try #require(own.results[0]["server_id"]?.string)
        let erase = fixture.admin + "/users/\(ada.user.lowercased)?erase=true"
        _ = try await fixture.operate(.DELETE, erase)
        fixture.gateway.clock.advance(seconds: 9)
        #expect(try await fixture.operate(.DELETE, erase).json?["state"]?.string == "done")
        #expect(try await fixture.mentions(of: "Geheimnis").filter { $0.value > 0 } == [:])
        let page = try await bob.get("/v1/changes")
        #expect(page.changes.contains { $0["id"]?.string == shared && $0["deleted"]?.bool == false }, "\(page.text)")
        #expect(!page.changes.contains { $0["id"]?.string == hidden })
        let counted = try await fixture.operate(.GET, fixture.admin + "/channels?channel=user/\(ada.user.lowercased)")
        // the tombstone remains in its channels
        #expect(counted.json?["entities"]?.int64 == 1, "\(counted.text)")
    }

    @Test func `joins and erasures evaluate more documents than one transaction may read`() async throws {
        let (ada, bob) = (fixture.ada, fixture.bob)
        let settings =
            #"{"visibility":"channels","on_erase":"blank_owner","channels":["user/{owner}","own/{owner}","team/a"]}"#
        #expect(try await put(settings).status == 201)
        _ = try await bob.push([bob.create()])
        let document = #"{"text":"\#(String(repeating: "x", count: 200_000))"}"#
        let count = WorkBounds.bulkContents / document.utf8.count + 2
        for start in stride(from: 0, to: count, by: 4) {
            let reply = try await ada.push((start..<min(start + 4, count)).map { _ in ada.create("visit", document) })
            #expect(reply.statuses.allSatisfy { $0 == "succeeded" }, "\(reply.text.prefix(1_000))")
        }
        func entities(_ channel: String) async throws -> Int? {
            let path = fixture.admin + "/channels?channel=\(channel)"
            return try await fixture.operate(.GET, path).json?["entities"]?.int64.map(Int.init)
        }
        try await join(ada, into: bob)
        #expect(try await entities("own/\(ada.user.lowercased)") == 0)
        #expect(try await entities("own/\(bob.user.lowercased)") == count)
        let erase = fixture.admin + "/users/\(bob.user.lowercased)?erase=true"
        _ = try await fixture.operate(.DELETE, erase)
        fixture.gateway.clock.advance(seconds: 9)
        #expect(try await fixture.operate(.DELETE, erase).json?["state"]?.string == "done")
        #expect(try await entities("own/\(bob.user.lowercased)") == 0)
        #expect(try await entities("team/a") == count)
    }

    @Test func `an operator can read why a user sees an entity or does not see it`() async throws {
        let bob = fixture.bob
        let channels = #"{"visibility":"channels","channels":["user/{/assignee}","team/{/team}"]}"#
        #expect(try await put(channels).status == 201)
        let id = try await visit(for: fixture.ada)
        func code(_ id: String) async throws -> String? {
            let path = fixture.admin + "/users/\(bob.user.lowercased)/explain?entity_type=visit&entity_id=\(id)"
            let findings = try await fixture.operate(.GET, path).json?["findings"]?.elements
            return findings?.compactMap { $0["code"]?.string }.first { $0.hasPrefix("entity_") }
        }
        #expect(try await code(id) == "entity_hidden")
        #expect(try await code("0") == "entity_unknown")
        let grant = fixture.admin + "/users/\(bob.user.lowercased)/channels"
        #expect(try await fixture.operate(.PUT, grant, #"{"channel":"team/a","role":"read"}"#).status == 201)
        #expect(try await code(id) == "entity_visible")
        let half = fixture.admin + "/users/\(bob.user.lowercased)/explain?entity_type=visit"
        expectProblem(try await fixture.operate(.GET, half), .invalidRequest)
    }

    @Test func `pulls of several channels assign numbers in sequence`() async throws {
        let (ada, bob) = (fixture.ada, fixture.bob)
        let settings = #"{"visibility":"channels","id_space":"device","channels":["team/{/team}"]}"#
        #expect(try await fixture.operate(.PUT, fixture.admin + "/entity-types/sketch", settings).status == 201)
        for worker in [ada, bob] {
            for team in ["a", "b"] {
                let path = fixture.admin + "/users/\(worker.user.lowercased)/channels"
                let body = #"{"channel":"team/\#(team)","role":"write"}"#
                #expect(try await fixture.operate(.PUT, path, body).status == 201)
            }
        }
        for (number, team) in [(1, "a"), (2, "b")] {
            let members = ["local_id": "\(number)", "payload": #"{"team":"\#(team)"}"#]
            #expect(try await ada.push([ada.draft("create", "sketch", members)]).statuses == ["succeeded"])
        }
        let path = "/v1/devices/\(bob.device.lowercased)/pull"
        func pull(_ team: String, since: String?, received: String?) async throws -> Reply {
            let cursors = [("since", since), ("received", received)].map { name, cursor in
                #""\#(name)":\#(cursor.map { #""\#($0)""# } ?? "null")"#
            }
            return try await bob.post(path, #"{"channels":["team/\#(team)"],\#(cursors.joined(separator: ","))}"#)
        }
        let one = try await pull("a", since: nil, received: nil)
        #expect(one.changes.map { $0["local_id"]?.int64 } == [1], "\(one.text)")
        let two = try await pull("b", since: nil, received: one.next)
        #expect(two.changes.map { $0["local_id"]?.int64 } == [2], "\(two.text)")
        let again = try await pull("a", since: one.next, received: two.next)
        #expect(again.status == 200 && again.changes.isEmpty, "\(again.text)")
        // both numbers are confirmed
        let edits = [1, 2].map { bob.draft("update", "sketch", ["local_id": "\($0)", "payload": #"{"x":1}"#]) }
        #expect(try await bob.push(edits).statuses == ["succeeded", "succeeded"])
        expectProblem(try await bob.post(path, #"{"channels":["team/a"]}"#), .invalidRequest)
    }

    @Test func `a pull of channels may include the entities outside channels`() async throws {
        let bob = fixture.bob
        let channels = #"{"visibility":"channels","channels":["team/{/team}","user/{/assignee}"]}"#
        #expect(try await put(channels).status == 201)
        let granted = fixture.admin + "/users/\(fixture.ada.user.lowercased)/channels"
        #expect(try await fixture.operate(.PUT, granted, #"{"channel":"team/a","role":"write"}"#).status == 201)
        let (mine, theirs) = (try await visit(for: bob), try await visit(for: fixture.ada))
        let note = try await fixture.ada.push([fixture.ada.create("note")])
        let other = try #require(note.results[0]["server_id"]?.string)
        let only = try await bob.get("/v1/changes?channel=team/b")
        #expect(only.changes.isEmpty, "\(only.text)")
        let all = try await bob.get("/v1/changes?channel=team/b&others=true")
        let ids = Set(all.changes.compactMap { $0["id"]?.string })
        #expect(ids.isSuperset(of: [mine, other]) && !ids.contains(theirs), "\(all.text)")
        expectProblem(try await bob.get("/v1/changes?channel=team/b&since=\(all.next ?? "")"), .invalidRequest)
    }
}
