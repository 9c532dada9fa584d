import Foundation
import SyncModel
import Testing

@Suite struct LaneBlockerTests {
    private static let now = Timestamp(microseconds: 1_795_000_000_000_000)
    private static let later = now.adding(seconds: 30)
    private static let blocker = UUID()

    private static func head(_ status: MutationStatus, nextRetryAt: Timestamp? = nil) -> Backlog.Mutation {
        var mutation = Backlog.Mutation(
            id: UUID(),
            deviceID: UUID(),
            sequenceNumber: 1,
            position: 1,
            status: status,
            operation: .create,
            entityType: "contact",
            acceptedAt: now
        )
        mutation.nextRetryAt = nextRetryAt
        mutation.dependsOn = status == .blocked ? [blocker] : []
        return mutation
    }

    private static func lane(readyAt: Timestamp? = nil, isLeased: Bool = false) -> LaneState {
        LaneState(readyAt: readyAt, lease: .init(owner: isLeased ? UUID() : nil))
    }

    private static func blocker(
        _ head: Backlog.Mutation,
        _ lane: LaneState,
        isForwarded: Bool = true,
        hasUpstream: Bool = true
    ) -> LaneBlocker? {
        LaneBlocker(of: head, in: lane, isForwarded: isForwarded, hasUpstream: hasUpstream, now: now)
    }

    @Test func `a head that is due has no blocker`() {
        #expect(Self.blocker(Self.head(.pending), Self.lane(readyAt: Self.now)) == nil)
        #expect(Self.blocker(Self.head(.pending), Self.lane(readyAt: Self.now.adding(seconds: -60))) == nil)
        #expect(Self.blocker(Self.head(.pending, nextRetryAt: Self.now), Self.lane(readyAt: Self.now)) == nil)
        #expect(Self.blocker(Self.head(.pending), Self.lane()) == nil)
    }

    @Test func `a mutation that a worker processes has no blocker`() {
        let leased = Self.lane(readyAt: Self.later, isLeased: true)
        #expect(Self.blocker(Self.head(.inFlight), leased) == nil)
        #expect(Self.blocker(Self.head(.pending), leased) == nil)
        #expect(Self.blocker(Self.head(.inFlight), leased, hasUpstream: false) == nil)
    }

    @Test func `a back-off lasts until the next attempt`() {
        let due = Self.now.adding(seconds: 5)
        let head = Self.head(.pending, nextRetryAt: due)
        #expect(Self.blocker(head, Self.lane(readyAt: due)) == LaneBlocker(.backOff, until: due))
        #expect(Self.blocker(head, Self.lane(readyAt: due), hasUpstream: false) == LaneBlocker(.backOff, until: due))
    }

    @Test func `an open circuit holds the due head of a waiting lane`() {
        let waiting = Self.lane(readyAt: Self.later)
        #expect(Self.blocker(Self.head(.pending), waiting) == LaneBlocker(.circuitOpen, until: Self.later))
        let triedBefore = Self.head(.pending, nextRetryAt: Self.now)
        #expect(Self.blocker(triedBefore, waiting) == LaneBlocker(.circuitOpen, until: Self.later))
        #expect(
            Self.blocker(Self.head(.pending), waiting, isForwarded: false)
                == LaneBlocker(.circuitOpen, until: Self.later),
            "the dispatcher postpones all lanes of the organization"
        )
    }

    @Test func `a pause of the upstream holds a forwarded head until it is over`() {
        func blocker(_ pause: UpstreamPause, isForwarded: Bool = true) -> LaneBlocker? {
            LaneBlocker(
                of: Self.head(.pending),
                in: Self.lane(readyAt: Self.now),
                isForwarded: isForwarded,
                hasUpstream: true,
                pause: pause,
                now: Self.now
            )
        }
        #expect(blocker(UpstreamPause()) == LaneBlocker(.upstreamPaused))
        #expect(blocker(UpstreamPause(until: Self.later)) == LaneBlocker(.upstreamPaused, until: Self.later))
        #expect(blocker(UpstreamPause(until: Self.now)) == nil)
        #expect(blocker(UpstreamPause(), isForwarded: false) == nil)
    }

    @Test func `a lane that is ready within a second, or was for over a second, waits for the rate of its upstream`() {
        let cases: [(Double, Bool, LaneBlocker.Reason?)] = [
            (2, true, .rateLimited), (0.5, true, nil), (2, false, nil),
            // a worker has released the lane until the upstream may get another request
            (-0.5, true, .rateLimited), (-0.5, false, .circuitOpen), (-1.5, true, .circuitOpen),
        ]
        for (seconds, isLimited, reason) in cases {
            let blocker = LaneBlocker(
                of: Self.head(.pending),
                in: Self.lane(readyAt: Self.now.adding(seconds: -seconds)),
                isForwarded: true,
                hasUpstream: true,
                isRateLimited: isLimited,
                now: Self.now
            )
            #expect(blocker?.reason == reason)
        }
    }

    @Test func `a forwarded head without an upstream is held, whether its lane is due or not`() {
        let waiting = Self.blocker(Self.head(.pending), Self.lane(readyAt: Self.later), hasUpstream: false)
        #expect(waiting == LaneBlocker(.noUpstream, until: Self.later))
        let due = Self.blocker(Self.head(.pending), Self.lane(readyAt: Self.now), hasUpstream: false)
        #expect(due == LaneBlocker(.noUpstream))
    }

    @Test func `a built-in head needs no upstream`() {
        let lane = Self.lane(readyAt: Self.later)
        #expect(Self.blocker(Self.head(.pending), lane, isForwarded: false, hasUpstream: false) == nil)
    }

    @Test func `a blocker names the mutation for which the lane waits`() {
        let (conflict, failed) = (Self.head(.conflict), Self.head(.failed))
        #expect(Self.blocker(conflict, Self.lane()) == LaneBlocker(.conflict, mutationIDs: [conflict.id]))
        #expect(Self.blocker(failed, Self.lane()) == LaneBlocker(.failure, mutationIDs: [failed.id]))
        #expect(Self.blocker(Self.head(.blocked), Self.lane()) == LaneBlocker(.blocked, mutationIDs: [Self.blocker]))
    }
}
