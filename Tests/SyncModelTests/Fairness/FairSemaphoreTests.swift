import Foundation
import Testing

@testable import SyncModel

@Suite("Waiting for room")
struct FairSemaphoreTests {
    private static let start = ContinuousClock.now
    private let noisy = LaneKey(organization: UUID(), user: UUID())
    private let quiet = LaneKey(organization: UUID(), user: UUID())

    private func room(_ whole: Int) -> FairSemaphore { FairSemaphore(whole: whole, timeout: .seconds(5)) }

    @Test
    func `A new organization finds room, however many requests of another organization wait`() {
        var room = room(100)
        for _ in 0..<1_000 {
            let user = LaneKey(organization: noisy.organization, user: UUID())
            if !room.tryAcquire(10, for: user) { _ = room.wait(for: 10, by: user, now: Self.start) }
        }
        _ = room.settle(now: Self.start)
        #expect(room.waiting > 900)
        #expect(room.tryAcquire(10, for: quiet) == true, "it is admitted before all waiting requests")
        #expect(room.tryAcquire(10, for: LaneKey(organization: quiet.organization, user: UUID())) == true)
    }

    @Test
    func `Organizations take turns, and so do an organization's users`() {
        var room = room(8)
        room.take(8, for: LaneKey(organization: UUID(), user: UUID()))
        let colleague = LaneKey(organization: noisy.organization, user: UUID())
        var owner: [Int: LaneKey] = [:]
        for _ in 0..<4 { owner[room.wait(for: 1, by: noisy, now: Self.start)] = noisy }
        for _ in 0..<2 { owner[room.wait(for: 1, by: colleague, now: Self.start)] = colleague }
        for _ in 0..<2 { owner[room.wait(for: 1, by: quiet, now: Self.start)] = quiet }
        #expect(room.settle(now: Self.start) == FairSemaphore.Decision())
        var order: [LaneKey?] = []
        var open = FairSemaphore(whole: 1_000, timeout: .seconds(5))
        for (ticket, user) in owner.sorted(by: { $0.key < $1.key }) {
            _ = open.wait(for: 1, by: user, now: Self.start)
            order.append(owner[ticket])
        }
        let admitted = open.settle(now: Self.start).admitted.map { order[$0 - 1] }
        #expect(admitted == [noisy, quiet, colleague, quiet, noisy, colleague, noisy, noisy])
    }

    @Test
    func `A large request is admitted before later requests of others`() {
        var room = room(100)
        #expect(room.tryAcquire(80, for: noisy) == true)
        let large = room.wait(for: 30, by: quiet, now: Self.start)
        let others = (0..<5).map { _ in
            room.wait(for: 1, by: LaneKey(organization: UUID(), user: UUID()), now: Self.start)
        }
        #expect(room.settle(now: Self.start).admitted == [])
        room.release(80, of: noisy)
        #expect(room.settle(now: Self.start).admitted == [large] + others)
    }

    @Test
    func `A request that waited too long is rejected, whether or not room is released`() {
        var room = room(10)
        #expect(room.tryAcquire(10, for: noisy) == true)
        let late = room.wait(for: 5, by: quiet, now: Self.start)
        let young = room.wait(for: 5, by: quiet, now: Self.start + .seconds(3))
        #expect(room.expire(now: Self.start + .seconds(5)) == [])
        #expect(room.expire(now: Self.start + .seconds(6)) == [late])
        room.release(10, of: noisy)
        #expect(room.settle(now: Self.start + .seconds(6)) == FairSemaphore.Decision(admitted: [young]))
        #expect(room.waiting == 0)
    }

    @Test(
        arguments: 0..<20
    )
    func `Every request is admitted in the end and no room is lost`(_ seed: UInt64) {
        var random = SplitMix(seed)
        var room = room(1_000)
        let users = (0..<12).map { index in
            LaneKey(
                organization: UUID(uuid: (UInt8(index % 5), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1)),
                user: UUID()
            )
        }
        var held: [(user: LaneKey, amount: Int)] = []
        var waiting: [Int: (user: LaneKey, amount: Int)] = [:]
        for _ in 0..<2_000 {
            if random.next() % 2 == 0 {
                let user = users[Int(random.next() % 12)]
                let amount = 1 + Int(random.next() % 250)
                if room.tryAcquire(amount, for: user) {
                    held.append((user, amount))
                } else {
                    waiting[room.wait(for: amount, by: user, now: Self.start)] = (user, amount)
                }
            } else if let last = held.popLast() {
                room.release(last.amount, of: last.user)
            }
            for ticket in room.settle(now: Self.start).admitted {
                if let waiter = waiting.removeValue(forKey: ticket) { held.append(waiter) }
            }
            #expect(room.shares.taken == held.reduce(0) { $0 + $1.amount })
            #expect(room.shares.taken <= 1_000)
            #expect(room.waiting == waiting.count)
        }
        while let last = held.popLast() {
            room.release(last.amount, of: last.user)
            for ticket in room.settle(now: Self.start).admitted {
                if let waiter = waiting.removeValue(forKey: ticket) { held.append(waiter) }
            }
        }
        #expect(waiting.isEmpty)
        #expect(room.shares.taken == 0)
    }
}

/// A small generator with a seed (Steele, Lea and Flood, 2014).
struct SplitMix: RandomNumberGenerator {
    private var state: UInt64

    init(_ seed: UInt64) { state = seed }

    mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var value = state
        value = (value ^ (value >> 30)) &* 0xBF58_476D_1CE4_E5B9
        value = (value ^ (value >> 27)) &* 0x94D0_49BB_1331_11EB
        return value ^ (value >> 31)
    }
}
