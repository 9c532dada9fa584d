import Foundation
import JSONText
import Postgres
import StoreSupport
import SyncModel
import TestSupport
import Testing

@testable import SyncStore

/// Ada moves a visit to a contact that Cyd deletes, each offline (product rule 24).
@Suite struct RelationTests {
    private struct Fixture {
        let ada: Phone
        let cyd: Phone
        /// The ids of the contacts, which both phones have. The visit refers to the first contact.
        let contacts: [String]
        let visit: String

        init(_ rule: String) async throws {
            let gateway = try await Gateway()
            let organization = try await gateway.organization()
            try await gateway.declare("contact", "mapped", in: organization)
            try await gateway.declare(
                "visit",
                "mapped",
                relations: #"{"contactId":"contact"}"#,
                onDelete: #"{"contactId":"\#(rule)"}"#,
                in: organization
            )
            let known = try await gateway.known(organization.id)
            let ada = Phone(gateway, known)
            self.ada = ada
            cyd = Phone(gateway, known)
            let locals = [UUID(), UUID()]
            let creates = locals.map { ada.create("contact", local: $0, payload: "{}") }
            let visit = ada.create("visit", payload: #"{"contactId":"\#(locals[0].lowercased)","n":1}"#)
            let results = try await ada.push(creates + [visit]).results
            contacts = try results.prefix(2).map { try #require($0.serverID) }
            self.visit = try #require(results[2].serverID)
        }

        func move(_ phone: Phone, to contact: String) -> Entry {
            phone.entry("update", "visit", server: #""\#(visit)""#, payload: #"{"contactId":"\#(contact)"}"#)
        }

        func delete(_ phone: Phone, _ contact: String) -> Entry {
            phone.entry("delete", "contact", server: #""\#(contact)""#)
        }

        /// Returns the document that an entity has on both phones; `deleted` for a tombstone.
        func state(_ id: String) async throws -> String? {
            func shown(_ phone: Phone) async throws -> String? {
                try await phone.pull().last { $0["id"]?.string == id }.flatMap { row in
                    row["deleted"]?.bool == true ? "deleted" : row["document"]?.text
                }
            }
            let state = try await shown(ada)
            #expect(try await shown(cyd) == state, "both phones show the same")
            return state
        }

        func references() async throws -> Int64 {
            try await ada.gateway.count("entity_references", of: ada.organization.id)
        }
    }

    @Test(arguments: ["restrict", "cascade", "set_null", "ignore"])
    func `a deletion after the move follows the rule of the relation`(_ rule: String) async throws {
        let fixture = try await Fixture(rule)
        let (ada, cyd, y) = (fixture.ada, fixture.cyd, fixture.contacts[1])
        #expect(try await ada.push([fixture.move(ada, to: y)]).results[0].status == "succeeded")
        let deletion = try await cyd.push([fixture.delete(cyd, y)]).results[0]
        let moved = #"{"contactId":"\#(y)","n":1}"#
        switch rule {
        case "restrict":
            #expect(deletion.status == "conflict" && deletion.rules == ["entity_must_not_be_referred_to"])
            #expect(deletion["error"]?["current"]?["id"]?.string == y)
            #expect(try await fixture.state(y) == "{}")
            #expect(try await fixture.state(fixture.visit) == moved)
        case "cascade":
            #expect(deletion.status == "succeeded")
            #expect(try await fixture.state(y) == "deleted")
            #expect(try await fixture.state(fixture.visit) == "deleted")
            #expect(try await fixture.references() == 0)
        case "set_null":
            #expect(deletion.status == "succeeded")
            #expect(try await fixture.state(y) == "deleted")
            #expect(try await fixture.state(fixture.visit) == #"{"contactId":null,"n":1}"#)
            #expect(try await fixture.references() == 0)
        default:
            #expect(deletion.status == "succeeded")
            #expect(try await fixture.state(fixture.visit) == moved)
        }
    }

    @Test(arguments: ["restrict", "cascade", "set_null", "ignore"])
    func `a move after the deletion is a conflict unless the rule ignores it`(_ rule: String) async throws {
        let fixture = try await Fixture(rule)
        let (ada, cyd, y) = (fixture.ada, fixture.cyd, fixture.contacts[1])
        #expect(try await cyd.push([fixture.delete(cyd, y)]).results[0].status == "succeeded")
        let move = fixture.move(ada, to: y)
        let result = try await ada.push([move]).results[0]
        guard rule != "ignore" else {
            #expect(result.status == "succeeded")
            return
        }
        #expect(result.status == "conflict" && result.rules == ["entity_reference_must_not_be_deleted"])
        #expect(result["error"]?.list("errors").first?["pointer"]?.string == "/mutations/0/payload/contactId")
        let unmoved = #"{"contactId":"\#(fixture.contacts[0])","n":1}"#
        #expect(try await fixture.state(fixture.visit) == unmoved)
        #expect(try await ada.push([move]).results[0].status == "conflict", "a repeat gets the same result")
        #expect(try await ada.discard(move.id)?.status == "discarded")
    }

    /// When the second push is planned, the effects of the first push are not stored yet, or are read from the table.
    @Test func `pushes of one batch see each other's references`() async throws {
        let fixture = try await Fixture("restrict")
        let (ada, y) = (fixture.ada, fixture.contacts[1])
        let statuses = try await ada.push([
            fixture.move(ada, to: y), fixture.delete(ada, fixture.contacts[0]), fixture.delete(ada, y),
        ]).results.map(\.status)
        #expect(statuses == ["succeeded", "succeeded", "conflict"])
    }

    @Test func `a cascade deletes entities that refer to an entity moved in the same push`() async throws {
        let fixture = try await Fixture("cascade")
        let (ada, y) = (fixture.ada, fixture.contacts[1])
        try await ada.gateway.declare(
            "note",
            "mapped",
            relations: #"{"visitId":"visit"}"#,
            onDelete: #"{"visitId":"cascade"}"#,
            in: ada.organization
        )
        let note = ada.create("note", payload: #"{"visitId":"\#(fixture.visit)"}"#)
        let id = try #require(try await ada.push([note]).results[0].serverID)
        let statuses = try await ada.push([fixture.move(ada, to: y), fixture.delete(ada, y)]).results.map(\.status)
        #expect(statuses == ["succeeded", "succeeded"])
        #expect(try await fixture.state(fixture.visit) == "deleted")
        #expect(try await fixture.state(id) == "deleted")
        #expect(try await fixture.references() == 0)
    }

    @Test func `a relation can contain the client id or a device's number of an entity`() async throws {
        for space in ["mapped", "device"] {
            let gateway = try await Gateway()
            let organization = try await gateway.organization()
            try await gateway.declare("contact", space, in: organization)
            let relations = #"{"contactIds":"contact"}"#
            try await gateway.declare("visit", "mapped", relations: relations, in: organization)
            let phone = Phone(gateway, try await gateway.known(organization.id))
            let tablet = Phone(gateway, phone.organization, user: phone.user)
            let local = UUID()
            let isMapped = space == "mapped"
            let create =
                isMapped
                ? phone.create("contact", local: local, payload: "{}")
                : phone.numbered("create", 7, "contact", payload: "{}")
            let id = try #require(try await phone.push([create]).results[0].serverID)
            let name = isMapped ? #""\#(local.lowercased)""# : "7"
            let visit = phone.create("visit", payload: #"{"contactIds":[\#(name)]}"#)
            #expect(try await phone.push([visit]).results[0].status == "succeeded")
            let delete = { tablet.entry("delete", "contact", server: #""\#(id)""#) }
            #expect(try await tablet.push([delete()]).results[0].status == "conflict")
            // the tablet and the phone share a lane, which is halted until the conflict is settled
            let held = try await phone.push([phone.create("visit", payload: #"{"contactIds":[]}"#)]).results[0]
            #expect(held.status == "pending")
        }
    }

    @Test func `a deletion by client id finds the entities that refer to the deleted entity`() async throws {
        let fixture = try await Fixture("cascade")
        let local = UUID()
        let contact = fixture.ada.create("contact", local: local, payload: "{}")
        let visit = fixture.ada.create("visit", payload: #"{"contactId":"\#(local.lowercased)"}"#)
        let created = try await fixture.ada.push([contact, visit])
        let id = try #require(created.results[1].serverID)
        let delete = fixture.ada.entry("delete", "contact", local: local)
        #expect(try await fixture.ada.push([delete]).results[0].status == "succeeded")
        #expect(try await fixture.state(id) == "deleted")
    }

    @Test func `a deletion with more than a thousand references is a conflict`() async throws {
        let fixture = try await Fixture("cascade")
        let y = fixture.contacts[1]
        for _ in 0..<3 {
            let visits = (0..<334).map { _ in fixture.ada.create("visit", payload: #"{"contactId":"\#(y)"}"#) }
            #expect(try await fixture.ada.push(visits).results.allSatisfy { $0.status == "succeeded" })
        }
        #expect(try await fixture.cyd.push([fixture.delete(fixture.cyd, y)]).results[0].status == "conflict")
        #expect(try await fixture.state(y) == "{}")
    }

    @Test func `a preview shows the conflict and the effects of a deletion, and changes nothing`() async throws {
        let fixture = try await Fixture("restrict")
        let cyd = fixture.cyd
        let preview = try await cyd.preview([fixture.delete(cyd, fixture.contacts[0])])
        #expect(preview.elements.map(Array.init)?.first?.status == "conflict")
        #expect(try await fixture.state(fixture.contacts[0]) == "{}")
    }

    @Test func `concurrent moves and deletions leave no reference to a deleted entity`() async throws {
        for rule in ["restrict", "cascade", "set_null"] {
            let fixture = try await Fixture(rule)
            let (ada, cyd, y) = (fixture.ada, fixture.cyd, fixture.contacts[1])
            async let moved = ada.push([fixture.move(ada, to: y)]).results[0].status
            async let deleted = cyd.push([fixture.delete(cyd, y)]).results[0].status
            let statuses = try await [moved, deleted]
            let isDeleted = try await fixture.state(y) == "deleted"
            let visit = try await fixture.state(fixture.visit)
            #expect(!(isDeleted && visit?.contains(y) == true), "\(rule) \(statuses) \(visit ?? "")")
        }
    }

    @Test(.onOneServer("plans of one server")) func `references are found and removed by index`() async throws {
        let gateway = try await Gateway()
        let organization = try await gateway.organization().id.lowercased
        let connection = try await gateway.database.connect(settings: Store.hotSettings)
        defer { connection.close() }
        try await connection.execute(
            script: """
                INSERT INTO entity_references (organization_id, to_type, to_id, entity_type, id, member)
                SELECT o.id, 'contact', 'c' || n % 50, 'visit', 'v' || n, 'contactId'
                FROM generate_series(1, 2000) n, (VALUES ('\(organization)'::uuid), (gen_random_uuid())) o (id);
                ANALYZE entity_references;
                """
        )
        let find = "'\(organization)', '{contact}', '{c1}', '{visit}', '{contactId}', '1001'"
        let drop = "'{\(organization)}', '{visit}', '{v7}'"
        for (statement, arguments) in [(ReferenceRows.findStatement, find), (ReferenceRows.dropStatement, drop)] {
            let plan = try await connection.explain(statement, arguments)
            #expect(!plan.contains("Seq Scan") && plan.contains("Index"), "\(plan)")
        }
    }
}
