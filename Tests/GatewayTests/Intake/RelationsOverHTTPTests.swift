import Foundation
import GatewaySupport
import JSONText
import NIOHTTP1
import SyncModel
import TestSupport
import Testing

/// Relations whose entities are deleted (product rule 24): the entity type's setting, and conflicts that a person settles.
@Suite struct RelationsOverHTTPTests {
    /// Contacts `x` and `y`, and a visit of `x`, that Ada created.
    private struct Fixture {
        let both: TwoTenantFixture
        let x: String
        let y: String
        let visit: String
        private var ada: SyncWorker { both.ada }

        init(_ rule: String) async throws {
            let both = try await TwoTenantFixture(forwards: true)
            self.both = both
            #expect(try await both.operate(.PUT, both.admin + "/entity-types/contact", "{}").status == 201)
            #expect(try await Self.put(rule, both).status == 201)
            let locals = [UUID(), UUID()]
            let payload = #"{"contactId":\#(locals[0].quoted)}"#
            let creates = locals.map { both.ada.create("contact", local: $0, "{}") }
            let reply = try await both.ada.push(creates + [both.ada.create("visit", payload)])
            let ids = try reply.results.map { try #require($0["server_id"]?.string) }
            (x, y, visit) = (ids[0], ids[1], ids[2])
        }

        static func put(_ rule: String, _ fixture: TwoTenantFixture) async throws -> Reply {
            let body = #"{"relations":{"contactId":"contact"},"on_delete":{"contactId":"\#(rule)"}}"#
            return try await fixture.operate(.PUT, fixture.admin + "/entity-types/visit", body)
        }

        func move(_ worker: SyncWorker, to contact: String) -> Draft {
            let members = ["server_id": #""\#(visit)""#, "payload": #"{"contactId":"\#(contact)"}"#]
            return worker.draft("update", "visit", members)
        }

        func delete(_ worker: SyncWorker, _ contact: String) -> Draft {
            worker.draft("delete", "contact", ["server_id": #""\#(contact)""#])
        }

        func settle(_ draft: Draft, of worker: SyncWorker, _ action: String, _ body: String) async throws {
            let reply = try await worker.post("/v1/mutations/\(draft.id)/\(action)", body)
            #expect(reply.status == 200, "\(reply.text)")
        }

        func reaches(_ status: String, _ draft: Draft, of worker: SyncWorker) async throws {
            try await waitUntil("\(status)") {
                try await worker.get("/v1/mutations/\(draft.id)").json?["status"]?.string == status
            }
        }

        /// The document of an entity; `null` for a tombstone.
        func document(_ id: String) async throws -> String? {
            let changes = try await ada.get("/v1/changes").json?["changes"]?.elements.map(Array.init) ?? []
            return changes.last { $0["id"]?.string == id }?["document"]?.text
        }
    }

    @Test func `a person resolves a conflict by a reference to another entity`() async throws {
        let fixture = try await Fixture("restrict")
        let (ada, bob) = (fixture.both.ada, fixture.both.bob)
        #expect(try await bob.push([fixture.delete(bob, fixture.y)]).statuses == ["succeeded"])
        let move = fixture.move(ada, to: fixture.y)
        let reply = try await ada.push([move])
        #expect(reply.statuses == ["conflict"])
        #expect(reply.text.contains("entity_reference_must_not_be_deleted"))
        // resolved without a new payload, the mutation runs into the same conflict
        try await fixture.settle(move, of: ada, "resolve", #"{"strategy":"client_wins"}"#)
        try await fixture.reaches("conflict", move, of: ada)
        #expect(try await fixture.document(fixture.visit)?.contains(fixture.x) == true)
        try await fixture.settle(move, of: ada, "retry", #"{"payload":{"contactId":"\#(fixture.x)","n":2}}"#)
        try await fixture.reaches("succeeded", move, of: ada)
        #expect(try await fixture.document(fixture.visit)?.contains(#""n":2"#) == true)
    }

    @Test func `a deletion is possible once no entity refers to the deleted entity`() async throws {
        let fixture = try await Fixture("restrict")
        let (ada, bob) = (fixture.both.ada, fixture.both.bob)
        let deletion = fixture.delete(bob, fixture.x)
        let reply = try await bob.push([deletion])
        #expect(reply.statuses == ["conflict"])
        #expect(reply.text.contains("entity_must_not_be_referred_to") && reply.text.contains(fixture.visit))
        try await fixture.settle(deletion, of: bob, "resolve", #"{"strategy":"client_wins"}"#)
        try await fixture.reaches("conflict", deletion, of: bob)
        #expect(try await ada.push([fixture.move(ada, to: fixture.y)]).statuses == ["succeeded"])
        try await fixture.settle(deletion, of: bob, "retry", "{}")
        try await fixture.reaches("succeeded", deletion, of: bob)
        #expect(try await fixture.document(fixture.x) == "null")
    }

    @Test(arguments: ["cascade", "set_null", "ignore"])
    func `a deletion follows the rule that applies when it runs`(_ rule: String) async throws {
        let fixture = try await Fixture("restrict")
        let bob = fixture.both.bob
        let deletion = fixture.delete(bob, fixture.x)
        #expect(try await bob.push([deletion]).statuses == ["conflict"])
        let changed = try await Fixture.put(rule, fixture.both)
        #expect(changed.status == 200 && changed.json?["on_delete"]?["contactId"]?.string == rule)
        try await fixture.settle(deletion, of: bob, "retry", "{}")
        try await fixture.reaches("succeeded", deletion, of: bob)
        #expect(try await fixture.document(fixture.x) == "null")
        let visit = try await fixture.document(fixture.visit)
        switch rule {
        case "cascade": #expect(visit == "null")
        case "set_null": #expect(visit == #"{"contactId":null}"#)
        default: #expect(visit == #"{"contactId":"\#(fixture.x)"}"#)
        }
    }

    @Test func `an entity type has a rule for each relation`() async throws {
        let fixture = try await TwoTenantFixture()
        let path = fixture.admin + "/entity-types/note"
        let body = #"{"relations":{"a":"note","b":"note"},"on_delete":{"b":"set_null"}}"#
        let made = try await fixture.operate(.PUT, path, body)
        #expect(made.json?["on_delete"]?.text == #"{"a":"restrict","b":"set_null"}"#)
        let kept = try await fixture.operate(.PUT, path, "{}")
        #expect(kept.json?["on_delete"]?["b"]?.string == "set_null")
        let reset = try await fixture.operate(.PUT, path, #"{"on_delete":{"c":"cascade"}}"#)
        #expect(reset.json?["on_delete"]?.text == #"{"a":"restrict","b":"restrict"}"#)
        for (body, error) in [
            (#"{"on_delete":null}"#, "/on_delete member_range"),
            (#"{"on_delete":{"a":"delete"}}"#, "/on_delete/a member_range"),
            (#"{"on_delete":{"":"ignore"}}"#, "/on_delete/ member_range"),
        ] {
            expectProblem(try await fixture.operate(.PUT, path, body), .validationFailed, errors: [error])
        }
    }
}
