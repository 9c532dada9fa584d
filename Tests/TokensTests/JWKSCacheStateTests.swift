import SyncModel
import Testing

@testable import Tokens

/// The state in a class, because `#expect` cannot mutate values.
private final class Schedule {
    private var state = JWKSCacheState()

    var freshAt: Timestamp? { state.freshAt }
    var failures: Int { state.failures }

    func begin(at moment: Timestamp) -> Bool { state.begin(at: moment) }
    func demand(at moment: Timestamp, waiting: Int) -> JWKSCacheState.Demand {
        state.demand(at: moment, waiting: waiting)
    }
    func secondsUntilDue(at moment: Timestamp) -> Int { state.secondsUntilDue(at: moment) }

    func finish(_ outcome: JWKSCacheState.Outcome, maximumAge: Int64?, at moment: Timestamp, luck: Double) -> Bool {
        state.finish(outcome, maximumAge: maximumAge, at: moment, luck: luck)
    }
}

@Suite("The schedule of fetching keys")
struct JWKSCacheStateTests {
    private func at(_ seconds: Double) -> Timestamp {
        Timestamp(microseconds: now * 1_000_000).adding(seconds: seconds)
    }

    /// A set that was fetched at 0.
    private func fetched(maximumAge: Int64? = nil, luck: Double = 0) -> Schedule {
        let state = Schedule()
        #expect(state.begin(at: at(0)))
        #expect(!state.finish(.changed, maximumAge: maximumAge, at: at(0), luck: luck))
        return state
    }

    @Test
    func `The first fetch is due immediately, and only one runs at a time`() {
        let state = Schedule()
        #expect(state.begin(at: at(0)))
        #expect(!state.begin(at: at(0)))
        #expect(!state.begin(at: at(100)))
        #expect(state.freshAt == nil)
        _ = state.finish(.changed, maximumAge: nil, at: at(1), luck: 0)
        #expect(state.freshAt == at(1))
        #expect(!state.begin(at: at(2)))
    }

    @Test(
        arguments: [
            (nil, 600), (0, 60), (59, 60), (61, 61), (300, 300), (3_600, 3_600), (86_400, 3_600), (.max, 3_600),
        ]
            as [(Int64?, Double)]
    )
    func `A set is fetched again when its provider specifies, from a minute to an hour`(
        maximumAge: Int64?,
        seconds: Double
    ) {
        let state = fetched(maximumAge: maximumAge)
        #expect(!state.begin(at: at(seconds - 0.001)))
        #expect(state.begin(at: at(seconds)))
    }

    @Test
    func `Jitter makes the next fetch earlier, never later`() {
        for (luck, seconds) in [(0.0, 600.0), (0.5, 540.0), (1.0, 480.0)] {
            let state = fetched(luck: luck)
            #expect(!state.begin(at: at(seconds - 0.001)))
            #expect(state.begin(at: at(seconds)))
        }
    }

    @Test
    func `A failed fetch is retried after 2 seconds, then with growing pauses up to a minute`() {
        let state = Schedule()
        var moment = 0.0
        for pause in [2.0, 4, 8, 16, 32, 60, 60, 60] {
            #expect(state.begin(at: at(moment)))
            _ = state.finish(.failed, maximumAge: nil, at: at(moment), luck: 0)
            #expect(state.secondsUntilDue(at: at(moment)) == Int(pause))
            #expect(!state.begin(at: at(moment + pause - 0.001)))
            moment += pause
        }
        #expect(state.begin(at: at(moment)))
        #expect(state.secondsUntilDue(at: at(moment)) == 1)
        _ = state.finish(.unchanged, maximumAge: nil, at: at(moment), luck: 0)
        #expect(state.failures == 0)
        #expect(!state.begin(at: at(moment + 599)))
    }

    @Test
    func `Warns of a failure at first and every ten minutes`() {
        let state = fetched()
        var warned: [Int] = []
        for second in stride(from: 600, to: 2_000, by: 20) {
            guard state.begin(at: at(Double(second))) else { continue }
            if state.finish(.failed, maximumAge: nil, at: at(Double(second)), luck: 0) { warned.append(second) }
        }
        #expect(warned.count == 3)
        #expect(warned.first == 600)
        #expect(zip(warned, warned.dropFirst()).allSatisfy { $1 - $0 >= 600 })
        #expect(state.begin(at: at(3_000)))
        _ = state.finish(.unchanged, maximumAge: nil, at: at(3_000), luck: 0)
        #expect(state.begin(at: at(3_600)))
        let isWarned = state.finish(.failed, maximumAge: nil, at: at(3_600), luck: 0)
        #expect(isWarned, "a fetch succeeded in between")
    }

    @Test
    func `An unknown key triggers an immediate fetch, and then no other for half a minute`() {
        let state = fetched()
        #expect(state.demand(at: at(1), waiting: 0) == .wait)
        #expect(state.demand(at: at(1), waiting: 1) == .wait, "it waits for the same fetch")
        #expect(state.begin(at: at(1)))
        #expect(state.demand(at: at(1), waiting: 2) == .wait, "it waits for the fetch in progress")
        _ = state.finish(.unchanged, maximumAge: nil, at: at(1.5), luck: 0)
        #expect(!state.begin(at: at(2)), "later requests cause no other fetch")
        for second in [2.0, 10, 30.9] { #expect(state.demand(at: at(second), waiting: 0) == .refuse) }
        #expect(!state.begin(at: at(30.9)))
        #expect(state.demand(at: at(31), waiting: 0) == .wait)
        #expect(state.begin(at: at(31)))
    }

    @Test
    func `Of many requests only some may wait`() {
        let state = fetched()
        #expect(state.demand(at: at(1), waiting: JWKSCacheState.maximumWaiters) == .refuse)
        #expect(state.begin(at: at(1)), "the set is still fetched")
        #expect(state.demand(at: at(1), waiting: JWKSCacheState.maximumWaiters - 1) == .wait)
    }

    @Test
    func `A failure does not allow unknown keys another attempt`() {
        let state = fetched()
        #expect(state.demand(at: at(1), waiting: 0) == .wait)
        #expect(state.begin(at: at(1)))
        _ = state.finish(.failed, maximumAge: nil, at: at(1), luck: 0)
        #expect(state.demand(at: at(2), waiting: 0) == .refuse)
        #expect(state.begin(at: at(3)), "the pause after the failure is over")
    }

    @Test
    func `A clock that is set back does not stop fetching`() {
        let state = fetched()
        #expect(state.demand(at: at(1), waiting: 0) == .wait)
        #expect(state.begin(at: at(1)))
        _ = state.finish(.unchanged, maximumAge: nil, at: at(1), luck: 0)
        #expect(state.demand(at: at(-10_000), waiting: 0) == .wait)
        let other = fetched()
        #expect(other.begin(at: at(-10_000)))
    }

    @Test(
        arguments: [
            (nil, nil), ("", nil), ("public", nil), ("max-age=300", 300), ("public, max-age=300", 300),
            ("Public,MAX-AGE = \"300\" , immutable", 300), ("max-age=0", 0), ("no-store", 0),
            ("no-cache, max-age=9", 0),
            ("max-age=-1", nil), ("max-age", nil), ("max-age=", nil), ("max-age=1e3", nil), ("s-maxage=5", nil),
            ("max-age=99999999999999999999", .max), ("max-age=300, max-age=200", 200),
        ] as [(String?, Int64?)]
    )
    func `Cache-Control determines the age`(text: String?, seconds: Int64?) {
        #expect(CacheControl.maximumAge(text) == seconds)
    }
}
