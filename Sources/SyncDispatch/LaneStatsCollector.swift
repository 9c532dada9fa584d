import ServiceLifecycle
package import SyncModel
package import SyncStore
import Synchronization

/// Counts lanes now and then, over all replicas, for metrics.
package final class LaneStatsCollector: Service {
    /// The last count.
    package struct Findings: Sendable {
        /// Nil before the first count.
        package var lanes: LaneStore.Stats?
        /// The configured number of organizations, those first whose mutations have waited longest.
        ///
        /// If there are others, one more: the one of those whose mutations have waited longest.
        package var organizations: [LaneStore.OrganizationStats] = []
    }

    private static let interval: Duration = .seconds(15)

    private let store: LaneStore
    private let organizations: Int
    private let now: TimeSource
    private let found = Mutex(Findings())

    /// - Parameter organizations: how many are counted one by one; 0 for none, which costs nothing.
    package init(store: LaneStore, organizations: Int, now: @escaping TimeSource) {
        self.store = store
        self.organizations = organizations
        self.now = now
    }

    package var findings: Findings { found.withLock { $0 } }

    package func run() async throws {
        await cancelWhenGracefulShutdown {
            while !Task.isCancelled {
                await self.count()
                try? await Task.sleep(for: Self.interval)
            }
        }
    }

    private func count() async {
        if let lanes = try? await store.stats(at: now()) { found.withLock { $0.lanes = lanes } }
        guard organizations > 0, let counted = try? await store.stats(organizations: organizations + 1) else { return }
        found.withLock { $0.organizations = counted }
    }
}
