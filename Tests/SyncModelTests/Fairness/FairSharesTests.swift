import Foundation
import SyncModel
import Testing

@Suite("Shares of a common resource")
struct FairSharesTests {
    private static let organizations = (0..<8).map { _ in UUID() }

    private static func user(_ organization: Int, _ user: UUID = UUID()) -> LaneKey {
        LaneKey(organization: organizations[organization], user: user)
    }

    @Test
    func `A single organization holds at most half, and two a third each`() {
        var shares = FairShares(whole: 1_000)
        while case let user = Self.user(0), shares.mayTake(1, for: user) { shares.take(1, for: user) }
        #expect(shares.held(by: Self.organizations[0]) == 500)
        #expect(shares.mayTake(500, for: Self.user(1)), "another one finds as much free")
    }

    @Test(arguments: 1...6)
    func `Any number of greedy organizations hold equal shares, and the same share stays free`(_ count: Int) {
        var shares = FairShares(whole: 10_000)
        var isGrowing = true
        while isGrowing {
            isGrowing = false
            for organization in 0..<count {
                let user = Self.user(organization)
                guard shares.mayTake(1, for: user) else { continue }
                shares.take(1, for: user)
                isGrowing = true
            }
        }
        let held = (0..<count).map { shares.held(by: Self.organizations[$0]) }
        for part in held { #expect(abs(part - 10_000 / (count + 1)) <= 10, "\(held)") }
        #expect(shares.mayTake(10_000 / (count + 1) - 10, for: Self.user(7)))
    }

    @Test
    func `A user leaves room for other users of the organization`() {
        var shares = FairShares(whole: 1_000)
        let ada = Self.user(0)
        while shares.mayTake(1, for: ada) { shares.take(1, for: ada) }
        #expect((245...255).contains(shares.held(by: ada)))
        let bob = Self.user(0)
        while shares.mayTake(1, for: bob) { shares.take(1, for: bob) }
        #expect(shares.held(by: bob) > 100)
        #expect(!shares.isOver(bob))
    }

    @Test
    func `A single holder may take all free room, also for a request that grows`() {
        var shares = FairShares(whole: 100)
        let ada = Self.user(0)
        #expect(shares.mayTake(100, for: ada))
        #expect(!shares.mayTake(101, for: ada))
        shares.take(60, for: ada)
        #expect(!shares.mayTake(1, for: ada), "a second request")
        #expect(shares.mayTake(40, for: ada, excluding: 60), "the same")
        #expect(!shares.mayTake(41, for: ada, excluding: 60))
        #expect(shares.mayTake(40, for: Self.user(1)))
        #expect(shares.isOver(ada))
        shares.release(60, of: ada)
        #expect(shares.taken == 0)
        #expect(!shares.isOver(ada))
    }
}
