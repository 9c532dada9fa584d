import Foundation
import Testing

@testable import SyncModel

/// The state of a lane into which another one was merged.
@Suite struct LaneJoiningTests {
    private static let now = Sample.now

    private static func lane(
        next: Int64 = 1,
        change: Int64 = 0,
        queued: Int32 = 0,
        head: Int64 = 1,
        haltedBy: UUID? = nil,
        since: Timestamp? = nil
    ) -> LaneState {
        LaneState(
            nextPosition: next,
            changePosition: change,
            queue: .init(count: queued, head: head, since: since),
            openCount: queued,
            haltedBy: haltedBy,
            lease: .init(token: change)
        )
    }

    @Test func `merged mutations come after those of the lane, and cursors of both lanes before them`() {
        var lane = Self.lane(next: 5, change: 30, queued: 2, head: 3, since: Self.now)
        let earlier = Self.now.adding(seconds: -60)
        let shift = lane.absorb(Self.lane(next: 4, change: 70, queued: 1, head: 2, since: earlier), now: Self.now)
        #expect(shift.positions == 4 && shift.changes == 70)
        #expect(lane.nextPosition == 8 && lane.changePosition == 140)
        #expect(lane.queue.count == 3 && lane.openCount == 3)
        #expect(lane.queue.head == 3 && lane.queue.since == earlier)
        #expect(lane.lease.token == 70)
        #expect(lane.readyAt == Self.now)
    }

    @Test func `an empty lane takes the other's head`() {
        var lane = Self.lane(next: 5, head: 5)
        _ = lane.absorb(Self.lane(next: 4, queued: 1, head: 2, since: Self.now), now: Self.now)
        #expect(lane.queue.head == 6 && lane.queue.since == Self.now)
        var other = Self.lane(next: 5, queued: 1, head: 4, since: Self.now)
        _ = other.absorb(Self.lane(), now: Self.now)
        #expect(other.queue.head == 4 && other.nextPosition == 5 && other.readyAt == Self.now)
    }

    @Test func `a halt of either lane stays`() {
        let mutation = UUID()
        for isOwn in [true, false] {
            var lane = Self.lane(queued: 1, haltedBy: isOwn ? mutation : nil)
            _ = lane.absorb(Self.lane(queued: 1, haltedBy: isOwn ? nil : mutation), now: Self.now)
            #expect(lane.haltedBy == mutation && lane.readyAt == nil)
        }
    }

    @Test func `an idempotency key keeps its original user`() {
        var mutation = Sample().mutation
        let before = DispatchPlanner.idempotencyKey(of: mutation, in: Sample.lane)
        let target = LaneKey(organization: Sample.lane.organization, user: UUID())
        #expect(DispatchPlanner.idempotencyKey(of: mutation, in: target) != before)
        mutation.keyUser = Sample.lane.user
        #expect(DispatchPlanner.idempotencyKey(of: mutation, in: target) == before)
    }
}
