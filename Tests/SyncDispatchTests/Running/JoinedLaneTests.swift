import Foundation
import JSONText
import StoreSupport
import SyncModel
import Synchronization
import TestSupport
import Testing

@testable import SyncDispatch
@testable import SyncStore
@testable import UsersFeature

/// The requests that an upstream receives from two users during their join.
@Suite struct JoinedLaneTests {
    /// The upstream is down at first, so requests are sent before and after the join.
    @Test func `the upstream receives each key once and everything in order`() async throws {
        let isDown = Atomic(true)
        let upstream = FakeUpstream { request, _ in
            isDown.load(ordering: .sequentiallyConsistent) ? .status(503) : nil
        }
        let harness = try await DispatcherHarness(upstream: upstream)
        let other = Phone(harness.gateway, harness.organization)
        let contact = UUID()
        func entry(_ phone: Phone, _ title: String) -> Entry {
            phone.entry(
                "create",
                "contact",
                local: UUID(),
                payload: #"{"title":"\#(title)"}"#,
                extra: ["endpoint": #""/contact""#]
            )
        }
        var first = entry(harness.phone, "a1")
        first.local = contact
        let update = harness.change("update", local: contact, payload: #"{"title":"a2"}"#)
        let own = [first, update, entry(harness.phone, "a3")]
        let others = [entry(other, "b1"), entry(other, "b2")]
        try await harness.phone.push(own)
        try await other.push(others)
        // both heads were sent, with unknown outcomes
        try await harness.mutation(first.id) { $0["attempt_count"]?.int64 == 1 && $0.status == "pending" }
        try await harness.mutation(others[0].id, of: other) {
            $0["attempt_count"]?.int64 == 1 && $0.status == "pending"
        }
        let keys = upstream.requests.map { ($0.text, $0.idempotencyKey) }
        _ = try await harness.restingLane()
        _ = try await harness.restingLane(of: other)

        try await Self.join(harness, other)
        isDown.store(false, ordering: .sequentiallyConsistent)
        harness.gateway.clock.advance(seconds: 2_000)
        for entry in others + own { try await harness.mutation(entry.id, of: other, is: .succeeded) }
        let effects = upstream.effects
        #expect(
            effects.map(\.text).compactMap { try? JSONTree(parsing: Array($0.utf8)).root["title"]?.string }
                == ["b1", "b2", "a1", "a2", "a3"]
        )
        #expect(Set(effects.map(\.idempotencyKey)).count == 5)
        for (text, key) in keys {
            #expect(effects.first { $0.text == text }?.idempotencyKey == key, "the same key as before: \(text)")
        }
        #expect(effects[3].line == "PATCH /contacts/3", "the id that its create received")
        #expect(effects.allSatisfy { $0.user == other.user })
    }

    /// A request is in flight when the join is requested. The rows move once the request has its outcome.
    @Test func `a join waits for requests in flight`() async throws {
        let gate = Gate()
        let upstream = FakeUpstream { request, _ in
            if request.text.contains("slow") { await gate.pass() }
            return nil
        }
        let harness = try await DispatcherHarness(upstream: upstream)
        let other = Phone(harness.gateway, harness.organization)
        let slow = harness.create(payload: #"{"title":"slow"}"#)
        let next = harness.create(payload: #"{"title":"next"}"#)
        try await other.push([harness.create()])
        try await harness.phone.push([slow, next])
        try await waitUntil("the request is sent") { upstream.requests.contains { $0.text.contains("slow") } }
        let joining = harness.gateway.store.joining
        for _ in 0..<2 {
            let join = try await joining.join(harness.phone.user, into: other.user, in: harness.organization.id)
            #expect(join?.state == .closing)
            harness.gateway.clock.advance(seconds: 9)
        }
        gate.open()
        _ = try await harness.restingLane()
        #expect(!upstream.requests.contains { $0.text.contains("next") }, "the lane is released before that")
        try await Self.join(harness, other)
        harness.gateway.clock.advance(seconds: 9)
        try await harness.mutation(next.id, of: other, is: .succeeded)
        #expect(upstream.requests.count { $0.text.contains("slow") } == 1)
    }

    private static func join(_ harness: DispatcherHarness, _ other: Phone) async throws {
        let (joining, user, organization) = (harness.gateway.store.joining, harness.phone.user, harness.organization.id)
        _ = try await joining.join(user, into: other.user, in: organization)
        harness.gateway.clock.advance(seconds: 9)
        // a due lane is claimed, and released
        try await waitUntil("the users are merged") {
            try await joining.join(user, into: other.user, in: organization)?.state == .done
        }
    }
}
