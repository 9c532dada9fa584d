import Foundation
import SyncModel
import TestSupport
import Testing

@Suite("Batches of jobs")
struct FairGroupQueueTests {
    private var lastTicket = 0
    private var line = FairGroupQueue(workers: 2, hasHeavyWorker: true, capacity: 4_096)
    private let noisy = UUID()
    private let quiet = UUID()

    @discardableResult
    private mutating func add(
        _ organization: UUID,
        user: UUID = UUID(),
        weight: Int = 1,
        bytes: Int = 100,
        worker: Int = 0
    ) -> Int? {
        lastTicket += 1
        let lane = LaneKey(organization: organization, user: user)
        return line.add(
            FairGroupQueue.Item(ticket: lastTicket, lane: lane, weight: weight, bytes: bytes),
            worker: worker
        )
    }

    private func tickets(_ group: [FairGroupQueue.Item]) -> [Int] { group.map(\.ticket) }

    @Test
    mutating func `A group contains all waiting jobs, with organizations in turn`() {
        for _ in 0..<3 { add(noisy) }
        for _ in 0..<2 { add(quiet) }
        #expect(tickets(line.take(at: 0)) == [1, 4, 2, 5, 3])
        #expect(line.count == 0)
        #expect(line.finish(at: 0) == [])
        #expect(tickets(line.take(at: 0)) == [])
    }

    @Test
    mutating func `A new organization is in the next group, however many jobs of another organization wait`() {
        for _ in 0..<1_000 { add(noisy) }
        #expect(line.take(at: 0).count == 64)
        add(quiet)
        let newcomer = lastTicket
        _ = line.finish(at: 0)
        let next = tickets(line.take(at: 0))
        #expect(next.prefix(2).contains(newcomer))
    }

    @Test
    mutating func `A group contains at most one job of a lane`() {
        let user = UUID()
        for _ in 0..<3 { add(noisy, user: user) }
        add(noisy)
        #expect(tickets(line.take(at: 0)) == [1, 4])
        #expect(line.finish(at: 0) == [0])
        #expect(tickets(line.take(at: 0)) == [2])
        _ = line.finish(at: 0)
        #expect(tickets(line.take(at: 0)) == [3])
    }

    @Test
    mutating func `Heavy jobs have a separate worker, and other organizations do not wait for them`() {
        #expect(add(noisy, weight: 500, bytes: 4_000_000) == 2)
        #expect(add(noisy) == -1, "it waits for the organization's heavy job")
        #expect(add(quiet) == 0)
        #expect(tickets(line.take(at: 2)) == [1])
        #expect(tickets(line.take(at: 0)) == [3], "an organization is at one worker at a time")
        #expect(line.finish(at: 0) == [])
        #expect(line.finish(at: 2) == [0])
        #expect(tickets(line.take(at: 0)) == [2])
    }

    @Test
    mutating func `Commits megabytes one job at a time, with organizations in turn`() {
        for _ in 0..<3 { add(noisy, bytes: 4_000_000) }
        add(quiet, bytes: 4_000_000)
        var order: [Int] = []
        while true {
            let group = line.take(at: 2)
            if group.isEmpty { break }
            #expect(group.count == 1)
            order += tickets(group)
            _ = line.finish(at: 2)
        }
        #expect(order == [1, 4, 2, 3])
    }

    @Test
    mutating func `A group ends at its limits, and the next begins with the job that did not fit`() {
        for _ in 0..<12 { add(UUID(), weight: 150) }
        #expect(tickets(line.take(at: 0)) == [1, 2, 3, 4, 5, 6])
        _ = line.finish(at: 0)
        #expect(tickets(line.take(at: 0)) == [7, 8, 9, 10, 11, 12])
    }

    @Test
    mutating func `No organization and no user exceeds its share of waiting jobs`() {
        var taken = 0
        while add(noisy) != nil { taken += 1 }
        #expect(taken == 2_048)
        #expect(add(quiet) != nil)
        var ofOne = 0
        let user = UUID()
        while add(quiet, user: user) != nil { ofOne += 1 }
        #expect(ofOne > 100 && ofOne < 1_024)
    }

    @Test
    mutating func `Removing jobs leaves the others in order`() {
        for _ in 0..<3 { add(noisy) }
        add(quiet, bytes: 1_000_000)
        #expect(tickets(line.remove { $0.ticket == 2 || $0.ticket == 4 }).sorted() == [2, 4])
        #expect(line.count == 2)
        #expect(tickets(line.take(at: 0)) == [1, 3])
        add(noisy)
        #expect(tickets(line.drain(at: 0)) == [5], "it waited for the organization's running jobs")
        #expect(line.count == 0)
        #expect(line.finish(at: 0) == [])
    }

    @Test(arguments: 0..<20)
    mutating func `Every job is taken once, at one worker at a time`(_ seed: UInt64) {
        var random = SplitMix(seed)
        let organizations = (0..<9).map { _ in UUID() }
        let users = (0..<3).map { _ in UUID() }
        var atWork: [Int: Set<UUID>] = [:]
        var out: Set<Int> = []
        func check(_ group: [FairGroupQueue.Item], _ worker: Int) {
            for item in group { #expect(out.insert(item.ticket).inserted == true) }
            #expect(Set(group.map(\.lane)).count == group.count)
            let here = Set(group.map(\.lane.organization))
            for (other, there) in atWork where other != worker { #expect(here.isDisjoint(with: there)) }
            atWork[worker] = here
        }
        for _ in 0..<3_000 {
            if random.next() % 3 > 0 {
                let place = Int(random.next() % 9)
                let isHeavy = random.next() % 10 == 0
                add(
                    organizations[place],
                    user: users[Int(random.next() % 3)],
                    weight: 1 + Int(random.next() % 50),
                    bytes: isHeavy ? 300_000 : 1_000,
                    worker: place % 2
                )
            } else {
                let worker = Int(random.next() % 3)
                atWork[worker] = nil
                _ = line.finish(at: worker)
                check(line.take(at: worker), worker)
            }
        }
        for _ in 0..<3_000 where line.count > 0 {
            for worker in 0..<3 {
                atWork[worker] = nil
                _ = line.finish(at: worker)
                check(line.take(at: worker), worker)
            }
        }
        #expect(out.count == lastTicket)
    }

    /// Organizations of several shards arrive in any order. Each group contains jobs of one shard, shards take turns,
    /// and no job waits without limit.
    @Test(arguments: 1...50)
    func `A group contains jobs of one shard`(seed: Int) {
        var random = SeededRandom(UInt64(seed))
        let shards = (0..<Int.random(in: 1...6, using: &random)).map { $0 * 7 }
        let homes = (0..<20).map { _ in (id: UUID(), shard: shards.randomElement(using: &random) ?? 0) }
        let workers = Int.random(in: 1...4, using: &random)
        var line = FairGroupQueue(workers: workers, hasHeavyWorker: true, capacity: 4_096)
        let count = 300
        for ticket in 0..<count {
            let home = homes[Int.random(in: 0..<homes.count, using: &random)]
            let item = FairGroupQueue.Item(
                ticket: ticket,
                lane: LaneKey(organization: home.id, user: UUID()),
                weight: Int.random(in: 1...250, using: &random),
                bytes: 100,
                shard: home.shard
            )
            _ = line.add(item, worker: home.shard % workers)
        }
        var done: Set<Int> = []
        var groups = 0
        while line.count > 0, groups < count {
            for worker in 0...workers {
                let group = line.take(at: worker)
                #expect(Set(group.map(\.shard)).count <= 1)
                done.formUnion(tickets(group))
                _ = line.finish(at: worker)
                groups += 1
            }
        }
        #expect(done.count == count)
    }

    @Test
    mutating func `A job of another shard does not prevent a full group`() {
        let (here, there) = (UUID(), UUID())
        for ticket in 1...8 {
            let lane = LaneKey(organization: ticket == 2 ? there : here, user: UUID())
            let shard = ticket == 2 ? 2 : 1
            let item = FairGroupQueue.Item(ticket: ticket, lane: lane, weight: 1, bytes: 1, shard: shard)
            _ = line.add(item, worker: 0)
        }
        #expect(tickets(line.take(at: 0)) == [1, 3, 4, 5, 6, 7, 8])
        _ = line.finish(at: 0)
        #expect(tickets(line.take(at: 0)) == [2])
    }

    /// The size of a push's changes is known only after it was read.
    @Test
    mutating func `A job that proves heavy moves to the heavy worker and is alone in its group`() {
        for organization in [noisy, noisy, quiet] { add(organization) }
        let group = line.take(at: 0)
        #expect(tickets(group) == [1, 3, 2])
        for (ticket, item) in [(4, group[0]), (5, group[2])] {
            let left = line.deferToHeavyWorker(
                FairGroupQueue.Item(ticket: ticket, lane: item.lane, weight: 1, bytes: 100)
            )
            #expect(left)
        }
        #expect(line.count == 2)
        #expect(tickets(line.take(at: 2)) == [], "its organization has a running job")
        #expect(line.finish(at: 0) == [2])
        #expect(tickets(line.take(at: 0)) == [])
        for ticket in 4...5 {
            #expect(tickets(line.take(at: 2)) == [ticket])
            #expect(line.finish(at: 2) == (ticket == 4 ? [2] : []))
        }
        #expect(line.count == 0)
    }

    @Test func `Without a heavy worker no job moves`() {
        var line = FairGroupQueue(workers: 1, hasHeavyWorker: false, capacity: 10)
        let item = FairGroupQueue.Item(ticket: 1, lane: LaneKey(organization: noisy, user: UUID()), weight: 1, bytes: 1)
        _ = line.add(item, worker: 0)
        #expect(tickets(line.take(at: 0)) == [1])
        let isLeft = line.deferToHeavyWorker(item)
        #expect(!isLeft)
    }

    /// If one server of a cluster is unavailable, jobs for the other servers do not fail.
    @Test
    mutating func `Draining a shard keeps the jobs of other shards`() {
        let homes = [(UUID(), 1), (UUID(), 2), (UUID(), 1)]
        for (ticket, home) in (homes + homes).enumerated() {
            let lane = LaneKey(organization: home.0, user: UUID())
            let item = FairGroupQueue.Item(ticket: ticket, lane: lane, weight: 1, bytes: 1, shard: home.1)
            _ = line.add(item, worker: 0)
        }
        #expect(tickets(line.drain(at: 0, fromShardOf: homes[0].0)).sorted() == [0, 2, 3, 5])
        #expect(tickets(line.take(at: 0)) == [1, 4])
    }
}
