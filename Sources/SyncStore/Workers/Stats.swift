import ServiceLifecycle
import Synchronization

/// Counts rows over all replicas at intervals, for metrics.
package final class Stats<Findings: Sendable>: Service {
    private let count: @Sendable () async throws -> Findings
    private let found = Mutex(Findings?.none)

    package init(_ count: @escaping @Sendable () async throws -> Findings) { self.count = count }

    /// The last count; nil before the first count.
    package var findings: Findings? { found.withLock { $0 } }

    package func run() async throws {
        await cancelWhenGracefulShutdown {
            while !Task.isCancelled {
                if let findings = try? await self.count() { self.found.withLock { $0 = findings } }
                try? await Task.sleep(for: .seconds(15))
            }
        }
    }
}
