import Foundation
import JSONText
import Postgres
import StoreSupport
import SyncHTTP
import SyncModel
import TestSupport
import Testing

@testable import AdministrationFeature
@testable import SyncStore

/// Mutations reach the upstream in causal order, with resolved ids, and the user reads the upstream's answers.
@Suite struct ReplayTests {
    @Test func `sends a create and resolves its mapping to the answer's ID`() async throws {
        let harness = try await DispatcherHarness()
        let contact = UUID()
        let create = harness.create(local: contact, payload: #"{"name":"Kari"}"#)
        let answer = try await harness.phone.push([create])
        #expect(answer.results[0].status == "pending")
        let mutation = try await harness.mutation(create.id, is: .succeeded)
        #expect(mutation["server_id"]?.int64 == 1)
        #expect(mutation["attempt_count"]?.int64 == 1)
        #expect(mutation["response"]?["status"]?.int64 == 201)
        #expect(mutation["response"]?["body"]?.text == #"{"id":1}"#)
        let request = try #require(harness.upstream.requests.first)
        #expect(request.line == "POST /contacts")
        #expect(request.text == #"{"name":"Kari"}"#)
        let mappings = try await harness.gateway.store.mappings.lookup(
            [contact],
            entityType: nil,
            organization: harness.organization.id,
            user: harness.phone.user
        )
        #expect(mappings.map(\.status) == [.resolved])
        #expect(mappings.first?.serverID == ServerID(text: "1", isInteger: true))
    }

    @Test func `rewrites ids in paths and payloads, in their form`() async throws {
        let harness = try await DispatcherHarness()
        let (contact, activity) = (UUID(), UUID())
        let text = contact.lowercased
        let first = harness.create(local: contact)
        let second = harness.create(
            "activity",
            local: activity,
            payload:
                #"{"contact_id":"\#(text)","all":["\#(text)",{"deep":"\#(text)"}],"same":"\#(activity.lowercased)"}"#,
            extra: ["endpoint": #""/contacts/\#(text)/activities""#]
        )
        let third = harness.change("update", "activity", local: activity, payload: #"{"me":"\#(activity.lowercased)"}"#)
        let answer = try await harness.phone.push([first, second, third])
        #expect(answer.results.map(\.status) == ["pending", "blocked", "blocked"])
        try await harness.mutation(third.id, is: .succeeded)
        #expect(
            harness.upstream.requests.map(\.line) == [
                "POST /contacts", "POST /contacts/1/activities", "PATCH /activitys/2",
            ]
        )
        #expect(
            harness.upstream.requests[1].text
                == #"{"contact_id":1,"all":[1,{"deep":1}],"same":"\#(activity.lowercased)"}"#
        )
        #expect(harness.upstream.requests[2].text == #"{"me":2}"#)
    }

    @Test func `built-in and forwarded types of one lane keep their order`() async throws {
        let harness = try await DispatcherHarness()
        let body = #"{"id_space":"mapped","visibility":"organization"}"#
        _ = try await harness.gateway.store.administration.putEntityType(
            "note",
            in: harness.organization.id,
            EntityTypeUpdate(body: Array(body.utf8))
        )
        let connection = try await harness.gateway.database.connect()
        try await connection.execute(
            script: "UPDATE entity_types SET is_forwarded = false WHERE organization_id = '\(harness.organization.id)'"
        )
        connection.close()
        harness.gateway.store.catalog.invalidate(harness.organization.id)
        let (contact, note) = (UUID(), UUID())
        let entries = [
            harness.phone.create("note"),
            harness.create(local: contact),
            harness.phone.create("note", local: note, payload: #"{"about":"\#(contact.lowercased)"}"#),
            harness.change("update", local: contact, payload: #"{"note":"\#(note.lowercased)"}"#),
            harness.phone.entry("update", "note", local: note, payload: #"{"done":true}"#),
        ]
        let answer = try await harness.phone.push(entries)
        #expect(answer.results.map(\.status) == ["succeeded", "pending", "blocked", "blocked", "blocked"])
        try await harness.mutation(entries[4].id, is: .succeeded)
        let last = try await harness.mutation(entries[3].id, is: .succeeded)
        #expect(last["attempt_count"]?.int64 == 1)
        let applied = try await harness.mutation(entries[2].id)
        #expect(applied["attempt_count"]?.int64 == 0)
        #expect(applied["version"]?.int64 == 1)
        let id = try #require(applied.serverID)
        #expect(harness.upstream.requests.map(\.text) == [#"{"title":"x"}"#, #"{"note":"\#(id)"}"#])
        let changes = try await harness.phone.pull(types: ["note"])
        #expect(changes.last?["document"]?.text == #"{"about":1,"done":true}"#)
        let lane = try await harness.lane()
        #expect(lane.queue.count == 0 && lane.openCount == 0 && lane.lease.owner == nil && lane.readyAt == nil)
    }

    @Test func `the upstream's answers enter the user's feed`() async throws {
        let upstream = FakeUpstream { request, _ in
            switch request.method {
            case "POST": .status(201, #"{"id":"c-7","name":"Kari","stars":5}"#, etag: #""v1""#)
            case "PATCH": .status(200, nil, etag: #""v2""#)
            default: .status(204)
            }
        }
        let harness = try await DispatcherHarness(upstream: upstream)
        let contact = UUID()
        let create = harness.create(local: contact, payload: #"{"name":"Kari"}"#)
        let update = harness.change("update", local: contact, payload: #"{"name":"Ola"}"#)
        try await harness.phone.push([create, update])
        try await harness.mutation(update.id, is: .succeeded)
        let changes = try await harness.phone.pull()
        #expect(changes.count == 1)
        #expect(changes.first?["id"]?.string == "c-7")
        #expect(changes.first?["client_id"]?.uuid == contact)
        #expect(changes.first?["version"]?.int64 == 2)
        #expect(changes.first?["document"]?.text == #"{"id":"c-7","name":"Ola","stars":5}"#)
        #expect(try await Phone(harness.gateway, harness.organization).pull().isEmpty)
        let delete = harness.change("delete", local: contact)
        try await harness.phone.push([delete])
        try await harness.mutation(delete.id, is: .succeeded)
        #expect(try await harness.phone.pull().first?["deleted"]?.bool == true)
    }
}
