import Metrics
package import SyncModel
import Synchronization

/// A budget without a queue: bytes that may be held at the same time, or places.
///
/// A request that does not fit is refused immediately.
///
/// It bounds the resources that any number of clients occupy in the gateway; ``FairShares`` divides it.
package final class FairBudget: Sendable {
    private let overload: Overload
    private let shares: Mutex<FairShares>
    private let meter: Meter

    /// - Parameter label: of the metric that shows how much is held.
    package init(_ kind: Overload.Kind, limit: Int, label: String) {
        overload = Overload(kind)
        shares = Mutex(FairShares(whole: limit))
        meter = Meter(label: label)
    }

    package var held: Int { shares.withLock { $0.taken } }

    package func held(by user: LaneKey) -> Int { shares.withLock { $0.held(by: user) } }

    /// Reserves room if there is some for the user.
    ///
    /// - Parameter own: the amount that the same request already holds.
    package func take(_ amount: Int, for user: LaneKey, excluding own: Int = 0) throws(Problem) {
        guard tryAcquire(amount, for: user, excluding: own) else { throw overload.problem() }
    }

    /// Reserves room if there is some, without counting a refusal: the caller itself tries again.
    package func tryAcquire(_ amount: Int, for user: LaneKey, excluding own: Int = 0) -> Bool {
        let isTaken = shares.withLock { shares in
            guard shares.mayTake(amount, for: user, excluding: own) else { return false }
            shares.take(amount, for: user)
            return true
        }
        if isTaken { meter.increment(by: Double(amount)) }
        return isTaken
    }

    /// Counts an amount too small to be refused.
    package func count(_ amount: Int, for user: LaneKey) {
        shares.withLock { $0.take(amount, for: user) }
        meter.increment(by: Double(amount))
    }

    package func release(_ amount: Int, of user: LaneKey) {
        guard amount > 0 else { return }
        shares.withLock { $0.release(amount, of: user) }
        meter.decrement(by: Double(amount))
    }
}
