import Foundation
import Synchronization

/// Tells about which entities events waited for requests that have outcomes, so that they may be judged. Any number of
/// rings before one is heard are one.
final class ParkedBell: Sendable {
    private let entities = Mutex<Set<ParkedKey>>([])
    /// A value when there is something to take. For one reader.
    let rings: AsyncStream<Void>
    private let ring: AsyncStream<Void>.Continuation

    init() {
        (rings, ring) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
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
