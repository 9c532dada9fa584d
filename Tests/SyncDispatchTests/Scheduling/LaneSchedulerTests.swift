import Foundation
import StoreSupport
import SyncModel
import TestSupport
import Testing

@testable import SyncDispatch

@Suite struct LaneSchedulerTests {
    private static func lanes(_ count: Int, of organization: UUID = UUID()) -> [LaneKey] {
        (0..<count).map { _ in LaneKey(organization: organization, user: UUID()) }
    }

    private static func drain(_ scheduler: inout LaneScheduler) -> [LaneKey] {
        var started: [LaneKey] = []
        while let lane = scheduler.next() { started.append(lane) }
        return started
    }

    @Test func `limits the running lanes`() {
        let (first, second) = (Self.lanes(10), Self.lanes(10))
        var scheduler = LaneScheduler(capacity: 7)
        scheduler.setCap(first[0].organization, 3)
        scheduler.setCap(second[0].organization, 5)
        for lane in first + second { scheduler.add(lane) }
        let started = Self.drain(&scheduler)
        #expect(started.count == 7 && scheduler.runningCount == 7 && scheduler.waitingCount == 13)
        #expect(started.filter { $0.organization == first[0].organization } == Array(first[0..<3]))
        #expect(started.filter { $0.organization == second[0].organization } == Array(second[0..<4]))
        #expect(scheduler.isFull)
        scheduler.finish(started[0], isDue: false)
        #expect(Self.drain(&scheduler).count == 1)
    }

    @Test func `an unknown organization runs one lane until its limit is known`() {
        let lanes = Self.lanes(5)
        var scheduler = LaneScheduler(capacity: 100)
        for lane in lanes { scheduler.add(lane) }
        #expect(Self.drain(&scheduler) == [lanes[0]])
        scheduler.setCap(lanes[0].organization, 3)
        #expect(Self.drain(&scheduler) == [lanes[1], lanes[2]])
        scheduler.setCap(lanes[0].organization, 1)
        for lane in lanes[0..<3] { scheduler.finish(lane, isDue: false) }
        #expect(Self.drain(&scheduler) == [lanes[3]])
        scheduler.setCap(lanes[0].organization, 64)
        #expect(Self.drain(&scheduler) == [lanes[4]])
        for lane in lanes[3...] { scheduler.finish(lane, isDue: false) }
        // the limit is kept while no lane runs
        for lane in lanes { scheduler.add(lane) }
        #expect(Self.drain(&scheduler).count == 5)
    }

    @Test func `a noisy organization delays a quiet one by at most one turn`() {
        var scheduler = LaneScheduler(capacity: 1)
        let noisy = Self.lanes(5_000)
        for lane in noisy { scheduler.add(lane) }
        for lane in Self.drain(&scheduler) { scheduler.finish(lane, isDue: false) }
        for quiet in Self.lanes(1) + Self.lanes(1) + Self.lanes(1) {
            scheduler.add(quiet)
            var turns = 0
            while let lane = scheduler.next() {
                scheduler.finish(lane, isDue: false)
                if lane == quiet { break }
                turns += 1
            }
            #expect(turns <= 1)
        }
    }

    @Test func `a lane reported while it runs is processed again`() {
        let lane = Self.lanes(1)[0]
        var scheduler = LaneScheduler(capacity: 10)
        scheduler.add(lane)
        scheduler.add(lane)
        #expect(Self.drain(&scheduler) == [lane])
        for _ in 0..<3 { scheduler.add(lane) }
        #expect(Self.drain(&scheduler).isEmpty)
        scheduler.finish(lane, isDue: false)
        #expect(Self.drain(&scheduler) == [lane])
        scheduler.finish(lane, isDue: false)
        #expect(Self.drain(&scheduler).isEmpty && scheduler.runningCount == 0 && scheduler.waitingCount == 0)
    }

    @Test func `lanes without room are polled later`() {
        let lanes = Self.lanes(LaneScheduler.waitingLimit + 10)
        let organization = lanes[0].organization
        var scheduler = LaneScheduler(capacity: 10_000)
        scheduler.setCap(organization, 1_000)
        for lane in lanes { scheduler.add(lane) }
        #expect(scheduler.waitingCount == LaneScheduler.waitingLimit && scheduler.isFull)
        // while this many wait, polling for more is unnecessary
        #expect(scheduler.searchable.isEmpty)
        #expect(scheduler.occupied == [organization])
        #expect(Self.drain(&scheduler).count == 1_000)
        #expect(scheduler.searchable.map(\.organization) == [organization])
        scheduler.setMayHaveMore(organization, false)
        #expect(scheduler.searchable.isEmpty && !scheduler.isFull)
    }

    @Test func `lanes release their places only while others wait`() {
        let (first, second) = (Self.lanes(3), Self.lanes(1))
        var scheduler = LaneScheduler(capacity: 2)
        scheduler.setCap(first[0].organization, 2)
        scheduler.add(first[0])
        scheduler.add(first[1])
        _ = Self.drain(&scheduler)
        #expect(!scheduler.contention.includes(first[0].organization))
        scheduler.add(second[0])
        // another organization waits for a place
        #expect(scheduler.contention.includes(first[0].organization))
        var wide = LaneScheduler(capacity: 10)
        wide.setCap(first[0].organization, 2)
        for lane in first + second { wide.add(lane) }
        _ = Self.drain(&wide)
        #expect(wide.contention.includes(first[0].organization) && !wide.contention.includes(second[0].organization))
    }

    /// A simple model: the sets of waiting lanes, running lanes, and lanes to run again.
    @Test func `random operations agree with a simple model`() {
        let seed = Seed()
        var random = seed.generator
        for _ in 0..<30 {
            let capacity = Int.random(in: 1...12, using: &random)
            var scheduler = LaneScheduler(capacity: capacity)
            let lanes = (0..<5).flatMap { _ in Self.lanes(Int.random(in: 1...12, using: &random)) }
            var caps: [UUID: Int] = [:]
            var (waiting, running, again) = (Set<LaneKey>(), Set<LaneKey>(), Set<LaneKey>())
            func busy(_ organization: UUID) -> Int { running.count { $0.organization == organization } }
            for _ in 0..<500 {
                let lane = lanes.randomElement(using: &random) ?? lanes[0]
                switch Int.random(in: 0..<10, using: &random) {
                case 0..<4:
                    scheduler.add(lane)
                    if running.contains(lane) { again.insert(lane) } else { waiting.insert(lane) }
                case 4:
                    caps[lane.organization] = Int.random(in: 1...6, using: &random)
                    scheduler.setCap(lane.organization, caps[lane.organization] ?? 1)
                case 5: scheduler.setMayHaveMore(lane.organization, Bool.random(using: &random))
                case 6..<8:
                    guard let done = running.sorted().randomElement(using: &random) else { continue }
                    let isDue = Bool.random(using: &random)
                    scheduler.finish(done, isDue: isDue)
                    running.remove(done)
                    if again.remove(done) != nil || isDue { waiting.insert(done) }
                default:
                    let mayRun = waiting.contains { busy($0.organization) < caps[$0.organization] ?? 1 }
                    if let next = scheduler.next() {
                        #expect(waiting.remove(next) != nil && running.insert(next).inserted, "\(seed)")
                        #expect(running.count <= capacity, "\(seed)")
                        #expect(busy(next.organization) <= caps[next.organization] ?? 1, "\(seed)")
                    } else {
                        #expect(!mayRun || running.count == capacity, "\(seed)")
                    }
                }
                #expect(scheduler.runningCount == running.count, "\(seed)")
                #expect(scheduler.waitingCount == waiting.count, "\(seed)")
            }
            // every lane is kept
            for (index, lane) in lanes.enumerated() where index % 3 == 0 {
                scheduler.add(lane)
                if running.contains(lane) { again.insert(lane) } else { waiting.insert(lane) }
            }
            while !waiting.isEmpty || !running.isEmpty {
                while let next = scheduler.next() {
                    #expect(waiting.remove(next) != nil && running.insert(next).inserted, "\(seed)")
                }
                guard let done = running.first else {
                    Issue.record("\(waiting.count) lanes are never run: \(seed)")
                    break
                }
                scheduler.finish(done, isDue: false)
                running.remove(done)
                if again.remove(done) != nil { waiting.insert(done) }
            }
            #expect(scheduler.runningCount == 0 && scheduler.waitingCount == 0, "\(seed)")
        }
    }
}

@Suite struct InboxTests {
    private static func lanes(_ count: Int) -> [LaneKey] {
        let organization = UUID()
        return (0..<count).map { _ in LaneKey(organization: organization, user: UUID()) }
    }

    @Test func `lanes beyond the capacity are polled from the database`() async {
        let inbox = Inbox()
        let lanes = Self.lanes(Inbox.capacity + 10)
        inbox.post(ready: Array(lanes[..<Inbox.capacity]))
        inbox.post { $0.finished.append(Inbox.Finished(lane: lanes[0], isDue: true)) }
        inbox.post(ready: [])
        inbox.post(ready: Array(lanes[Inbox.capacity...]))
        let messages = await inbox.next()
        #expect(messages.ready == Array(lanes[..<Inbox.capacity]) && messages.mustPoll)
        #expect(messages.finished.count == 1)
        inbox.post(ready: [lanes[0]])
        let more = await inbox.next()
        #expect(more.ready == [lanes[0]] && !more.mustPoll && more.finished.isEmpty)
    }

    @Test func `loses nothing while many post`() async {
        let inbox = Inbox()
        let lanes = Self.lanes(2_000)
        await withTaskGroup(of: Void.self) { group in
            for lane in lanes {
                group.addTask {
                    inbox.post(ready: [lane])
                    inbox.post { $0.finished.append(Inbox.Finished(lane: lane, isDue: false)) }
                }
            }
            var (ready, finished) = (Set<LaneKey>(), Set<LaneKey>())
            while ready.count < lanes.count || finished.count < lanes.count {
                let messages = await inbox.next()
                ready.formUnion(messages.ready)
                finished.formUnion(messages.finished.map(\.lane))
            }
            #expect(ready == Set(lanes) && finished == Set(lanes))
        }
    }

    @Test func `the reader of a closed inbox still waits`() async {
        let inbox = Inbox()
        inbox.post { $0.isClosed = true }
        #expect(await inbox.next().isClosed)
        // the reader has read the closing, so there is nothing to read until a post
        async let next = inbox.next()
        inbox.post(ready: Self.lanes(1))
        #expect(await next.ready.count == 1)
    }
}
