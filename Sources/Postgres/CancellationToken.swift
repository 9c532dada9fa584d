import Synchronization

/// Carries a task's cancellation to the connection's thread, in either order.
final class CancellationToken: Sendable {
    private let cancelled = Atomic(false)

    var isCancelled: Bool { cancelled.load(ordering: .acquiring) }

    func cancel() { cancelled.store(true, ordering: .releasing) }
}
