import Foundation
import JSONText
import StoreSupport
import SyncModel
import Testing

@testable import SyncStore

@Suite struct OrderTests {
    @Test func `each of two devices of a user numbers its mutations from one`() async throws {
        let phone = try await Phone.new()
        let tablet = Phone(phone.gateway, phone.organization, user: phone.user)
        let local = UUID()
        #expect(try await phone.push([phone.create(local: local)])["accepted_sequence"]?.int64 == 1)
        let update = tablet.entry("update", local: local, payload: #"{"from":"tablet"}"#)
        let answer = try await tablet.push([update])
        #expect(answer["accepted_sequence"]?.int64 == 1)
        #expect(answer.results[0].status == "succeeded")
        #expect(answer.results[0]["version"]?.int64 == 2)
    }

    @Test func `refuses a number at or below the watermark`() async throws {
        let phone = try await Phone.new()
        try await phone.push([phone.entry("create", local: UUID(), number: 7)])
        for number: Int64 in [7, 6, 1] {
            let answer = try await phone.push([phone.entry("create", local: UUID(), number: number)])
            #expect(answer.results[0].code == "sequence_already_used")
            #expect(answer.results[0].rules == ["sequence_number_must_be_monotonic"])
            #expect(answer["accepted_sequence"]?.int64 == 7)
        }
        // numbers may leave gaps
        let answer = try await phone.push([phone.entry("create", local: UUID(), number: 1_000)])
        #expect(answer.results[0].status == "succeeded")
        #expect(try await phone.pull().count == 2)
    }

    @Test func `a gap is refused with the watermark and nothing is applied`() async throws {
        let phone = try await Phone.new()
        try await phone.push([phone.create()])
        let entry = phone.entry("create", local: UUID(), number: 9)
        let problem = await #expect(throws: Problem.self) { try await phone.push([entry], after: 8) }
        #expect(problem?.code == .sequenceGap)
        #expect(problem?.expected == 1)
        #expect(try await phone.pull().count == 1)
        #expect(try await phone.push([entry], after: 1).results[0].status == "succeeded")
    }

    @Test func `equal numbers run by dependency, then priority, then list order`() async throws {
        let phone = try await Phone.new()
        let (contact, expense) = (UUID(), UUID())
        func entry(_ type: String, _ local: UUID, _ payload: String, _ priority: Int?) -> Entry {
            var entry = phone.entry("create", type, local: local, payload: payload, number: 1)
            entry.extra["priority"] = priority.map(String.init)
            return entry
        }
        let answer = try await phone.push([
            entry("note", UUID(), "{}", nil),
            entry("note", UUID(), "{}", 3),
            // depends on the contact and therefore waits for it, with any priority
            entry("activity", UUID(), #"{"c":"\#(contact.lowercased)"}"#, 1_000),
            entry("expense", expense, "{}", nil),
            entry("contact", contact, "{}", nil),
            entry("note", UUID(), "{}", 3),
        ])
        #expect(answer.results.allSatisfy { $0.status == "succeeded" })
        let order = try await phone.pull().map { $0["entity_type"]?.string }
        #expect(order == ["expense", "contact", "activity", "note", "note", "note"])
    }

    @Test func `refuses a dependency cycle among equal numbers`() async throws {
        let phone = try await Phone.new()
        var (a, b) = (phone.create(), phone.create())
        b.number = a.number
        a.extra["dependency_ids"] = #"["\#(b.id.lowercased)"]"#
        b.extra["dependency_ids"] = #"["\#(a.id.lowercased)"]"#
        let answer = try await phone.push([a, b])
        #expect(answer.results.map(\.status) == ["rejected", "rejected"])
        #expect(answer.results.flatMap(\.rules).allSatisfy { $0 == "dependency_ids_must_exist_in_queue" })
    }

    @Test func `creates, updates and deletes one entity in one batch`() async throws {
        let phone = try await Phone.new()
        let local = UUID()
        let answer = try await phone.push([
            phone.create(local: local, payload: #"{"a":1,"b":{"c":2}}"#),
            phone.entry("update", local: local, payload: #"{"b":{"c":null,"d":3}}"#),
            phone.entry("replace", local: local, payload: #"{"z":0}"#),
            phone.entry("delete", local: local),
            phone.entry("delete", local: local),
        ])
        #expect(answer.results.map(\.status) == Array(repeating: "succeeded", count: 5))
        #expect(answer.results.map { $0["version"]?.int64 } == [1, 2, 3, 4, 4])
        let changes = try await phone.pull()
        #expect(changes.count == 1)
        #expect(changes[0]["deleted"]?.bool == true)
        #expect(changes[0]["document"]?.isNull == true)
        #expect(changes[0]["version"]?.int64 == 4)
        #expect(changes[0]["client_id"]?.uuid == local)
    }
}
