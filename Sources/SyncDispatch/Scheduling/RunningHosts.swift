package import SyncStore
import Synchronization

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
    ///   - places: holders that work at the same time, without those that await an answer.
    ///   - requestsPerPlace: holders in all for each place.
    ///   - share: what an organization may hold at most.
    package init(places: Int, requestsPerPlace: Int, share: Int) {
        let state = State(HostPlaces(HostPlaces.Limits(places: places, requests: places * requestsPerPlace)))
        self.state = state
        self.share = share
        clock = HostClock { event in state.places.withLock { $0.apply(event) } }
    }

    /// All holders.
    package var count: Int { state.places.withLock { $0.count } }
    /// Holders that await an answer, and occupy no place.
    package var awaiting: Int { state.places.withLock { $0.awaiting } }
    package var hasRoom: Bool { state.places.withLock { $0.hasRoom(isSlow: false) } }

    /// Takes places, an organization after the other; within one, in the given order.
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
        let ticket = clock.begin(holder, of: holder.organization, bytes: 0, at: began)
        defer { clock.end(ticket, took: .now - began) }
        return await request()
    }
}
