import Metrics
import Synchronization

/// The bytes of one kind that may be held at the same time, over all requests of the process: request bodies, or events
/// that slow listeners have not read.
///
/// What clients make us hold is bounded by this and not by how many of them there are.
final class ByteBudget: Sendable {
    private let limit: Int
    private let held = Atomic<Int>(0)
    private let meter: Meter

    /// - Parameter label: of the metric that shows how many are held.
    init(limit: Int, label: String) {
        self.limit = limit
        meter = Meter(label: label)
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

    /// Counts bytes that are too few to be refused.
    func count(_ bytes: Int) {
        held.add(bytes, ordering: .relaxed)
        meter.increment(by: Double(bytes))
    }

    func giveBack(_ bytes: Int) {
        held.subtract(bytes, ordering: .relaxed)
        meter.decrement(by: Double(bytes))
    }
}
