import Foundation
import TestSupport
import Testing

@testable import SyncModel

/// Lanes whose order is that of dependencies (product rule 19).
@Suite struct ConcurrentLaneTests {
    private static let now = Sample.now
    private static let worker = UUID()
    private static let planner = DispatchPlanner(leaseSeconds: 120)

    private static func organization(inFlight: Int = 4, upstream: Int = 16) -> Organization {
        var organization = Sample().surroundings.organization
        organization.settings.order = .dependencies
        organization.settings.maxInFlightPerUser = inFlight
        organization.upstream?.maximumConcurrency = upstream
        return organization
    }

    private static func lane(queued: Int32, inFlight: UUID? = nil, step: Int64 = 1, owner: UUID? = worker) -> LaneState
    {
        LaneState(
            nextPosition: 100,
            queue: LaneState.Queue(count: queued),
            openCount: queued,
            readyAt: now.adding(seconds: owner == nil ? 0 : 120),
            lease: LaneState.Lease(owner: owner, token: 1, step: step),
            inFlight: inFlight
        )
    }

    private static func progress(step: Int64 = 1, _ flights: [LaneFlight] = [], lanes: Int = 1) -> LaneProgress {
        var progress = LaneProgress()
        (progress.step, progress.flights, progress.lanes) = (step, flights, lanes)
        return progress
    }

    /// A mutation of another entity for each position.
    private static func mutation(
        _ position: Int64,
        contact: Int64? = nil,
        nextRetryAt: Timestamp? = nil,
        attempts: Int16 = 0
    ) -> FoundHead {
        var sample = Sample.of(.update)
        sample.position = position
        sample.serverID = ServerID(contact ?? 1_000 + position)
        sample.nextRetryAt = nextRetryAt
        var mutation = QueuedMutation(numbered: position, sample.mutation)
        mutation.attemptCount = attempts
        return .mutation(mutation, sample.surroundings.type, [:], nil)
    }

    /// A mutation whose next attempt is due after a back-off.
    private static func retried(_ position: Int64) -> FoundHead {
        mutation(position, nextRetryAt: now, attempts: 1)
    }

    private static func plan(
        _ step: LaneStep,
        _ lane: LaneState,
        _ progress: LaneProgress,
        _ organization: Organization = organization(),
        heldUntil: Timestamp? = nil,
        releases: Bool = false,
        isClosed: Bool = false
    ) -> LanePlan? {
        let request = LaneRequest(
            lane: Sample.lane,
            step: step,
            worker: worker,
            heldUntil: heldUntil,
            releases: releases,
            progress: progress
        )
        return LanePlan(request, lane: lane, organization: organization, isClosed: isClosed, by: planner, now: now)
    }

    /// Lets the plan of a step choose among pending mutations.
    private static func chosen(_ plan: LanePlan?, _ due: [FoundHead], nextRetryAt: Timestamp? = nil) throws -> LanePlan
    {
        let plan = try #require(plan)
        var entities: [UUID: EntityTable] = [:]
        plan.settle(&entities) { UUID() }
        var window = LaneWindow()
        if case .mutation(let first, _, _, _)? = due.first { window.first = (first.position, first.acceptedAt) }
        if due.isEmpty, nextRetryAt != nil { window.first = (1, now) }
        window.nextRetryAt = nextRetryAt
        window.due = Array(due.prefix(2 * plan.room))
        plan.window = window
        plan.choose(by: planner, [:], now: now)
        return plan
    }

    private static func flights(_ plan: LanePlan) -> [LaneFlight] {
        plan.nextAction.dispatches.map { LaneFlight(of: $0) }
    }

    @Test func `starts as many due mutations as the settings and the shares of the lanes allow`() throws {
        let due = (1...40).map { Self.mutation(Int64($0)) }
        for (inFlight, upstream, lanes, expected) in [(4, 16, 1, 4), (32, 16, 1, 16), (32, 16, 4, 4), (8, 2, 5, 1)] {
            let plan = try Self.chosen(
                Self.plan(
                    .claim,
                    Self.lane(queued: 40, owner: nil),
                    Self.progress(step: 0, lanes: lanes),
                    Self.organization(inFlight: inFlight, upstream: upstream)
                ),
                due
            )
            #expect(plan.nextAction.dispatches.map(\.mutation.position) == (1...Int64(expected)).map { $0 })
            #expect(plan.lane.inFlight == plan.nextAction.dispatches.first?.mutation.id && plan.lane.queue.head == 1)
            #expect(plan.lane.lease.step == 1)
        }
    }

    /// The retries of a failing route leave most requests to other routes.
    @Test func `retried mutations are an eighth of those in flight while others are due`() throws {
        func started(_ retried: [Int64], _ untried: [Int64], inFlight: [LaneFlight] = []) throws -> LanePlan {
            let due = retried.map { Self.retried($0) } + untried.map { Self.mutation($0) }
            let step = inFlight.isEmpty ? LaneStep.claim : .proceed(token: 1, unblocking: [])
            let lane = Self.lane(
                queued: Int32(due.count + inFlight.count),
                inFlight: inFlight.first?.id,
                step: 1,
                owner: inFlight.isEmpty ? nil : Self.worker
            )
            let progress = Self.progress(step: inFlight.isEmpty ? 0 : 1, inFlight)
            return try Self.chosen(Self.plan(step, lane, progress, Self.organization(inFlight: 16)), due)
        }
        func positions(_ plan: LanePlan) -> [Int64] { plan.nextAction.dispatches.map(\.mutation.position) }
        let full = try started(Array(1...8), Array(11...24))
        #expect(positions(full) == [1, 2] + Array(11...24))
        // the last retried mutation of this step is still in flight, and one more may start
        let rest = [Self.flights(full)[1]]
        #expect(try positions(started([3, 4], Array(25...40), inFlight: rest)) == [3] + Array(25...38))
        // if few others are due, retried mutations use the rest
        #expect(try positions(started(Array(1...8), [11, 12])) == Array(1...8) + [11, 12])
        // a mutation of the same entity does not overtake a retried one
        let due = [1, 2, 3].map { Self.retried($0) } + [Self.mutation(9, contact: 1_003)]
        let overtaking = try Self.chosen(
            Self.plan(.claim, Self.lane(queued: 4, owner: nil), Self.progress(step: 0), Self.organization(inFlight: 3)),
            due
        )
        #expect(positions(overtaking) == [1, 2])
    }

    @Test func `an outcome makes room for one more, and the others stay in flight`() throws {
        let claimed = try Self.chosen(
            Self.plan(.claim, Self.lane(queued: 9, owner: nil), Self.progress(step: 0)),
            (1...4).map { Self.mutation($0) }
        )
        let (done, rest) = (claimed.nextAction.dispatches[1], [0, 2, 3].map { Self.flights(claimed)[$0] })
        let outcome = OutcomePlanner(policy: RetryPolicy())
            .outcome(of: .response(UpstreamResponse(status: 204)), to: done, now: Self.now, jitter: 0)
        let plan = try Self.chosen(
            Self.plan(.settle(done, outcome), claimed.lane, Self.progress(rest)),
            (5...9).map { Self.mutation($0) }
        )
        #expect(plan.recovery == nil && plan.unblocking == [done.mutation.id])
        #expect(plan.nextAction.dispatches.map(\.mutation.position) == [5] && !plan.nextAction.isIncomplete)
        #expect(plan.lane.queue.head == 1 && plan.lane.queue.count == 8 && plan.lane.inFlight == rest[0].id)
    }

    @Test func `several outcomes are one change of the lane, and make room for as many`() throws {
        let claimed = try Self.chosen(
            Self.plan(.claim, Self.lane(queued: 9, owner: nil), Self.progress(step: 0)),
            (1...4).map { Self.mutation($0) }
        )
        let results = zip(claimed.nextAction.dispatches, [204, 422, 204]).map { dispatch, status in
            Self.result(dispatch, .response(UpstreamResponse(status: status)))
        }
        let plan = try Self.chosen(
            Self.plan(.settle(results), claimed.lane, Self.progress([Self.flights(claimed)[3]])),
            (5...9).map { Self.mutation($0) }
        )
        #expect(plan.unblocking == [results[0], results[2]].map(\.dispatch.mutation.id), "a failure releases nothing")
        #expect(plan.nextAction.dispatches.map(\.mutation.position) == [5, 6, 7] && !plan.nextAction.isIncomplete)
        #expect(plan.lane.changePosition == claimed.lane.changePosition + 1 && plan.lane.lease.step == 2)
        #expect(plan.lane.queue.count == 6 && plan.lane.openCount == 7)
    }

    @Test func `the first of several outcomes that halt the lane halts it`() throws {
        var halting = Self.organization()
        halting.settings.onFailure = .halt
        let claimed = try Self.chosen(
            Self.plan(.claim, Self.lane(queued: 3, owner: nil), Self.progress(step: 0), halting),
            (1...3).map { Self.mutation($0) }
        )
        let results = zip(claimed.nextAction.dispatches, [204, 422, 422]).map { dispatch, status in
            Self.result(dispatch, .response(UpstreamResponse(status: status)))
        }
        let plan = try Self.chosen(Self.plan(.settle(results), claimed.lane, Self.progress(), halting), [])
        #expect(plan.lane.haltedBy == results[1].dispatch.mutation.id && plan.nextAction.isReleased)
        #expect(plan.lane.queue.count == 0 && plan.lane.openCount == 2)
    }

    @Test func `a step with several outcomes that was committed is not written twice`() throws {
        let claimed = try Self.chosen(
            Self.plan(.claim, Self.lane(queued: 2, owner: nil), Self.progress(step: 0)),
            (1...2).map { Self.mutation($0) }
        )
        let step = LaneStep.settle(
            claimed.nextAction.dispatches.map { Self.result($0, .response(UpstreamResponse(status: 204))) }
        )
        let first = try #require(Self.plan(step, claimed.lane, Self.progress()))
        var entities: [UUID: EntityTable] = [:]
        first.settle(&entities) { UUID() }
        let again = try #require(Self.plan(step, first.lane, Self.progress()))
        #expect(again.recovery == .repetition)
        again.settle(&entities) { UUID() }
        #expect(again.outcomes.isEmpty && again.lane.openCount == 0 && again.lane.queue.count == 0)
        // an outcome under an older lease is dropped
        var lost = claimed.lane
        lost.claim(by: UUID(), LaneLease(seconds: 120), now: Self.now)
        #expect(Self.plan(step, lost, Self.progress()) == nil)
    }

    // MARK: - Outcomes that wait together

    private static func result(_ dispatch: Dispatch, _ answer: UpstreamAnswer) -> RequestResult {
        let planner = OutcomePlanner(policy: RetryPolicy())
        return RequestResult(dispatch, planner.outcome(of: answer, to: dispatch, now: now, jitter: 0))
    }

    /// Creates that got server ids.
    private static func steps(_ ids: [Int], bytes: Int = 10) throws -> [LaneStep] {
        try ids.map { id in
            let dispatch = try #require(Sample.of(.create).dispatch)
            let body = #"{"id":\#(id),"a":"\#(String(repeating: "x", count: bytes))"}"#
            return .settle([result(dispatch, .response(UpstreamResponse(status: 201, json: Array(body.utf8))))])
        }
    }

    @Test func `outcomes that wait together are one step, up to the limits`() throws {
        for (count, bytes, sizes) in [
            (1, 10, [1]), (100, 10, [100]), (300, 10, [256, 44]), (5, 400_000, [2, 2, 1]), (2, 2_000_000, [1, 1]),
        ] {
            var waiting = try Self.steps((0..<count).map { 1 + $0 }, bytes: bytes)
            var found: [Int] = []
            while let step = LaneStep.removeNext(from: &waiting) {
                #expect(step.weight == step.dispatches.count)
                found.append(step.dispatches.count)
            }
            #expect(found == sizes)
        }
    }

    @Test func `creates that got the same server id are separate steps`() throws {
        var waiting = try Self.steps([1, 2, 2, 3, 1])
        var found: [Int] = []
        while let step = LaneStep.removeNext(from: &waiting) { found.append(step.dispatches.count) }
        #expect(found == [2, 3])
    }

    @Test func `a step that writes to the built-in store stays a separate step`() throws {
        let create = try #require(Sample.of(.create).dispatch)
        var waiting = try Self.steps([1, 2]) + [.apply(create)] + Self.steps([3])
        var found: [Int] = []
        while let step = LaneStep.removeNext(from: &waiting) { found.append(step.dispatches.count) }
        #expect(found == [2, 1, 1] && waiting.isEmpty)
    }

    // MARK: - What may start

    @Test func `two mutations of an entity are never in flight at the same time`() throws {
        let claimed = try Self.chosen(
            Self.plan(.claim, Self.lane(queued: 5, owner: nil), Self.progress(step: 0, lanes: 1)),
            ([(1, 7), (2, 8), (3, 7), (4, 9)] as [(Int64, Int64)]).map { Self.mutation($0, contact: $1) }
        )
        #expect(claimed.nextAction.dispatches.map(\.mutation.position) == [1, 2, 4])
        let plan = try Self.chosen(
            Self.plan(.proceed(token: 2, unblocking: []), claimed.lane, Self.progress(Self.flights(claimed))),
            [Self.mutation(3, contact: 7), Self.mutation(5, contact: 10)]
        )
        #expect(
            plan.nextAction.dispatches.isEmpty,
            "there was room for one, and the first that is due waits for its entity"
        )
    }

    @Test func `a back-off delays its mutation alone`() throws {
        let due = Self.now.adding(seconds: 40)
        let plan = try Self.chosen(
            Self.plan(.claim, Self.lane(queued: 3, owner: nil), Self.progress(step: 0)),
            [Self.mutation(2), Self.mutation(3)],
            nextRetryAt: due
        )
        #expect(plan.nextAction.dispatches.map(\.mutation.position) == [2, 3] && plan.nextAction.due == due)
        let idle = try Self.chosen(
            Self.plan(.claim, Self.lane(queued: 3, owner: nil), Self.progress(step: 0)),
            [],
            nextRetryAt: due
        )
        #expect(idle.nextAction.isReleased && idle.lane.readyAt == due)
    }

    @Test func `nothing starts in a halted lane, and requests in flight keep it`() throws {
        let flight = try #require(
            Self.flights(
                try Self.chosen(
                    Self.plan(.claim, Self.lane(queued: 2, owner: nil), Self.progress(step: 0)),
                    [Self.mutation(1)]
                )
            ).first
        )
        var lane = Self.lane(queued: 2, inFlight: flight.id)
        lane = LaneState(
            nextPosition: lane.nextPosition,
            queue: LaneState.Queue(count: 2),
            openCount: 3,
            haltedBy: UUID(),
            readyAt: lane.readyAt,
            lease: LaneState.Lease(owner: Self.worker, token: 1, step: 1),
            inFlight: flight.id
        )
        let step = LaneStep.proceed(token: 1, unblocking: [])
        let waiting = try Self.chosen(Self.plan(step, lane, Self.progress([flight])), [Self.mutation(2)])
        #expect(waiting.nextAction.isStart && waiting.nextAction.dispatches.isEmpty)
        #expect(waiting.lane.inFlight == flight.id)
        let ended = try Self.chosen(Self.plan(step, lane, Self.progress()), [Self.mutation(2)])
        #expect(ended.nextAction.isReleased && ended.lane.readyAt == nil && ended.lane.inFlight == nil)
    }

    @Test func `nothing starts while the user is joined or erased, or the organization is suspended`() throws {
        var suspended = Self.organization()
        suspended.status = .suspended
        for (organization, isClosed, pause) in [(suspended, false, 30.0), (Self.organization(), true, 5)] {
            let plan = try Self.chosen(
                Self.plan(
                    .claim,
                    Self.lane(queued: 1, owner: nil),
                    Self.progress(step: 0),
                    organization,
                    isClosed: isClosed
                ),
                [Self.mutation(1)]
            )
            #expect(plan.nextAction.isReleased && plan.lane.readyAt == Self.now.adding(seconds: pause))
            #expect(plan.lane.isAtRest)
        }
    }

    @Test func `an open circuit holds all forwarded mutations, and a probe is one request`() throws {
        let until = Self.now.adding(seconds: 7)
        let due = (1...4).map { Self.mutation($0) }
        let held = try Self.chosen(
            Self.plan(.claim, Self.lane(queued: 4, owner: nil), Self.progress(step: 0), heldUntil: until),
            due
        )
        #expect(held.nextAction.isReleased && held.lane.readyAt == until)
        var probe = Self.progress(step: 0)
        probe.isProbe = true
        let probing = try Self.chosen(Self.plan(.claim, Self.lane(queued: 4, owner: nil), probe), due)
        #expect(probing.nextAction.dispatches.count == 1)
    }

    @Test func `a worker that gives the lane back waits for its requests, and starts nothing`() throws {
        let claimed = try Self.chosen(
            Self.plan(.claim, Self.lane(queued: 3, owner: nil), Self.progress(step: 0)),
            [Self.mutation(1)]
        )
        let step = LaneStep.proceed(token: 2, unblocking: [])
        let busy = try Self.chosen(
            Self.plan(step, claimed.lane, Self.progress(Self.flights(claimed)), releases: true),
            [Self.mutation(2)]
        )
        #expect(busy.nextAction.isStart && busy.nextAction.dispatches.isEmpty && !busy.nextAction.isIncomplete)
        let idle = try Self.chosen(
            Self.plan(step, claimed.lane, Self.progress(), releases: true),
            [Self.mutation(2)]
        )
        #expect(idle.nextAction.isReleased && idle.lane.readyAt == Self.now)
    }

    // MARK: - Recovery

    @Test func `a lost worker's requests are all recovered`() throws {
        let plan = try #require(
            Self.plan(.claim, Self.lane(queued: 3, inFlight: UUID()), Self.progress(step: 0))
        )
        #expect(plan.recovery == .takeover)
        for position in 1...3 as ClosedRange<Int64> {
            guard case .mutation(let mutation, _, _, _) = Self.mutation(position) else { continue }
            plan.recover(mutation, isForwarded: true)
        }
        let chosen = try Self.chosen(plan, (1...3).map { Self.mutation($0) })
        #expect(chosen.lane.queue.count == 3 && chosen.nextAction.dispatches.count == 3)
    }

    @Test func `a repeated step recovers the mutations that the first step started, but not those in flight`() throws {
        let claimed = try Self.chosen(
            Self.plan(.claim, Self.lane(queued: 9, owner: nil), Self.progress(step: 0)),
            (1...2).map { Self.mutation($0) }
        )
        let flights = Self.flights(claimed)
        let step = LaneStep.proceed(token: 2, unblocking: [])
        let first = try Self.chosen(
            Self.plan(step, claimed.lane, Self.progress(flights)),
            (3...4).map { Self.mutation($0) }
        )
        #expect(first.recovery == nil && first.nextAction.dispatches.count == 2 && first.lane.lease.step == 2)
        // the answer to the step was lost
        let again = try #require(Self.plan(step, first.lane, Self.progress(flights)))
        #expect(again.recovery == .repetition)
        for position in 1...4 as ClosedRange<Int64> {
            guard case .mutation(let mutation, _, _, _) = Self.mutation(position) else { continue }
            again.recover(mutation, isForwarded: true)
        }
        var entities: [UUID: EntityTable] = [:]
        again.settle(&entities) { UUID() }
        #expect(again.outcomes.map(\.mutation.position) == [3, 4])
        #expect(again.outcomes.allSatisfy { $0.status == .pending && !$0.outcome.isOutcomeUnknown })
        #expect(again.lane.lease.step == 2, "the worker counts the step once")
    }

    // MARK: - Random lanes

    @Test(arguments: (0..<20).map { UInt64($0) }) func `a random lane runs all its mutations, in order for each entity`(
        _ round: UInt64
    ) throws {
        let seed = Seed().value &+ round
        var random = SeededRandom(seed)
        let count = Int64.random(in: 1...60, using: &random)
        let limit = Int.random(in: 1...8, using: &random)
        let organization = Self.organization(inFlight: limit)
        var pending = (1...count).map { position in (position, Int64.random(in: 1...12, using: &random)) }
        var lane = Self.lane(queued: Int32(count), owner: nil)
        var progress = Self.progress(step: 0)
        var flying: [Dispatch] = []
        var done: [Int64] = []
        let contacts = Dictionary(uniqueKeysWithValues: pending)
        var step = LaneStep.claim
        for _ in 0..<2_000 {
            progress.flights = flying.map { LaneFlight(of: $0) }
            let plan = try Self.chosen(
                Self.plan(step, lane, progress, organization),
                pending.map { Self.mutation($0, contact: $1) }
            )
            progress.step += 1
            lane = plan.lane
            let started = plan.nextAction.dispatches
            flying += started
            let positions = Set(started.map(\.mutation.position))
            pending.removeAll { positions.contains($0.0) }
            let entities = flying.compactMap(\.serverID?.text)
            #expect(flying.count <= limit, "seed \(seed)")
            #expect(Set(entities.map { ByteExactString($0) }).count == entities.count, "seed \(seed)")
            guard !plan.nextAction.isReleased else { break }
            if plan.nextAction.isIncomplete || flying.isEmpty {
                step = .proceed(token: 2, unblocking: [])
                continue
            }
            var results: [RequestResult] = []
            repeat {
                let dispatch = flying.remove(at: Int.random(in: 0..<flying.count, using: &random))
                results.append(Self.result(dispatch, .response(UpstreamResponse(status: random.oneIn(5) ? 422 : 204))))
                done.append(dispatch.mutation.position)
            } while !flying.isEmpty && random.oneIn(3)
            step = .settle(results)
        }
        #expect(pending.isEmpty && flying.isEmpty && done.count == Int(count), "seed \(seed)")
        #expect(lane.queue.count == 0 && lane.isAtRest && lane.readyAt == nil, "seed \(seed)")
        for contact in Set(contacts.values) {
            let order = done.filter { contacts[$0] == contact }
            #expect(order == order.sorted(), "seed \(seed)")
        }
    }
}

extension QueuedMutation {
    /// A mutation with a separate id.
    fileprivate init(numbered number: Int64, _ other: QueuedMutation) {
        let bytes = withUnsafeBytes(of: number.bigEndian) { Array($0) }
        let id = UUID(
            uuid: (
                9, 9, 9, 9, 9, 9, 0x49, 9, 0x89, 9, bytes[2], bytes[3], bytes[4], bytes[5], bytes[6], bytes[7]
            )
        )
        self.init(
            id: id,
            deviceID: other.deviceID,
            position: number,
            acceptedAt: other.acceptedAt,
            operation: other.operation,
            entity: other.entity,
            maxAttempts: other.maxAttempts,
            conflictResolution: other.conflictResolution
        )
        endpoint = other.endpoint
        payload = other.payload
        nextRetryAt = other.nextRetryAt
    }
}

extension LaneAction {
    fileprivate var isStart: Bool { if case .start = self { true } else { false } }
    fileprivate var isReleased: Bool { if case .released = self { true } else { false } }
    fileprivate var isIncomplete: Bool {
        if case .start(_, _, _, let isIncomplete, _) = self { isIncomplete } else { false }
    }
    fileprivate var due: Timestamp? { if case .start(_, _, _, _, let due) = self { due } else { nil } }
}
