import Foundation
import JSONText
import StoreSupport
import SyncModel
import TestSupport
import Testing

/// An entity has a client id and a server id. A mutation waits for the latest open one of its entity under either name
/// (product rule 3), including mutations that were pushed while only the client id was known.
@Suite struct BothNamesTests {
    /// A contact, and edits of it under its client id. The upstream refuses the first edit, and the others wait for it.
    private struct Fixture {
        let harness: DispatcherHarness
        let contact = UUID()
        let edits: [Entry]

        init(edits count: Int) async throws {
            let upstream = FakeUpstream { request, _ in
                if request.method == "POST" { return .status(201, #"{"id":8}"#) }
                return request.text.contains("wrong") ? .status(422) : nil
            }
            let harness = try await DispatcherHarness(upstream: upstream)
            let contact = contact
            self.harness = harness
            let create = harness.create(local: contact)
            edits = (0..<count).map { number in
                harness.change(
                    "update",
                    local: contact,
                    payload: number == 0 ? #"{"n":"wrong"}"# : #"{"n":\#(number)}"#
                )
            }
            try await harness.phone.push([create] + edits)
            try await harness.mutation(create.id, is: .succeeded)
            try await harness.mutation(edits[0].id, is: .failed)
        }

        func blockers(of entry: Entry) async throws -> [UUID] { try await harness.mutation(entry.id).blockedBy }
    }

    @Test func `an edit under the server ID waits for edits under the client ID`() async throws {
        let fixture = try await Fixture(edits: 3)
        let harness = fixture.harness
        let later = harness.change("update", server: "8", payload: #"{"n":9}"#)
        let answer = try await harness.phone.push([later])
        #expect(answer.results[0].blockedBy == [fixture.edits[2].id])
        try await harness.retry(fixture.edits[0].id, #"{"payload":{"n":"right"}}"#)
        try await harness.mutation(later.id, is: .succeeded)
        let sent = harness.upstream.requests.map(\.text).suffix(4)
        #expect(Array(sent) == [#"{"n":"right"}"#, #"{"n":1}"#, #"{"n":2}"#, #"{"n":9}"#])
    }

    /// A string with an integer's digits is the same id. So the edits are of one entity, and wait for each other.
    @Test func `an integer's digits name the same entity`() async throws {
        let fixture = try await Fixture(edits: 1)
        let harness = fixture.harness
        let later = ["8", #""8""#].map { harness.change("update", server: $0) }
        for entry in later { try await harness.phone.push([entry]) }
        #expect(try await fixture.blockers(of: later[0]) == [fixture.edits[0].id])
        #expect(try await fixture.blockers(of: later[1]) == [later[0].id])
        try await harness.discard(later[0].id, .keep)
        #expect(try await fixture.blockers(of: later[1]) == [fixture.edits[0].id])
    }

    /// If the latest mutation is discarded, its predecessor is the latest.
    @Test func `a mutation waits for the latest one that remains`() async throws {
        let fixture = try await Fixture(edits: 3)
        let harness = fixture.harness
        try await harness.discard(fixture.edits[2].id, nil)
        let second = harness.change("update", server: "8", payload: #"{"n":8}"#)
        try await harness.phone.push([second])
        #expect(try await fixture.blockers(of: second) == [fixture.edits[1].id])
        try await harness.discard(fixture.edits[1].id, .keep)
        #expect(try await fixture.blockers(of: second) == [fixture.edits[0].id])
        try await harness.discard(second.id, nil)
        let third = harness.change("update", server: "8", payload: #"{"n":7}"#)
        try await harness.phone.push([third])
        #expect(try await fixture.blockers(of: third) == [fixture.edits[0].id])
    }

    /// Another user's mutations, and those of another type, do not match.
    @Test func `no other mutation matches the name`() async throws {
        let fixture = try await Fixture(edits: 2)
        let harness = fixture.harness
        let other = harness.newPhone()
        let theirs = other.entry("update", "contact", server: "8", extra: ["endpoint": #""/contacts/8""#])
        try await other.push([theirs])
        try await harness.mutation(theirs.id, of: other, is: .succeeded)
        let activity = harness.change("update", "activity", server: "8")
        try await harness.phone.push([activity])
        try await harness.mutation(activity.id, is: .succeeded)
    }

    /// A discarded create, its client id, and an edit that failed because the id was missing.
    private static func givenUp() async throws -> (DispatcherHarness, FakeUpstream, UUID, Entry) {
        let upstream = FakeUpstream { request, _ in
            request.method == "POST" ? .status(request.text.contains("wrong") ? 422 : 201, #"{"id":8}"#) : nil
        }
        let harness = try await DispatcherHarness(upstream: upstream)
        let contact = UUID()
        let given = harness.create(local: contact, payload: #"{"n":"wrong"}"#)
        let edit = harness.change("update", local: contact, payload: #"{"n":1}"#)
        try await harness.phone.push([given, edit])
        try await harness.mutation(given.id, is: .failed)
        try await harness.discard(given.id, .keep)
        try await harness.mutation(edit.id, is: .failed)
        return (harness, upstream, contact, edit)
    }

    /// An edit that failed because its id was missing may wait for the new create, but the create never for the edit.
    @Test func `a create that reuses a client ID waits for nothing`() async throws {
        let (harness, upstream, contact, edit) = try await Self.givenUp()
        let other = harness.create(local: contact, payload: #"{"n":2}"#)
        let answer = try await harness.phone.push([edit, other])
        #expect(answer.results.map(\.isReplayed) == [true, false])
        #expect(answer.results[1].blockedBy.isEmpty)
        try await harness.mutation(other.id, is: .succeeded)
        try await harness.retry(edit.id, "{}")
        try await harness.mutation(edit.id, is: .succeeded)
        #expect(upstream.requests.last?.path == "/contacts/8")
    }

    /// A mutation after the new create also waits for the earlier failed ones. It is pushed together with the create,
    /// after it, or after the create has taken effect.
    @Test(arguments: ["together", "apart", "late"])
    func `mutations after a create that reuses a client ID follow all earlier ones`(_ way: String) async throws {
        let (harness, upstream, contact, lost) = try await Self.givenUp()
        let other = harness.create(local: contact, payload: #"{"n":2}"#)
        let edit = harness.change("update", local: contact, payload: #"{"n":3}"#)
        if way == "together" {
            try await harness.phone.push([other, edit])
        } else {
            try await harness.phone.push([other])
            if way == "late" { try await harness.mutation(other.id, is: .succeeded) }
            try await harness.phone.push([edit])
        }
        try await harness.mutation(other.id, is: .succeeded)
        try await harness.mutation(edit.id, is: .blocked)
        try await harness.retry(lost.id, "{}")
        try await harness.mutation(edit.id, is: .succeeded)
        #expect(upstream.requests.map(\.text).suffix(2) == [#"{"n":1}"#, #"{"n":3}"#])
    }
}
