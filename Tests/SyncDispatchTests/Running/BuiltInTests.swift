import Foundation
import JSONText
import StoreSupport
import SyncModel
import TestSupport
import Testing

@testable import SyncStore

/// Mutations of the built-in store that wait behind forwarded ones take effect in their turn, once.
@Suite struct BuiltInBehindForwardedTests {
    /// A document that two people changed. The second change waits behind a forwarded mutation.
    private func conflict(_ strategy: String) async throws -> (
        stage: DispatcherHarness, first: Entry, update: Entry, rest: Entry
    ) {
        let gate = Gate()
        let stage = try await DispatcherHarness(
            upstream: FakeUpstream { request, _ in
                if request.text.contains("wait") { await gate.pass() }
                return nil
            }
        )
        try await stage.makeBuiltIn("note")
        let bob = stage.newPhone()
        let id = try #require(try await bob.push([bob.create("note", payload: #"{"n":1}"#)]).results[0].serverID)
        let first = stage.create(payload: #"{"wait":1}"#)
        let update = stage.phone.entry(
            "update",
            "note",
            server: #""\#(id)""#,
            payload: #"{"mine":true}"#,
            extra: ["base_version": "1", "conflict_resolution": #""\#(strategy)""#]
        )
        let rest = stage.create()
        let answer = try await stage.phone.push([first, update, rest])
        #expect(answer.results.map(\.status) == ["pending", "pending", "pending"])
        await gate.arrivals(1)
        try await bob.push([bob.entry("update", "note", server: #""\#(id)""#, payload: #"{"n":2}"#)])
        gate.open()
        return (stage, first, update, rest)
    }

    private func document(_ stage: DispatcherHarness) async throws -> String? {
        try await stage.phone.pull(types: ["note"]).last?["document"]?.text
    }

    @Test func `a manual conflict halts the lane`() async throws {
        let (stage, _, update, rest) = try await conflict("manual")
        let mutation = try await stage.mutation(update.id, is: .conflict)
        #expect(mutation.code == "conflict" && mutation.lastError != nil)
        #expect(try await stage.mutation(rest.id).status == "pending")
        let lane = try await stage.lane()
        #expect(lane.haltedBy == update.id && lane.readyAt == nil && lane.leaseOwner == nil)
        #expect(try await document(stage) == #"{"n":2}"#)
    }

    @Test func `server_wins discards the mutation`() async throws {
        let (stage, _, update, rest) = try await conflict("server_wins")
        try await stage.mutation(rest.id, is: .succeeded)
        let mutation = try await stage.mutation(update.id)
        #expect(mutation.status == "discarded" && mutation.resolution == "server_wins")
        #expect(try await document(stage) == #"{"n":2}"#)
    }

    @Test func `client_wins overwrites`() async throws {
        let (stage, _, update, rest) = try await conflict("client_wins")
        try await stage.mutation(rest.id, is: .succeeded)
        let mutation = try await stage.mutation(update.id)
        #expect(mutation.status == "succeeded" && mutation.resolution == "client_wins")
        #expect(mutation["version"]?.int64 == 3 && mutation.attempts == 0)
        #expect(try await document(stage) == #"{"n":2,"mine":true}"#)
    }

    /// A client_wins resolution, and a deletion in between.
    @Test func `a patch that overrides a deletion must be a whole document`() async throws {
        let (stage, _, update, rest) = try await conflict("manual")
        try await stage.mutation(update.id, is: .conflict)
        let id = try #require(try await stage.phone.pull(types: ["note"]).last?["id"]?.string)
        let bob = stage.newPhone()
        try await bob.push([bob.entry("delete", "note", server: #""\#(id)""#, payload: nil)])
        try await letClientWin(update, nil, stage)
        // the resolution did not account for the deletion: only the patch would remain
        let again = try await stage.mutation(update.id, is: .conflict)
        #expect(again.resolution == nil && again["error"]?["current"]?["deleted"]?.bool == true)
        #expect(try await stage.lane().haltedBy == update.id)
        try await letClientWin(update, #"{"n":2,"mine":true}"#, stage)
        try await stage.mutation(rest.id, is: .succeeded)
        let mutation = try await stage.mutation(update.id)
        #expect(mutation.status == "succeeded" && mutation.resolution == "client_wins")
        #expect(try await document(stage) == #"{"n":2,"mine":true}"#)
    }

    private func letClientWin(_ entry: Entry, _ payload: String?, _ stage: DispatcherHarness) async throws {
        let body = #"{"strategy":"client_wins"\#(payload.map { #","payload":\#($0)"# } ?? "")}"#
        _ = try await stage.gateway.store.settling.resolve(
            entry.id,
            try ResolveRequest(body: Array(body.utf8), limits: IntakeLimits()),
            organization: stage.organization,
            user: stage.phone.user
        )
    }

    @Test func `a worker lost before it applies a mutation has no effect`() async throws {
        let stage = try await DispatcherHarness(isRunning: false)
        try await stage.makeBuiltIn("note")
        let (first, note) = (stage.create(), UUID())
        let create = stage.phone.entry("create", "note", local: note)
        try await stage.phone.push([first, create])
        let (lost, next) = (UUID(), UUID())
        let forwarded = try #require(await stage.step(.claim, by: lost).dispatch)
        let early = try #require(await stage.settle(forwarded, .status(201, #"{"id":1}"#), by: lost).dispatch)
        #expect(early.mutation.id == create.id && early.request == nil)
        #expect(try await stage.mutation(create.id).status == "in_flight")
        stage.gateway.clock.advance(seconds: 120)
        let late = try #require(await stage.step(.claim, by: next).dispatch)
        #expect(late.mutation.id == create.id && late.mutation.attemptCount == 0)
        #expect(try await stage.step(.apply(early), by: lost).isLost)
        #expect(try await stage.step(.apply(late), by: next).isReleased)
        #expect(try await stage.step(.apply(early), by: lost).isLost)
        let mutation = try await stage.mutation(create.id)
        #expect(mutation.status == "succeeded" && mutation["version"]?.int64 == 1)
        #expect(try await stage.gateway.count("entities", of: stage.organization.id) == 2)
        #expect(try await stage.phone.pull(types: ["note"]).count == 1)
        #expect(try await stage.mapping(note).status == .resolved)
    }
}
