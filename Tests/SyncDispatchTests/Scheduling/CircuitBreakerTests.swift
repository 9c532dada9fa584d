import Foundation
import SyncModel
import Testing

@testable import SyncDispatch

@Suite struct CircuitBreakerTests {
    private var now = Timestamp(microseconds: 1_795_000_000_000_000)
    private var breaker = CircuitBreaker()

    private let lanes = (0..<100).map { _ in UUID() }
    /// The number of recorded answers, each of a different lane.
    private var count = 0

    private mutating func record(_ kinds: Outcome.Kind..., jitter: Double = 0) {
        for kind in kinds {
            breaker.record(kind, by: lanes[count % lanes.count], now: now, jitter: jitter)
            count += 1
        }
    }

    private mutating func record(_ kind: Outcome.Kind, by lane: Int) {
        breaker.record(kind, by: lanes[lane], now: now, jitter: 0)
    }

    private mutating func ask(_ lane: Int? = nil) -> CircuitBreaker.Permit {
        breaker.requestPermit(for: lane.map { lanes[$0] } ?? UUID(), now: now)
    }

    /// The wait of a lane without a failed attempt.
    private var wait: Double? { wait(of: UUID()) }

    private func wait(of lane: UUID) -> Double? {
        breaker.waits(lane, now: now).map { Double($0.microseconds - now.microseconds) / 1_000_000 }
    }

    private mutating func advance(_ seconds: Double) { now = now.adding(seconds: seconds) }

    @Test mutating func `five consecutive failures open the circuit`() {
        record(.serverError, .unreachable, .serverError, .unreachable)
        #expect(!breaker.isOpen && ask() == .go && wait == nil)
        record(.serverError)
        #expect(breaker.isOpen && wait == 1)
        #expect(ask() == .wait(until: now.adding(seconds: 1)))
    }

    @Test(arguments: [Outcome.Kind.succeeded, .discarded, .conflict, .overridden, .rejected])
    mutating func `an answer resets the count`(_ kind: Outcome.Kind) {
        for _ in 0..<3 {
            record(.serverError, .serverError, .serverError, .serverError, kind)
            #expect(breaker.isUntouched)
        }
        record(.serverError, .serverError, .serverError, .serverError, .serverError)
        advance(1)
        #expect(ask() == .probe)
        record(kind)
        #expect(!breaker.isOpen && ask() == .go)
    }

    @Test mutating func `after an outage the number of concurrent requests rises with each success`() {
        #expect(breaker.concurrency == nil)
        record(.serverError, .serverError, .serverError, .serverError, .serverError)
        #expect(breaker.concurrency == 1)
        advance(1)
        #expect(ask() == .probe)
        record(.succeeded)
        #expect(!breaker.isOpen && !breaker.isUntouched && breaker.concurrency == 2)
        for limit in 3..<20 {
            record(.conflict)
            #expect(breaker.concurrency == limit)
        }
        record(.unreachable)
        #expect(!breaker.isOpen && breaker.concurrency == 9)
        record(.deferred)
        #expect(breaker.concurrency == 9, "no evidence of health")
        for _ in 9..<64 { record(.succeeded) }
        #expect(breaker.concurrency == nil && breaker.isUntouched)
        record(.serverError)
        #expect(breaker.concurrency == nil, "a failure without an outage")
    }

    @Test mutating func `failures during the recovery open the circuit again`() {
        record(.serverError, .serverError, .serverError, .serverError, .serverError)
        advance(1)
        #expect(ask() == .probe)
        record(.succeeded, .succeeded, .serverError, .serverError, .serverError, .serverError)
        #expect(!breaker.isOpen && breaker.concurrency == 1)
        record(.serverError)
        #expect(breaker.isOpen)
    }

    @Test(arguments: [Outcome.Kind.deferred, .abandoned, .refused])
    mutating func `results that are no evidence of health do not count`(_ kind: Outcome.Kind) {
        record(.serverError, .serverError, .serverError, .serverError, kind)
        #expect(!breaker.isOpen && !breaker.isUntouched)
        record(.serverError, kind)
        #expect(wait == 1)
        advance(1)
        #expect(ask() == .probe)
        record(kind)
        #expect(breaker.isOpen && ask() == .probe)
    }

    @Test mutating func `only one request probes`() {
        record(.serverError, .serverError, .serverError, .serverError, .serverError)
        advance(1)
        #expect(wait == nil)
        #expect(ask() == .probe)
        for _ in 0..<5 { #expect(ask() == .wait(until: now.adding(seconds: 10))) }
        // a probe without an answer does not block others permanently
        advance(10)
        #expect(ask() == .probe)
        #expect(ask() == .wait(until: now.adding(seconds: 10)))
    }

    @Test mutating func `each failed probe doubles the pause up to half a minute`() throws {
        record(.serverError, .serverError, .serverError, .serverError, .serverError)
        var pauses: [Double] = []
        for _ in 0..<20 {
            let pause = try #require(wait)
            pauses.append(pause)
            now = now.adding(seconds: pause)
            #expect(ask() == .probe)
            record(.unreachable)
        }
        #expect(pauses == [1, 2, 4, 8, 16] + Array(repeating: 30, count: 15))
        advance(30)
        #expect(ask() == .probe)
        record(.unreachable, jitter: 1)
        #expect(wait == 36)
    }

    @Test mutating func `results of requests sent before the circuit opened do not count`() {
        record(.serverError, .serverError, .serverError, .serverError, .serverError, .serverError, .serverError)
        #expect(wait == 1)
    }

    // MARK: - Several lanes

    /// The lane's own back-off delays the lane, which may be the cause itself.
    @Test(arguments: [Outcome.Kind.serverError, .unreachable, .misconfigured])
    mutating func `one lane alone never opens the circuit`(_ kind: Outcome.Kind) {
        for _ in 0..<50 {
            record(kind, by: 0)
            #expect(!breaker.isOpen && ask(1) == .go)
        }
        record(.succeeded, by: 1)
        #expect(breaker.isUntouched)
    }

    @Test mutating func `failures of two lanes open the circuit`() {
        for _ in 0..<4 { record(.serverError, by: 0) }
        record(.serverError, by: 1)
        #expect(wait == 1)
    }

    @Test mutating func `three lanes with possible configuration errors open the circuit`() {
        for lane in [0, 1, 0, 1] { record(.misconfigured, by: lane) }
        #expect(!breaker.isOpen && !breaker.isUntouched)
        record(.misconfigured, by: 2)
        #expect(wait == 1)
        advance(1)
        #expect(ask(3) == .probe)
        record(.misconfigured, by: 3)
        #expect(wait == 2)
    }

    @Test(arguments: [Outcome.Kind.succeeded, .discarded, .conflict, .overridden, .rejected])
    mutating func `an answer in between rules out a configuration error`(_ kind: Outcome.Kind) {
        for lane in 0..<9 {
            record(.misconfigured, by: lane)
            if lane % 2 == 1 { record(kind, by: 20) }
        }
        #expect(!breaker.isOpen)
    }

    /// After a lane with a mutation that the upstream never accepts has probed, the other lanes have their turns.
    @Test mutating func `a lane whose probe failed waits for the others`() {
        record(.serverError, .serverError, .serverError, .serverError, .serverError)
        advance(1)
        #expect(ask(50) == .probe)
        record(.misconfigured, by: 50)
        // one such answer is no evidence of the upstream's health, so the pause does not grow
        #expect(wait == 1 && wait(of: lanes[50]) == 1 + CircuitBreaker.turnTimeout)
        advance(1)
        #expect(ask(50) == .wait(until: now.adding(seconds: CircuitBreaker.turnTimeout)))
        #expect(ask(51) == .probe)
        record(.succeeded, by: 51)
        #expect(!breaker.isOpen && ask(50) == .go)
    }

    @Test mutating func `a single lane probes again`() {
        record(.serverError, .serverError, .serverError, .serverError, .serverError)
        for _ in 0..<200 {
            advance(40)
            #expect(ask(50) == .probe)
            record(.unreachable, by: 50)
        }
        // the lanes that probed are remembered up to a limit, the most recent ones
        for lane in 0..<100 {
            advance(40)
            #expect(ask(lane) == .probe)
            record(.unreachable, by: lane)
        }
        advance(30)
        #expect(
            wait(of: lanes[99]) == CircuitBreaker.turnTimeout && wait(of: lanes[50]) == CircuitBreaker.turnTimeout
        )
        #expect(wait(of: lanes[0]) == nil)
    }

    @Test mutating func `a probe that sent nothing is returned`() {
        record(.serverError, .serverError, .serverError, .serverError, .serverError)
        breaker.release(now: now)
        #expect(wait == 1)
        advance(1)
        #expect(ask() == .probe)
        breaker.release(now: now)
        #expect(ask() == .probe)
        record(.serverError)
        #expect(wait == 2)
    }
}
