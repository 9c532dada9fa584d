import Metrics
package import NIOCore
package import SyncModel
import Synchronization

/// The memory of bodies that arrive before their senders are authenticated (``UnverifiedBodyBudget``).
///
/// It is apart from the memory of other bodies, so that requests without a secret take nothing from an organization.
package final class UnverifiedBodies: Sendable {
    private struct State {
        package var room: UnverifiedBodyBudget
        package var channels: [UnverifiedBodyBudget.Ticket: any Channel] = [:]
    }

    private let overload = Overload(.unverified)
    private let state: Mutex<State>
    private let meter: Meter
    private let now: @Sendable () -> ContinuousClock.Instant

    package init(
        _ limits: UnverifiedBodyLimits,
        now: @escaping @Sendable () -> ContinuousClock.Instant = { .now }
    ) {
        state = Mutex(State(room: UnverifiedBodyBudget(limits)))
        meter = Meter(label: HTTPMetrics.heldUnverifiedBytes)
        self.now = now
    }

    /// A body that arrives.
    package struct Arrival: Sendable {
        fileprivate let ticket: UnverifiedBodyBudget.Ticket
        fileprivate let bodies: UnverifiedBodies

        /// Reserves room for bytes that have arrived.
        package func take(_ amount: Int) throws(Problem) { try bodies.take(amount, for: ticket) }

        /// Notes that all of it is there.
        package func complete() { bodies.state.withLock { $0.room.complete(ticket) } }

        /// Gives the room back; does nothing the second time.
        package func end() {
            bodies.change { state in
                state.room.end(ticket)
                state.channels[ticket] = nil
                return []
            }
        }
    }

    package func begin(_ origin: UnverifiedBodyBudget.Origin, on channel: any Channel) -> Arrival {
        let ticket = state.withLock { state in
            let ticket = state.room.begin(origin, now: now())
            state.channels[ticket] = channel
            return ticket
        }
        return Arrival(ticket: ticket, bodies: self)
    }

    /// Cuts off the bodies that arrive too slowly.
    package func expire() {
        change { state in
            let late = state.room.expire(now: now())
            return late.compactMap { state.channels.removeValue(forKey: $0) }
        }
    }

    private func take(_ amount: Int, for ticket: UnverifiedBodyBudget.Ticket) throws(Problem) {
        var isRefused = false
        change { state in
            let evicted: [UnverifiedBodyBudget.Ticket]
            switch state.room.take(amount, for: ticket) {
            case .taken(let others): evicted = others
            case .refused(let others): (evicted, isRefused) = (others, true)
            }
            return evicted.compactMap { state.channels.removeValue(forKey: $0) }
        }
        if isRefused { throw overload.problem() }
    }

    /// Makes a change, then cuts off the bodies whose channels it returns.
    private func change(_ change: (inout State) -> [any Channel]) {
        let (cut, difference) = state.withLock { state in
            let before = state.room.held
            let cut = change(&state)
            return (cut, state.room.held - before)
        }
        meter.increment(by: Double(difference))
        for channel in cut { ConnectionGuard.cutBody(on: channel) }
    }
}
