import Metrics
import SyncModel
import Synchronization

/// Room without a queue: bytes that may be held at the same time, or places. A request that gets none is refused at
/// once.
///
/// What clients make us hold is bounded by this and not by how many of them there are; ``FairShares`` says how much of
/// it is whose.
final class FairBudget: Sendable {
    private let overload: Overload
    private let shares: Mutex<FairShares>
    private let meter: Meter

    /// - Parameter label: of the metric that shows how much is held.
    init(_ kind: Overload.Kind, limit: Int, label: String) {
        overload = Overload(kind)
        shares = Mutex(FairShares(whole: limit))
        meter = Meter(label: label)
    }

    /// How much is held now.
    var held: Int { shares.withLock { $0.taken } }

    /// How much a user holds now.
    func held(by user: LaneKey) -> Int { shares.withLock { $0.held(by: user) } }

    /// Reserves room if there is some for the user.
    ///
    /// - Parameter own: what the same request holds already.
    func take(_ amount: Int, for user: LaneKey, besides own: Int = 0) throws(Problem) {
        guard offers(amount, for: user, besides: own) else { throw overload.problem() }
    }

    /// Reserves room if there is some; who is refused comes back by itself.
    func offers(_ amount: Int, for user: LaneKey, besides own: Int = 0) -> Bool {
        let isTaken = shares.withLock { shares in
            guard shares.mayTake(amount, for: user, besides: own) else { return false }
            shares.take(amount, for: user)
            return true
        }
        if isTaken { meter.increment(by: Double(amount)) }
        return isTaken
    }

    /// Counts what is too little to be refused.
    func count(_ amount: Int, for user: LaneKey) {
        shares.withLock { $0.take(amount, for: user) }
        meter.increment(by: Double(amount))
    }

    func giveBack(_ amount: Int, of user: LaneKey) {
        guard amount > 0 else { return }
        shares.withLock { $0.giveBack(amount, of: user) }
        meter.decrement(by: Double(amount))
    }
}
