import Foundation
package import Logging
import Postgres
import ServiceLifecycle
import SyncModel
package import SyncStore
import Synchronization

/// Works on operators' operations, some at a time, until graceful shutdown; deletes those that ended long ago.
///
/// Organizations share the places: one organization has at most all but one of them. While operations of others are
/// due, an operation releases its place after ``turn``.
package final class OperationService: Service {
    /// Operations that one gateway works on at the same time.
    static let places = 4
    /// Of these, for one organization.
    static let placesOfOrganization = places - 1
    /// How long an operation keeps its place while operations of other organizations are due.
    static let turn: Duration = .seconds(15)
    /// The interval at which an operation checks whether others are due, once its turn is over.
    private static let turnLook: Duration = .seconds(1)
    /// Seconds between two searches for operations that ended long ago.
    private static let pruneInterval: Double = 3_600
    /// Operations that one statement deletes.
    private static let pruneLimit: Int64 = 1_000

    private let run: OperationRun
    private let retentionDays: Double
    private let lookInterval: Double
    private let turn: Duration
    private let logger: Logger
    /// The number of operations that this gateway works on, by organization.
    private let working = Mutex([UUID: Int]())

    /// - Parameters:
    ///   - retentionDays: for how long an operation is kept that has ended.
    ///   - lookInterval: the interval at which a gateway checks whether one is due, in seconds.
    ///   - turn: ``turn``, unless a test needs another.
    package init(
        store: Store,
        retentionDays: Double,
        lookInterval: Double = 1,
        turn: Duration = OperationService.turn,
        logger: Logger
    ) {
        run = store.operationRun(of: store.notifier.gatewayID)
        self.retentionDays = retentionDays
        self.lookInterval = lookInterval
        self.turn = turn
        self.logger = logger
    }

    /// How many operations this gateway works on.
    package var count: Int { working.withLock { $0.values.reduce(0, +) } }

    package func run() async throws {
        // at shutdown steps in progress are finished, and operations released
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

    /// Works on an operation that is due until it ends, or its turn does; false if none is.
    package func look() async -> Bool {
        do {
            guard let operation = try await claim() else { return false }
            let organization = operation.organization
            working.withLock { $0[organization, default: 0] += 1 }
            defer {
                working.withLock { working in
                    let remaining = (working[organization] ?? 1) - 1
                    working[organization] = remaining > 0 ? remaining : nil
                }
            }
            let turn = Turn(over: .now + turn)
            await run.work(on: operation) {
                Self.isEnding || turn.yields
            } rest: { [run] seconds in
                await Self.doze(seconds)
                if turn.mayLook(at: .now, every: Self.turnLook), await run.isAnyDue(excluding: [organization]) {
                    turn.end()
                }
            }
            return true
        } catch {
            // the store has logged the cause; the next look tries again
            logger.debug("Due operations could not be queried", metadata: ["error": "\(error)"])
            return false
        }
    }

    /// Claims an operation of an organization that has no place here, or else of one that has less than its share.
    private func claim() async throws(Problem) -> OperationRow? {
        let held = working.withLock(\.self)
        if let operation = try await run.claim(excluding: Array(held.keys)) { return operation }
        let full = held.filter { $0.value >= Self.placesOfOrganization }
        return held.count == full.count ? nil : try await run.claim(excluding: Array(full.keys))
    }

    /// How long an operation keeps its place.
    private final class Turn: Sendable {
        private let state: Mutex<(nextLook: ContinuousClock.Instant, yields: Bool)>

        init(over: ContinuousClock.Instant) { state = Mutex((over, false)) }

        var yields: Bool { state.withLock { $0.yields } }

        func end() { state.withLock { $0.yields = true } }

        func mayLook(at now: ContinuousClock.Instant, every pause: Duration) -> Bool {
            state.withLock { state in
                guard now >= state.nextLook else { return false }
                state.nextLook = now + pause
                return true
            }
        }
    }

    /// Deletes operations that ended long ago.
    package func prune() async {
        let cutoff = run.now().adding(seconds: -retentionDays * 86_400)
        do {
            var deleted = Self.pruneLimit
            while deleted >= Self.pruneLimit, !Task.isCancelled {
                let query = OperationStatements.prune(before: cutoff, limit: Self.pruneLimit)
                deleted = Int64(try await run.pool.run([query])[0].affected)
            }
        } catch {
            logger.debug("Old operations were not deleted", metadata: ["error": "\(error)"])
        }
    }
}
