import Foundation
package import Logging
import Postgres
import ServiceLifecycle
import SyncModel
package import SyncStore
import Synchronization

/// Works on operators' operations, some at a time, until graceful shutdown; deletes those that ended long ago.
package final class OperationService: Service {
    /// Operations that one gateway works on at the same time.
    static let places = 4
    /// Seconds between two looks for operations that ended long ago.
    private static let pruneInterval: Double = 3_600
    /// Operations that one statement deletes.
    private static let pruneLimit: Int64 = 1_000

    private let run: OperationRun
    private let retentionDays: Double
    private let lookInterval: Double
    private let logger: Logger
    private let working = Mutex(0)

    /// - Parameters:
    ///   - retentionDays: for how long an operation is kept that has ended.
    ///   - lookInterval: how often a gateway looks whether one is due, in seconds.
    package init(store: Store, retentionDays: Double, lookInterval: Double = 1, logger: Logger) {
        run = store.operationRun(of: store.notifier.gatewayID)
        self.retentionDays = retentionDays
        self.lookInterval = lookInterval
        self.logger = logger
    }

    /// How many operations this gateway works on.
    package var count: Int { working.withLock { $0 } }

    package func run() async throws {
        // at shutdown steps under way are finished, and operations given back
        await withTaskGroup(of: Void.self) { group in
            for _ in 0..<Self.places { group.addTask { await self.lookOnAndOn() } }
            group.addTask {
                while !Self.isEnding {
                    await self.prune()
                    await Self.doze(Self.pruneInterval * Double.random(in: 0.8...1.2))
                }
            }
        }
    }

    private static var isEnding: Bool { Task.isCancelled || Task.isShuttingDownGracefully }

    /// Sleeps for some seconds, or until shutdown.
    private static func doze(_ seconds: Double) async {
        guard seconds > 0 else { return }
        _ = try? await cancelWhenGracefulShutdown { try await Task.sleep(for: .seconds(seconds)) }
    }

    private func lookOnAndOn() async {
        while !Self.isEnding {
            // gateways that were started together look at different moments
            if await !look() { await Self.doze(lookInterval * Double.random(in: 0.8...1.2)) }
        }
    }

    /// Works on an operation that is due until it ends; false where none is.
    package func look() async -> Bool {
        do {
            guard let operation = try await run.claim() else { return false }
            working.withLock { $0 += 1 }
            defer { working.withLock { $0 -= 1 } }
            await run.work(on: operation) {
                Self.isEnding
            } rest: { seconds in
                await Self.doze(seconds)
            }
            return true
        } catch {
            // the store has logged the cause; the next look tries again
            logger.debug("no operation could be looked for", metadata: ["error": "\(error)"])
            return false
        }
    }

    /// Deletes operations that ended long ago.
    package func prune() async {
        let cutoff = run.now().adding(seconds: -retentionDays * 86_400)
        do {
            var deleted = Self.pruneLimit
            while deleted >= Self.pruneLimit, !Task.isCancelled {
                let query = Query(OperationStatements.prune, Parameters(cutoff, Self.pruneLimit))
                deleted = Int64(try await run.pool.run([query])[0].affected)
            }
        } catch {
            logger.debug("old operations were not deleted", metadata: ["error": "\(error)"])
        }
    }
}
