import Foundation
import JSONText
import StoreSupport
import SyncModel
import Testing

@testable import SyncStore

@Suite struct DependencyTests {
    private func entry(_ phone: Phone, needs ids: [UUID]) -> Entry {
        var entry = phone.create()
        entry.extra["dependency_ids"] = "[" + ids.map { #""\#($0.lowercased)""# }.joined(separator: ",") + "]"
        return entry
    }

    @Test func `an entry names its dependencies by ID and by client ID`() async throws {
        let phone = try await Phone.new()
        let earlier = phone.create()
        try await phone.push([earlier])
        let first = phone.create()
        let locals = [earlier.local, first.local].compactMap { $0 }
        let answer = try await phone.push([first, entry(phone, needs: [earlier.id, first.id] + locals)])
        #expect(answer.results.map(\.status) == ["succeeded", "succeeded"])
    }

    @Test func `refuses dependencies on unknown entries, on later entries and on the entry itself`() async throws {
        let phone = try await Phone.new()
        var itself = phone.create()
        itself.extra["dependency_ids"] = #"["\#(itself.id.lowercased)"]"#
        let own = UUID()
        var byClientID = phone.create("contact", local: own)
        byClientID.extra["dependency_ids"] = #"["\#(own.lowercased)"]"#
        let unknown = entry(phone, needs: [UUID()])
        var later = phone.create()
        let last = phone.create()
        later.extra["dependency_ids"] = #"["\#(last.id.lowercased)"]"#
        let answer = try await phone.push([itself, unknown, later, byClientID, last])
        #expect(answer.results.map(\.status) == ["rejected", "rejected", "rejected", "rejected", "succeeded"])
        #expect(answer.results.prefix(4).allSatisfy { $0.code == "validation_failed" })
        #expect(answer.results.prefix(4).allSatisfy { $0.rules == ["dependency_ids_must_exist_in_queue"] })
        let pointer = answer.results[2]["error"]?.value(at: "/errors/0/pointer")?.string
        #expect(pointer == "/mutations/2/dependency_ids/0")
    }

    /// A second copy of an entry in a push does not count as something that the first can depend on, so each copy gets
    /// the error of the entry alone.
    @Test func `each copy of an entry that depends on itself gets the same error`() async throws {
        let phone = try await Phone.new()
        var edit = phone.entry("update", local: UUID(), payload: "{}")
        edit.extra["dependency_ids"] = #"["\#(edit.id.lowercased)"]"#
        let twice = try await phone.push([edit, edit])
        #expect(twice.results.map(\.rules) == [["entity_reference_must_exist"], ["entity_reference_must_exist"]])
        var other = phone.entry("update", local: UUID(), payload: "{}")
        other.extra["dependency_ids"] = #"["\#(other.id.lowercased)"]"#
        #expect(try await phone.push([other]).results.map(\.rules) == [["entity_reference_must_exist"]])
    }

    @Test func `refuses a client ID that is created later in the push`() async throws {
        let phone = try await Phone.new()
        let local = UUID()
        let early = phone.create(payload: #"{"ref":"\#(local.lowercased)"}"#)
        let answer = try await phone.push([early, phone.create("contact", local: local)])
        #expect(answer.results.map(\.status) == ["rejected", "succeeded"])
        // a UUID that no create uses is data
        let data = UUID().uuidString
        let other = try await phone.push([phone.create(payload: #"{"ref":"\#(data)"}"#)])
        #expect(other.results[0].status == "succeeded")
        #expect(try await phone.pull().last?["document"]?.text == #"{"ref":"\#(data)"}"#)
    }

    @Test func `rejects the dependents of a rejected mutation`() async throws {
        let phone = try await Phone.new()
        let (contact, activity) = (UUID(), UUID())
        var broken = phone.create("contact", local: contact)
        broken.extra["max_attempts"] = "0"
        let answer = try await phone.push([
            broken,
            phone.create("activity", local: activity, payload: #"{"c":"\#(contact.lowercased)"}"#),
            phone.create("expense", payload: #"{"a":["\#(activity.lowercased)"]}"#),
            entry(phone, needs: [broken.id]),
            phone.entry("update", "contact", local: contact),
            phone.create(),
        ])
        #expect(answer.results.map(\.status) == Array(repeating: "rejected", count: 5) + ["succeeded"])
        #expect(answer.results[0].code == "validation_failed")
        #expect(answer.results[1...4].allSatisfy { $0.code == "dependency_rejected" })
        #expect(answer["accepted_sequence"]?.int64 == 6)
    }

    @Test func `a failed mutation blocks its dependents`() async throws {
        let phone = try await Phone.new()
        let failing = phone.entry("update", server: #""nobody""#)
        let dependant = entry(phone, needs: [failing.id])
        let answer = try await phone.push([failing, dependant, phone.create()])
        #expect(answer.results.map(\.status) == ["failed", "blocked", "succeeded"])
        #expect(answer.results[0].code == "upstream_rejected")
        #expect(answer.results[0]["response"]?["status"]?.int64 == 404)
        #expect(answer.results[1].blockedBy == [failing.id])
        // `failing` is settled, and `dependant`, which it blocks, counts as settled too; mutations that depend on
        // either are blocked
        let next = try await phone.push([entry(phone, needs: [failing.id]), entry(phone, needs: [dependant.id])])
        #expect(next.results.map(\.status) == ["blocked", "blocked"])
        #expect(try await phone.push([dependant]).results[0].blockedBy == [failing.id])
    }

    @Test func `a client ID under two types names two entities, and a reference to it is ambiguous`() async throws {
        let phone = try await Phone.new()
        let local = UUID()
        let answer = try await phone.push([
            phone.create("contact", local: local), phone.create("activity", local: local),
            phone.entry("update", "activity", local: local, payload: #"{"id":"\#(local.lowercased)"}"#),
            phone.create("expense", payload: #"{"of":"\#(local.lowercased)"}"#),
            phone.create("contact", local: local),
        ])
        #expect(answer.results.map(\.status) == ["succeeded", "succeeded", "succeeded", "rejected", "rejected"])
        #expect(answer.results[0].serverID != answer.results[1].serverID)
        #expect(answer.results[1].serverID == answer.results[2].serverID)
        #expect(answer.results[3].code == "reference_ambiguous")
        #expect(answer.results[4].rules == ["unique_client_id_per_entity_type"])
        let later = try await phone.push([phone.create("expense", payload: #"{"of":"\#(local.lowercased)"}"#)])
        #expect(later.results[0].code == "reference_ambiguous")
    }

    @Test func `a client ID belongs to one user`() async throws {
        let gateway = try await Gateway()
        let organization = try await gateway.organization()
        let (alice, bob) = (Phone(gateway, organization), Phone(gateway, organization))
        let eve = Phone(gateway, try await gateway.organization())
        let local = UUID()
        let first = try await alice.push([alice.create(local: local)])
        for phone in [bob, eve] {
            let update = try await phone.push([phone.entry("update", local: local)])
            #expect(update.results[0].status == "rejected")
            let note = try await phone.push([phone.create("note", payload: #"{"ref":"\#(local.lowercased)"}"#)])
            #expect(note.results[0].status == "succeeded")
            #expect(!note.text.contains(try #require(first.results[0].serverID)))
            let create = try await phone.push([phone.create(local: local)])
            #expect(create.results[0].serverID != first.results[0].serverID)
        }
    }

    @Test func `refuses a second create of a client ID, also from another push`() async throws {
        let phone = try await Phone.new()
        let local = UUID()
        try await phone.push([phone.create(local: local)])
        let again = try await phone.push([phone.create(local: local)])
        #expect(again.results[0].rules == ["unique_client_id_per_entity_type"])
        #expect(try await phone.pull().count == 1)
    }
}
