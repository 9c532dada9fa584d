import Foundation
import Testing

@testable import SyncModel

@Suite struct LaneStateTests {
    private static let now = Sample.now

    private static func record(_ status: MutationStatus, at position: Int64) -> MutationRecord {
        MutationRecord.sample(status, at: position, acceptedAt: now.adding(seconds: Double(position)))
    }

    private static func outcome(_ status: MutationStatus, at position: Int64, from: MutationStatus = .inFlight) throws
        -> LaneOutcome
    {
        var sample = Sample()
        sample.position = position
        let outcome = Outcome(status, .succeeded, of: try #require(sample.dispatch))
        return LaneOutcome(mutation: sample.mutation, from: from, outcome: outcome)
    }

    // MARK: - Pushes

    @Test func `new mutations take the lane's next positions, and the first queued mutation becomes the head`() {
        var lane = LaneState(nextPosition: 5)
        for (position, status) in [(5, .succeeded), (6, .blocked), (7, .pending), (8, .pending)]
            as [(Int64, MutationStatus)]
        {
            lane.append(Self.record(status, at: position), halts: false)
        }
        #expect(lane.nextPosition == 9 && lane.queue.count == 2 && lane.openCount == 3)
        #expect(lane.queue.head == 7 && lane.queue.since == Self.now.adding(seconds: 7))
        #expect(!lane.isFree && lane.haltedBy == nil)
    }

    @Test func `a lane halted by a new mutation is not free`() {
        var lane = LaneState()
        let record = Self.record(.failed, at: 1)
        lane.append(record, halts: true)
        #expect(lane.haltedBy == record.id && !lane.isFree && lane.queue.count == 0 && lane.openCount == 1)
    }

    // MARK: - Outcomes

    @Test func `a lane whose head is done points to the next one`() throws {
        var lane = LaneState(queue: .init(count: 2, head: 4), openCount: 3, inFlight: Sample.id)
        lane.finish(try Self.outcome(.succeeded, at: 4), halts: false)
        #expect(lane.inFlight == nil && lane.queue.head == 5 && lane.queue.count == 1 && lane.openCount == 2)
    }

    @Test func `a lane whose head is sent again points to it`() throws {
        var lane = LaneState(queue: .init(count: 2, head: 6), openCount: 2, inFlight: Sample.id)
        lane.finish(try Self.outcome(.pending, at: 4), halts: false)
        #expect(lane.inFlight == nil && lane.queue.head == 4 && lane.queue.count == 2 && lane.openCount == 2)
    }

    @Test func `a failed mutation stays open, and halts the lane if so configured`() throws {
        for halts in [true, false] {
            var lane = LaneState(queue: .init(count: 1, head: 4), openCount: 1)
            lane.finish(try Self.outcome(.failed, at: 4, from: .pending), halts: halts)
            #expect(lane.queue.count == 0 && lane.openCount == 1 && lane.queue.head == 4)
            #expect(lane.haltedBy == (halts ? Sample.id : nil))
        }
    }

    @Test func `a mutation released before the head becomes the head`() {
        var lane = LaneState(queue: .init(count: 1, head: 9, since: Self.now))
        lane.enqueue(position: 3, acceptedAt: Self.now.adding(seconds: -1))
        #expect(lane.queue.head == 3 && lane.queue.count == 2 && lane.queue.since == Self.now.adding(seconds: -1))
        lane.enqueue(position: 11, acceptedAt: Self.now)
        #expect(lane.queue.head == 3 && lane.queue.count == 3)
    }

    @Test func `in an empty queue, a released mutation is the head at any position`() {
        var lane = LaneState(queue: .init(head: 2))
        lane.enqueue(position: 3, acceptedAt: Self.now)
        #expect(lane.queue.head == 3 && lane.queue.since == Self.now)
    }

    // MARK: - Settling

    @Test(arguments: [MutationStatus.failed, .conflict])
    func `a retry queues the mutation and lifts the halt, and so does a discard`(status: MutationStatus) {
        let node = DependencyNode(Self.record(status, at: 2))
        let halted = LaneState(queue: .init(head: 7), openCount: 1, haltedBy: node.id)
        var retried = halted
        retried.settle(node, as: .pending)
        #expect(retried.haltedBy == nil && retried.queue.count == 1 && retried.openCount == 1)
        #expect(retried.queue.head == 2 && retried.queue.since == node.acceptedAt)
        var discarded = halted
        discarded.settle(node, as: .discarded)
        #expect(discarded.haltedBy == nil && discarded.queue.count == 0 && discarded.openCount == 0)
        var other = halted
        other.settle(DependencyNode(Self.record(.failed, at: 3)), as: .discarded)
        #expect(other.haltedBy == node.id)
    }

    @Test func `an emptied queue has no start of waiting`() {
        let nodes = [1, 2].map { DependencyNode(Self.record(.pending, at: $0)) }
        var lane = LaneState(queue: .init(count: 2, since: Self.now), openCount: 2)
        lane.settle(nodes[1], as: .discarded)
        #expect(lane.queue.count == 1 && lane.queue.since == Self.now)
        lane.settle(nodes[0], as: .blocked)
        #expect(lane.queue.count == 0 && lane.openCount == 1 && lane.queue.since == nil)
    }

    // MARK: - The head

    @Test func `a lane without a findable head is scanned as a whole, and then recounted`() {
        var lane = LaneState(queue: .init(count: 3, head: 8))
        #expect(lane.repairCounters() == "no pending mutation from position 8 on; scanning the whole lane")
        #expect(lane.isSearched && lane.queue.count == 3)
        #expect(lane.repairCounters() == "3 mutations were counted as queued, but the queue is empty")
        #expect(!lane.isSearched && lane.queue.count == 0)
    }

    // MARK: - The lease

    @Test func `a claim invalidates writes under an older lease`() {
        var lane = LaneState(readyAt: Self.now, lease: .init(token: 6))
        let worker = UUID()
        lane.claim(by: worker, LaneLease(seconds: 60), now: Self.now)
        #expect(lane.lease.token == 7 && lane.lease.owner == worker && lane.readyAt == Self.now.adding(seconds: 60))
        #expect(!lane.isReady(at: Self.now) && lane.isReady(at: Self.now.adding(seconds: 60)))
        lane.release(at: nil)
        #expect(lane.lease.token == 7 && lane.lease.owner == nil && lane.readyAt == nil)
    }

    @Test func `wakes a lane if a mutation can run and no worker holds the lane`() {
        func woken(_ lane: LaneState) -> Timestamp? {
            var lane = lane
            lane.wake(now: Self.now)
            return lane.readyAt
        }
        let later = Self.now.adding(seconds: 9)
        #expect(woken(LaneState(queue: .init(count: 1), readyAt: later)) == Self.now)
        #expect(woken(LaneState(queue: .init(count: 0), readyAt: later)) == nil)
        #expect(woken(LaneState(queue: .init(count: 1), haltedBy: UUID(), readyAt: later)) == nil)
        #expect(woken(LaneState(queue: .init(count: 1), readyAt: later, lease: .init(owner: UUID()))) == later)
    }

    @Test func `renews a lease while a whole request fits into it`() {
        let lease = LaneLease(seconds: 120)
        var upstream = UpstreamSettings(baseURL: "http://upstream.invalid")
        upstream.timeoutSeconds = 100
        func mustRenew(_ left: Double, _ upstream: UpstreamSettings?) -> Bool {
            lease.mustRenew(Self.now.adding(seconds: left), upstream: upstream, now: Self.now)
        }
        #expect(mustRenew(104, upstream) && !mustRenew(105, upstream))
        #expect(mustRenew(59, nil) && !mustRenew(60, nil))
        // claimed before the clock was set back
        #expect(mustRenew(121, nil) && lease.mustRenew(nil, upstream: nil, now: Self.now))
        #expect(lease.timeout(of: upstream) == 100 && LaneLease(seconds: 60).timeout(of: upstream) == 50)
    }
}
