import SyncModel

/// Whether anything is sent to one upstream (product rule 14). Pure: the clock is the caller's.
///
/// Closed, everything passes. Five failures in a row open it, and so does one answer that says the set-up is wrong; then
/// nothing passes for a while. After that one request is let through: if it succeeds the circuit closes, otherwise it
/// stays open twice as long.
struct CircuitBreaker: Sendable {
    /// Failures in a row that open the circuit.
    static let threshold = 5
    /// The first pause and the longest, in seconds, before jitter.
    static let firstPause: Double = 1
    static let longestPause: Double = 30
    /// How long the one request that is let through may keep others waiting, in seconds; after it another is.
    static let probePatience: Double = 10

    private enum State {
        case closed(failures: Int)
        case open(until: Timestamp, pauses: Int)
        case probing(until: Timestamp, pauses: Int)
    }

    private var state = State.closed(failures: 0)

    /// Whether nothing but a probe passes.
    var isOpen: Bool {
        if case .closed = state { false } else { true }
    }

    /// Whether it has nothing to remember.
    var isUntouched: Bool {
        if case .closed(failures: 0) = state { true } else { false }
    }

    /// What one who wants to send something is told.
    enum Permit: Sendable, Equatable {
        case go
        /// It is the one request that is let through: what comes of it decides.
        case probe
        case wait(until: Timestamp)
    }

    /// Asks to send something.
    mutating func ask(now: Timestamp) -> Permit {
        switch state {
        case .closed: return .go
        case .open(let until, let pauses), .probing(let until, let pauses):
            guard until <= now else { return .wait(until: until) }
            state = .probing(until: now.adding(seconds: Self.probePatience), pauses: pauses)
            return .probe
        }
    }

    /// When to ask again; nil when something may be sent now.
    func waits(now: Timestamp) -> Timestamp? {
        switch state {
        case .closed: nil
        case .open(let until, _), .probing(let until, _): until > now ? until : nil
        }
    }

    /// Takes back a probe that nothing was sent with.
    mutating func giveBack(now: Timestamp) {
        if case .probing(_, let pauses) = state { state = .open(until: now, pauses: pauses) }
    }

    /// Notes what came of a request.
    ///
    /// - Parameter jitter: 0 to 1; adds up to a fifth of the pause.
    mutating func note(_ kind: Outcome.Kind, now: Timestamp, jitter: Double) {
        switch kind {
        case .succeeded, .discarded, .conflict, .overridden, .rejected:
            state = .closed(failures: 0)
        case .serverError, .unreachable:
            fail(now, jitter)
        case .misconfigured:
            open(pauses: max(pauses, 5), now, jitter)
        case .deferred, .abandoned:
            // says nothing about the upstream's health
            giveBack(now: now)
        }
    }

    private var pauses: Int {
        switch state {
        case .closed: 0
        case .open(_, let pauses), .probing(_, let pauses): pauses
        }
    }

    private mutating func fail(_ now: Timestamp, _ jitter: Double) {
        switch state {
        case .closed(let failures):
            if failures + 1 < Self.threshold {
                state = .closed(failures: failures + 1)
            } else {
                open(pauses: 0, now, jitter)
            }
        case .probing(_, let pauses): open(pauses: pauses + 1, now, jitter)
        // what was under way when it opened
        case .open: break
        }
    }

    private mutating func open(pauses: Int, _ now: Timestamp, _ jitter: Double) {
        let pause = min(Self.longestPause, Self.firstPause * Double(1 << min(pauses, 10)))
        state = .open(until: now.adding(seconds: pause * (1 + 0.2 * jitter)), pauses: pauses)
    }
}
