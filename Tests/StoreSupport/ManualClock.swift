package import SyncModel
import Synchronization

/// A clock that only advances when a test moves it.
package final class ManualClock: Sendable {
    private let moment = Mutex(Timestamp(microseconds: 1_795_000_000_000_000))

    package var now: Timestamp { moment.withLock { $0 } }

    package func advance(seconds: Double) { moment.withLock { $0 = $0.adding(seconds: seconds) } }
    package func set(_ moment: Timestamp) { self.moment.withLock { $0 = moment } }
}
