import Foundation
import Synchronization

/// Signals that parked events of some entities can be evaluated again.
///
/// An event is parked while a request about its entity is in flight, until that has an outcome. Signals coalesce: any
/// number of them before the worker's next look count as one.
final class ParkedEntitySignal: Sendable {
    private let entities = Mutex<Set<ParkedKey>>([])
    /// A value when there is something to take. For one reader.
    let signals: AsyncStream<Void>
    private let ring: AsyncStream<Void>.Continuation

    init() {
        (signals, ring) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
    }

    func ring(for woken: Set<ParkedKey>) {
        guard !woken.isEmpty else { return }
        entities.withLock { $0.formUnion(woken) }
        ring.yield()
    }

    /// Rings for no entity: it is time to look.
    func tick() { ring.yield() }

    func take() -> [ParkedKey] {
        entities.withLock { entities in
            defer { entities = [] }
            return Array(entities)
        }
    }
}
