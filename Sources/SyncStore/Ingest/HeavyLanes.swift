import SyncModel
import Synchronization

/// The sources whose latest batches were too much work to be done with others.
///
/// A further batch of such a source goes to the heavy worker immediately. This saves work and decides nothing: the
/// heavy worker takes small batches as well, and then removes their source.
final class HeavyLanes: Sendable {
    private static let capacity = 1_024
    private let lanes = Mutex<Set<LaneKey>>([])

    func contains(_ lane: LaneKey) -> Bool { lanes.withLock { $0.contains(lane) } }

    func insert(_ heavy: Set<LaneKey>) {
        lanes.withLock { lanes in
            if lanes.count + heavy.count > Self.capacity { lanes = [] }
            lanes.formUnion(heavy)
        }
    }

    func remove(_ light: Set<LaneKey>) {
        guard !light.isEmpty else { return }
        lanes.withLock { $0.subtract(light) }
    }
}
