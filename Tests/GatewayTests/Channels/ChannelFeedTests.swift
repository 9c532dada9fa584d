import Foundation
import JSONText
import NIOHTTP1
import SyncModel
import Testing

/// Entities in channels, over HTTP: who pulls them, and who may write them.
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

    /// Creates a visit of a user, by that user.
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

    /// Pulls all pages behind a cursor.
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

    @Test func `an entity moves from one user's device to another's`() async throws {
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

    @Test func `a granted channel gives its entities, a revoked one removes them`() async throws {
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

    @Test(arguments: [("cascade", "x"), ("set_null", "-")])
    func `the deletion of an entity reaches those who see what refers to it`(_ rule: String, _ mark: String)
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
