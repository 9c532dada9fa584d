import Metrics
import Synchronization

/// The bytes of request bodies that may be held at the same time, over all requests of the process.
///
/// What clients send is bounded by this and not by how many of them there are.
final class BodyBudget: Sendable {
    private let limit: Int
    private let held = Atomic<Int>(0)
    private let meter = Meter(label: HTTPMetrics.heldBodyBytes)

    init(limit: Int) {
        self.limit = limit
    }

    /// How many bytes are held now.
    var heldBytes: Int { held.load(ordering: .relaxed) }

    /// Reserves bytes if there is room for them.
    func take(_ bytes: Int) -> Bool {
        let (_, total) = held.add(bytes, ordering: .relaxed)
        guard total <= limit else {
            held.subtract(bytes, ordering: .relaxed)
            return false
        }
        meter.increment(by: Double(bytes))
        return true
    }

    func giveBack(_ bytes: Int) {
        held.subtract(bytes, ordering: .relaxed)
        meter.decrement(by: Double(bytes))
    }
}
