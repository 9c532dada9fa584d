import Foundation
import SyncModel
import Synchronization

/// The circuit breakers of all upstreams, one an organization.
///
/// In memory of this replica alone: losing them at a restart costs a few requests.
final class Circuits: Sendable {
    private let breakers = Mutex([UUID: CircuitBreaker]())
    private let now: TimeSource

    init(now: @escaping TimeSource) {
        self.now = now
    }

    /// How many are open.
    var openCount: Int { breakers.withLock { $0.values.count { $0.isOpen } } }

    /// Returns the reports of open circuits for operators, those open longest first.
    func reports(limit: Int) -> [CircuitReport] {
        let open = breakers.withLock { breakers in breakers.compactMap { $1.report(of: $0) } }
        return Array(open.sorted { ($0.since, $0.organization) < ($1.since, $1.organization) }.prefix(limit))
    }

    /// Asks to send a lane's request to its organization's upstream.
    func ask(_ lane: LaneKey) -> CircuitBreaker.Permit {
        let moment = now()
        return breakers.withLock { $0[lane.organization]?.ask(lane.user, now: moment) } ?? .go
    }

    /// When a lane may ask again; nil if it may send now.
    func waits(_ lane: LaneKey) -> Timestamp? {
        let moment = now()
        return breakers.withLock { $0[lane.organization]?.waits(lane.user, now: moment) }
    }

    /// Whether only a probe passes.
    func isOpen(_ organization: UUID) -> Bool {
        breakers.withLock { $0[organization]?.isOpen ?? false }
    }

    /// Takes back a probe that was not sent.
    func release(_ organization: UUID) {
        let moment = now()
        breakers.withLock { $0[organization]?.release(now: moment) }
    }

    /// Records the outcome of a lane's request; returns whether that opened or closed the circuit.
    func record(_ kind: Outcome.Kind, of lane: LaneKey) -> Change? {
        let moment = now()
        return breakers.withLock { breakers in
            var breaker = breakers[lane.organization] ?? CircuitBreaker()
            let wasOpen = breaker.isOpen
            breaker.record(kind, by: lane.user, now: moment, jitter: .random(in: 0...1))
            breakers[lane.organization] = breaker.isUntouched ? nil : breaker
            return breaker.isOpen == wasOpen ? nil : breaker.isOpen ? .opened : .closed
        }
    }

    enum Change {
        case opened, closed
    }
}
