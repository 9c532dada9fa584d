import Foundation
import Testing

@testable import SyncModel

@Suite struct LaneStateTests {
    private static let now = Sample.now

    private static func record(_ status: MutationStatus, at position: Int64) -> MutationRecord {
        MutationRecord(
            id: UUID(),
            idempotencyKey: UUID(),
            deviceID: UUID(),
            sequenceNumber: position,
            position: position,
            operation: .update,
            entity: EntityName(type: "task", client: nil),
            status: status,
            fingerprint: Fingerprint(stored: [], places: []),
            acceptedAt: now.adding(seconds: Double(position))
        )
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

    @Test func `new mutations take the lane's next places, and the first that is queued is its head`() {
        var lane = LaneState(nextPosition: 5)
        for (position, status) in [(5, .succeeded), (6, .blocked), (7, .pending), (8, .pending)]
            as [(Int64, MutationStatus)]
        {
            lane.append(Self.record(status, at: position), halts: false)
        }
        #expect(lane.nextPosition == 9 && lane.queuedCount == 2 && lane.openCount == 3)
        #expect(lane.headPosition == 7 && lane.queuedSince == Self.now.adding(seconds: 7))
        #expect(!lane.isFree && lane.haltedBy == nil)
    }

    @Test func `a new mutation that halts its lane leaves nothing free behind it`() {
        var lane = LaneState()
        let record = Self.record(.failed, at: 1)
        lane.append(record, halts: true)
        #expect(lane.haltedBy == record.id && !lane.isFree && lane.queuedCount == 0 && lane.openCount == 1)
    }

    // MARK: - Outcomes

    @Test func `a lane whose head is done points at the next one`() throws {
        var lane = LaneState(queuedCount: 2, openCount: 3, inFlight: Sample.id, headPosition: 4)
        lane.finish(try Self.outcome(.succeeded, at: 4), halts: false)
        #expect(lane.inFlight == nil && lane.headPosition == 5 && lane.queuedCount == 1 && lane.openCount == 2)
    }

    @Test func `a lane whose head is sent again points at it`() throws {
        var lane = LaneState(queuedCount: 2, openCount: 2, inFlight: Sample.id, headPosition: 6)
        lane.finish(try Self.outcome(.pending, at: 4), halts: false)
        #expect(lane.inFlight == nil && lane.headPosition == 4 && lane.queuedCount == 2 && lane.openCount == 2)
    }

    @Test func `what fails stays open, and holds the lane where that is set`() throws {
        for halts in [true, false] {
            var lane = LaneState(queuedCount: 1, openCount: 1, headPosition: 4)
            lane.finish(try Self.outcome(.failed, at: 4, from: .pending), halts: halts)
            #expect(lane.queuedCount == 0 && lane.openCount == 1 && lane.headPosition == 4)
            #expect(lane.haltedBy == (halts ? Sample.id : nil))
        }
    }

    @Test func `what waits no more before the head becomes the head`() {
        var lane = LaneState(queuedCount: 1, headPosition: 9, queuedSince: Self.now)
        lane.enqueue(position: 3, acceptedAt: Self.now.adding(seconds: -1))
        #expect(lane.headPosition == 3 && lane.queuedCount == 2 && lane.queuedSince == Self.now.adding(seconds: -1))
        lane.enqueue(position: 11, acceptedAt: Self.now)
        #expect(lane.headPosition == 3 && lane.queuedCount == 3)
    }

    @Test func `where nothing is queued what waits no more is the head, wherever it stands`() {
        var lane = LaneState(headPosition: 2)
        lane.enqueue(position: 3, acceptedAt: Self.now)
        #expect(lane.headPosition == 3 && lane.queuedSince == Self.now)
    }

    // MARK: - Settling

    @Test(arguments: [MutationStatus.failed, .conflict])
    func `a retry is queued again and lifts the halt, a discard lifts it too`(status: MutationStatus) {
        let node = DependencyNode(Self.record(status, at: 2))
        let halted = LaneState(openCount: 1, haltedBy: node.id, headPosition: 7)
        var retried = halted
        retried.settle(node, as: .pending)
        #expect(retried.haltedBy == nil && retried.queuedCount == 1 && retried.openCount == 1)
        #expect(retried.headPosition == 2 && retried.queuedSince == node.acceptedAt)
        var discarded = halted
        discarded.settle(node, as: .discarded)
        #expect(discarded.haltedBy == nil && discarded.queuedCount == 0 && discarded.openCount == 0)
        var other = halted
        other.settle(DependencyNode(Self.record(.failed, at: 3)), as: .discarded)
        #expect(other.haltedBy == node.id)
    }

    @Test func `nothing has waited since any moment once the last that is queued is discarded`() {
        let nodes = [1, 2].map { DependencyNode(Self.record(.pending, at: $0)) }
        var lane = LaneState(queuedCount: 2, openCount: 2, queuedSince: Self.now)
        lane.settle(nodes[1], as: .discarded)
        #expect(lane.queuedCount == 1 && lane.queuedSince == Self.now)
        lane.settle(nodes[0], as: .blocked)
        #expect(lane.queuedCount == 0 && lane.openCount == 1 && lane.queuedSince == nil)
    }

    // MARK: - The head

    @Test func `a lane in which nothing is found is searched as a whole, and then counted anew`() {
        var lane = LaneState(queuedCount: 3, headPosition: 8)
        #expect(lane.mend() == "no pending mutation from position 8 on; scanning the whole lane")
        #expect(lane.isSearched && lane.queuedCount == 3)
        #expect(lane.mend() == "3 mutations were counted as queued, but the queue is empty")
        #expect(!lane.isSearched && lane.queuedCount == 0)
    }

    // MARK: - The lease

    @Test func `a claim makes what was written under an older one worthless`() {
        var lane = LaneState(readyAt: Self.now, leaseToken: 6)
        let worker = UUID()
        lane.claim(by: worker, LaneLease(seconds: 60), now: Self.now)
        #expect(lane.leaseToken == 7 && lane.leaseOwner == worker && lane.readyAt == Self.now.adding(seconds: 60))
        #expect(!lane.isReady(at: Self.now) && lane.isReady(at: Self.now.adding(seconds: 60)))
        lane.release(at: nil)
        #expect(lane.leaseToken == 7 && lane.leaseOwner == nil && lane.readyAt == nil)
    }

    @Test func `a lane is woken where something is to run, and nobody runs it or is waited for`() {
        func woken(_ lane: LaneState) -> Timestamp? {
            var lane = lane
            lane.wake(now: Self.now)
            return lane.readyAt
        }
        let later = Self.now.adding(seconds: 9)
        #expect(woken(LaneState(queuedCount: 1, readyAt: later)) == Self.now)
        #expect(woken(LaneState(queuedCount: 0, readyAt: later)) == nil)
        #expect(woken(LaneState(queuedCount: 1, haltedBy: UUID(), readyAt: later)) == nil)
        #expect(woken(LaneState(queuedCount: 1, readyAt: later, leaseOwner: UUID())) == later)
    }

    @Test func `a lease is renewed while a whole request has room in it`() {
        let lease = LaneLease(seconds: 120)
        var upstream = UpstreamSettings(baseURL: "http://upstream.invalid")
        upstream.timeoutSeconds = 100
        func mustRenew(_ left: Double, _ upstream: UpstreamSettings?) -> Bool {
            lease.mustRenew(Self.now.adding(seconds: left), upstream: upstream, now: Self.now)
        }
        #expect(mustRenew(104, upstream) && !mustRenew(105, upstream))
        #expect(mustRenew(59, nil) && !mustRenew(60, nil))
        // taken before the clock was set back
        #expect(mustRenew(121, nil) && lease.mustRenew(nil, upstream: nil, now: Self.now))
        #expect(lease.timeout(of: upstream) == 100 && LaneLease(seconds: 60).timeout(of: upstream) == 50)
    }
}
