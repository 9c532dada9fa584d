import Foundation
import JSONText
import StoreSupport
import SyncModel
import TestSupport
import Testing

@testable import SyncStore

/// A failure stops only its dependents, unless the organization's setting halts the lane.
@Suite struct FailureTests {
    private static func refusing() -> FakeUpstream {
        FakeUpstream { request, _ in request.text.contains(#""bad""#) ? .status(422, #"{"error":"no"}"#) : nil }
    }

    @Test func `a refused mutation blocks only its dependents`() async throws {
        let harness = try await DispatcherHarness(upstream: Self.refusing())
        let contact = UUID()
        let bad = harness.create(local: contact, payload: #"{"bad":1}"#)
        let dependant = harness.create("activity", payload: #"{"contact_id":"\#(contact.lowercased)"}"#)
        let rest = harness.create()
        try await harness.phone.push([bad, dependant, rest])
        try await harness.mutation(rest.id, is: .succeeded)
        let failed = try await harness.mutation(bad.id)
        #expect(failed.status == "failed" && failed.code == "upstream_rejected" && failed.attempts == 1)
        #expect(failed["response"]?["status"]?.int64 == 422)
        #expect(failed["response"]?["body"]?.text == #"{"error":"no"}"#)
        #expect(failed.lastError == #"the upstream answered 422: {"error":"no"}"#)
        let blocked = try await harness.mutation(dependant.id)
        #expect(blocked.status == "blocked" && blocked.blockedBy == [bad.id])
        #expect(try await harness.mapping(contact).status == .failed)
        let lane = try await harness.lane()
        #expect(lane.queue.count == 0 && lane.openCount == 2 && lane.haltedBy == nil && lane.readyAt == nil)
        #expect(harness.upstream.requests.count == 2)
    }

    @Test func `a failure halts the lane if the organization is configured so`() async throws {
        let harness = try await DispatcherHarness(settings: #"{"on_failure":"halt"}"#, upstream: Self.refusing())
        let (bad, rest) = (harness.create(payload: #"{"bad":1}"#), harness.create())
        try await harness.phone.push([bad, rest])
        try await harness.mutation(bad.id, is: .failed)
        let lane = try await harness.lane()
        #expect(lane.haltedBy == bad.id && lane.readyAt == nil && lane.queue.count == 1)
        let late = harness.create()
        try await harness.phone.push([late])
        #expect(try await harness.lane().readyAt == nil)
        #expect(
            try await harness.gateway.store.lanes.due(at: harness.gateway.clock.now, excluding: [], limit: 9).isEmpty
        )
        #expect(harness.upstream.requests.count == 1)
    }

    @Test func `a mutation without an endpoint fails with its mapping once its type is forwarded`() async throws {
        let gate = Gate()
        let harness = try await DispatcherHarness(
            upstream: FakeUpstream { request, _ in
                if request.text.contains("wait") { await gate.pass() }
                return nil
            }
        )
        try await harness.makeBuiltIn("note")
        let (note, first) = (UUID(), harness.create(payload: #"{"wait":1}"#))
        let create = harness.phone.entry("create", "note", local: note)
        let rest = harness.create()
        try await harness.phone.push([first, create, rest])
        await gate.arrivals(1)
        try await harness.execute(
            "UPDATE entity_types SET is_forwarded = true WHERE organization_id = '\(harness.organization.id)'"
        )
        harness.gateway.store.catalog.invalidate(harness.organization.id)
        gate.open()
        try await harness.mutation(rest.id, is: .succeeded)
        let failed = try await harness.mutation(create.id)
        #expect(failed.status == "failed" && failed.code == "validation_failed")
        #expect(failed.lastError?.contains("no endpoint") == true)
        #expect(try await harness.mapping(note).status == .failed)
    }

    /// A type that another replica has just registered is not treated as unknown.
    @Test func `reads a type that another replica registered before it runs`() async throws {
        let harness = try await DispatcherHarness(isRunning: false)
        let other = try await Gateway(replicaOf: harness.gateway)
        _ = try await other.store.catalog.organization(harness.organization.id)
        try await harness.makeBuiltIn("note")
        let (first, note) = (harness.create(), harness.phone.create("note"))
        try await harness.phone.push([first, note])
        other.clock.advance(seconds: 1)
        let worker = UUID()
        let dispatch = try #require(await harness.step(.claim, by: worker, through: other).dispatch)
        // the cache entry of `other` is older than the type, and valid for five seconds
        other.clock.advance(seconds: 1)
        let outcome = harness.outcome(.status(201, #"{"id":1}"#), to: dispatch)
        let next = try #require(await harness.step(.settle(dispatch, outcome), by: worker, through: other).dispatch)
        #expect(next.mutation.id == note.id && next.request == nil)
    }
}
