import Foundation
import JSONText
import Postgres
import StoreSupport
import TestSupport
import Testing

@testable import SyncModel
@testable import SyncStore

@Suite struct PushTests {
    @Test func `a push with only unrecorded refusals stores no device`() async throws {
        let phone = try await Phone.new()
        let known = phone.create()
        try await phone.push([known])
        let stranger = Phone(phone.gateway, phone.organization, user: phone.user)
        // a key of another entry is refused, and the refusal is not stored
        var reused = stranger.create(payload: #"{"other":true}"#)
        reused.key = known.key
        let answer = try await stranger.push([reused])
        #expect(answer.results[0].status == "rejected" && answer["accepted_sequence"]?.int64 == 0)
        #expect(try await phone.gateway.count("devices", of: phone.organization.id) == 1)
        // the number of the refused entry is not used up
        var entry = stranger.create()
        entry.number = reused.number
        #expect(try await stranger.push([entry]).results[0].status == "succeeded")
        #expect(try await phone.gateway.count("devices", of: phone.organization.id) == 2)
    }

    @Test func `a batch is applied in order with server IDs`() async throws {
        let gateway = try await Gateway()
        let phone = Phone(gateway, try await gateway.organization())
        let (contact, activity) = (UUID(), UUID())
        let first = phone.create("contact", local: contact, payload: #"{"name":"Ada"}"#)
        let second = phone.create(
            "activity",
            local: activity,
            payload: #"{"title":"Visit","contact_id":"\#(contact.uuidString)"}"#
        )
        let third = phone.create("expense", payload: #"{"amount":12.50,"ids":["\#(activity.lowercased)"]}"#)
        // listed in reverse: the numbers determine the order
        let answer = try await phone.push([third, second, first])
        #expect(answer.results.map(\.status) == ["succeeded", "succeeded", "succeeded"])
        #expect(answer["accepted_sequence"]?.int64 == 3)
        let ids = answer.results.compactMap(\.serverID)
        #expect(Set(ids).count == 3)
        let changes = try await phone.pull()
        #expect(changes.map { $0["entity_type"]?.string } == ["contact", "activity", "expense"])
        #expect(changes[0]["document"]?.text == #"{"name":"Ada"}"#)
        #expect(changes[1]["document"]?.text == #"{"title":"Visit","contact_id":"\#(ids[2])"}"#)
        #expect(changes[2]["document"]?.text == #"{"amount":12.50,"ids":["\#(ids[1])"]}"#)
        #expect(answer["id_mappings"]?.elements?.count == 3)

        let again = try await phone.push([third, second, first])
        #expect(again.results.map(\.isReplayed) == [true, true, true])
        #expect(again.results.compactMap(\.serverID) == ids)
        #expect(again["id_mappings"]?.elements?.count == 3)
        #expect(try await phone.pull().count == 3)
    }

    @Test func `a create that a restored gateway lost gets the ID that it requests`() async throws {
        let phone = try await Phone.new()
        let former = UUID()
        var create = phone.create("contact", payload: #"{"name":"Ada"}"#)
        create.server = #""\#(former.uuidString)""#
        let visit = phone.create("visit", payload: #"{"contact_id":"\#(try #require(create.local).lowercased)"}"#)
        let answer = try await phone.push([create, visit])
        #expect(answer.results.map(\.status) == ["succeeded", "succeeded"])
        #expect(answer.results[0].serverID == former.lowercased)
        #expect(try await phone.pull()[1]["document"]?.text == #"{"contact_id":"\#(former.lowercased)"}"#)
        // a repeat is recognized without this id
        create.server = nil
        #expect(try await phone.push([create]).results[0].isReplayed == true)
        // an id in use is a conflict, and an id that no gateway assigned is refused
        var other = phone.create("contact", payload: #"{"name":"Eve"}"#)
        other.server = #""\#(former.lowercased)""#
        var wrong = phone.create("task", payload: #"{"name":"Eve"}"#)
        wrong.server = "4711"
        #expect(try await phone.push([other, wrong]).results.map(\.status) == ["conflict", "rejected"])
    }

    /// The id of a created entity follows from the id of its mutation, which a client chooses.
    @Test func `a create whose entity ID is in use is a conflict`() async throws {
        let phone = try await Phone.new()
        let (mine, theirs) = (#"{"title":"mine"}"#, #"{"title":"theirs"}"#)
        let mutation = UUIDv7Generator().make(at: Timestamp(microseconds: 1_795_000_000_000_000))
        func id(of user: UUID) -> String {
            UUID(createdBy: mutation, of: user, in: phone.organization.id, at: Timestamp(microseconds: 0)).lowercased
        }
        func conflict(on phone: Phone) async throws {
            let create = phone.entry("create", local: UUID(), payload: mine, id: mutation)
            let result = try await phone.push([create]).results[0]
            #expect(result.status == "conflict" && result.serverID == nil)
        }
        // another user's entity
        let other = Phone(phone.gateway, phone.organization)
        var taken = other.create(payload: theirs)
        taken.server = #""\#(id(of: phone.user))""#
        #expect(try await other.push([taken]).results[0].serverID == id(of: phone.user))
        try await conflict(on: phone)
        // another device pushes the mutation after the gateway has deleted its record
        let create = other.entry("create", local: UUID(), payload: theirs, id: mutation)
        #expect(try await other.push([create]).results[0].serverID == id(of: other.user))
        let connection = try await phone.gateway.database.connect()
        try await connection.execute(
            script: "DELETE FROM mutations WHERE id = '\(mutation.lowercased)' AND user_id = '\(other.user.lowercased)'"
        )
        try await conflict(on: Phone(phone.gateway, phone.organization, user: other.user))
        #expect(try await phone.pull().map { $0["document"]?.text } == [theirs, theirs])
    }

    @Test func `each type that uses a client ID has a separate mapping, which is listed once`() async throws {
        let gateway = try await Gateway()
        let phone = Phone(gateway, try await gateway.organization())
        let shared = UUID()
        let contact = phone.create("contact", local: shared, payload: #"{"me":"\#(shared.lowercased)"}"#)
        let task = phone.create("task", local: shared, payload: #"{"title":"Call"}"#)
        let expense = phone.create("expense", payload: #"{"other":"\#(UUID().lowercased)"}"#)
        let answer = try await phone.push([contact, task, expense, contact])
        let ids = answer.results.compactMap(\.serverID)
        #expect(ids.count == 4)
        let mappings = try #require(answer["id_mappings"]?.elements).map { $0["entity_type"]?.string }
        #expect(mappings == ["contact", "task", "expense"])
        let changes = try await phone.pull()
        #expect(changes[0]["document"]?.text == #"{"me":"\#(ids[0])"}"#, "the id of the entity itself is replaced")
        #expect(changes[2]["document"]?.text == expense.payload, "a UUID without an entity stays")
    }
}
