package import FoundationEssentials
import Metrics
package import NIOCore
package import SyncModel
import Synchronization

/// The memory of bodies that arrive before their senders are authenticated (``UnverifiedBodyBudget``).
///
/// This memory is separate from the memory of other bodies, so that requests without a secret use no organization's
/// memory.
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

    /// A body that is arriving.
    package struct Arrival: Sendable {
        fileprivate let ticket: UnverifiedBodyBudget.Ticket
        fileprivate let bodies: UnverifiedBodies

        /// Reserves memory for bytes that have arrived.
        package func take(_ amount: Int) throws(Problem) { try bodies.take(amount, for: ticket) }

        /// Records that the body has arrived completely.
        package func complete() { bodies.state.withLock { $0.room.complete(ticket) } }

        /// Releases the memory. A second call does nothing.
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

    /// Cuts off bodies that arrive too slowly.
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

    /// Makes a change, then cuts off the bodies whose channels the change returns.
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

// MARK: - UnverifiedBodyLimits

/// Bounds on bodies that arrive before their senders are authenticated.
package struct UnverifiedBodyLimits: Sendable {
    /// The maximum number of bytes of all bodies.
    package var bytes = 16_777_216
    /// The number of bytes of each body that are not counted, because each connection needs more memory anyway.
    package var free = 8_192
    /// The time limit for the arrival of a body.
    package var timeout: Duration = .seconds(15)
    /// The time during which a body may arrive at any speed.
    package var grace: Duration = .seconds(3)
    /// The mean number of bytes per second that a body must have reached after ``grace``.
    package var rate = 16_384

    /// The maximum number of bytes of one source, and of one client address.
    package var partBytes: Int { bytes / 2 }
    /// The maximum number of bytes of one client address at one source.
    package var pairBytes: Int { bytes / 4 }

    package init() {}
}

/// The memory budget of bodies whose senders are not authenticated yet. This type only decides; ``UnverifiedBodies``
/// executes the decisions.
///
/// A body reserves memory as its bytes arrive. A source, a client address, and a client address at one source may each
/// reserve only a part of the budget. If a part is used up, the oldest body in this part is evicted: the body that
/// began to arrive first. This may be the same body that needs more memory.
///
/// Therefore a body keeps its reservation until newer bodies have brought as many bytes as this part of the budget.
/// A message that arrives at full speed is complete before that. Bodies that stop or arrive slowly evict only each
/// other, even if there are very many of them. The size of a body does not matter, because among several recent bodies
/// the largest often arrives fastest.
package struct UnverifiedBodyBudget: Sendable {
    /// Identifies a body; later bodies have greater values.
    package typealias Ticket = Int

    /// The destination and the origin of a body.
    package struct Origin: Sendable, Hashable {
        package let source: UUID
        package let address: String
    }

    package enum Decision: Sendable, Equatable {
        /// The bytes are counted. For this purpose, these other bodies were evicted.
        case taken(evicted: [Ticket])
        /// The budget is used up. The body itself and these other bodies were evicted.
        case refused(evicted: [Ticket])
    }

    private struct Body {
        package let origin: Origin
        package let since: ContinuousClock.Instant
        package var bytes = 0
        package var counted = 0
        /// Whether the body has arrived completely.
        package var isWhole = false
    }

    private let limits: UnverifiedBodyLimits
    private var bodies: [Ticket: Body] = [:]
    private var lastTicket = 0
    /// The number of counted bytes.
    private(set) var held = 0
    private var sources: [UUID: Int] = [:]
    private var addresses: [String: Int] = [:]
    private var pairs: [Origin: Int] = [:]

    package init(_ limits: UnverifiedBodyLimits = UnverifiedBodyLimits()) { self.limits = limits }

    package mutating func begin(_ origin: Origin, now: ContinuousClock.Instant) -> Ticket {
        lastTicket += 1
        bodies[lastTicket] = Body(origin: origin, since: now)
        return lastTicket
    }

    /// Reserves memory for bytes that have arrived.
    package mutating func take(_ amount: Int, for ticket: Ticket) -> Decision {
        guard var body = bodies[ticket] else { return .refused(evicted: []) }
        body.bytes += amount
        let more = max(0, body.bytes - limits.free) - body.counted
        var evicted: [Ticket] = []
        while let isInScope = scope(of: body.origin, lacking: more) {
            guard let victim = oldest(in: isInScope, or: ticket), victim != ticket else {
                end(ticket)
                return .refused(evicted: evicted)
            }
            end(victim)
            evicted.append(victim)
        }
        body.counted += more
        bodies[ticket] = body
        count(more, body.origin)
        return .taken(evicted: evicted)
    }

    /// Records that a body has arrived completely. The body is not evicted afterwards.
    package mutating func complete(_ ticket: Ticket) { bodies[ticket]?.isWhole = true }

    /// Releases a body's memory. Does nothing if the body was evicted.
    package mutating func end(_ ticket: Ticket) {
        guard let body = bodies.removeValue(forKey: ticket) else { return }
        count(-body.counted, body.origin)
    }

    /// Removes the bodies that arrive too slowly.
    package mutating func expire(now: ContinuousClock.Instant) -> [Ticket] {
        let late = bodies.filter { _, body in
            let age = now - body.since
            guard !body.isWhole, age > limits.grace else { return false }
            return age > limits.timeout || Double(body.bytes) < age / .seconds(1) * Double(limits.rate)
        }
        for ticket in late.keys { end(ticket) }
        return Array(late.keys)
    }

    // MARK: - Steps

    /// Returns nil if the budget is sufficient for more memory. Otherwise returns a condition: before memory can be
    /// reserved, a body that fulfills the condition must be evicted.
    private func scope(of origin: Origin, lacking more: Int) -> ((Origin) -> Bool)? {
        guard more > 0 else { return nil }
        if pairs[origin, default: 0] + more > limits.pairBytes { return { $0 == origin } }
        if sources[origin.source, default: 0] + more > limits.partBytes { return { $0.source == origin.source } }
        if addresses[origin.address, default: 0] + more > limits.partBytes { return { $0.address == origin.address } }
        guard held + more > limits.bytes else { return nil }
        let heaviest = sources.max { $0.value < $1.value }?.key ?? origin.source
        let isOwn = sources[origin.source, default: 0] + more >= sources[heaviest, default: 0]
        return { isOwn || $0.source == heaviest }
    }

    /// Returns the body that began to arrive first. Bodies without a reservation are ignored, except for the body that
    /// needs more memory.
    private func oldest(in isInScope: (Origin) -> Bool, or ticket: Ticket) -> Ticket? {
        var oldest: Ticket?
        for (other, body) in bodies where !body.isWhole && isInScope(body.origin) {
            guard body.counted > 0 || other == ticket else { continue }
            oldest = min(other, oldest ?? other)
        }
        return oldest
    }

    private mutating func count(_ amount: Int, _ origin: Origin) {
        guard amount != 0 else { return }
        held += amount
        Self.change(&sources[origin.source], by: amount)
        Self.change(&addresses[origin.address], by: amount)
        Self.change(&pairs[origin], by: amount)
    }

    /// Changes an amount, and removes it when it becomes zero.
    private static func change(_ held: inout Int?, by amount: Int) {
        let next = (held ?? 0) + amount
        held = next > 0 ? next : nil
    }
}
