import Foundation
import SyncModel
import TestSupport
import Testing

@testable import SyncDispatch

@Suite struct HostPlacesTests {
    private typealias Places = HostPlaces<LaneKey>

    private static func lane(_ organization: UUID) -> LaneKey { LaneKey(organization: organization, user: UUID()) }

    private static func places(_ places: Int, requests: Int) -> Places {
        Places(Places.Limits(places: places, requests: requests))
    }

    /// Takes as many places for an organization as it may hold. Its host never answers.
    private static func hang(_ organization: UUID, _ places: inout Places) {
        while places.mayTake(organization) {
            let lane = lane(organization)
            places.take(lane, of: organization)
            places.startAwaiting(lane)
        }
    }

    @Test func `a holder that awaits an answer occupies no place`() {
        let (organization, other) = (UUID(), UUID())
        var places = Self.places(1, requests: 10)
        let lane = Self.lane(organization)
        places.take(lane, of: organization)
        #expect(!places.mayTake(other) && places.working == 1)
        places.startAwaiting(lane)
        #expect(places.mayTake(other) && places.working == 0 && places.awaiting == 1)
        #expect(places.pace(of: organization) == .slow)
        places.resume(lane)
        #expect(places.working == 1 && places.awaiting == 0 && places.pace(of: organization) == .unmeasured)
        places.release(lane)
        #expect(places.count == 0 && places.held(by: organization) == 0)
    }

    @Test func `an organization holds at most as much as it leaves free`() {
        var places = Self.places(8, requests: 100)
        let organizations = (0..<4).map { _ in UUID() }
        // the organizations take places in turn, as in the scheduler
        var isChanged = true
        while isChanged {
            isChanged = false
            for organization in organizations where places.mayTake(organization) {
                let lane = Self.lane(organization)
                places.take(lane, of: organization)
                places.startAwaiting(lane)
                isChanged = true
            }
        }
        // three quarters of 100, shared by four
        for organization in organizations { #expect((18...19).contains(places.held(by: organization))) }
        #expect(places.mayTake(UUID()))
        var few = Self.places(8, requests: 20)
        Self.hang(organizations[0], &few)
        #expect(few.held(by: organizations[0]) == 10)
    }

    @Test(arguments: [1, 2, 66, 500]) func `hanging hosts leave room for one more organization`(count: Int) {
        var places = Self.places(32, requests: 4_096)
        for _ in 0..<count { Self.hang(UUID(), &places) }
        #expect(places.working == 0)
        #expect(places.mayTake(UUID()), "an organization whose host is unmeasured")
        let fast = UUID()
        places.setPace(fast, .fast)
        #expect(places.mayTake(fast))
    }

    @Test func `a fast host finds room among any number of new ones`() {
        var places = Self.places(32, requests: 256)
        for _ in 0..<10_000 { Self.hang(UUID(), &places) }
        #expect(places.count == 256 / 8 * 7)
        let fast = UUID()
        places.setPace(fast, .fast)
        #expect(places.mayTake(fast) && !places.mayTake(UUID()))
    }

    @Test func `slow organizations leave room for new ones`() {
        var places = Self.places(32, requests: 256)
        for _ in 0..<10_000 {
            let slow = UUID()
            places.setPace(slow, .slow)
            Self.hang(slow, &places)
        }
        #expect(places.count == 192 && places.mayTake(UUID()))
    }

    @Test func `working lanes of slow hosts leave half of the places`() {
        var places = Self.places(8, requests: 1_000)
        let slow = UUID()
        places.setPace(slow, .slow)
        while places.mayTake(slow) { places.take(Self.lane(slow), of: slow) }
        #expect(places.working == 4)
        // more lanes of slow hosts return with answers
        for _ in 0..<20 { places.take(Self.lane(slow), of: slow) }
        #expect(places.mayTake(UUID()))
        for _ in 0..<4 {
            let other = UUID()
            places.take(Self.lane(other), of: other)
        }
        #expect(!places.mayTake(UUID()))
    }

    /// After any operations, the sums equal those of the individual holders, and the limits hold.
    @Test func `sums and limits hold after random operations`() {
        let seed = Seed()
        var random = seed.generator
        for _ in 0..<40 {
            let limits = Places.Limits(
                places: Int.random(in: 1...9, using: &random),
                requests: Int.random(in: 1...40, using: &random)
            )
            var places = Places(limits)
            let organizations = (0..<Int.random(in: 1...8, using: &random)).map { _ in UUID() }
            // whether each holder awaits an answer.
            var held: [LaneKey: Bool] = [:]
            for _ in 0..<400 {
                let organization = organizations.randomElement(using: &random) ?? organizations[0]
                let lane = held.keys.sorted().randomElement(using: &random)
                switch Int.random(in: 0..<8, using: &random) {
                case 0..<4:
                    guard places.mayTake(organization) else { continue }
                    let lane = Self.lane(organization)
                    places.take(lane, of: organization)
                    held[lane] = false
                    #expect(held.count <= limits.requests, "\(seed)")
                case 4:
                    guard let lane, held[lane] == false else { continue }
                    places.startAwaiting(lane)
                    held[lane] = true
                case 5:
                    guard let lane else { continue }
                    places.resume(lane)
                    held[lane] = false
                case 6:
                    guard let lane else { continue }
                    places.release(lane)
                    held[lane] = nil
                default:
                    let pace = [HostPace.fast, .unmeasured, .slow].randomElement(using: &random) ?? .fast
                    places.setPace(organization, pace)
                }
                #expect(places.count == held.count, "\(seed)")
                #expect(places.awaiting == held.values.count { $0 }, "\(seed)")
                #expect(places.working == held.values.count { !$0 }, "\(seed)")
                for organization in organizations {
                    let own = held.filter { $0.key.organization == organization }
                    #expect(places.held(by: organization) == own.count, "\(seed)")
                    if own.values.contains(true) {
                        #expect(places.pace(of: organization) == .slow, "\(seed)")
                    }
                }
            }
            for lane in held.keys { places.release(lane) }
            #expect(places.count == 0 && places.working == 0 && places.heldBySlow == 0, "\(seed)")
            #expect(places.mayTake(UUID()), "\(seed)")
        }
    }

    @Test func `candidates of organizations get places in turn`() {
        var places = Self.places(5, requests: 40)
        let (large, small) = (UUID(), UUID())
        let candidates = [large: (0..<10).map { _ in Self.lane(large) }, small: [Self.lane(small)]]
        let (chosen, isCrowded) = places.choose(candidates, atMost: 3)
        #expect(chosen.count == 4 && !isCrowded && places.held(by: large) == 3)
        let more = places.choose([UUID(): [Self.lane(large)], UUID(): [Self.lane(small)]], atMost: 3)
        #expect(more.chosen.count == 1 && more.isCrowded)
    }
}

@Suite struct HostClockTests {
    private let start = ContinuousClock.now

    private func clock() -> (clock: HostClock<LaneKey>, events: Shared<[String]>) {
        let events = Shared<[String]>([])
        let clock = HostClock<LaneKey>(threshold: .milliseconds(250)) { event in
            events.change { events in
                switch event {
                case .awaits: events.append("awaits")
                case .answered: events.append("answered")
                case .pace(_, let pace): events.append("\(pace)")
                }
            }
        }
        return (clock, events)
    }

    @Test func `a host is fast after one quick answer`() {
        let (clock, events) = clock()
        let lane = LaneKey(organization: UUID(), user: UUID())
        let first = clock.begin(lane, of: lane.organization, at: start)
        #expect(events.value == ["awaits"], "an unmeasured host has no waiting period")
        clock.end(first, took: .milliseconds(20))
        #expect(events.value == ["awaits", "fast", "answered"])
        events.value = []
        let second = clock.begin(lane, of: lane.organization, at: start)
        clock.poll(at: start + .milliseconds(249))
        #expect(events.value.isEmpty)
        clock.poll(at: start + .milliseconds(250))
        clock.poll(at: start + .milliseconds(900))
        #expect(events.value == ["awaits"])
        clock.end(second, took: .seconds(30))
        #expect(events.value == ["awaits", "slow", "answered"])
    }

    @Test func `a host that recovers is fast again after a few answers`() {
        let (clock, events) = clock()
        let lane = LaneKey(organization: UUID(), user: UUID())
        clock.end(clock.begin(lane, of: lane.organization), took: .seconds(90))
        events.value = []
        var count = 0
        while !events.value.contains("fast"), count < 50 {
            clock.end(clock.begin(lane, of: lane.organization), took: .milliseconds(5))
            count += 1
        }
        #expect((2...8).contains(count))
    }

    @Test func `a holder with several requests waits until all are answered`() {
        let (clock, events) = clock()
        let lane = LaneKey(organization: UUID(), user: UUID())
        let tickets = (0..<3).map { _ in clock.begin(lane, of: lane.organization) }
        #expect(events.value == ["awaits"])
        for ticket in tickets.dropLast() { clock.end(ticket, took: .seconds(1)) }
        #expect(!events.value.contains("answered"))
        clock.end(tickets[2], took: .seconds(1))
        #expect(events.value.last == "answered")
    }
}

/// The scheduler with hanging upstreams. Every started lane waits without end for its upstream's answer.
@Suite struct SlowUpstreamSchedulerTests {
    private struct Hanging {
        var scheduler: LaneScheduler
        var started = 0

        mutating func add(_ organizations: Int, lanes: Int, cap: Int, _ pace: HostPace? = nil) {
            for _ in 0..<organizations {
                let organization = UUID()
                if let pace { scheduler.apply(.pace(organization, pace)) }
                for _ in 0..<lanes { scheduler.add(LaneKey(organization: organization, user: UUID())) }
                run(cap)
            }
            run(cap)
        }

        /// Starts all lanes that may start.
        mutating func run(_ cap: Int) {
            while let lane = scheduler.next() {
                started += 1
                scheduler.setCap(lane.organization, cap)
                scheduler.apply(.awaits(lane))
            }
        }

        /// Whether a lane of another organization would run immediately.
        mutating func admitsAnother(_ pace: HostPace? = nil) -> Bool {
            let lane = LaneKey(organization: UUID(), user: UUID())
            if let pace { scheduler.apply(.pace(lane.organization, pace)) }
            scheduler.add(lane)
            return scheduler.next() == lane
        }
    }

    @Test func `an organization with 1,000 hanging requests does not delay another with 32 lanes`() {
        var hanging = Hanging(scheduler: LaneScheduler(capacity: 32))
        hanging.add(1, lanes: 1_000, cap: 1_000)
        #expect(hanging.started == 1_000)
        let isAdmitted = hanging.admitsAnother()
        #expect(isAdmitted)
    }

    @Test(arguments: [66, 500]) func `hanging organizations do not delay another with default settings`(
        count: Int
    ) {
        var hanging = Hanging(scheduler: LaneScheduler(capacity: 1_024))
        hanging.add(count, lanes: 30, cap: 16)
        #expect(hanging.started >= count)
        for pace in [HostPace.unmeasured, .fast] {
            let isAdmitted = hanging.admitsAnother(pace)
            #expect(isAdmitted, "\(pace)")
        }
    }

    @Test func `500 hanging organizations do not delay another with 32 lanes`() {
        var hanging = Hanging(scheduler: LaneScheduler(capacity: 32))
        hanging.add(500, lanes: 30, cap: 16, .fast)
        #expect(hanging.started >= 500)
        let isAdmitted = hanging.admitsAnother()
        #expect(isAdmitted)
    }

    @Test func `lanes of slow upstreams run in turn with those of fast ones`() {
        var scheduler = LaneScheduler(capacity: 4)
        let (slow, fast) = (UUID(), UUID())
        scheduler.apply(.pace(slow, .slow))
        scheduler.apply(.pace(fast, .fast))
        scheduler.setCap(slow, 10)
        scheduler.setCap(fast, 10)
        for organization in [slow, fast] {
            for _ in 0..<100 { scheduler.add(LaneKey(organization: organization, user: UUID())) }
        }
        var started: [UUID: Int] = [:]
        for _ in 0..<40 {
            var running: [LaneKey] = []
            while let lane = scheduler.next() { running.append(lane) }
            for lane in running {
                started[lane.organization, default: 0] += 1
                scheduler.finish(lane, isDue: false)
            }
        }
        #expect((60...100).contains(started[slow] ?? 0) && (60...100).contains(started[fast] ?? 0))
    }

    /// Every lane runs eventually, however hosts change their pace.
    @Test func `every lane runs while hosts change their pace`() {
        let seed = Seed()
        var random = seed.generator
        for _ in 0..<30 {
            var scheduler = LaneScheduler(
                capacity: Int.random(in: 1...8, using: &random),
                requests: Int.random(in: 2...24, using: &random)
            )
            let organizations = (0..<6).map { _ in UUID() }
            var remaining = Set(
                organizations.flatMap { id in (0..<20).map { _ in LaneKey(organization: id, user: UUID()) } }
            )
            for lane in remaining.sorted() { scheduler.add(lane) }
            var running: [LaneKey] = []
            var steps = 0
            while !remaining.isEmpty, steps < 20_000 {
                steps += 1
                switch Int.random(in: 0..<6, using: &random) {
                case 0, 1:
                    if let lane = scheduler.next() {
                        #expect(remaining.remove(lane) != nil, "\(seed)")
                        running.append(lane)
                    }
                case 2:
                    if let lane = running.randomElement(using: &random) { scheduler.apply(.awaits(lane)) }
                case 3:
                    if let lane = running.randomElement(using: &random) { scheduler.apply(.answered(lane)) }
                case 4:
                    let pace = [HostPace.fast, .slow].randomElement(using: &random) ?? .fast
                    scheduler.apply(.pace(organizations[Int.random(in: 0..<6, using: &random)], pace))
                default:
                    guard !running.isEmpty else { continue }
                    scheduler.finish(running.removeFirst(), isDue: false)
                }
            }
            #expect(remaining.isEmpty, "\(remaining.count) lanes never ran: \(seed)")
        }
    }
}
