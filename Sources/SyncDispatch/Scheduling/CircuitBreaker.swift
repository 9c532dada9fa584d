import DequeModule
import FoundationEssentials
import SyncModel
import Synchronization

/// Decides whether requests are sent to one upstream (product rule 14). The caller supplies the time.
///
/// While the circuit is closed, all requests pass. The circuit opens after five consecutive failures, or after
/// responses that may result from the operator's configuration. In both cases several lanes must be affected, because a
/// single lane is limited by its own back-off, and may itself be the cause.
///
/// An open circuit first lets no request pass for a pause, and then a single request as a probe. If the probe succeeds,
/// the circuit closes; otherwise the next pause is twice as long. Lanes take turns at probing: after its probe failed,
/// a lane waits a little longer than the others.
///
/// An upstream that has just recovered does not receive the backlog at once. After the circuit has closed, the number
/// of lanes that may send at the same time is limited: first to two, and to one more after each success. A failure
/// halves the limit. The limit ends at 64. Lanes that already run are not stopped.
struct CircuitBreaker: Sendable {
    /// The number of consecutive failures that open the circuit.
    static let threshold = 5
    /// The number of different lanes from which the failures must come.
    static let failingLanes = 2
    /// The number of lanes with a response that may result from the operator's configuration. The circuit opens if this
    /// number is reached, and no request of any lane has succeeded since the first of these responses.
    static let troubledLanes = 3
    /// The first and the longest pause, in seconds, before jitter.
    static let firstPause: Double = 1
    static let longestPause: Double = 30
    /// The time in seconds for which a probe may delay other lanes. After that, another probe passes.
    static let probeTimeout: Double = 10
    /// The additional time in seconds for which a lane waits after its probe failed. It is long enough for a search to
    /// find other lanes.
    static let turnTimeout: Double = 3
    /// The maximum number of stored lanes with failed probes.
    static let triedLimit = 64
    /// The first limit on concurrent requests after the circuit has closed.
    static let firstConcurrency = 2
    /// If the limit on concurrent requests reaches this value, the limit is removed.
    static let fullConcurrency = 64

    private enum State {
        case closed
        case open(until: Timestamp, pauses: Int)
        case probing(until: Timestamp, pauses: Int)
    }

    private var state = State.closed
    /// The cause of the opening, for operators: the time, the number of failures since the last success, and the kind
    /// of the last failure.
    private var failure: (since: Timestamp, failures: Int, last: Outcome.Kind)?
    /// The number of failures since the last success, and some of the lanes from which they came.
    private var failures = 0
    private var failing: Set<UUID> = []
    /// Some of the lanes whose responses since the last success may result from the operator's configuration.
    private var troubled: Set<UUID> = []
    /// The last lanes whose probes failed.
    private var tried: Deque<UUID> = []
    /// The limit on concurrent requests after an outage; nil for no limit.
    private var recovery: Int?

    /// The number of requests that may be sent at the same time; nil for no limit.
    var concurrency: Int? { isOpen ? 1 : recovery }

    /// Whether no request passes except a probe.
    var isOpen: Bool {
        if case .closed = state { false } else { true }
    }

    /// Whether the circuit is in its initial state.
    var isUntouched: Bool { !isOpen && failures == 0 && troubled.isEmpty && recovery == nil }

    /// The decision on a lane's request.
    enum Permit: Sendable, Equatable {
        case go
        /// The request is the probe. Its outcome decides whether the circuit closes.
        case probe
        case wait(until: Timestamp)
    }

    /// Requests a permit to send a request.
    ///
    /// - Parameter lane: the lane's user.
    mutating func requestPermit(for lane: UUID, now: Timestamp) -> Permit {
        switch state {
        case .closed: return .go
        case .open(let until, let pauses), .probing(let until, let pauses):
            let turn = turn(of: lane, from: until)
            guard turn <= now else { return .wait(until: turn) }
            state = .probing(until: now.adding(seconds: Self.probeTimeout), pauses: pauses)
            return .probe
        }
    }

    /// Returns the time at which a lane may request a permit again; nil if it may send now.
    func waits(_ lane: UUID, now: Timestamp) -> Timestamp? {
        switch state {
        case .closed: return nil
        case .open(let until, _), .probing(let until, _):
            let turn = turn(of: lane, from: until)
            return turn > now ? turn : nil
        }
    }

    /// Returns the report for operators; nil while the circuit is closed.
    func report(of organization: UUID) -> CircuitReport? {
        guard let failure else { return nil }
        func report(_ isHalfOpen: Bool, _ next: Timestamp) -> CircuitReport {
            CircuitReport(
                organization: organization,
                isHalfOpen: isHalfOpen,
                since: failure.since,
                failures: failure.failures,
                lastError: failure.last.rawValue,
                nextProbeAt: next
            )
        }
        switch state {
        case .closed: return nil
        case .open(let until, _): return report(false, until)
        case .probing(let until, _): return report(true, until)
        }
    }

    /// Releases the permit of a probe that was not sent.
    mutating func release(now: Timestamp) {
        if case .probing(_, let pauses) = state { state = .open(until: now, pauses: pauses) }
    }

    /// Records the outcome of a lane's request.
    ///
    /// - Parameter jitter: 0 to 1; 1 makes the pause a fifth longer.
    mutating func record(_ kind: Outcome.Kind, by lane: UUID, now: Timestamp, jitter: Double) {
        switch kind {
        case .succeeded, .discarded, .conflict, .overridden, .rejected:
            let next = isOpen ? Self.firstConcurrency : recovery.map { $0 + 1 }
            self = CircuitBreaker()
            recovery = next.flatMap { $0 < Self.fullConcurrency ? $0 : nil }
        case .serverError, .unreachable:
            recordFailure(kind, now)
            failures = min(failures + 1, Self.threshold)
            if failing.count < Self.failingLanes { failing.insert(lane) }
            fail(lane, isWorse: true, now, jitter)
        case .misconfigured:
            recordFailure(kind, now)
            if troubled.count < Self.troubledLanes { troubled.insert(lane) }
            // the next pause gets longer only if at least three lanes got such a response. Otherwise the cause may be
            // in the lanes, and not in the upstream.
            fail(lane, isWorse: troubled.count >= Self.troubledLanes, now, jitter)
        case .deferred, .abandoned, .refused:
            // these outcomes show nothing about the upstream's health
            release(now: now)
        }
    }

    private mutating func recordFailure(_ kind: Outcome.Kind, _ now: Timestamp) {
        recovery = recovery.map { max(1, $0 / 2) }
        failure = (since: isOpen ? failure?.since ?? now : now, failures: (failure?.failures ?? 0) + 1, last: kind)
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
        // the request was already in progress when the circuit opened
        case .open: break
        }
    }

    private mutating func open(pauses: Int, _ now: Timestamp, _ jitter: Double) {
        let pause = min(Self.longestPause, Self.firstPause * Double(1 << min(pauses, 10)))
        state = .open(until: now.adding(seconds: pause * (1 + 0.2 * jitter)), pauses: pauses)
    }

    private func turn(of lane: UUID, from moment: Timestamp) -> Timestamp {
        tried.contains(lane) ? moment.adding(seconds: Self.turnTimeout) : moment
    }
}

// MARK: - Circuits

/// The circuit breakers of all upstreams, one for each organization.
///
/// The circuit breakers exist only in this replica's memory. After a restart, a few unnecessary requests are sent.
final class Circuits: Sendable {
    private let breakers = Mutex([UUID: CircuitBreaker]())
    private let now: TimeSource

    init(now: @escaping TimeSource) {
        self.now = now
    }

    /// The number of open circuits.
    var openCount: Int { breakers.withLock { $0.values.count { $0.isOpen } } }

    /// Returns the reports of open circuits for operators, beginning with the circuit that has been open longest.
    func reports(limit: Int) -> [CircuitReport] {
        let open = breakers.withLock { breakers in breakers.compactMap { $1.report(of: $0) } }
        return Array(open.sorted { ($0.since, $0.organization) < ($1.since, $1.organization) }.prefix(limit))
    }

    /// Requests a permit to send a lane's request to its organization's upstream.
    func requestPermit(for lane: LaneKey) -> CircuitBreaker.Permit {
        let moment = now()
        return breakers.withLock { $0[lane.organization]?.requestPermit(for: lane.user, now: moment) } ?? .go
    }

    /// Returns the time at which a lane may request a permit again; nil if it may send now.
    func waits(_ lane: LaneKey) -> Timestamp? {
        let moment = now()
        return breakers.withLock { $0[lane.organization]?.waits(lane.user, now: moment) }
    }

    /// Whether no request passes except a probe.
    func isOpen(_ organization: UUID) -> Bool {
        breakers.withLock { $0[organization]?.isOpen ?? false }
    }

    /// The number of requests that an organization may send at the same time; nil for no limit.
    func concurrency(of organization: UUID) -> Int? { breakers.withLock { $0[organization]?.concurrency } }

    /// Releases the permit of a probe that was not sent.
    func release(_ organization: UUID) {
        let moment = now()
        breakers.withLock { $0[organization]?.release(now: moment) }
    }

    /// Records the outcome of a lane's request, and returns whether the outcome opened or closed the circuit.
    func record(_ kind: Outcome.Kind, of lane: LaneKey) -> (change: Change?, concurrency: Int?) {
        let moment = now()
        return breakers.withLock { breakers in
            var breaker = breakers[lane.organization] ?? CircuitBreaker()
            let wasOpen = breaker.isOpen
            breaker.record(kind, by: lane.user, now: moment, jitter: .random(in: 0...1))
            breakers[lane.organization] = breaker.isUntouched ? nil : breaker
            let change: Change? = breaker.isOpen == wasOpen ? nil : breaker.isOpen ? .opened : .closed
            return (change, breaker.concurrency)
        }
    }

    enum Change {
        case opened, closed
    }
}
