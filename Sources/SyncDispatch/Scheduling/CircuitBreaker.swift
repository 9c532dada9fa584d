import DequeModule
import Foundation
import SyncModel

/// Whether anything is sent to one upstream (product rule 14). Pure: the clock is the caller's.
///
/// Closed, everything passes. Five failures in a row open it, and so do answers that may be the operator's trouble, in both
/// cases only when several lanes agree: one alone is held by its own back-off, and may have itself to blame. Then nothing
/// passes for a while. After that one request is let through: if it succeeds the circuit closes, otherwise it stays open
/// twice as long. Lanes take turns at that: one that tried in vain waits a little longer than those that did not.
struct CircuitBreaker: Sendable {
    /// Failures in a row that open the circuit.
    static let threshold = 5
    /// Lanes that failures have to come from.
    static let failingLanes = 2
    /// Lanes that must have been answered, with nothing taken in between, in a way that may be the operator's trouble.
    static let troubledLanes = 3
    /// The first pause and the longest, in seconds, before jitter.
    static let firstPause: Double = 1
    static let longestPause: Double = 30
    /// How long the one request that is let through may keep others waiting, in seconds; after it another is.
    static let probePatience: Double = 10
    /// How much longer a lane waits that tried in vain, in seconds: longer than it takes others to be found.
    static let turnPatience: Double = 3
    /// Lanes that tried in vain and are remembered.
    static let triedLimit = 64

    private enum State {
        case closed
        case open(until: Timestamp, pauses: Int)
        case probing(until: Timestamp, pauses: Int)
    }

    private var state = State.closed
    /// Failures since the last success, and some of the lanes that they came from.
    private var failures = 0
    private var failing: Set<UUID> = []
    /// Some of the lanes that were answered since the last success in a way that may be the operator's trouble.
    private var troubled: Set<UUID> = []
    /// Lanes that tried in vain, the last of them.
    private var tried: Deque<UUID> = []

    /// Whether nothing but a probe passes.
    var isOpen: Bool {
        if case .closed = state { false } else { true }
    }

    /// Whether it has nothing to remember.
    var isUntouched: Bool { !isOpen && failures == 0 && troubled.isEmpty }

    /// What one who wants to send something is told.
    enum Permit: Sendable, Equatable {
        case go
        /// It is the one request that is let through: what comes of it decides.
        case probe
        case wait(until: Timestamp)
    }

    /// Asks to send something.
    ///
    /// - Parameter lane: its user.
    mutating func ask(_ lane: UUID, now: Timestamp) -> Permit {
        switch state {
        case .closed: return .go
        case .open(let until, let pauses), .probing(let until, let pauses):
            let turn = turn(of: lane, from: until)
            guard turn <= now else { return .wait(until: turn) }
            state = .probing(until: now.adding(seconds: Self.probePatience), pauses: pauses)
            return .probe
        }
    }

    /// When a lane may ask again; nil when it may send something now.
    func waits(_ lane: UUID, now: Timestamp) -> Timestamp? {
        switch state {
        case .closed: return nil
        case .open(let until, _), .probing(let until, _):
            let turn = turn(of: lane, from: until)
            return turn > now ? turn : nil
        }
    }

    /// Takes back a probe that nothing was sent with.
    mutating func giveBack(now: Timestamp) {
        if case .probing(_, let pauses) = state { state = .open(until: now, pauses: pauses) }
    }

    /// Notes what came of a lane's request.
    ///
    /// - Parameter jitter: 0 to 1; adds up to a fifth of the pause.
    mutating func note(_ kind: Outcome.Kind, by lane: UUID, now: Timestamp, jitter: Double) {
        switch kind {
        case .succeeded, .discarded, .conflict, .overridden, .rejected:
            self = CircuitBreaker()
        case .serverError, .unreachable:
            failures = min(failures + 1, Self.threshold)
            if failing.count < Self.failingLanes { failing.insert(lane) }
            fail(lane, isWorse: true, now, jitter)
        case .misconfigured:
            if troubled.count < Self.troubledLanes { troubled.insert(lane) }
            // from one or two lanes it says nothing of the upstream's health
            fail(lane, isWorse: troubled.count >= Self.troubledLanes, now, jitter)
        case .deferred, .abandoned, .refused:
            // says nothing about the upstream's health
            giveBack(now: now)
        }
    }

    private var isFailing: Bool {
        failures >= Self.threshold && failing.count >= Self.failingLanes || troubled.count >= Self.troubledLanes
    }

    private mutating func fail(_ lane: UUID, isWorse: Bool, _ now: Timestamp, _ jitter: Double) {
        switch state {
        case .closed:
            if isFailing { open(pauses: 0, now, jitter) }
        case .probing(_, let pauses):
            tried.removeAll { $0 == lane }
            if tried.count == Self.triedLimit { tried.removeFirst() }
            tried.append(lane)
            open(pauses: isWorse ? pauses + 1 : pauses, now, jitter)
        // what was under way when it opened
        case .open: break
        }
    }

    private mutating func open(pauses: Int, _ now: Timestamp, _ jitter: Double) {
        let pause = min(Self.longestPause, Self.firstPause * Double(1 << min(pauses, 10)))
        state = .open(until: now.adding(seconds: pause * (1 + 0.2 * jitter)), pauses: pauses)
    }

    private func turn(of lane: UUID, from moment: Timestamp) -> Timestamp {
        tried.contains(lane) ? moment.adding(seconds: Self.turnPatience) : moment
    }
}
