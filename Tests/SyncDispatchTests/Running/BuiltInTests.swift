import Foundation
import JSONText
import StoreSupport
import TestSupport
import Testing

@testable import SyncModel
@testable import SyncStore

/// Mutations of the built-in store that follow forwarded mutations take effect in their turn, once.
@Suite struct BuiltInBehindForwardedTests {
    /// A document that two people changed. The second change waits for a forwarded mutation.
    private func conflict(_ strategy: String) async throws -> (
        harness: DispatcherHarness, first: Entry, update: Entry, rest: Entry
    ) {
        let gate = Gate()
        let harness = try await DispatcherHarness(
            upstream: FakeUpstream { request, _ in
                if request.text.contains("wait") { await gate.pass() }
                return nil
            }
        )
        try await harness.makeBuiltIn("note")
        let bob = harness.newPhone()
        let id = try #require(try await bob.push([bob.create("note", payload: #"{"n":1}"#)]).results[0].serverID)
        let first = harness.create(payload: #"{"wait":1}"#)
        let update = harness.phone.entry(
            "update",
            "note",
            server: #""\#(id)""#,
            payload: #"{"mine":true}"#,
            extra: ["base_version": "1", "conflict_resolution": #""\#(strategy)""#]
        )
        let rest = harness.create()
        let answer = try await harness.phone.push([first, update, rest])
        #expect(answer.results.map(\.status) == ["pending", "pending", "pending"])
        await gate.arrivals(1)
        try await bob.push([bob.entry("update", "note", server: #""\#(id)""#, payload: #"{"n":2}"#)])
        gate.open()
        return (harness, first, update, rest)
    }

    /// The id of a created entity follows from the id of its mutation, which a client chooses.
    @Test func `a waiting create whose entity ID is in use when it runs is a conflict`() async throws {
        let gate = Gate()
        let harness = try await DispatcherHarness(
            upstream: FakeUpstream { request, _ in
                if request.text.contains("wait") { await gate.pass() }
                return nil
            }
        )
        try await harness.makeBuiltIn("note")
        let mutation = UUIDv7Generator().make(at: Timestamp(microseconds: 1_795_000_000_000_000))
        let first = harness.create(payload: #"{"wait":1}"#)
        let create = harness.phone.entry("create", "note", local: UUID(), payload: #"{"mine":true}"#, id: mutation)
        let answer = try await harness.phone.push([first, create])
        #expect(answer.results.map(\.status) == ["pending", "pending"])
        await gate.arrivals(1)
        let bob = harness.newPhone()
        let id = UUID(
            createdBy: mutation,
            of: harness.phone.user,
            in: harness.organization.id,
            at: Timestamp(microseconds: 0)
        )
        var taken = bob.create("note", payload: #"{"n":1}"#)
        taken.server = #""\#(id.lowercased)""#
        #expect(try await bob.push([taken]).results[0].serverID == id.lowercased)
        gate.open()
        let found = try await harness.mutation(mutation, is: .conflict)
        #expect(found.code == "conflict" && found.serverID == nil)
        #expect(try await document(harness) == #"{"n":1}"#)
    }

    private func document(_ harness: DispatcherHarness) async throws -> String? {
        try await harness.phone.pull(types: ["note"]).last?["document"]?.text
    }

    @Test func `a manual conflict halts the lane`() async throws {
        let (harness, _, update, rest) = try await conflict("manual")
        let mutation = try await harness.mutation(update.id, is: .conflict)
        #expect(mutation.code == "conflict" && mutation.lastError != nil)
        #expect(try await harness.mutation(rest.id).status == "pending")
        let lane = try await harness.lane()
        #expect(lane.haltedBy == update.id && lane.readyAt == nil && lane.lease.owner == nil)
        #expect(try await document(harness) == #"{"n":2}"#)
    }

    @Test func `server_wins discards the mutation`() async throws {
        let (harness, _, update, rest) = try await conflict("server_wins")
        try await harness.mutation(rest.id, is: .succeeded)
        let mutation = try await harness.mutation(update.id)
        #expect(mutation.status == "discarded" && mutation.resolution == "server_wins")
        #expect(try await document(harness) == #"{"n":2}"#)
    }

    @Test func `client_wins overwrites`() async throws {
        let (harness, _, update, rest) = try await conflict("client_wins")
        try await harness.mutation(rest.id, is: .succeeded)
        let mutation = try await harness.mutation(update.id)
        #expect(mutation.status == "succeeded" && mutation.resolution == "client_wins")
        #expect(mutation["version"]?.int64 == 3 && mutation.attempts == 0)
        #expect(try await document(harness) == #"{"n":2,"mine":true}"#)
    }

    /// The document is deleted between the conflict and its client_wins resolution.
    @Test func `a patch that overrides a deletion must be a whole document`() async throws {
        let (harness, _, update, rest) = try await conflict("manual")
        try await harness.mutation(update.id, is: .conflict)
        let id = try #require(try await harness.phone.pull(types: ["note"]).last?["id"]?.string)
        let bob = harness.newPhone()
        try await bob.push([bob.entry("delete", "note", server: #""\#(id)""#, payload: nil)])
        try await letClientWin(update, nil, harness)
        // the resolution did not account for the deletion, so only the patch would remain
        let again = try await harness.mutation(update.id, is: .conflict)
        #expect(again.resolution == nil && again["error"]?["current"]?["deleted"]?.bool == true)
        #expect(try await harness.lane().haltedBy == update.id)
        try await letClientWin(update, #"{"n":2,"mine":true}"#, harness)
        try await harness.mutation(rest.id, is: .succeeded)
        let mutation = try await harness.mutation(update.id)
        #expect(mutation.status == "succeeded" && mutation.resolution == "client_wins")
        #expect(try await document(harness) == #"{"n":2,"mine":true}"#)
    }

    private func letClientWin(_ entry: Entry, _ payload: String?, _ harness: DispatcherHarness) async throws {
        let body = #"{"strategy":"client_wins"\#(payload.map { #","payload":\#($0)"# } ?? "")}"#
        _ = try await harness.gateway.store.settling.resolve(
            entry.id,
            try ResolveRequest(body: Array(body.utf8), limits: IntakeLimits()),
            organization: harness.organization,
            user: harness.phone.user
        )
    }

    @Test func `a worker lost before it applies a mutation has no effect`() async throws {
        let harness = try await DispatcherHarness(isRunning: false)
        try await harness.makeBuiltIn("note")
        let (first, note) = (harness.create(), UUID())
        let create = harness.phone.entry("create", "note", local: note)
        try await harness.phone.push([first, create])
        let (lost, next) = (UUID(), UUID())
        let forwarded = try #require(await harness.step(.claim, by: lost).dispatch)
        let early = try #require(await harness.settle(forwarded, .status(201, #"{"id":1}"#), by: lost).dispatch)
        #expect(early.mutation.id == create.id && early.request == nil)
        #expect(try await harness.mutation(create.id).status == "in_flight")
        harness.gateway.clock.advance(seconds: 120)
        let late = try #require(await harness.step(.claim, by: next).dispatch)
        #expect(late.mutation.id == create.id && late.mutation.attemptCount == 0)
        #expect(try await harness.step(.apply(early), by: lost).isLost)
        #expect(try await harness.step(.apply(late), by: next).isReleased)
        #expect(try await harness.step(.apply(early), by: lost).isLost)
        let mutation = try await harness.mutation(create.id)
        #expect(mutation.status == "succeeded" && mutation["version"]?.int64 == 1)
        #expect(try await harness.gateway.count("entities", of: harness.organization.id) == 2)
        #expect(try await harness.phone.pull(types: ["note"]).count == 1)
        #expect(try await harness.mapping(note).status == .resolved)
    }
}
