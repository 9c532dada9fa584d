import FoundationEssentials
package import Logging
import ServiceLifecycle
package import SyncModel
package import SyncStore
import Synchronization

/// Continues abandoned erasures: interrupted erasures, and erasures whose upstream could not be notified.
///
/// The search for due erasures (``due(from:)``) claims one erasure at a time, erases the user's data in the database,
/// and never waits for an upstream. Only requests to upstreams occupy the worker's places. These requests run
/// concurrently, but each organization has at most one at a time.
package final class ErasureService: LeasedWorker {
    /// The pending erasures of all replicas together, as of the last search.
    package struct State: Sendable {
        /// Erasures in progress, counted up to 1,000.
        package var count: Int64 = 0
        /// The time at which the first of these erasures began.
        package var since: Timestamp?
    }

    /// The maximum number of concurrent requests to upstreams.
    static let requests = 8

    private let erasing: UserErasing
    private let pollInterval: Double
    private let shared = Mutex(State())
    /// The times at which this replica's requests to upstreams last failed, by organization.
    private let failures = Mutex([UUID: ContinuousClock.Instant]())
    package let loop: WorkerLoop<ClaimedPlaces<UserErasureRow>>

    /// - Parameter pollInterval: the interval at which a replica checks whether an erasure is due, in seconds.
    package init(erasing: UserErasing, pollInterval: Double = 15, logger: Logger) {
        self.erasing = erasing
        self.pollInterval = pollInterval
        // the number of places is unlimited, because erasing in the database needs no place
        let pace = WorkerPace(interval: pollInterval, unfinished: "Erasing was interrupted")
        loop = WorkerLoop(ClaimedPlaces(.max), pace: pace, logger: logger)
    }

    package var state: State { shared.withLock { $0 } }

    /// Continues erasures until graceful shutdown. An erasure can be interrupted at any point, because it is continued
    /// later.
    package func run() async throws { await cancelWhenGracefulShutdown { await self.runUntilShutdown() } }

    /// Claims an erasure and continues it in the database. Returns the erasure if its upstream must be notified now.
    package func due(from cursor: inout Void?) async throws(Problem) -> [UserErasureRow] {
        cursor = nil
        let asked = loop.places.held
        let mayAsk = asked.count < Self.requests
        let unavailable = Set(asked.keys).union(failed)
        guard let claimed = try await erasing.claim(asks: mayAsk, excluding: unavailable) else {
            let backlog = try await erasing.backlog()
            shared.withLock { $0 = State(count: backlog.count, since: backlog.since) }
            return []
        }
        cursor = ()
        let erasure = try await erasing.eraseHere(claimed)
        // an erasure that is not returned is due again when its claim ends
        return erasure.state == .telling && mayAsk && !unavailable.contains(erasure.organization) ? [erasure] : []
    }

    /// Notifies the upstream. If this fails, the organization's upstream is not notified again before the next search.
    package func work(on erasure: UserErasureRow) async throws(Problem) -> Bool {
        let isTaken = try await erasing.sendToUpstream(erasure)
        if !isTaken { failures.withLock { $0[erasure.organization] = .now } }
        return true
    }

    private var failed: Set<UUID> {
        failures.withLock { failures in
            failures = failures.filter { $0.value.duration(to: .now) < .seconds(pollInterval * 0.8) }
            return Set(failures.keys)
        }
    }
}
