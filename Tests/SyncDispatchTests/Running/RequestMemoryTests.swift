import Foundation
import SyncModel
import Testing

@testable import SyncDispatch

/// The memory for the bodies of requests (product rule 16).
@Suite(.timeLimit(.minutes(1))) struct RequestMemoryTests {
    private let requests = InFlightRequests(FakeUpstream(), bytes: 100_000)

    private static func lane(of organization: UUID = UUID()) -> LaneKey {
        LaneKey(organization: organization, user: UUID())
    }

    /// Starts to reserve memory, and returns once the request waits. The value is whether it got the memory.
    private func wait(for bytes: Int, _ lane: LaneKey, isFast: Bool = true) async -> Task<Bool, Never> {
        let before = requests.waiting
        let task = Task { [requests] in await requests.reserve(bytes, for: lane, isFast: isFast) != nil }
        while requests.waiting == before { await Task.yield() }
        return task
    }

    private func threeSmall() async throws -> [MemoryReservation] {
        var reserved: [MemoryReservation] = []
        for _ in 0..<3 {
            let bytes = InFlightRequests.small
            reserved.append(try #require(await requests.reserve(bytes, for: Self.lane(), isFast: true)))
        }
        return reserved
    }

    @Test func `a large request waits for memory, and a small one does not`() async {
        var first = await requests.reserve(60_000, for: Self.lane(), isFast: true)
        #expect(first != nil && requests.heldBytes == 60_000)
        let second = await wait(for: 60_000, Self.lane())
        let small = await requests.reserve(InFlightRequests.small, for: Self.lane(), isFast: true)
        #expect(small != nil && requests.heldBytes == 60_000 + InFlightRequests.small)
        first = nil
        #expect(await second.value)
        #expect(requests.heldBytes == InFlightRequests.small && requests.waiting == 0)
        withExtendedLifetime((first, small)) {}
    }

    @Test func `small requests wait once they hold half as many bytes as the memory has`() async throws {
        let whole = await requests.reserve(100_000, for: Self.lane(), isFast: true)
        var small = try await threeSmall()
        #expect(requests.heldBytes == 100_000 + 3 * InFlightRequests.small)
        let fourth = await wait(for: InFlightRequests.small, Self.lane())
        let tiny = await requests.reserve(848, for: Self.lane(), isFast: true)
        #expect(tiny != nil && requests.heldBytes == 150_000)
        // another small request has ended, but the memory is still full
        _ = small.popLast()
        let fifth = await requests.reserve(InFlightRequests.small, for: Self.lane(), isFast: true)
        #expect(fifth != nil && requests.waiting == 1)
        requests.giveUp()
        #expect(await !fourth.value)
        withExtendedLifetime((whole, small, tiny, fifth)) {}
    }

    @Test func `a small request that waits is sent once memory is free`() async throws {
        var whole = await requests.reserve(100_000, for: Self.lane(), isFast: true)
        var small = try await threeSmall()
        let fourth = await wait(for: InFlightRequests.small, Self.lane())
        #expect(whole != nil && small.count == 3)
        whole = nil
        #expect(await fourth.value)
        small = []
        #expect(requests.heldBytes == 0 && requests.waiting == 0)
    }

    @Test func `several requests of an organization leave half of the memory free for others`() async {
        let organization = UUID()
        let own = await requests.reserve(40_000, for: Self.lane(of: organization), isFast: true)
        let waiting = await wait(for: 20_000, Self.lane(of: organization))
        #expect(requests.heldBytes == 40_000)
        let other = await requests.reserve(50_000, for: Self.lane(), isFast: true)
        #expect(own != nil && other != nil && requests.heldBytes == 90_000)
        requests.giveUp()
        #expect(await !waiting.value)
        withExtendedLifetime((own, other)) {}
    }

    @Test func `a request that is larger than the whole memory is sent alone`() async {
        let whole = await requests.reserve(1_000_000, for: Self.lane(), isFast: true)
        #expect(whole != nil && requests.heldBytes == 100_000)
        withExtendedLifetime(whole) {}
    }

    @Test func `requests to slow upstreams leave a quarter of the memory free for others`() async throws {
        var slow: [MemoryReservation] = []
        for _ in 0..<3 {
            slow.append(try #require(await requests.reserve(25_000, for: Self.lane(), isFast: false)))
        }
        // requests of organizations that hold no memory wait, too
        let waiting = await wait(for: 20_000, Self.lane(), isFast: false)
        var fast = await requests.reserve(25_000, for: Self.lane(), isFast: true)
        #expect(fast != nil && requests.heldBytes == 100_000)
        let next = await wait(for: 25_000, Self.lane())
        fast = nil
        #expect(await next.value)
        slow.removeLast()
        #expect(await waiting.value)
        slow = []
        #expect(requests.heldBytes == 0 && requests.waiting == 0)
        // a request that is larger than the part of slow upstreams is sent alone
        let largest = await requests.reserve(1_000_000, for: Self.lane(), isFast: false)
        #expect(largest != nil && requests.heldBytes == 100_000)
        withExtendedLifetime((fast, largest)) {}
    }
}
