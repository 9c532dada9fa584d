import Testing

@testable import Postgres

@Suite struct PoolStateTests {
    private typealias State = PoolState<Int, String>

    private let start = ContinuousClock.now
    private let error = PostgresError(.unavailable, "refused")

    private func state(maximum: Int = 2, maximumWaiters: Int = 10) -> State {
        State(
            .init(
                maximum: maximum,
                maximumWaiters: maximumWaiters,
                acquireTimeout: .seconds(3),
                backoff: Backoff(first: .milliseconds(100), longest: .seconds(1))
            )
        )
    }

    private func lent(_ effects: State.Effects) -> [String] {
        effects.answers.compactMap { waiter, answer in
            if case .lend(let member, _) = answer { "\(waiter)=\(member)" } else { nil }
        }
    }

    private func refused(_ effects: State.Effects) -> [PostgresError.Kind] {
        effects.answers.compactMap { _, answer in
            if case .refuse(let error) = answer { error.kind } else { nil }
        }
    }

    @Test func `connects for each waiter up to the maximum, and lends in order`() {
        var state = state()
        #expect(state.acquire(1, "a", at: start).connects == 1)
        #expect(state.acquire(2, "b", at: start).connects == 1)
        #expect(state.acquire(3, "c", at: start).connects == 0)
        #expect(lent(state.connected(10, at: start)) == ["a=10"])
        #expect(lent(state.release(10, at: start)) == ["b=10"])
        #expect(lent(state.connected(11, at: start)) == ["c=11"])
        #expect(lent(state.release(11, at: start)).isEmpty)
        let statistics = state.statistics
        #expect((statistics.open, statistics.idle) == (2, 1))
        #expect((statistics.connecting, statistics.waiting, statistics.created) == (0, 0, 2))
        #expect((statistics.maximum, statistics.exhausted) == (2, 0))
    }

    @Test func `a new connection replaces a broken one`() {
        var state = state(maximum: 1)
        _ = state.acquire(1, "a", at: start)
        _ = state.connected(10, at: start)
        _ = state.acquire(2, "b", at: start)
        #expect(state.release(nil, at: start).connects == 1)
        #expect(lent(state.connected(11, at: start)) == ["b=11"])
    }

    @Test func `failures back off increasingly, one attempt at a time`() {
        var state = state()
        _ = state.acquire(1, "a", at: start)
        #expect(refused(state.connectFailed(error, at: start, jitter: 1)).isEmpty)
        #expect(state.acquire(2, "b", at: start).connects == 0)
        #expect(state.nextTick(after: start) == start + .milliseconds(100))
        #expect(state.tick(at: start + .milliseconds(100)).connects == 1)
        _ = state.connectFailed(error, at: start + .milliseconds(100), jitter: 1)
        #expect(state.nextTick(after: start) == start + .milliseconds(300))
        #expect(state.tick(at: start + .milliseconds(200)).connects == 0)
    }

    @Test func `in a long outage callers are refused immediately, except one that makes the next attempt`() {
        var state = state()
        _ = state.acquire(1, "a", at: start)
        _ = state.connectFailed(error, at: start, jitter: 1)
        #expect(refused(state.tick(at: start + .seconds(3))) == [.unavailable])
        #expect(state.acquire(2, "b", at: start + .seconds(3)).connects == 1)
        #expect(refused(state.connectFailed(error, at: start + .seconds(3), jitter: 1)) == [.unavailable])
        #expect(refused(state.acquire(5, "e", at: start + .seconds(3))) == [.unavailable])
        #expect(state.acquire(3, "c", at: start + .seconds(4)).connects == 1)
        #expect(refused(state.connectFailed(error, at: start + .seconds(4), jitter: 1)) == [.unavailable])
        #expect(state.acquire(4, "d", at: start + .seconds(6)).connects == 1)
        #expect(lent(state.connected(10, at: start + .seconds(6))) == ["d=10"])
    }

    @Test func `refuses too many waiters`() {
        var state = state(maximum: 1, maximumWaiters: 1)
        _ = state.acquire(1, "a", at: start)
        #expect(refused(state.acquire(2, "b", at: start)) == [.poolExhausted])
        #expect(refused(state.cancel(1)) == [.cancelled])
        #expect(refused(state.cancel(1)).isEmpty)
    }

    @Test func `counts the callers' waiting time, and the callers without a connection`() {
        var state = state(maximum: 1, maximumWaiters: 2)
        _ = state.acquire(1, "a", at: start)
        _ = state.connected(10, at: start + .seconds(1))
        #expect(state.statistics.waited == .seconds(1))
        _ = state.acquire(2, "b", at: start + .seconds(1))
        _ = state.acquire(3, "c", at: start + .seconds(2))
        _ = state.acquire(4, "d", at: start + .seconds(2))
        #expect(state.statistics.exhausted == 1)
        #expect(refused(state.tick(at: start + .seconds(4))) == [.poolExhausted])
        #expect(state.statistics.exhausted == 2)
        #expect(lent(state.release(10, at: start + .seconds(4))) == ["c=10"])
        #expect(state.statistics.waited == .seconds(6))
        // having no connection at all is an outage, not a shortage
        var away = self.state(maximum: 1)
        _ = away.acquire(1, "a", at: start)
        _ = away.connectFailed(error, at: start, jitter: 1)
        _ = away.tick(at: start + .seconds(3))
        #expect(away.statistics.exhausted == 0)
    }

    @Test func `closing refuses the waiters and ends when all connections have returned`() {
        var state = state(maximum: 2)
        _ = state.acquire(1, "a", at: start)
        _ = state.acquire(2, "b", at: start)
        _ = state.connected(10, at: start)
        #expect(refused(state.close()) == [.unavailable])
        #expect(state.connected(11, at: start).discards == [11])
        #expect(state.release(nil, at: start).connects == 0)
        #expect(!state.isDrained)
        _ = state.release(nil, at: start)
        #expect(state.isDrained)
    }
}
