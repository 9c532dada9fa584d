package import FoundationEssentials
import SyncModel
package import SyncStore
import Synchronization

/// Measures the response times of organizations' hosts, and reports requests that remain unanswered for a while.
///
/// A host is fast if the exponentially weighted moving average of its response times is short. A request to a host that
/// is not known to be fast is reported as unanswered as soon as it is sent.
package final class HostClock<Holder: Hashable & Sendable>: Sendable {
    /// A change for ``HostPlaces``. Events are reported in the order in which they happened.
    package enum Event: Sendable {
        /// The holder had no unanswered request, and now has one.
        case awaits(Holder)
        /// All unanswered requests of the holder have ended.
        case answered(Holder)
        case pace(UUID, HostPace)
    }

    /// Identifies a request that is in progress.
    package typealias Ticket = Int

    private struct Request {
        package let holder: Holder
        package let organization: UUID
        package let sentAt: ContinuousClock.Instant
        package var isReported = false
    }

    private struct State {
        package var requests: [Ticket: Request] = [:]
        /// The number of unanswered requests that were reported, by holder.
        package var reported: [Holder: Int] = [:]
        package var lastTicket = 0
        /// Moving averages of response times, in seconds.
        package var averages: [UUID: Double] = [:]
    }

    /// The weight of the last response time in the average.
    private static var weight: Double { 0.25 }
    /// The largest response time in the average, in seconds. Longer response times are reduced to this value, so that a
    /// recovered host soon counts as fast.
    private static var longest: Double { 1 }
    /// The maximum number of stored averages.
    private static var capacity: Int { 20_000 }

    private let threshold: Duration
    private let report: @Sendable (Event) -> Void
    private let state = Mutex(State())

    /// - Parameters:
    ///   - threshold: the time for which a request may be unanswered before its holder releases its place. A host is
    ///     fast if the average of its response times is below this time.
    ///   - report: receives the events. It is called under a lock, so that the events keep their order.
    package init(threshold: Duration = .milliseconds(250), report: @escaping @Sendable (Event) -> Void) {
        self.threshold = threshold
        self.report = report
    }

    /// Whether an organization's host has answered fast until now.
    package func isFast(_ organization: UUID) -> Bool {
        state.withLock { pace(organization, $0) == .fast }
    }

    /// Records that a request is about to be sent.
    package func begin(_ holder: Holder, of organization: UUID, at now: ContinuousClock.Instant = .now) -> Ticket {
        state.withLock { state in
            state.lastTicket += 1
            var request = Request(holder: holder, organization: organization, sentAt: now)
            if pace(organization, state) != .fast {
                request.isReported = true
                reportUnanswered(request, &state)
            }
            state.requests[state.lastTicket] = request
            return state.lastTicket
        }
    }

    /// Records the end of a request with any outcome.
    ///
    /// - Parameter elapsed: the response time; nil if the request was not sent.
    package func end(_ ticket: Ticket, took elapsed: Duration?) {
        state.withLock { state in
            guard let request = state.requests.removeValue(forKey: ticket) else { return }
            if let elapsed { measure(elapsed, of: request.organization, &state) }
            guard request.isReported else { return }
            let remaining = (state.reported[request.holder] ?? 1) - 1
            state.reported[request.holder] = remaining > 0 ? remaining : nil
            if remaining <= 0 { report(.answered(request.holder)) }
        }
    }

    /// Records that an organization has no host. Its pace is fast, because its work never waits for a host.
    package func recordNoHost(of organization: UUID) {
        state.withLock { state in
            guard state.averages[organization] == nil else { return }
            if state.averages.count >= Self.capacity { state.averages = [:] }
            state.averages[organization] = 0
            report(.pace(organization, .fast))
        }
    }

    /// Reports the requests that have been unanswered for longer than the threshold.
    package func poll(at now: ContinuousClock.Instant = .now) {
        state.withLock { state in
            for (ticket, request) in state.requests where !request.isReported {
                guard request.sentAt.duration(to: now) >= threshold else { continue }
                state.requests[ticket]?.isReported = true
                reportUnanswered(request, &state)
            }
        }
    }

    /// Reports unanswered requests until the task is cancelled.
    package func run() async {
        while !Task.isCancelled {
            try? await Task.sleep(for: max(threshold / 2, .milliseconds(20)))
            poll()
        }
    }

    private func measure(_ elapsed: Duration, of organization: UUID, _ state: inout State) {
        let before = pace(organization, state)
        if state.averages.count >= Self.capacity, state.averages[organization] == nil { state.averages = [:] }
        let seconds = min(Self.longest, elapsed / .seconds(1))
        state.averages[organization] = state.averages[organization].map { $0 + (seconds - $0) * Self.weight } ?? seconds
        let after = pace(organization, state)
        if after != before { report(.pace(organization, after)) }
    }

    private func reportUnanswered(_ request: Request, _ state: inout State) {
        let count = state.reported[request.holder, default: 0] + 1
        state.reported[request.holder] = count
        if count == 1 { report(.awaits(request.holder)) }
    }

    private func pace(_ organization: UUID, _ state: State) -> HostPace {
        guard let average = state.averages[organization] else { return .unmeasured }
        return average < threshold / .seconds(1) ? .fast : .slow
    }
}

/// ``HostPlaces`` of a ``LeasedWorker``, and the clock that measures the hosts.
package final class RunningHosts<Holder: WorkItem & Hashable>: WorkPlaces {
    private final class State: Sendable {
        let places: Mutex<HostPlaces<Holder>>

        init(_ places: HostPlaces<Holder>) { self.places = Mutex(places) }
    }

    private let state: State
    private let clock: HostClock<Holder>
    private let share: Int

    /// - Parameters:
    ///   - places: the maximum number of holders that work concurrently, not counting holders that await a response.
    ///   - requestsPerPlace: the maximum number of all holders, divided by `places`.
    ///   - share: the maximum number of holders of an organization.
    package init(places: Int, requestsPerPlace: Int, share: Int) {
        let state = State(HostPlaces(HostPlaces.Limits(places: places, requests: places * requestsPerPlace)))
        self.state = state
        self.share = share
        clock = HostClock { event in state.places.withLock { $0.apply(event) } }
    }

    /// The number of all holders.
    package var count: Int { state.places.withLock { $0.count } }
    /// The number of holders that await a response, and occupy no place.
    package var awaiting: Int { state.places.withLock { $0.awaiting } }
    package var hasRoom: Bool { state.places.withLock { $0.hasRoom(isSlow: false) } }

    /// Assigns places to items. Organizations take turns, and an organization's items keep the given order.
    package func take(_ items: [Holder]) -> (taken: [Holder], isCrowded: Bool) {
        state.places.withLock { places in
            let candidates = items.reversed().filter { !places.holds($0) }
            let (chosen, isCrowded) = places.choose(Dictionary(grouping: candidates, by: \.organization), atMost: share)
            return (chosen, isCrowded)
        }
    }

    package func release(_ item: Holder) { state.places.withLock { $0.release(item) } }

    package func run() async { await clock.run() }

    /// Measures a request to the holder's host.
    package func measuring<Answer: Sendable>(_ holder: Holder, _ request: () async -> Answer) async -> Answer {
        let began = ContinuousClock.now
        let ticket = clock.begin(holder, of: holder.organization, at: began)
        defer { clock.end(ticket, took: .now - began) }
        return await request()
    }
}
