import Foundation
import Testing

@testable import SyncModel

@Suite struct LanePlanTests {
    private static let now = Sample.now
    private static let worker = UUID()
    private static let planner = DispatchPlanner(leaseSeconds: 120)
    private static let organization = Sample().surroundings.organization

    /// A lane with two queued mutations, the first at position 1.
    private static func lane(inFlight: UUID? = nil, owner: UUID? = worker, haltedBy: UUID? = nil) -> LaneState {
        LaneState(
            nextPosition: 9,
            queue: .init(count: 2),
            openCount: 4,
            haltedBy: haltedBy,
            readyAt: now.adding(seconds: owner == nil ? 0 : 120),
            lease: .init(owner: owner, token: 1),
            inFlight: inFlight
        )
    }

    private static func plan(
        _ step: LaneStep,
        _ lane: LaneState,
        by worker: UUID = worker,
        releases: Bool = false,
        _ organization: Organization? = organization
    ) -> LanePlan? {
        let request = LaneRequest(lane: Sample.lane, step: step, worker: worker, releases: releases)
        return LanePlan(request, lane: lane, organization: organization, by: planner, now: now)
    }

    private static func settled(_ plan: LanePlan?) throws -> LanePlan {
        let plan = try #require(plan)
        var entities: [UUID: EntityTable] = [:]
        plan.settle(&entities) { UUID() }
        return plan
    }

    /// Chooses the next action, with or without a mutation found.
    private static func chosen(_ plan: LanePlan?, _ sample: Sample? = nil) throws -> LanePlan {
        let plan = try settled(plan)
        if let sample { plan.head = sample.head }
        plan.choose(by: planner, [:], now: now)
        return plan
    }

    private static func at(_ position: Int64, _ sample: Sample = Sample()) -> Sample {
        var sample = sample
        sample.position = position
        return sample
    }

    private static func settling(_ status: Int) throws -> LaneStep {
        .settle(try #require(Sample().dispatch), try #require(Sample().outcome(status, #"{"id":7}"#)))
    }

    // MARK: - Leases

    @Test func `claims a lane that is ready`() throws {
        let plan = try #require(Self.plan(.claim, Self.lane(owner: nil)))
        #expect(plan.recovery == nil && plan.lane.lease.token == 2 && plan.lane.lease.owner == Self.worker)
        var later = Self.lane(owner: nil)
        later.release(at: Self.now.adding(seconds: 1))
        #expect(Self.plan(.claim, later) == nil)
    }

    @Test func `no other worker claims a leased lane before the lease expires`() throws {
        #expect(Self.plan(.claim, Self.lane(), by: UUID()) == nil)
        // the lease's worker has lost track of the lane, or did not receive the answer to its claim
        #expect(try #require(Self.plan(.claim, Self.lane())).recovery == .takeover)
        var lapsed = Self.lane()
        lapsed.claim(by: UUID(), LaneLease(seconds: 0), now: Self.now)
        #expect(try #require(Self.plan(.claim, lapsed)).recovery == .takeover)
    }

    @Test func `a step under another worker's lease, or an older one, is lost`() throws {
        let step = try Self.settling(200)
        #expect(Self.plan(step, Self.lane(inFlight: Sample.id, owner: UUID())) == nil)
        var again = Self.lane(inFlight: Sample.id)
        again.claim(by: Self.worker, LaneLease(seconds: 120), now: Self.now)
        #expect(Self.plan(step, again) == nil)
        #expect(Self.plan(.proceed(token: 2, unblocking: []), again) != nil)
    }

    // MARK: - Recovery

    @Test func `a lost worker's request may have taken effect, and is sent again`() throws {
        let plan = try #require(Self.plan(.claim, Self.lane(inFlight: Sample.id)))
        plan.recover(Sample().mutation, isForwarded: true)
        #expect(try Self.settled(plan).outcomes.map(\.status) == [.pending])
        #expect(plan.outcomes[0].outcome.isOutcomeUnknown && plan.outcomes[0].from == .inFlight)
        #expect(plan.lane.inFlight == nil && plan.lane.queue.count == 2 && plan.lane.changePosition == 1)
    }

    @Test func `a step that was already committed is not written twice`() throws {
        let other = Self.lane(inFlight: UUID())
        let plan = try #require(Self.plan(try Self.settling(200), other))
        #expect(plan.recovery == .repetition)
        plan.recover(Self.at(2, Sample(attempts: 1)).mutation, isForwarded: true)
        #expect(try Self.settled(plan).outcomes.map(\.mutation.position) == [2])
        // the mutation was never sent, so the step costs no attempt
        #expect(plan.outcomes[0].outcome.attemptCount == 0 && !plan.outcomes[0].outcome.isOutcomeUnknown)
    }

    // MARK: - Outcomes of requests

    @Test func `counts an outcome, and releases the mutations that wait for it`() throws {
        let plan = try Self.settled(Self.plan(try Self.settling(201), Self.lane(inFlight: Sample.id)))
        #expect(plan.outcomes.map(\.status) == [.succeeded] && plan.unblocking == [Sample.id])
        #expect(plan.lane.queue.count == 1 && plan.lane.openCount == 3 && plan.lane.queue.head == 2)
        plan.choose(by: Self.planner, [:], now: Self.now)
        #expect(plan.outcomes.isEmpty)
    }

    @Test func `a refusal releases no mutation, and halts the lane if the organization is configured so`() throws {
        var halting = Self.organization
        halting.settings.onFailure = .halt
        for (organization, haltedBy) in [(Self.organization, nil), (halting, Sample.id)] {
            let step = try Self.settling(422)
            let plan = try Self.chosen(
                Self.plan(step, Self.lane(inFlight: Sample.id), organization),
                Self.at(2)
            )
            #expect(plan.unblocking.isEmpty && plan.lane.haltedBy == haltedBy)
            #expect(plan.nextAction.isRun == (haltedBy == nil) && plan.nextAction.isReleased == (haltedBy != nil))
        }
    }

    // MARK: - Waiters

    @Test func `a step releases the waiters of as many mutations as its weight`() throws {
        let blockers = (0..<300).map { _ in UUID() }
        for (step, count) in [(LaneStep.claim, 1), (.proceed(token: 1, unblocking: []), 1)] {
            let plan = try #require(Self.plan(step, Self.lane(owner: step.token == nil ? nil : Self.worker)))
            for blocker in blockers.prefix(3) { plan.recover(waitersFor: blocker) }
            #expect(try Self.settled(plan).unblocking == Array(blockers.prefix(count)))
            plan.choose(by: Self.planner, [:], now: Self.now)
            #expect(plan.nextAction.unblocking == Array(blockers[count..<3]))
        }
        let all = try Self.settled(Self.plan(.proceed(token: 1, unblocking: blockers), Self.lane()))
        #expect(all.unblocking == Array(blockers.prefix(LaneStep.mostOutcomes)))
    }

    @Test func `waiters that a step leaves are released by further steps`() throws {
        let blockers = [UUID(), UUID()]
        let plan = try Self.settled(Self.plan(.proceed(token: 1, unblocking: blockers), Self.lane()))
        #expect(plan.unblocking == blockers)
        plan.release(position: 5, acceptedAt: Self.now)
        plan.unreleased = [blockers[0]]
        plan.choose(by: Self.planner, [:], now: Self.now)
        #expect(plan.nextAction.unblocking == [blockers[0]])
        #expect(plan.lane.queue.count == 3 && plan.lane.queue.head == 5)
    }

    @Test func `a mutation released before the head runs before it`() throws {
        for (position, runs) in [(2, false), (4, true)] as [(Int64, Bool)] {
            let plan = try Self.settled(Self.plan(.proceed(token: 1, unblocking: [UUID()]), Self.lane()))
            plan.release(position: position, acceptedAt: Self.now)
            plan.head = Self.at(3).head
            plan.choose(by: Self.planner, [:], now: Self.now)
            #expect(plan.nextAction.isRun == runs && plan.lane.queue.head == min(position, 3))
            #expect(runs || plan.nextAction.unblocking == [])
        }
    }

    // MARK: - The next mutation

    @Test func `the head is sent when its turn comes`() throws {
        let plan = try Self.chosen(Self.plan(.claim, Self.lane(owner: nil)), Self.at(3))
        #expect(plan.nextAction.isRun && plan.lane.inFlight == Sample.id)
        #expect(plan.lane.queue.head == 3 && plan.lane.queue.since == Self.now)
    }

    @Test func `releases a lane before sending, if requested`() throws {
        let plan = try Self.chosen(Self.plan(.claim, Self.lane(owner: nil), releases: true), Self.at(1))
        #expect(plan.nextAction.isReleased && plan.lane.inFlight == nil)
        #expect(plan.lane.lease.owner == nil && plan.lane.readyAt == Self.now)
    }

    @Test func `a lane waits for its head, or indefinitely if it is empty or halted`() throws {
        let due = Self.now.adding(seconds: 40)
        let waiting = try Self.chosen(Self.plan(.claim, Self.lane(owner: nil)), Sample(nextRetryAt: due))
        #expect(waiting.nextAction.isReleased && waiting.lane.readyAt == due)
        let halted = try Self.chosen(Self.plan(.claim, Self.lane(owner: nil, haltedBy: UUID())), Sample())
        #expect(halted.nextAction.isReleased && halted.lane.readyAt == nil)
        var empty = LaneState(nextPosition: 9, queue: .init(since: Self.now))
        empty.release(at: Self.now)
        let done = try Self.chosen(Self.plan(.claim, empty))
        #expect(done.nextAction.isReleased && done.lane.readyAt == nil)
        #expect(done.lane.queue.head == 9 && done.lane.queue.since == nil)
    }

    @Test func `a lane of an organization that is not served waits half a minute`() throws {
        var suspended = Self.organization
        suspended.status = .suspended
        for organization in [suspended, nil] {
            let plan = try Self.chosen(Self.plan(.claim, Self.lane(owner: nil), organization), Sample())
            #expect(plan.nextAction.isReleased && plan.lane.readyAt == Self.now.adding(seconds: 30))
        }
    }

    @Test func `a lane with an unreadable head waits half a minute, unless a mutation may run before it`() throws {
        for (lowest, goesOn) in [(nil, false), (7, false), (2, true)] as [(Int64?, Bool)] {
            let plan = try Self.settled(Self.plan(.proceed(token: 1, unblocking: [UUID()]), Self.lane()))
            if let lowest { plan.release(position: lowest, acceptedAt: Self.now) }
            plan.head = .sealed(position: 4, .damaged("payload"))
            plan.choose(by: Self.planner, [:], now: Self.now)
            #expect(plan.nextAction.isReleased == !goesOn && plan.lane.queue.head == min(4, lowest ?? 4))
            #expect(goesOn || plan.lane.readyAt == Self.now.adding(seconds: 30))
        }
    }

    @Test func `a head that can never run fails without being sent, and the lane continues`() throws {
        let head = Self.at(3, Sample(operation: .update))
        let plan = try Self.chosen(Self.plan(.claim, Self.lane(owner: nil)), head)
        #expect(plan.nextAction.unblocking == [] && plan.outcomes.map(\.status) == [.failed])
        #expect(plan.outcomes[0].from == .pending && plan.lane.inFlight == nil)
        #expect(plan.lane.queue.count == 1 && plan.lane.openCount == 4 && plan.lane.queue.head == 3)
    }

    @Test func `a head discarded by server_wins releases its waiters`() throws {
        var head = Sample.of(.update, .serverWins)
        head.baseVersion = 1
        head.entity = EntityState.known(
            etag: nil,
            owner: Sample.lane.user,
            lastWriter: Writer(user: UUID(), device: UUID()),
            version: 2,
            runBase: 1
        )
        let plan = try Self.settled(Self.plan(.claim, Self.lane(owner: nil)))
        plan.head = head.head
        plan.choose(by: Self.planner, [:], now: Self.now)
        #expect(plan.outcomes.map(\.status) == [.discarded] && plan.outcomes[0].version == 2)
        #expect(plan.nextAction.unblocking == [Sample.id] && plan.lane.openCount == 3)
    }

    @Test func `the head sees its entity as changed by the group's outcomes, not as read before`() throws {
        let read = EntityState.known(
            etag: #""1""#,
            owner: Sample.lane.user,
            lastWriter: Sample.writer,
            version: 1,
            runBase: 0
        )
        var flown = Sample.of(.update)
        flown.baseVersion = 1
        flown.entity = read
        let outcome = try #require(flown.outcome(200, etag: #""2""#))
        let step = LaneStep.settle(try #require(flown.dispatch), outcome)
        let settling = try #require(Self.plan(step, Self.lane(inFlight: Sample.id)))
        // another lane of the group
        let claiming = try #require(Self.plan(.claim, Self.lane(owner: nil)))
        var entities = [Sample.lane.organization: EntityTable()]
        entities[Sample.lane.organization]?.load(EntityKey(type: "contact", id: "7"), read)
        for plan in [settling, claiming] { plan.settle(&entities) { UUID() } }
        // for a mutation that names its entity by client id, the mapping determines the entity
        var byClient = Self.at(2, flown)
        byClient.serverID = nil
        let seven = ServerID(text: "7", isInteger: true)
        byClient.mappings = [Sample.local: [.init(entityType: "contact", serverID: seven)]]
        for plan in [settling, claiming] {
            for (head, ifMatch) in [(Self.at(2, flown), #""2""#), (byClient, #""2""#), (Self.at(2), nil)] {
                plan.head = head.head
                plan.choose(by: Self.planner, entities, now: Self.now)
                #expect(plan.nextAction.request?.ifMatch == ifMatch)
            }
        }
    }

    @Test func `a lane that counts missing mutations scans itself once, and then resets its counts`() throws {
        let first = try Self.chosen(Self.plan(.proceed(token: 1, unblocking: []), Self.lane()))
        #expect(first.nextAction.unblocking == [])
        #expect(first.note == "no pending mutation from position 1 on; scanning the whole lane")
        let second = try Self.chosen(Self.plan(.proceed(token: 1, unblocking: []), first.lane))
        #expect(second.nextAction.isReleased)
        #expect(second.note == "2 mutations were counted as queued, but the queue is empty")
        #expect(second.lane.queue.count == 0 && second.lane.queue.head == 9)
        // a mutation that was released in between becomes the head
        let third = try Self.settled(Self.plan(.proceed(token: 1, unblocking: [UUID()]), first.lane))
        third.release(position: 5, acceptedAt: Self.now)
        third.choose(by: Self.planner, [:], now: Self.now)
        #expect(third.note == nil && third.nextAction.isReleased && third.lane.queue.head == 5)
    }
}

extension Sample {
    fileprivate var head: FoundHead { .mutation(mutation, surroundings.type, mappings, entity) }
}

extension LaneAction {
    fileprivate var isRun: Bool { if case .run = self { true } else { false } }
    fileprivate var request: UpstreamRequest? {
        if case .run(let dispatch) = self, case .upstream(let request, _) = dispatch.destination {
            request
        } else {
            nil
        }
    }
    fileprivate var isReleased: Bool { if case .released = self { true } else { false } }
    fileprivate var unblocking: [UUID]? { if case .proceed(_, let ids) = self { ids } else { nil } }
}
