import Foundation
package import Logging
import ServiceLifecycle
package import SyncModel
import SyncStore
import Synchronization

/// Continues abandoned erasures: interrupted ones, and those whose upstream could not be notified.
package final class ErasureService: Service {
    /// What there is to do, on all replicas together, as of the last look.
    package struct State: Sendable {
        /// Erasures in progress, counted up to 1,000.
        package var count: Int64 = 0
        /// When the first of them began.
        package var since: Timestamp?
    }

    private let erasing: UserErasing
    private let lookInterval: Double
    private let logger: Logger
    private let shared = Mutex(State())

    /// - Parameter lookInterval: the interval at which a replica checks whether one is due, in seconds.
    package init(erasing: UserErasing, lookInterval: Double = 15, logger: Logger) {
        self.erasing = erasing
        self.lookInterval = lookInterval
        self.logger = logger
    }

    package var state: State { shared.withLock { $0 } }

    /// Polls at intervals, and works when an erasure is due, until graceful shutdown. It may be interrupted anywhere.
    package func run() async throws {
        await withTaskGroup(of: Void.self) { group in
            group.addTask {
                while !Task.isCancelled {
                    await self.look()
                    // replicas that were started together look at different moments
                    try? await Task.sleep(for: .seconds(self.lookInterval * Double.random(in: 0.8...1.2)))
                }
            }
            group.addTask { try? await gracefulShutdown() }
            await group.next()
            group.cancelAll()
        }
    }

    /// Requests to upstreams that are in progress at the same time.
    static let requests = 8

    /// Continues all erasures that are due.
    ///
    /// Erasing in the database never waits for an upstream: requests to upstreams run concurrently, one at a time for
    /// each organization. An organization whose upstream fails is not asked again in this search.
    package func look() async {
        do {
            try await withThrowingTaskGroup(of: Result?.self) { group in
                var (asked, failed, isTicking): (Set<UUID>, Set<UUID>, Bool) = ([], [], false)
                defer { group.cancelAll() }
                while !Task.isCancelled {
                    let unavailable = asked.union(failed)
                    if let claimed = try await erasing.claim(asks: asked.count < Self.requests, besides: unavailable) {
                        let erasure = try await erasing.eraseHere(claimed)
                        let organization = erasure.organization
                        // otherwise it is due again when the claim ends
                        guard erasure.state == .telling, asked.count < Self.requests,
                            !unavailable.contains(organization)
                        else { continue }
                        asked.insert(organization)
                        group.addTask { [erasing] in
                            Result(organization: organization, isTaken: try await erasing.askUpstream(erasure))
                        }
                        continue
                    }
                    if asked.isEmpty { break }
                    // other erasures may be due before an upstream responds
                    if !isTicking {
                        isTicking = true
                        group.addTask { [lookInterval] in
                            try? await Task.sleep(for: .seconds(min(lookInterval, 5)))
                            return nil
                        }
                    }
                    if let result = try await group.next() ?? nil {
                        asked.remove(result.organization)
                        if !result.isTaken { failed.insert(result.organization) }
                    } else {
                        isTicking = false
                    }
                }
            }
            let backlog = try await erasing.backlog()
            shared.withLock { $0 = State(count: backlog.count, since: backlog.since) }
        } catch {
            // the store has logged the cause; the next look tries again
            logger.debug("Erasing was interrupted", metadata: ["error": "\(error)"])
        }
    }

    private struct Result: Sendable {
        let organization: UUID
        let isTaken: Bool
    }
}
