import Foundation
import TestSupport
import Testing

@testable import SyncModel

@Suite struct CostTests {
    /// Jobs of organizations with different times for a unit of work.
    private struct Bench {
        var line = FairGroupQueue(workers: 1, hasHeavyWorker: true, capacity: 4_096)
        var rates: [UUID: Double] = [:]
        var lastTicket = 0
        /// The time that both workers have worked, added up. It serves as the clock.
        var clock = 0.0
        var served: [UUID: Double] = [:]
        var began: [Int: Double] = [:]
        var waits: [UUID: [Double]] = [:]
        static let fixed = 1_000.0

        mutating func add(_ organization: UUID, weight: Int = 1, user: UUID = UUID()) {
            lastTicket += 1
            let lane = LaneKey(organization: organization, user: user)
            began[lastTicket] = clock
            _ = line.add(FairGroupQueue.Item(ticket: lastTicket, lane: lane, weight: weight, bytes: 400), worker: 0)
        }

        /// Commits a worker's next group.
        mutating func commit(at worker: Int) -> [FairGroupQueue.Item] {
            let group = line.take(at: worker)
            var took = Self.fixed
            for item in group {
                let cost = Double(item.weight) * (rates[item.lane.organization] ?? 50)
                served[item.lane.organization, default: 0] += cost
                took += cost
            }
            if !group.isEmpty { clock += took }
            for item in group {
                waits[item.lane.organization, default: []].append(clock - (began.removeValue(forKey: item.ticket) ?? 0))
            }
            _ = line.finish(at: worker, took: group.isEmpty ? nil : took)
            return group
        }
    }

    @Test func `groups of one organization keep their full size`() {
        var bench = Bench()
        let organization = UUID()
        for _ in 0..<200 {
            for _ in 0..<20 { bench.add(organization, weight: 50) }
            #expect(bench.commit(at: 0).count == 20)
        }
    }

    @Test func `groups of many organizations with equal costs keep their full size`() {
        var bench = Bench()
        let organizations = (0..<200).map { _ in UUID() }
        var random = SeededRandom(7)
        for _ in 0..<300 {
            for _ in 0..<20 { bench.add(organizations.randomElement(using: &random)!, weight: 50) }
            #expect(bench.commit(at: 0).count == 20)
        }
    }

    @Test func `slow jobs of a busy organization go to the heavy worker while a quiet one waits`() {
        var bench = Bench()
        let (busy, quiet) = (UUID(), UUID())
        bench.rates[busy] = 300
        for _ in 0..<40 {
            bench.add(busy, weight: 50)
            bench.add(quiet)
            while !bench.commit(at: 0).isEmpty || !bench.commit(at: 1).isEmpty {}
        }
        bench.add(busy, weight: 50)
        bench.add(quiet)
        #expect(bench.commit(at: 0).map(\.lane.organization) == [quiet])
        #expect(bench.commit(at: 1).map(\.lane.organization) == [busy])
        // after the quiet organization has been absent for long enough, the busy one gets its own worker back
        for _ in 0..<400 {
            bench.add(busy, weight: 50)
            while !bench.commit(at: 0).isEmpty || !bench.commit(at: 1).isEmpty {}
        }
        for _ in 0..<20 { bench.add(busy, weight: 50) }
        #expect(bench.commit(at: 0).count == 20)
    }

    /// A bench on which one organization takes most of the time, and another one little.
    private func crowd(workers: Int) -> (bench: Bench, busy: UUID, quiet: UUID) {
        var bench = Bench()
        bench.line = FairGroupQueue(workers: workers, hasHeavyWorker: true, capacity: 4_096)
        let (busy, quiet) = (UUID(), UUID())
        bench.rates[busy] = 100
        for _ in 0..<400 {
            bench.add(busy, weight: 15)
            bench.add(quiet)
            while (0..<workers).contains(where: { !bench.commit(at: $0).isEmpty }) {}
        }
        return (bench, busy, quiet)
    }

    @Test func `a job of a quiet organization goes to a worker without work`() {
        var (bench, busy, quiet) = crowd(workers: 2)
        func item(_ ticket: Int, _ organization: UUID) -> FairGroupQueue.Item {
            let lane = LaneKey(organization: organization, user: UUID())
            return FairGroupQueue.Item(ticket: 10_000 + ticket, lane: lane, weight: 1, bytes: 400)
        }
        #expect(bench.line.add(item(1, quiet), worker: 0) == 0, "its own worker has no work")
        #expect(bench.commit(at: 0).map(\.lane.organization) == [quiet])
        #expect(bench.line.add(item(2, busy), worker: 0) == 0)
        #expect(bench.line.add(item(3, quiet), worker: 0) == 1)
        #expect(bench.line.take(at: 0).map(\.lane.organization) == [busy])
        #expect(bench.line.add(item(4, UUID()), worker: 0) == 0, "the other worker has work, too")
        #expect(bench.line.take(at: 1).map(\.lane.organization) == [quiet])
    }

    @Test func `groups contain jobs of a busy organization or of quiet ones`() {
        var (bench, busy, quiet) = crowd(workers: 1)
        bench.add(busy, weight: 15)
        bench.add(quiet)
        bench.add(busy, weight: 15)
        let groups = [bench.commit(at: 0), bench.commit(at: 0)].map { Set($0.map(\.lane.organization)) }
        #expect(groups == [[busy], [quiet]] || groups == [[quiet], [busy]])
    }

    @Test func `waiting organizations take turns by cost and not by count`() {
        var bench = Bench()
        let (slow, quick, little) = (UUID(), UUID(), UUID())
        (bench.rates[slow], bench.rates[quick], bench.rates[little]) = (2_000, 200, 20)
        for _ in 0..<3_000 {
            // `slow` and `quick` get more work than the worker can do in the time
            for _ in 0..<4 { bench.add(slow) }
            for _ in 0..<40 { bench.add(quick) }
            bench.add(little)
            _ = bench.commit(at: 0)
            if bench.clock > 2_000_000 { break }
        }
        let (one, other) = (bench.served[slow] ?? 0, bench.served[quick] ?? 0)
        #expect(one < other * 1.5 && other < one * 1.5, "\(one) and \(other)")
    }

    /// A job waits only for the group in progress and for its own group, however many other organizations are busy.
    @Test(arguments: 0..<20)
    func `a quiet organization waits for at most two groups of bounded cost`(_ number: UInt64) {
        var random = SeededRandom(number)
        var bench = Bench()
        let busy = (0..<Int.random(in: 1...6, using: &random)).map { _ in UUID() }
        let quiet = UUID()
        var asked = 0
        for organization in busy { bench.rates[organization] = .random(in: 10...2_400, using: &random) }
        for round in 0..<900 {
            for organization in busy {
                for _ in 0..<Int.random(in: 0...3, using: &random) { bench.add(organization) }
            }
            if round % 3 == 0, bench.waits[quiet, default: []].count == asked {
                bench.add(quiet)
                asked += 1
            }
            _ = bench.commit(at: 0)
            _ = bench.commit(at: 1)
        }
        let limits = GroupLimits()
        // in each of two rounds, both workers commit a group; a group may exceed its limit by one job, and by the
        // prediction error
        let bound = 4 * (limits.cost + Bench.fixed + 2 * 2_400)
        let settled = bench.waits[quiet, default: []].dropFirst(50)
        #expect(settled.count > 100 && settled.allSatisfy { $0 <= bound }, "seed \(number): \(settled.max() ?? 0)")
    }

    @Test func `an organization's cost follows the duration of its jobs`() {
        var ledger = CostLedger()
        let organization = UUID()
        let item = FairGroupQueue.Item(
            ticket: 1,
            lane: LaneKey(organization: organization, user: UUID()),
            weight: 10,
            bytes: 0
        )
        #expect(ledger.cost(of: item) == 500)
        for _ in 0..<100 { _ = ledger.measured(21_000, of: [item]) }
        #expect(abs(ledger.cost(of: item) - 20_000) < 2_000, "\(ledger.cost(of: item))")
        #expect(!ledger.isCrowded, "the organization is alone")
    }

    @Test func `a short job of a new organization never counts as busy, after any mix of costs`() {
        let seed = Seed()
        var random = seed.generator
        var ledger = CostLedger()
        let organizations = (0..<4).map { _ in UUID() }
        func item(_ organization: UUID, _ weight: Int, _ bytes: Int = 400) -> FairGroupQueue.Item {
            FairGroupQueue.Item(
                ticket: 1,
                lane: LaneKey(organization: organization, user: UUID()),
                weight: weight,
                bytes: bytes
            )
        }
        for round in 1...100_000 {
            // the same organization alternates between cheap and expensive units, alone and with others
            let items = (0..<Int.random(in: 1...3, using: &random)).map { _ in
                item(organizations.randomElement(using: &random)!, [1, 3, 15, 199, 500].randomElement(using: &random)!)
            }
            let took = [1_200.0, 5_500, 38_000, 170_000, 700_000].randomElement(using: &random)!
            let costs = ledger.measured(took, of: items)
            #expect(costs.values.reduce(0) { $0 + $1.actual } <= took + 1, "\(seed)")
            guard round.isMultiple(of: 5_000) else { continue }
            let newcomer = item(UUID(), 1)
            #expect(ledger.cost(of: newcomer) <= 25_000, "\(seed)")
            var copy = ledger
            _ = copy.measured(6_000, of: [newcomer])
            #expect(!copy.isBusy(newcomer.lane.organization), "\(seed)")
        }
    }

    @Test func `the rate of a new organization is the average of what was measured`() {
        var ledger = CostLedger()
        let organization = UUID()
        let user = LaneKey(organization: organization, user: UUID())
        // refused pushes that take long for their weight, and cheap pushes between them
        for _ in 0..<2_000 {
            _ = ledger.measured(171_000, of: [FairGroupQueue.Item(ticket: 1, lane: user, weight: 500, bytes: 400)])
            for _ in 0..<2 {
                _ = ledger.measured(5_500, of: [FairGroupQueue.Item(ticket: 1, lane: user, weight: 1, bytes: 400)])
            }
        }
        let newcomer = FairGroupQueue.Item(
            ticket: 1,
            lane: LaneKey(organization: UUID(), user: UUID()),
            weight: 1,
            bytes: 400
        )
        #expect(ledger.cost(of: newcomer) < 1_000, "\(ledger.cost(of: newcomer))")
    }
}
