import SyncModel
import Testing

@testable import SyncDispatch

@Suite struct CircuitBreakerTests {
    private var now = Timestamp(microseconds: 1_795_000_000_000_000)
    private var breaker = CircuitBreaker()

    private mutating func note(_ kinds: Outcome.Kind..., jitter: Double = 0) {
        for kind in kinds { breaker.note(kind, now: now, jitter: jitter) }
    }

    private var wait: Double? {
        breaker.waits(now: now).map { Double($0.microseconds - now.microseconds) / 1_000_000 }
    }

    @Test mutating func fiveFailuresInARowOpenIt() {
        note(.serverError, .unreachable, .serverError, .unreachable)
        #expect(!breaker.isOpen && breaker.ask(now: now) == .go && wait == nil)
        note(.serverError)
        #expect(breaker.isOpen && wait == 1)
        #expect(breaker.ask(now: now) == .wait(until: now.adding(seconds: 1)))
    }

    @Test(arguments: [Outcome.Kind.succeeded, .discarded, .conflict, .overridden, .rejected])
    mutating func anAnswerBeginsTheCountAnew(_ kind: Outcome.Kind) {
        for _ in 0..<3 {
            note(.serverError, .serverError, .serverError, .serverError, kind)
            #expect(breaker.isUntouched)
        }
        note(.serverError, .serverError, .serverError, .serverError, .serverError)
        now = now.adding(seconds: 1)
        #expect(breaker.ask(now: now) == .probe)
        note(kind)
        #expect(!breaker.isOpen && breaker.isUntouched)
    }

    @Test(arguments: [Outcome.Kind.deferred, .abandoned])
    mutating func whatSaysNothingOfItsHealthCountsNeitherWay(_ kind: Outcome.Kind) {
        note(.serverError, .serverError, .serverError, .serverError, kind)
        #expect(!breaker.isOpen && !breaker.isUntouched)
        note(.serverError, kind)
        #expect(wait == 1)
        now = now.adding(seconds: 1)
        #expect(breaker.ask(now: now) == .probe)
        note(kind)
        #expect(breaker.isOpen && breaker.ask(now: now) == .probe)
    }

    @Test mutating func onlyOneRequestTriesIt() {
        note(.serverError, .serverError, .serverError, .serverError, .serverError)
        now = now.adding(seconds: 1)
        #expect(wait == nil)
        #expect(breaker.ask(now: now) == .probe)
        for _ in 0..<5 { #expect(breaker.ask(now: now) == .wait(until: now.adding(seconds: 10))) }
        // one that never comes back keeps nobody waiting for ever
        now = now.adding(seconds: 10)
        #expect(breaker.ask(now: now) == .probe)
        #expect(breaker.ask(now: now) == .wait(until: now.adding(seconds: 10)))
    }

    @Test mutating func eachProbeThatFailsDoublesThePauseUpToHalfAMinute() throws {
        note(.serverError, .serverError, .serverError, .serverError, .serverError)
        var pauses: [Double] = []
        for _ in 0..<20 {
            let pause = try #require(wait)
            pauses.append(pause)
            now = now.adding(seconds: pause)
            #expect(breaker.ask(now: now) == .probe)
            note(.unreachable)
        }
        #expect(pauses == [1, 2, 4, 8, 16] + Array(repeating: 30, count: 15))
        now = now.adding(seconds: 30)
        #expect(breaker.ask(now: now) == .probe)
        note(.unreachable, jitter: 1)
        #expect(wait == 36)
    }

    @Test mutating func whatWasUnderWayWhenItOpenedDoesNotCount() {
        note(.serverError, .serverError, .serverError, .serverError, .serverError, .serverError, .serverError)
        #expect(wait == 1)
    }

    @Test mutating func aWrongSetUpOpensItAtOnceForLong() {
        note(.misconfigured)
        #expect(breaker.isOpen && wait == 30)
        now = now.adding(seconds: 30)
        #expect(breaker.ask(now: now) == .probe)
        note(.misconfigured)
        #expect(wait == 30)
    }

    @Test mutating func aProbeThatSentNothingIsGivenBack() {
        note(.serverError, .serverError, .serverError, .serverError, .serverError)
        breaker.giveBack(now: now)
        #expect(wait == 1)
        now = now.adding(seconds: 1)
        #expect(breaker.ask(now: now) == .probe)
        breaker.giveBack(now: now)
        #expect(breaker.ask(now: now) == .probe)
        note(.serverError)
        #expect(wait == 2)
    }
}
