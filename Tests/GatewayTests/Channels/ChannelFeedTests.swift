import Foundation
import JSONText
import NIOHTTP1
import SyncModel
import Testing

/// The rights to pull and to write entities in channels, over HTTP.
@Suite struct ChannelFeedTests {
    private static let type = #"{"visibility":"channels","channels":["user/{/assignee}","team/{/team}"]}"#

    private let fixture: TwoTenantFixture

    init() async throws {
        fixture = try await TwoTenantFixture()
        let made = try await fixture.operate(.PUT, fixture.admin + "/entity-types/visit", Self.type)
        #expect(made.status == 201, "\(made.text)")
    }

    private func document(for worker: SyncWorker, _ team: String = "a") -> String {
        #"{"assignee":\#(worker.user.quoted),"team":"\#(team)"}"#
    }

    /// Creates a visit that is assigned to its creator.
    private func visit(of worker: SyncWorker) async throws -> String {
        let reply = try await worker.push([worker.create("visit", document(for: worker))])
        #expect(reply.statuses == ["succeeded"], "\(reply.text)")
        return try #require(reply.results[0]["server_id"]?.string)
    }

    private func grant(_ channel: String, _ role: String, to worker: SyncWorker) async throws {
        let path = fixture.admin + "/users/\(worker.user.uuidString)/channels"
        let reply = try await fixture.operate(.PUT, path, #"{"channel":"\#(channel)","role":"\#(role)"}"#)
        #expect(reply.status == 201, "\(reply.text)")
    }

    private func revoke(_ channel: String, from worker: SyncWorker) async throws {
        let path = fixture.admin + "/users/\(worker.user.uuidString)/channels?channel=\(channel)"
        #expect(try await fixture.operate(.DELETE, path).status == 204)
    }

    /// Pulls all pages after a cursor.
    private func pull(_ worker: SyncWorker, _ cursor: inout String?, _ query: String = "") async throws -> [String] {
        var changes: [String] = []
        while true {
            let since = cursor.map { "&since=\($0)" } ?? ""
            let page = try await worker.get("/v1/changes?limit=2\(since)\(query)")
            #expect(page.status == 200, "\(page.text)")
            changes += page.changes.map { change in
                let mark = change["removed"]?.bool == true ? "-" : change["deleted"]?.bool == true ? "x" : "+"
                return mark + (change["id"]?.string ?? "")
            }
            cursor = page.next
            if page.isUpToDate != false { return changes }
        }
    }

    @Test func `an entity moves from one user's device to another user's device`() async throws {
        let (ada, bob) = (fixture.ada, fixture.bob)
        var (adas, bobs): (String?, String?) = (nil, nil)
        let id = try await visit(of: ada)
        #expect(try await pull(ada, &adas) == ["+" + id])
        #expect(try await pull(bob, &bobs) == [])
        let move = ada.draft("update", "visit", ["server_id": #""\#(id)""#, "payload": document(for: bob)])
        #expect(try await ada.push([move]).statuses == ["succeeded"])
        #expect(try await pull(ada, &adas) == ["-" + id])
        #expect(try await pull(bob, &bobs) == ["+" + id])
        let update = ada.change("update", "visit", server: id)
        let reply = try await ada.push([update])
        #expect(reply.statuses == ["failed"])
        let unknown = try await ada.push([ada.change("update", "visit", server: UUID().uuidString.lowercased())])
        #expect(reply.results[0]["error"]?["code"]?.text == unknown.results[0]["error"]?["code"]?.text)
        #expect(try await bob.push([bob.change("delete", "visit", server: id)]).statuses == ["succeeded"])
        #expect(try await pull(bob, &bobs) == ["x" + id])
        #expect(try await pull(ada, &adas) == [])
    }

    @Test func `a grant of a channel adds its entities, and a revocation removes them`() async throws {
        let (ada, bob) = (fixture.ada, fixture.bob)
        var ids: Set<String> = []
        for _ in 0..<5 { ids.insert(try await visit(of: ada)) }
        var bobs: String?
        #expect(try await pull(bob, &bobs) == [])
        try await grant("team/a", "read", to: bob)
        #expect(Set(try await pull(bob, &bobs)) == Set(ids.map { "+" + $0 }))
        #expect(try await pull(bob, &bobs) == [])
        let first = try #require(ids.first)
        let refused = bob.change("update", "visit", server: first)
        let reply = try await bob.push([refused])
        #expect(reply.statuses == ["failed"] && reply.results[0]["error"]?["code"]?.string == "forbidden")
        try await grant("team/a", "write", to: bob)
        // until it is settled, the failed write blocks later writes to the same entity
        #expect(try await bob.post("/v1/mutations/\(refused.id)/discard", "{}").status == 200)
        #expect(try await bob.push([bob.change("update", "visit", server: first)]).statuses == ["succeeded"])
        #expect(try await pull(bob, &bobs) == ["+" + first])
        try await revoke("team/a", from: bob)
        #expect(Set(try await pull(bob, &bobs)) == Set(ids.map { "-" + $0 }))
        var others: String?
        #expect(try await pull(fixture.eve, &others) == [])
        let metric = #"sluice_channel_grants_changed_total{source="operator"} 3"#
        #expect(try await fixture.metrics().contains(metric))
    }

    @Test func `a pull of one channel is a separate feed`() async throws {
        let (ada, bob) = (fixture.ada, fixture.bob)
        let id = try await visit(of: ada)
        try await grant("team/a", "read", to: bob)
        var (all, one, none): (String?, String?, String?) = (nil, nil, nil)
        #expect(try await pull(bob, &one, "&channel=team/a") == ["+" + id])
        #expect(try await pull(bob, &none, "&channel=team/b") == [])
        var hidden: String?
        #expect(try await pull(bob, &hidden, "&channel=user/\(ada.user.uuidString.lowercased())") == [])
        #expect(try await pull(bob, &all) == ["+" + id])
        let mixed = try await bob.get("/v1/changes?since=\(one ?? "")")
        expectProblem(mixed, .invalidRequest)
    }

    @Test func `entities grant channels to the users that they name`() async throws {
        let (ada, bob) = (fixture.ada, fixture.bob)
        let type = #"""
            {"visibility":"channels","channels":["project/{/project}"],
             "grants":[{"user":"/member","channels":["project/{/project}"],"role":"read"}]}
            """#
        let made = try await fixture.operate(.PUT, fixture.admin + "/entity-types/membership", type)
        #expect(made.status == 201, "\(made.text)")
        try await grant("project/1", "write", to: ada)
        var bobs: String?
        #expect(try await pull(bob, &bobs) == [])
        let create = ada.create("membership", #"{"project":1,"member":\#(bob.user.quoted)}"#)
        let reply = try await ada.push([create])
        let id = try #require(reply.results[0]["server_id"]?.string)
        #expect(try await pull(bob, &bobs) == ["+" + id])
        #expect(try await ada.push([ada.change("delete", "membership", server: id)]).statuses == ["succeeded"])
        #expect(try await pull(bob, &bobs).contains("-" + id), "the grant has ended with the entity")
    }

    @Test func `no pull shows that a hidden entity was briefly in a channel within one push`() async throws {
        let (ada, bob) = (fixture.ada, fixture.bob)
        let documents = #"{"visibility":"channels","channels":["c/{/c}","office"]}"#
        let memberships = #"""
            {"visibility":"channels","channels":["office"],
             "grants":[{"user":"/member","channels":["c/{/c}"],"role":"read"}]}
            """#
        for (name, type) in [("document", documents), ("membership", memberships)] {
            let made = try await fixture.operate(.PUT, fixture.admin + "/entity-types/\(name)", type)
            #expect(made.status == 201, "\(made.text)")
        }
        try await grant("office", "write", to: ada)
        func membership(_ channel: Int, of worker: SyncWorker?) -> String {
            #"{"member":\#(worker?.user.quoted ?? "null"),"c":\#(channel)}"#
        }
        var bobs: String?
        // the document enters the channel before the grant ends
        let first = try await ada.push([ada.create("membership", membership(1, of: bob))])
        let id = try #require(first.results[0]["server_id"]?.string, "\(first.text)")
        #expect(try await pull(bob, &bobs) == [])
        let ending = ada.draft("replace", "membership", ["server_id": #""\#(id)""#, "payload": membership(1, of: nil)])
        let entered = try await ada.push([ada.create("document", #"{"c":1}"#), ending])
        #expect(entered.statuses == ["succeeded", "succeeded"], "\(entered.text)")
        #expect(try await pull(bob, &bobs) == [])
        // the grant begins before the document leaves the channel
        let made = try await ada.push([ada.create("document", #"{"c":2}"#)])
        let document = try #require(made.results[0]["server_id"]?.string, "\(made.text)")
        let leaving = ada.draft("replace", "document", ["server_id": #""\#(document)""#, "payload": #"{"c":3}"#])
        let left = try await ada.push([ada.create("membership", membership(2, of: bob)), leaving])
        #expect(left.statuses == ["succeeded", "succeeded"], "\(left.text)")
        #expect(try await pull(bob, &bobs) == [])
        // a document that the user has seen is removed, and a document that a new grant shows is added
        let back = ada.draft("replace", "document", ["server_id": #""\#(document)""#, "payload": #"{"c":2}"#])
        #expect(try await ada.push([back]).statuses == ["succeeded"])
        #expect(try await pull(bob, &bobs) == ["+" + document])
        let again = ada.draft("replace", "document", ["server_id": #""\#(document)""#, "payload": #"{"c":4}"#])
        #expect(try await ada.push([again]).statuses == ["succeeded"])
        #expect(try await pull(bob, &bobs) == ["-" + document])
        let both = ada.draft("replace", "document", ["server_id": #""\#(document)""#, "payload": #"{"c":5}"#])
        #expect(try await ada.push([both, ada.create("membership", membership(5, of: bob))]).statuses.count == 2)
        #expect(try await pull(bob, &bobs) == ["+" + document])
    }

    @Test func `a user of many channels can write in each of them`() async throws {
        let (ada, bob) = (fixture.ada, fixture.bob)
        let names = (0..<300).map { "team/\($0)" }
        let rows = names.map { name in
            let channel = ChannelID(named: name).uuid.lowercased
            return
                "('\(ada.organization.lowercased)', '\(ada.user.lowercased)', '\(channel)', 'operator', 0, '\(name)', 'write', 0)"
        }
        try await fixture.execute(
            """
            INSERT INTO channel_grants (organization_id, user_id, channel, source, since, name, role, changed_at)
            VALUES \(rows.joined(separator: ", "))
            """
        )
        func move(_ worker: SyncWorker, _ id: String, to team: Int) -> Draft {
            worker.draft("update", "visit", ["server_id": #""\#(id)""#, "payload": #"{"team":"\#(team)"}"#])
        }
        let made = try await ada.push([ada.create("visit", #"{"team":"7"}"#), ada.create("visit", #"{"team":"900"}"#)])
        #expect(made.statuses == ["succeeded", "failed"], "\(made.text)")
        let id = try #require(made.results[0]["server_id"]?.string)
        // each decision depends on the channel that the previous move set
        let moves = try await ada.push([250, 40, 41, 42, 299, 43, 900, 8].map { move(ada, id, to: $0) })
        #expect(moves.statuses == Array(repeating: "succeeded", count: 7) + ["failed"], "\(moves.text)")
        #expect(try await bob.push([move(bob, id, to: 7)]).statuses == ["failed"])
        let other = try await fixture.eve.push([fixture.eve.create("visit", #"{"team":"7"}"#)])
        #expect(other.statuses == ["succeeded"], "the type of the other tenant has no channels: \(other.text)")
    }

    @Test func `the size of a hidden document changes no answer`() async throws {
        let (ada, bob) = (fixture.ada, fixture.bob)
        let id = try await visit(of: ada)
        let document = #"{"assignee":\#(ada.user.quoted),"team":"a","text":"#
        try await fixture.execute(
            "UPDATE entities SET document = ('\(document)\"' || repeat('x', 9000000) || '\"}')::json WHERE id = '\(id)'"
        )
        func answer(_ worker: SyncWorker, _ id: String) async throws -> (status: Int, error: String?) {
            let reply = try await worker.preview([worker.change("update", "visit", server: id)])
            return (reply.status, reply.results.first?["error"]?.text.replacing(id, with: "ID"))
        }
        let (hidden, unknown) = (try await answer(bob, id), try await answer(bob, UUID().uuidString.lowercased()))
        #expect(hidden.status == 200 && hidden == unknown, "\(hidden) \(unknown)")
        #expect(try await answer(ada, id).status == 413, "the document is larger than a preview reads")
        try await fixture.execute("UPDATE entities SET document = '\(document)\"x\"}' WHERE id = '\(id)'")
        let shown = try await ada.preview([ada.change("update", "visit", server: id)])
        #expect(shown.statuses == ["succeeded"], "\(shown.text)")
    }

    @Test func `a document counts for a push only after a grant of the push has made it visible`() async throws {
        let (ada, bob) = (fixture.ada, fixture.bob)
        let type = #"""
            {"visibility":"channels","channels":["user/{owner}"],
             "grants":[{"user":"/member","channels":["team/{/team}"],"role":"write"}]}
            """#
        #expect(try await fixture.operate(.PUT, fixture.admin + "/entity-types/membership", type).status == 201)
        let settings = #"{"settings":{"on_failure":"continue"}}"#
        #expect(try await fixture.operate(.PUT, fixture.admin, settings).status == 200)
        let made = try await ada.push((0..<80).map { _ in ada.create("visit", document(for: ada)) })
        let visits = made.results.compactMap { $0["server_id"]?.string }
        // a failed update blocks later updates of the same entity
        let (ids, granted) = (Array(visits.prefix(40)), Array(visits.suffix(40)))
        let beginning = #"{"assignee":\#(ada.user.quoted),"team":"a","text":"#
        try await fixture.execute(
            """
            UPDATE entities SET document = ('\(beginning)"' || repeat('x', 1040000) || '"}')::json
            WHERE entity_type = 'visit'
            """
        )
        func entries(_ team: String, _ ids: [String]) -> [Draft] {
            [bob.create("membership", #"{"member":\#(bob.user.quoted),"team":"\#(team)"}"#)]
                + ids.map { bob.change("update", "visit", server: $0) }
        }
        // a grant of another channel shows nothing of the documents
        func errors(_ reply: Reply, _ ids: [String]) -> [String] {
            #expect(reply.status == 200, "\(reply.text)")
            return reply.results.dropFirst().enumerated().map { index, result in
                result["error"]?.text.replacing(ids[index], with: "ID") ?? "none"
            }
        }
        let unknown = ids.map { _ in UUID().lowercased }
        let previewed = try await bob.preview(entries("b", ids))
        #expect(try await errors(previewed, ids) == errors(bob.preview(entries("b", unknown)), unknown))
        let pushed = try await bob.push(entries("b", ids))
        #expect(try await errors(pushed, ids) == errors(bob.push(entries("b", unknown)), unknown))
        #expect(!errors(pushed, ids).contains("none"), "\(pushed.text)")
        // a grant of their channel does
        expectProblem(try await bob.preview(entries("a", granted)), .payloadTooLarge, errors: [])
        expectProblem(try await bob.push(entries("a", granted)), .payloadTooLarge, errors: [])
        let few = try await bob.preview(entries("a", Array(granted.prefix(3))))
        #expect(few.statuses == Array(repeating: "succeeded", count: 4), "\(few.text)")
        let some = try await bob.push(entries("a", Array(granted.prefix(10))))
        #expect(some.statuses == Array(repeating: "succeeded", count: 11), "\(some.text)")
    }

    @Test func `pages of a channel's users do not skip a user's further grants`() async throws {
        let (ada, bob) = (fixture.ada, fixture.bob)
        let type = #"""
            {"visibility":"channels","channels":["office"],
             "grants":[{"user":"/members","channels":["c"],"role":"read"}]}
            """#
        #expect(try await fixture.operate(.PUT, fixture.admin + "/entity-types/membership", type).status == 201)
        try await grant("office", "write", to: ada)
        let members = "[\(ada.user.quoted),\(bob.user.quoted)]"
        let made = (0..<3).map { _ in ada.create("membership", #"{"members":\#(members)}"#) }
        #expect(try await ada.push(made).statuses.count == 3)
        try await grant("c", "write", to: bob)
        var (found, cursor): ([String], String?) = ([], nil)
        repeat {
            let query = "/channels?channel=c&limit=2" + (cursor.map { "&cursor=\($0)" } ?? "")
            let page = try await fixture.operate(.GET, fixture.admin + query)
            #expect(page.status == 200, "\(page.text)")
            for row in page.json?["grants"]?.elements.map(Array.init) ?? [] {
                found.append("\(row["user_id"]?.string ?? "") \(row["source"]?.string ?? "")")
            }
            cursor = page.json?["next"]?.string
        } while cursor != nil
        #expect(found.count == 7 && Set(found).count == 7 && found == found.sorted(), "\(found)")
        for cursor in ["x", UUID().lowercased, "c1.\(UUID().lowercased).eA==", "c1.x.b3BlcmF0b3I="] {
            let refused = try await fixture.operate(.GET, fixture.admin + "/channels?channel=c&cursor=\(cursor)")
            expectProblem(refused, .invalidRequest)
        }
    }

    @Test(arguments: [("cascade", "x"), ("set_null", "-")])
    func `users who see a referring entity receive the effects of a deletion`(_ rule: String, _ mark: String)
        async throws
    {
        let (ada, bob) = (fixture.ada, fixture.bob)
        let cases = #"{"visibility":"channels","channels":["office"]}"#
        let contacts =
            #"{"visibility":"channels","channels":["case/{/caseId}"],"relations":{"caseId":"case"},"#
            + #""on_delete":{"caseId":"\#(rule)"}}"#
        for (name, type) in [("case", cases), ("contact", contacts)] {
            let made = try await fixture.operate(.PUT, fixture.admin + "/entity-types/\(name)", type)
            #expect(made.status == 201, "\(made.text)")
        }
        try await grant("office", "write", to: ada)
        let lead = try await ada.push([ada.create("case", "{}")])
        let id = try #require(lead.results[0]["server_id"]?.string, "\(lead.text)")
        for worker in [ada, bob] {
            try await grant("case/\(id)", worker.user == ada.user ? "write" : "read", to: worker)
        }
        let made = try await ada.push([ada.create("contact", #"{"caseId":"\#(id)"}"#)])
        let contact = try #require(made.results[0]["server_id"]?.string, "\(made.text)")
        try await revoke("case/\(id)", from: ada)
        var bobs: String?
        #expect(try await pull(bob, &bobs) == ["+" + contact])
        let deletion = try await ada.push([ada.change("delete", "case", server: id)])
        #expect(deletion.statuses == ["succeeded"], "\(deletion.text)")
        #expect(try await pull(bob, &bobs) == [mark + contact])
    }

    @Test func `settings of channels are checked`() async throws {
        let path = fixture.admin + "/entity-types/case"
        for (body, pointer) in [
            (#"{"visibility":"channels"}"#, "/channels member_required"),
            (#"{"channels":["a"]}"#, "/visibility member_range"),
            (#"{"visibility":"channels","channels":["{a}"]}"#, "/channels/0 channel_name"),
            (
                #"{"visibility":"channels","channels":["a"],"grants":[{"user":"/a","role":"read"}]}"#,
                "/grants/0/channels member_required"
            ),
        ] {
            let reply = try await fixture.operate(.PUT, path, body)
            #expect(reply.status == 422 && reply.errors == [pointer], "\(body): \(reply.text)")
        }
    }
}
