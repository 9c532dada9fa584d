import Foundation
import Testing

@testable import SyncHTTP

@Suite struct UnverifiedRoomTests {
    private let start = ContinuousClock.now
    private let source = UUID()

    private static func limits() -> UnverifiedBodyLimits {
        var limits = UnverifiedBodyLimits()
        limits.bytes = 100_000
        limits.free = 1_000
        return limits
    }

    private func origin(_ address: String = "192.0.2.1", _ source: UUID? = nil) -> UnverifiedRoom.Origin {
        UnverifiedRoom.Origin(source: source ?? self.source, address: address)
    }

    @Test func `a message is accepted while slow bodies arrive from the same address`() {
        var room = UnverifiedRoom(Self.limits())
        var slow: Set<Int> = []
        for _ in 0..<200 {
            let ticket = room.begin(origin(), now: start)
            if case .taken(let evicted) = room.take(10_000, for: ticket, now: start) { slow.subtract(evicted) }
            slow.insert(ticket)
        }
        let later = start + .seconds(2)
        for _ in 0..<50 {
            let genuine = room.begin(origin(), now: later)
            guard case .taken(let evicted) = room.take(20_000, for: genuine, now: later) else {
                Issue.record("a genuine message is refused")
                return
            }
            #expect(!evicted.contains(genuine))
            room.complete(genuine)
            room.end(genuine)
        }
        #expect(room.held <= 25_000, "an address holds a quarter at one source")
    }

    @Test func `small bodies use no room`() {
        var room = UnverifiedRoom(Self.limits())
        for _ in 0..<1_000 {
            let ticket = room.begin(origin(), now: start)
            #expect(room.take(1_000, for: ticket, now: start) == .taken(evicted: []))
        }
        #expect(room.held == 0)
    }

    @Test func `the largest of the recent bodies is evicted`() {
        var room = UnverifiedRoom(Self.limits())
        let large = room.begin(origin(), now: start)
        let small = room.begin(origin(), now: start)
        #expect(room.take(24_000, for: large, now: start) == .taken(evicted: []))
        #expect(room.take(6_000, for: small, now: start) == .taken(evicted: [large]))
        #expect(room.take(50_000, for: small, now: start) == .refused(evicted: []), "it is the largest itself")
        #expect(room.held == 0)
        #expect(room.take(1, for: small, now: start) == .refused(evicted: []))
    }

    @Test func `a complete body keeps its room`() {
        var room = UnverifiedRoom(Self.limits())
        let whole = room.begin(origin(), now: start)
        #expect(room.take(25_000, for: whole, now: start) == .taken(evicted: []))
        room.complete(whole)
        let later = start + .seconds(60)
        #expect(room.expire(now: later) == [])
        let other = room.begin(origin(), now: later)
        #expect(room.take(20_000, for: other, now: later) == .refused(evicted: []))
        room.end(whole)
        #expect(room.held == 0)
    }

    @Test func `a source may use half of the room regardless of its number of addresses`() {
        var room = UnverifiedRoom(Self.limits())
        for number in 0..<40 {
            let ticket = room.begin(origin("192.0.2.\(number)"), now: start)
            _ = room.take(11_000, for: ticket, now: start)
        }
        #expect(room.held <= 50_000)
        let other = room.begin(origin("198.51.100.1", UUID()), now: start)
        #expect(room.take(20_000, for: other, now: start) == .taken(evicted: []))
    }

    @Test func `an address may use half of the room regardless of its number of sources`() {
        var room = UnverifiedRoom(Self.limits())
        for _ in 0..<40 {
            let ticket = room.begin(origin("192.0.2.1", UUID()), now: start)
            _ = room.take(11_000, for: ticket, now: start)
        }
        #expect(room.held <= 50_000)
        let other = room.begin(origin("198.51.100.1"), now: start)
        #expect(room.take(20_000, for: other, now: start) == .taken(evicted: []))
    }

    @Test func `the largest source is evicted if all room is used`() {
        var room = UnverifiedRoom(Self.limits())
        var taken: [Int] = []
        for number in 0..<12 {
            let ticket = room.begin(origin("192.0.2.\(number)", UUID()), now: start)
            guard case .taken = room.take(9_000, for: ticket, now: start) else { continue }
            taken.append(ticket)
        }
        let heavy = room.begin(origin("198.51.100.1", UUID()), now: start)
        _ = room.take(5_000, for: heavy, now: start)
        #expect(room.held <= 100_000)
        let genuine = room.begin(origin(), now: start)
        guard case .taken(let evicted) = room.take(7_000, for: genuine, now: start) else {
            Issue.record("a source without a part is refused")
            return
        }
        #expect(evicted.allSatisfy { taken.contains($0) })
    }

    @Test func `a body must arrive at a minimum rate and within its time`() {
        var limits = Self.limits()
        (limits.grace, limits.rate, limits.patience) = (.seconds(3), 1_000, .seconds(10))
        var room = UnverifiedRoom(limits)
        let (slow, fast) = (room.begin(origin(), now: start), room.begin(origin(), now: start))
        _ = room.take(2_000, for: slow, now: start)
        _ = room.take(15_000, for: fast, now: start)
        #expect(room.expire(now: start + .seconds(3)) == [])
        #expect(room.expire(now: start + .seconds(4)) == [slow])
        #expect(room.expire(now: start + .seconds(10)) == [])
        #expect(room.expire(now: start + .seconds(11)) == [fast])
        #expect(room.held == 0)
    }
}
