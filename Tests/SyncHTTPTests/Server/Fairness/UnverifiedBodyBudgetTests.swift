import Foundation
import Testing

@testable import SyncHTTP

@Suite struct UnverifiedBodyBudgetTests {
    private let start = ContinuousClock.now
    private let source = UUID()

    private static func limits() -> UnverifiedBodyLimits {
        var limits = UnverifiedBodyLimits()
        limits.bytes = 100_000
        limits.free = 1_000
        return limits
    }

    private func origin(_ address: String = "192.0.2.1", _ source: UUID? = nil) -> UnverifiedBodyBudget.Origin {
        UnverifiedBodyBudget.Origin(source: source ?? self.source, address: address)
    }

    @Test func `a message is accepted while slow bodies arrive from the same address`() {
        var room = UnverifiedBodyBudget(Self.limits())
        var slow: Set<Int> = []
        for _ in 0..<200 {
            let ticket = room.begin(origin(), now: start)
            if case .taken(let evicted) = room.take(10_000, for: ticket) { slow.subtract(evicted) }
            slow.insert(ticket)
        }
        let later = start + .seconds(2)
        for _ in 0..<50 {
            let genuine = room.begin(origin(), now: later)
            guard case .taken(let evicted) = room.take(20_000, for: genuine) else {
                Issue.record("a genuine message is refused")
                return
            }
            #expect(!evicted.contains(genuine))
            room.complete(genuine)
            room.end(genuine)
        }
        #expect(room.held <= 25_000, "an address may hold at most a quarter of the room at one source")
    }

    @Test func `small bodies use no room`() {
        var room = UnverifiedBodyBudget(Self.limits())
        for _ in 0..<1_000 {
            let ticket = room.begin(origin(), now: start)
            #expect(room.take(1_000, for: ticket) == .taken(evicted: []))
        }
        #expect(room.held == 0)
    }

    @Test func `the body that has been arriving longest is evicted, for any sizes`() {
        var room = UnverifiedBodyBudget(Self.limits())
        let small = room.begin(origin(), now: start)
        let large = room.begin(origin(), now: start)
        #expect(room.take(6_000, for: small) == .taken(evicted: []))
        #expect(room.take(24_000, for: large) == .taken(evicted: [small]))
        let later = room.begin(origin(), now: start)
        #expect(room.take(1_500, for: later) == .taken(evicted: []))
        #expect(room.take(6_000, for: large) == .refused(evicted: []), "the large body is the oldest itself")
        #expect(room.take(1, for: large) == .refused(evicted: []))
        #expect(room.held == 500)
    }

    @Test(arguments: [1, 4, 40])
    func `senders that begin at full speed and then trickle do not block a large message`(sources: Int) {
        var room = UnverifiedBodyBudget(Self.limits())
        let origins = (0..<sources).map { _ in origin("192.0.2.1", sources == 1 ? source : UUID()) }
        var now = start
        var open: [Int] = []
        // 40 connections, each opened again as soon as it is cut off, while the others send a little
        func attack(_ steps: Int) {
            for step in 0..<steps {
                now += .milliseconds(1)
                let ticket = room.begin(origins[step % sources], now: now)
                if case .taken = room.take(1_200, for: ticket) { open.append(ticket) }
                for other in open.suffix(40) { _ = room.take(50, for: other) }
            }
        }
        attack(200)
        for _ in 0..<20 {
            let genuine = room.begin(origin(), now: now)
            for _ in 0..<8 {
                guard case .taken(let evicted) = room.take(1_500, for: genuine) else {
                    Issue.record("a genuine message is refused")
                    return
                }
                #expect(!evicted.contains(genuine))
                attack(1)
            }
            room.complete(genuine)
            room.end(genuine)
        }
    }

    @Test func `if each source holds little, the oldest bodies of any source are evicted`() {
        var room = UnverifiedBodyBudget(Self.limits())
        var small: [Int] = []
        for number in 0..<50 {
            let ticket = room.begin(origin("198.51.100.\(number)", UUID()), now: start)
            #expect(room.take(3_000, for: ticket) == .taken(evicted: []))
            small.append(ticket)
        }
        let genuine = room.begin(origin(), now: start)
        #expect(room.take(13_000, for: genuine) == .taken(evicted: Array(small.prefix(6))))
    }

    @Test func `a complete body keeps its room`() {
        var room = UnverifiedBodyBudget(Self.limits())
        let whole = room.begin(origin(), now: start)
        #expect(room.take(25_000, for: whole) == .taken(evicted: []))
        room.complete(whole)
        let later = start + .seconds(60)
        #expect(room.expire(now: later) == [])
        let other = room.begin(origin(), now: later)
        #expect(room.take(20_000, for: other) == .refused(evicted: []))
        room.end(whole)
        #expect(room.held == 0)
    }

    @Test func `a source may use half of the room regardless of its number of addresses`() {
        var room = UnverifiedBodyBudget(Self.limits())
        for number in 0..<40 {
            let ticket = room.begin(origin("192.0.2.\(number)"), now: start)
            _ = room.take(11_000, for: ticket)
        }
        #expect(room.held <= 50_000)
        let other = room.begin(origin("198.51.100.1", UUID()), now: start)
        #expect(room.take(20_000, for: other) == .taken(evicted: []))
    }

    @Test func `an address may use half of the room regardless of its number of sources`() {
        var room = UnverifiedBodyBudget(Self.limits())
        for _ in 0..<40 {
            let ticket = room.begin(origin("192.0.2.1", UUID()), now: start)
            _ = room.take(11_000, for: ticket)
        }
        #expect(room.held <= 50_000)
        let other = room.begin(origin("198.51.100.1"), now: start)
        #expect(room.take(20_000, for: other) == .taken(evicted: []))
    }

    @Test func `if all room is used, bodies of the source with the largest part are evicted`() {
        var room = UnverifiedBodyBudget(Self.limits())
        for number in 0..<10 {
            let ticket = room.begin(origin("192.0.2.\(number)", UUID()), now: start)
            #expect(room.take(9_000, for: ticket) == .taken(evicted: []))
        }
        let heavy = room.begin(origin("198.51.100.1", UUID()), now: start)
        #expect(room.take(21_000, for: heavy) == .taken(evicted: []))
        let genuine = room.begin(origin(), now: start)
        #expect(room.take(7_000, for: genuine) == .taken(evicted: [heavy]), "ten other bodies are older")
    }

    // MARK: - Senders at full speed

    /// Lets a message of 6,000 bytes arrive in twelve parts, while each of several senders sends 2,000 bytes between two
    /// parts. The senders begin another body when a body is complete or evicted. All their bodies are newer than the
    /// message.
    ///
    /// - Returns: whether the message arrives.
    private func arrives(
        _ message: UnverifiedBodyBudget.Origin,
        among senders: [UnverifiedBodyBudget.Origin],
        in room: inout UnverifiedBodyBudget
    ) -> Bool {
        let genuine = room.begin(message, now: start)
        var open = [Int?](repeating: nil, count: senders.count)
        var sent = [Int](repeating: 0, count: senders.count)
        for _ in 0..<12 {
            guard case .taken = room.take(500, for: genuine) else { return false }
            for (index, sender) in senders.enumerated() {
                let ticket = open[index] ?? room.begin(sender, now: start)
                open[index] = ticket
                sent[index] += 2_000
                let isTaken = if case .taken = room.take(2_000, for: ticket) { true } else { false }
                if isTaken, sent[index] < 6_000 { continue }
                room.end(ticket)
                (open[index], sent[index]) = (nil, 0)
            }
        }
        room.complete(genuine)
        return true
    }

    @Test func `bodies for unknown sources at full speed do not cut off a message`() {
        var room = UnverifiedBodyBudget(Self.limits())
        #expect(arrives(origin(), among: [UnverifiedBodyBudget.Origin](repeating: .unknown, count: 40), in: &room))
        #expect(room.held <= 25_000 + 5_000, "unknown sources may hold a quarter of the room together")
    }

    @Test func `bodies for unknown sources are evicted before others, and evict no others`() {
        var room = UnverifiedBodyBudget(Self.limits())
        var known: [Int] = []
        for number in 0..<10 {
            let ticket = room.begin(origin("192.0.2.\(number)", UUID()), now: start)
            #expect(room.take(9_000, for: ticket) == .taken(evicted: []))
            known.append(ticket)
        }
        let unknown = room.begin(.unknown, now: start)
        #expect(room.take(19_000, for: unknown) == .taken(evicted: []))
        let second = room.begin(.unknown, now: start)
        #expect(room.take(5_000, for: second) == .taken(evicted: [unknown]))
        #expect(room.take(30_000, for: second) == .refused(evicted: []))
        let third = room.begin(.unknown, now: start)
        #expect(room.take(18_000, for: third) == .taken(evicted: []))
        let genuine = room.begin(origin(), now: start)
        #expect(room.take(7_000, for: genuine) == .taken(evicted: [third]))
        for ticket in known { #expect(room.take(1, for: ticket) == .taken(evicted: [])) }
    }

    @Test func `a few other addresses at full speed do not cut off a message for the same source`() {
        var room = UnverifiedBodyBudget(Self.limits())
        let senders = (0..<40).map { origin("198.51.100.\($0 % 3)") }
        #expect(arrives(origin(), among: senders, in: &room))
        #expect(room.held <= 50_000, "a source may hold half of the room")
    }

    @Test func `bodies for a few other sources at full speed do not cut off a message from the same address`() {
        var room = UnverifiedBodyBudget(Self.limits())
        let sources = (0..<3).map { _ in UUID() }
        let senders = (0..<40).map { origin("192.0.2.1", sources[$0 % 3]) }
        #expect(arrives(origin(), among: senders, in: &room))
        #expect(room.held <= 50_000, "an address may hold half of the room")
    }

    @Test func `a few other sources and addresses at full speed do not cut off a message`() {
        var room = UnverifiedBodyBudget(Self.limits())
        let sources = (0..<4).map { _ in UUID() }
        let senders = (0..<60).map { origin("198.51.100.\($0 % 7)", sources[$0 % 4]) }
        #expect(arrives(origin(), among: senders, in: &room))
        #expect(room.held <= 100_000)
    }

    @Test func `a body must arrive at a minimum rate and within its time`() {
        var limits = Self.limits()
        (limits.grace, limits.rate, limits.timeout) = (.seconds(3), 1_000, .seconds(10))
        var room = UnverifiedBodyBudget(limits)
        let (slow, fast) = (room.begin(origin(), now: start), room.begin(origin(), now: start))
        _ = room.take(2_000, for: slow)
        _ = room.take(15_000, for: fast)
        #expect(room.expire(now: start + .seconds(3)) == [])
        #expect(room.expire(now: start + .seconds(4)) == [slow])
        #expect(room.expire(now: start + .seconds(10)) == [])
        #expect(room.expire(now: start + .seconds(11)) == [fast])
        #expect(room.held == 0)
    }
}
