import ServiceLifecycle
import SyncStore
import Synchronization

/// Counts webhooks now and then, over all organizations, for metrics.
package final class WebhookCensus: Service {
    private static let interval: Duration = .seconds(15)

    private let store: WebhookStore
    private let found = Mutex(WebhookStore.Census?.none)

    package init(store: WebhookStore) {
        self.store = store
    }

    /// The last count; nil before the first.
    package var findings: WebhookStore.Census? { found.withLock { $0 } }

    package func run() async throws {
        await cancelWhenGracefulShutdown {
            while !Task.isCancelled {
                if let census = try? await self.store.census() { self.found.withLock { $0 = census } }
                try? await Task.sleep(for: Self.interval)
            }
        }
    }
}
