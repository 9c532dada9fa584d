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
    /// The maximum number of bytes of one client address at one source, and of all unknown sources together.
    package var pairBytes: Int { bytes / 4 }
    /// The number of bytes that a source or an address may use before its bodies are evicted first. This is the size of
    /// two messages of the maximum size, so that a sender of genuine messages rarely exceeds it.
    package var lightBytes: Int { bytes / 8 }

    package init() {}
}

/// The memory budget of bodies whose senders are not authenticated yet. This type only decides; ``UnverifiedBodies``
/// executes the decisions.
///
/// A body reserves memory as its bytes arrive. A source, a client address, and a client address at one source may each
/// reserve only a part of the budget. All unknown sources share the part of one address at one source. If a part is
/// used up, a body in this part is evicted:
///
/// 1. In the whole budget, bodies for unknown sources are evicted first.
/// 2. In a part with several sources, the source with the most bytes is selected. Then, if several addresses remain,
///   the address with the most bytes is selected. Each of the two selections is skipped if no source or no address has
///   more than ``UnverifiedBodyLimits/lightBytes``. Otherwise a genuine message that is larger than each of many small
///   bodies could be evicted.
/// 3. Of the bodies of the selected source or address, or of the whole part if none is selected, the body that began to
///   arrive first is evicted. This may be the body that needs more memory.
///
/// Therefore a body keeps its reservation until the bytes of newer bodies fill a part of the budget. Bodies that stop
/// or arrive slowly evict only each other, even if there are very many of them. The size of a single body does not
/// matter: of several recent bodies, the largest is often the one that arrives fastest.
package struct UnverifiedBodyBudget: Sendable {
    /// Identifies a body; later bodies have greater values.
    package typealias Ticket = Int

    /// The destination and the origin of a body.
    package struct Origin: Sendable, Hashable {
        /// The origin of all bodies for unknown sources. A client can invent any number of source names, so an unknown
        /// source gets no share of the budget.
        package static let unknown = Origin()

        /// The source; nil for all unknown sources.
        package let source: UUID?
        /// The client address; nil for all unknown sources.
        package let address: String?

        package init(source: UUID, address: String) {
            self.source = source
            self.address = address
        }

        private init() {
            source = nil
            address = nil
        }
    }

    package enum Decision: Sendable, Equatable {
        /// The bytes are counted. These other bodies were evicted to make room for them.
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
    private var sources: [UUID?: Int] = [:]
    private var addresses: [String?: Int] = [:]
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
        while let part = exhaustedPart(for: body.origin, lacking: more) {
            guard let victim = selectVictim(in: part, for: ticket, lacking: more), victim != ticket else {
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

    /// A part of the budget.
    private enum Part {
        case pair(Origin)
        case source(UUID?)
        case address(String?)
        case whole

        func contains(_ origin: Origin) -> Bool {
            switch self {
            case .pair(let pair): origin == pair
            case .source(let source): origin.source == source
            case .address(let address): origin.address == address
            case .whole: true
            }
        }
    }

    /// Returns the part of the budget from which a body must be evicted before more memory can be reserved; nil if the
    /// memory is sufficient.
    private func exhaustedPart(for origin: Origin, lacking more: Int) -> Part? {
        guard more > 0 else { return nil }
        if pairs[origin, default: 0] + more > limits.pairBytes { return .pair(origin) }
        if sources[origin.source, default: 0] + more > limits.partBytes { return .source(origin.source) }
        if addresses[origin.address, default: 0] + more > limits.partBytes { return .address(origin.address) }
        guard held + more > limits.bytes else { return nil }
        let isUnknownFirst =
            origin == .unknown
            || bodies.values.contains { $0.origin == .unknown && !$0.isWhole && $0.counted > 0 }
        return isUnknownFirst ? .pair(.unknown) : .whole
    }

    /// Returns the body to evict from a part. Bodies without a reservation are ignored, except for the body that needs
    /// more memory.
    private func selectVictim(in part: Part, for ticket: Ticket, lacking more: Int) -> Ticket? {
        var candidates = bodies.filter { other, body in
            !body.isWhole && part.contains(body.origin) && (body.counted > 0 || other == ticket)
        }
        candidates[ticket]?.counted += more
        switch part {
        case .pair: break
        case .source: candidates = heaviest(of: candidates, by: \.address)
        case .address: candidates = heaviest(of: candidates, by: \.source)
        case .whole: candidates = heaviest(of: heaviest(of: candidates, by: \.source), by: \.address)
        }
        return candidates.keys.min()
    }

    /// Returns the bodies of the source or address with the most bytes. If several have the same number of bytes, the
    /// one with the oldest body is selected. Returns all bodies if none has more than
    /// ``UnverifiedBodyLimits/lightBytes``.
    private func heaviest<Holder: Hashable>(
        of candidates: [Ticket: Body],
        by holder: (Origin) -> Holder
    ) -> [Ticket: Body] {
        var holders: [Holder: (bytes: Int, oldest: Ticket)] = [:]
        for (ticket, body) in candidates {
            let known = holders[holder(body.origin)] ?? (0, ticket)
            holders[holder(body.origin)] = (known.bytes + body.counted, min(known.oldest, ticket))
        }
        let heaviest = holders.max { left, right in
            (left.value.bytes, right.value.oldest) < (right.value.bytes, left.value.oldest)
        }
        guard let heaviest, heaviest.value.bytes > limits.lightBytes else { return candidates }
        return candidates.filter { holder($0.value.origin) == heaviest.key }
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
