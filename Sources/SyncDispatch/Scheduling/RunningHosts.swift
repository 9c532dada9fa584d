import Synchronization

/// ``HostPlaces`` that several tasks share.
package final class RunningHosts<Holder: Hashable & Sendable>: Sendable {
    private let places: Mutex<HostPlaces<Holder>>

    package init(places: Int, requests: Int) {
        self.places = Mutex(HostPlaces(HostPlaces.Limits(places: places, requests: requests)))
    }

    package func withLock<Result: Sendable>(_ body: (inout HostPlaces<Holder>) -> Result) -> Result {
        places.withLock { body(&$0) }
    }
}
