import FoundationEssentials
package import Logging
import Metrics
import Postgres
import ServiceLifecycle
package import SyncModel
package import SyncStore
import Synchronization

/// Processes operators' operations concurrently until graceful shutdown, and deletes operations that ended long ago.
///
/// Organizations share the places for concurrent operations. One organization can have all places except one. While
/// operations of other organizations are due, an operation releases its place after ``turn``.
package final class OperationService: LeasedWorker {
    /// The number of operations that one gateway processes concurrently.
    static let places = 4
    /// The maximum number of concurrent operations of one organization.
    static let maxConcurrentPerOrganization = places - 1
    /// The time for which an operation keeps its place while operations of other organizations are due.
    static let turn: Duration = .seconds(15)
    /// The interval at which an operation whose turn is over checks whether other operations are due.
    private static let turnPoll: Duration = .seconds(1)
    /// The interval between two searches for operations that ended long ago, in seconds.
    private static let pruneInterval: Double = 3_600
    /// The maximum number of operations that one statement deletes.
    private static let pruneLimit: Int64 = 1_000

    private let runner: OperationRun
    private let retentionDays: Double
    private let turn: Duration
    private let logger: Logger
    package let loop: WorkerLoop<ClaimedPlaces<OperationRow>>

    /// - Parameters:
    ///   - retentionDays: the number of days for which an ended operation is kept.
    ///   - pollInterval: the interval at which a gateway checks whether an operation is due, in seconds.
    ///   - turn: the value of ``turn``, which tests can shorten.
    package init(
        store: Store,
        retentionDays: Double,
        pollInterval: Double = 1,
        turn: Duration = OperationService.turn,
        logger: Logger
    ) {
        runner = store.operationRun(of: store.notifier.gatewayID)
        self.retentionDays = retentionDays
        self.turn = turn
        self.logger = logger
        let pace = WorkerPace(interval: pollInterval, unfinished: "Due operations could not be queried")
        loop = WorkerLoop(ClaimedPlaces(Self.places), pace: pace, logger: logger)
    }

    /// At shutdown, steps in progress are finished, and then the operations are released.
    package func run() async throws {
        await withTaskGroup(of: Void.self) { group in
            group.addTask { await self.runUntilShutdown() }
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

    /// Claims an operation. Organizations without a place on this gateway come first. If they have no due operation, an
    /// organization with fewer than ``maxConcurrentPerOrganization`` places is selected.
    package func due(from cursor: inout Void?) async throws(Problem) -> [OperationRow] {
        cursor = nil
        guard loop.places.hasRoom else { return [] }
        let held = loop.places.held
        var found = try await runner.claim(excluding: Array(held.keys))
        let full = held.filter { $0.value >= Self.maxConcurrentPerOrganization }
        if found == nil, full.count < held.count { found = try await runner.claim(excluding: Array(full.keys)) }
        guard let found else { return [] }
        cursor = ()
        return [found]
    }

    /// Processes an operation until it ends, or until its turn ends because operations of other organizations are due.
    package func work(on operation: OperationRow) async -> Bool {
        let organization = operation.organization
        let turn = Turn(over: .now + turn)
        await runner.work(on: operation) {
            Self.isEnding || turn.yields
        } rest: { [runner] seconds in
            await Self.doze(seconds)
            if turn.mayPoll(at: .now, every: Self.turnPoll), await runner.isAnyDue(excluding: [organization]) {
                turn.end()
            }
        }
        return true
    }

    /// The time for which an operation keeps its place.
    private final class Turn: Sendable {
        private let state: Mutex<(nextLook: ContinuousClock.Instant, yields: Bool)>

        init(over: ContinuousClock.Instant) { state = Mutex((over, false)) }

        var yields: Bool { state.withLock { $0.yields } }

        func end() { state.withLock { $0.yields = true } }

        func mayPoll(at now: ContinuousClock.Instant, every pause: Duration) -> Bool {
            state.withLock { state in
                guard now >= state.nextLook else { return false }
                state.nextLook = now + pause
                return true
            }
        }
    }

    /// Deletes operations that ended long ago.
    package func prune() async {
        let cutoff = runner.now().adding(seconds: -retentionDays * 86_400)
        do {
            var deleted = Self.pruneLimit
            while deleted >= Self.pruneLimit, !Task.isCancelled {
                let query = OperationStatements.prune(before: cutoff, limit: Self.pruneLimit)
                deleted = Int64(try await runner.pool.run([query])[0].affected)
            }
        } catch {
            logger.debug("Old operations were not deleted", metadata: ["error": "\(error)"])
        }
    }
}

/// Metrics of operations. Their help texts are in the code that registers them.
package struct OperationMetrics: Sendable {
    /// The number of mutations that operations processed on this gateway, by `kind` and `result`.
    package static let mutations = "sluice_operation_mutations_total"
    /// The number of operations that ended on this gateway, by `kind` and `state`.
    package static let ended = "sluice_operations_ended_total"

    private let mutations: [OperationKind: [String: Counter]]
    private let ends: [OperationKind: [OperationState: Counter]]

    init() {
        let kinds = OperationKind.allCases
        mutations = Dictionary(
            uniqueKeysWithValues: kinds.map { kind in
                let counters = ["done", "skipped", "failed"].map { result in
                    (result, Counter(label: Self.mutations, dimensions: [("kind", kind.rawValue), ("result", result)]))
                }
                return (kind, Dictionary(uniqueKeysWithValues: counters))
            }
        )
        ends = Dictionary(
            uniqueKeysWithValues: kinds.map { kind in
                let counters = [OperationState.done, .failed].map { state in
                    (
                        state,
                        Counter(label: Self.ended, dimensions: [("kind", kind.rawValue), ("state", state.rawValue)])
                    )
                }
                return (kind, Dictionary(uniqueKeysWithValues: counters))
            }
        )
    }

    func count(_ kind: OperationKind, _ tally: OperationTally) {
        mutations[kind]?["done"]?.increment(by: tally.done)
        mutations[kind]?["skipped"]?.increment(by: tally.skipped)
        mutations[kind]?["failed"]?.increment(by: tally.failed)
    }

    func ended(_ kind: OperationKind, _ state: OperationState) { ends[kind]?[state]?.increment() }
}

// MARK: - OperationSetbacks

/// The recent failures of operations on this gateway. After failures, the gateway processes fewer mutations at a time.
///
/// The failures are kept when an operation's lease ends, because each failure releases the lease for a pause.
final class OperationSetbacks: Sendable {
    /// The number of attempts at a step after which a mutation counts as failed if it takes too long even without other
    /// mutations.
    static let attempts = 10
    /// The maximum number of operations whose failures are stored.
    private static let capacity = 1_000

    private struct Setback {
        /// The number of steps and mutations that have failed since a mutation was last settled or skipped.
        var failures: Int64 = 0
        /// The number of failures of the present step.
        var attempts = 0
        /// The number of times that the batch was halved.
        var halvings = 0
    }

    private let state = Mutex([UUID: Setback]())

    /// Returns the maximum number of mutations in the next step.
    func limit(of operation: UUID, atMost limit: Int) -> Int {
        state.withLock { max(1, limit >> ($0[operation]?.halvings ?? 0)) }
    }

    /// Whether a mutation that takes too long counts as failed, so that the other mutations are settled.
    func leavesMutation(of operation: UUID) -> Bool {
        state.withLock { $0[operation]?.attempts ?? 0 >= Self.attempts }
    }

    /// Records a failure of a step, and returns the number of consecutive failures.
    func recordFailure(of operation: UUID) -> Int64 {
        state.withLock { state in
            if state.count >= Self.capacity { state.removeAll() }
            var setback = state[operation] ?? Setback()
            setback.failures += 1
            setback.attempts += 1
            // a batch of one mutation is not halved further
            setback.halvings = min(setback.halvings + 1, Int.bitWidth - OperationPace.batch.leadingZeroBitCount)
            state[operation] = setback
            return setback.failures
        }
    }

    /// Records a completed step, and returns the number of consecutive failures.
    func record(_ tally: OperationTally, of operation: UUID) -> Int64 {
        state.withLock { state in
            var setback = state[operation] ?? Setback()
            let isProgress = tally.done + tally.skipped > 0
            setback.failures = isProgress ? 0 : setback.failures + tally.failed
            setback.attempts = 0
            if isProgress { setback.halvings = max(0, setback.halvings - 1) }
            state[operation] = setback.failures > 0 || setback.halvings > 0 ? setback : nil
            return setback.failures
        }
    }

    func remove(_ operation: UUID) { state.withLock { $0[operation] = nil } }
}
