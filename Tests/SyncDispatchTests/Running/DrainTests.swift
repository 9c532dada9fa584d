import Foundation
import JSONText
import Postgres
import StoreSupport
import SyncModel
import Synchronization
import TestSupport
import Testing

@testable import SyncDispatch
@testable import SyncStore

/// A gateway that shuts down releases everything, and another one continues.
@Suite struct DrainTests {
    @Test func `an abandoned request in flight is continued by another gateway`() async throws {
        let (gate, isFirst) = (Gate(), Shared(true))
        let upstream = FakeUpstream { _, _ in
            guard isFirst.value else { return nil }
            await gate.pass()
            return .unknown("cancelled")
        }
        let harness = try await DispatcherHarness(upstream: upstream)
        let (create, rest) = (harness.create(), harness.create())
        try await harness.phone.push([create, rest])
        await gate.arrivals(1)
        await harness.shutDown()
        let lane = try await harness.lane()
        #expect(lane.lease.owner == nil && lane.inFlight == nil && lane.readyAt == harness.gateway.clock.now)
        let pending = try await harness.mutation(create.id)
        #expect(pending.status == "pending" && pending.attempts == 1 && pending.nextRetryAt == nil)
        isFirst.value = false
        let other = try await Gateway(replicaOf: harness.gateway)
        let helper = Helper(other, upstream)
        try await harness.mutation(rest.id, is: .succeeded)
        let keys = upstream.requests.map(\.idempotencyKey)
        #expect(keys.count == 3 && keys[0] == keys[1])
        #expect(try await harness.mutation(create.id).attempts == 2)
        await helper.shutDown()
    }

    @Test func `writes answers that arrive in time and starts no further requests`() async throws {
        let gate = Gate()
        let upstream = FakeUpstream { _, _ in
            await gate.pass()
            return nil
        }
        let harness = try await DispatcherHarness(upstream: upstream)
        let (create, rest) = (harness.create(), harness.create())
        try await harness.phone.push([create, rest])
        await gate.arrivals(1)
        async let ending: Void = harness.shutDown()
        try await harness.until("the dispatcher is draining") { harness.dispatcher.isDraining.load(ordering: .relaxed) }
        gate.open()
        await ending
        #expect(try await harness.mutation(create.id).status == "succeeded")
        #expect(try await harness.mutation(rest.id).status == "pending")
        let lane = try await harness.lane()
        #expect(lane.lease.owner == nil && lane.inFlight == nil && lane.readyAt == harness.gateway.clock.now)
        #expect(upstream.requests.count == 1)
    }

    @Test(.onOneServer("counts transactions, and a cluster makes its own"))
    func `an idle dispatcher sends a few statements a second for any number of waiting lanes`() async throws {
        let harness = try await DispatcherHarness(pollInterval: 1)
        let due = harness.gateway.clock.now.adding(seconds: 3_600).rfc3339
        try await harness.execute(
            """
            INSERT INTO lanes (organization_id, user_id, queued_count, open_count, ready_at)
            SELECT '\(harness.organization.id)', gen_random_uuid(), 1, 1, '\(due)' FROM generate_series(1, 10000)
            """
        )
        let connection = try await harness.gateway.database.connect()
        func commits() async throws -> (count: Int64, seconds: Double) {
            let rows = try await harness.read(
                """
                SELECT xact_commit, extract(epoch FROM clock_timestamp())::float8 FROM pg_stat_database
                WHERE datname = current_database()
                """
            )
            return (try rows.read(0, 0, as: Int64.self), try rows.read(0, 1, as: Double.self))
        }
        // the server collects these numbers once a second at most
        try await connection.execute(script: "SELECT pg_sleep(1.5)")
        let before = try await commits()
        try await connection.execute(script: "SELECT pg_sleep(4)")
        let after = try await commits()
        await connection.closeAndWait()
        // one poll per second, and the test's own statements
        let (count, seconds) = (after.count - before.count, after.seconds - before.seconds)
        #expect(Double(count) <= 5 + 5 * seconds, "\(count) in \(seconds) seconds")
        #expect(harness.dispatcher.current == Dispatcher.Counts())
    }
}
