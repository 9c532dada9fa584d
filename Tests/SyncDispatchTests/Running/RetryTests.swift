import Foundation
import JSONText
import StoreSupport
import SyncModel
import TestSupport
import Testing

@testable import SyncStore

/// Failed attempts are retried at the time that the rules specify, and not before.
@Suite struct RetryTests {
    @Test func `a failed attempt is retried after its back-off`() async throws {
        let harness = try await DispatcherHarness(
            upstream: FakeUpstream { _, seen in seen == 0 ? .status(503, #"{"oops":1}"#) : nil }
        )
        let (create, other) = (harness.create(), harness.create())
        try await harness.phone.push([create, other])
        let held = try await harness.mutation(create.id, becomes: "held") { $0.nextRetryAt != nil }
        #expect(held.status == "pending" && held.attempts == 1)
        #expect(held.lastError == #"the upstream answered 503: {"oops":1}"#)
        #expect(held["last_error_code"]?.int64 == 503)
        let due = try #require(held.nextRetryAt)
        let pause = Double(due.microseconds - harness.gateway.clock.now.microseconds) / 1_000_000
        #expect(pause > 3.998 && pause <= 4.8)
        // the mutation holds the lane: the next mutation has not run, and no poll finds work
        let lane = try await harness.lane()
        #expect(lane.lease.owner == nil && lane.inFlight == nil && lane.queue.count == 2)
        let readyAt = try #require(lane.readyAt)
        #expect(abs(readyAt.microseconds - due.microseconds) < 1_000)
        harness.gateway.clock.advance(seconds: 3.99)
        let early = try await harness.gateway.store.lanes.due(at: harness.gateway.clock.now, excluding: [], limit: 10)
        #expect(early.isEmpty)
        #expect(harness.upstream.requests.count == 1)
        harness.gateway.clock.advance(seconds: 1)
        try await harness.mutation(create.id, is: .succeeded)
        try await harness.mutation(other.id, becomes: "held") { $0.nextRetryAt != nil }
        harness.gateway.clock.advance(seconds: 5)
        try await harness.mutation(other.id, is: .succeeded)
        #expect(harness.upstream.effects.count == 2)
        let keys = harness.upstream.requests.map(\.idempotencyKey)
        #expect(keys[0] == keys[1] && Set(keys).count == 2)
        let mutation = try await harness.mutation(create.id)
        #expect(mutation.attempts == 2 && mutation.nextRetryAt == nil)
        #expect(mutation.lastError == nil && mutation["last_error_code"]?.int64 == nil)
    }

    @Test func `pauses grow up to their cap, and a mapping is failed after ten attempts until a success`()
        async throws
    {
        let isUp = Shared(false)
        let harness = try await DispatcherHarness(
            upstream: FakeUpstream { _, _ in isUp.value ? nil : .notSent("connection refused") }
        )
        let contact = UUID()
        let create = harness.create(local: contact, extra: ["max_attempts": "100"])
        try await harness.phone.push([create])
        for attempt in 1...13 {
            let held = try await harness.mutation(create.id, becomes: "tried \(attempt) times") {
                $0.attempts == Int64(attempt) && $0.nextRetryAt != nil
            }
            let due = try #require(held.nextRetryAt)
            let pause = Double(due.microseconds - harness.gateway.clock.now.microseconds) / 1_000_000
            let base = min(1_800, 2 * Double(1 << attempt))
            #expect(pause > base - 0.002 && pause <= base * 1.2, "attempt \(attempt)")
            #expect(
                try await harness.mapping(contact).status == (attempt > 10 ? .failed : .pending),
                "attempt \(attempt)"
            )
            if attempt == 13 { isUp.value = true }
            harness.gateway.clock.advance(seconds: 2_200)
        }
        let done = try await harness.mutation(create.id, is: .succeeded)
        #expect(done.attempts == 14)
        let mapping = try await harness.mapping(contact)
        #expect(mapping.status == .resolved && mapping.serverID?.text == "1")
        #expect(harness.upstream.effects.count == 1)
    }

    @Test func `sends nothing before the upstream's Retry-After`() async throws {
        let clock = Shared<Timestamp?>(nil)
        let harness = try await DispatcherHarness(
            upstream: FakeUpstream { _, seen in
                seen == 0 ? .status(429, retryAt: clock.value?.adding(seconds: 900)) : nil
            }
        )
        clock.value = harness.gateway.clock.now
        let create = harness.create()
        try await harness.phone.push([create])
        let held = try await harness.mutation(create.id, becomes: "held") { $0.nextRetryAt != nil }
        #expect(held.nextRetryAt == harness.gateway.clock.now.adding(seconds: 900))
        harness.gateway.clock.advance(seconds: 900)
        try await harness.mutation(create.id, is: .succeeded)
    }

    @Test func `a mutation without remaining attempts fails`() async throws {
        let harness = try await DispatcherHarness(upstream: FakeUpstream { _, _ in .status(500) })
        let create = harness.create(extra: ["max_attempts": "2"])
        try await harness.phone.push([create])
        try await harness.mutation(create.id, becomes: "held") { $0.nextRetryAt != nil }
        harness.gateway.clock.advance(seconds: 5)
        let failed = try await harness.mutation(create.id, is: .failed)
        #expect(failed.code == "max_attempts_reached" && failed.attempts == 2 && failed.lastError != nil)
        #expect(harness.upstream.requests.count == 2)
        let lane = try await harness.lane()
        #expect(lane.queue.count == 0 && lane.openCount == 1 && lane.readyAt == nil && lane.lease.owner == nil)
    }

    /// The entity exists, and its create's answer was too large, or no JSON, or without an id. A person's retry
    /// requests it again, and creates no second entity.
    @Test func `a create that took effect is retried under its key`() async throws {
        let harness = try await DispatcherHarness(
            upstream: FakeUpstream { _, seen in seen == 0 ? .status(201) : .status(201, #"{"id":7}"#) }
        )
        let create = harness.create()
        try await harness.phone.push([create])
        let failed = try await harness.mutation(create.id, is: .failed)
        #expect(failed.code == "upstream_answer_unusable" && failed["response"]?["status"]?.int64 == 201)
        let settling = harness.gateway.store.settling
        let edited = try RetryRequest(body: Array(#"{"payload":{}}"#.utf8), limits: IntakeLimits())
        await #expect(throws: Problem.self) {
            _ = try await settling.retry(
                create.id,
                edited,
                organization: harness.organization,
                user: harness.phone.user
            )
        }
        let bulk = try BulkRequest(body: Array(#"{"filter":{}}"#.utf8), limit: 1_000, for: .retry)
        #expect(try await settling.retry(bulk, organization: harness.organization).settled == 1)
        let done = try await harness.mutation(create.id, is: .succeeded)
        #expect(done["revision"]?.int64 == 1 && done["server_id"]?.int64 == 7)
        #expect(Set(harness.upstream.requests.map(\.idempotencyKey)).count == 1)
    }

    @Test func `a clock that jumps loses and repeats nothing`() async throws {
        let gate = Gate()
        let harness = try await DispatcherHarness(
            upstream: FakeUpstream { request, _ in
                if request.text.contains("wait") { await gate.pass() }
                return nil
            }
        )
        let clock = harness.gateway.clock
        let waiting = harness.create(payload: #"{"wait":1}"#)
        try await harness.phone.push([waiting])
        await gate.arrivals(1)
        clock.advance(seconds: -3 * 3_600)
        let behind = harness.create()
        try await harness.phone.push([behind])
        gate.open()
        try await harness.mutation(behind.id, is: .succeeded)
        let others = (0..<3).map { _ in harness.create() }
        for (other, hours) in zip(others, [5.0, -2, 7]) {
            clock.advance(seconds: hours * 3_600)
            try await harness.phone.push([other])
            try await harness.mutation(other.id, is: .succeeded)
        }
        #expect(harness.upstream.requests.count == 5 && harness.upstream.effects.count == 5)
    }

    /// A lease claimed before the clock was set back expires when a lease claimed now would.
    @Test func `a lease in the future is shortened to its length`() async throws {
        let harness = try await DispatcherHarness(isRunning: false)
        try await harness.phone.push([harness.create(), harness.create()])
        let worker = UUID()
        let first = try #require(await harness.step(.claim, by: worker).dispatch)
        harness.gateway.clock.advance(seconds: -3_600)
        _ = try #require(await harness.settle(first, .status(201, #"{"id":1}"#), by: worker).dispatch)
        #expect(try await harness.lane().readyAt == harness.gateway.clock.now.adding(seconds: 120))
    }
}
