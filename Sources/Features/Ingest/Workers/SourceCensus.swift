import ServiceLifecycle
import SyncModel
import SyncStore
import Synchronization

/// Counts sources now and then, over all organizations, for metrics.
package final class SourceCensus: Service {
    private static let interval: Duration = .seconds(15)

    private let store: SourceStore
    private let found = Mutex([SourceKind: SourceStore.Census]?.none)

    package init(store: SourceStore) {
        self.store = store
    }

    /// The last count; nil before the first.
    package var findings: [SourceKind: SourceStore.Census]? { found.withLock { $0 } }

    package func run() async throws {
        await cancelWhenGracefulShutdown {
            while !Task.isCancelled {
                if let census = try? await self.store.census() { self.found.withLock { $0 = census } }
                try? await Task.sleep(for: Self.interval)
            }
        }
    }
}
