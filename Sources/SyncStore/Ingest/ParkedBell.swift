import Foundation
import Synchronization

/// Tells that requests of organizations have outcomes, so that events which waited for them may be judged. Any number of
/// rings before one is heard are one.
final class ParkedBell: Sendable {
    private let organizations = Mutex<Set<UUID>>([])
    /// A value when there is something to take. For one reader.
    let rings: AsyncStream<Void>
    private let ring: AsyncStream<Void>.Continuation

    init() {
        (rings, ring) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
    }

    func ring(for outcomes: Set<UUID>) {
        guard !outcomes.isEmpty else { return }
        organizations.withLock { $0.formUnion(outcomes) }
        ring.yield()
    }

    /// Rings without an organization: it is time to look.
    func tick() { ring.yield() }

    func take() -> [UUID] {
        organizations.withLock { organizations in
            defer { organizations = [] }
            return Array(organizations)
        }
    }
}
