import FoundationEssentials
import JSONText
package import Logging
package import SyncModel
import SyncStore

/// One run of retention over all organizations, step by step.
///
/// Organizations take turns, so that an organization with a large backlog does not delay the others. The next run
/// continues an interrupted run.
package struct RetentionRun: Sendable {
    /// The maximum number of steps of a task before the next organization's turn.
    static let turn = 64
    /// The number of consecutive failures after which a task is left to the next run.
    static let maxFailuresPerTask = 5
    /// The number of consecutive failures, over all tasks, after which the run ends, because the database is
    /// unavailable.
    static let maxConsecutiveFailures = 20

    package enum Ending: Sendable {
        /// Nothing is left to do.
        case finished
        case stopped
        /// Another replica has taken the lease.
        case lost
        /// The database is unavailable, or refuses every statement.
        case failed(Problem)
    }

    /// The result of a run, or of a preview.
    package struct Result: Sendable {
        /// The counts of processed rows, by kind.
        package var report = RetentionReport()
        package var ending = Ending.finished
        /// The seconds for which the oldest row had been overdue when the run began; 0 without overdue rows.
        package var overdue: Double = 0
        /// Whether all due rows were processed; false if lanes stayed locked, or rows could not be decrypted.
        package var isComplete = true

        package var isFinished: Bool {
            if case .finished = ending { true } else { false }
        }
    }

    /// A task in one organization.
    private struct Job: Hashable {
        let organization: UUID
        let task: RetentionTask
    }

    /// The state of the run's jobs.
    private struct Memory {
        var places: [Job: RetentionPosition] = [:]
        var done: Set<Job> = []
        /// The number of consecutive failures.
        var failures: [Job: Int] = [:]
        var failuresInAll = 0
    }

    private let store: RetentionStore
    private let cutoffs: RetentionCutoffs
    private let lease: RetentionLease?
    private let logger: Logger
    private let shouldStop: @Sendable () -> Bool
    private let onStep: @Sendable (RetentionKind, RetentionStep, Duration) async throws -> Void

    /// - Parameters:
    ///   - cutoffs: the ages at which rows are deleted.
    ///   - lease: nil for a preview, which changes nothing.
    ///   - shouldStop: called before every step.
    ///   - onStep: called with every step and its duration; may pause the run.
    package init(
        store: RetentionStore,
        cutoffs: RetentionCutoffs,
        lease: RetentionLease?,
        logger: Logger,
        shouldStop: @escaping @Sendable () -> Bool = { Task.isCancelled },
        onStep: @escaping @Sendable (RetentionKind, RetentionStep, Duration) async throws -> Void = { _, _, _ in }
    ) {
        self.store = store
        self.cutoffs = cutoffs
        self.lease = lease
        self.logger = logger
        self.shouldStop = shouldStop
        self.onStep = onStep
    }

    /// - Parameter pace: returns the maximum number of rows of the next step.
    package func run(pace: @Sendable () -> Int) async -> Result {
        var result = Result()
        do throws(Problem) {
            try await run(&result, pace)
        } catch {
            result.ending = .failed(error)
        }
        return result
    }

    private func run(_ result: inout Result, _ pace: @Sendable () -> Int) async throws(Problem) {
        var memory = Memory()
        // the audit log covers all organizations, including deleted ones
        let audit = Job(organization: AuditedAction.noOrganization, task: RetentionTask(.audit))
        while !memory.done.contains(audit) {
            if let ending = try await work(on: audit, from: memory.places[audit], &memory, &result, pace: pace) {
                result.ending = ending
                return
            }
        }
        let tasks = store.tasks
        var isFirst = true
        while true {
            var isAnythingLeft = false
            var organization: UUID?
            while true {
                let debts = try await store.debts(after: organization, cutoffs)
                guard let last = debts.last else { break }
                organization = last.organization
                for debt in debts {
                    // tasks of every day are omitted, because only they find rows that are overdue
                    let rows = debt.overdue.filter { ![.mappings, .channels].contains($0.key.kind) }
                    if isFirst { result.overdue = max(result.overdue, rows.values.max() ?? 0) }
                    for task in tasks where debt.overdue[task] != nil {
                        let part = Job(organization: debt.organization, task: task)
                        if memory.done.contains(part) { continue }
                        // records come first, because a mutation that is deleted completely needs no earlier deletion
                        // of its payload
                        let records = Job(organization: debt.organization, task: RetentionTask(.records))
                        if task.kind == .payloads, debt.overdue[records.task] != nil, !memory.done.contains(records) {
                            isAnythingLeft = true
                            continue
                        }
                        let place = memory.places[part] ?? debt.places[task]
                        if let ending = try await work(on: part, from: place, &memory, &result, pace: pace) {
                            result.ending = ending
                            return
                        }
                        if !memory.done.contains(part) { isAnythingLeft = true }
                    }
                }
            }
            if !isAnythingLeft { return }
            isFirst = false
        }
    }

    /// Runs one turn of a job; returns an ending if the run is over.
    private func work(
        on part: Job,
        from start: RetentionPosition?,
        _ memory: inout Memory,
        _ result: inout Result,
        pace: @Sendable () -> Int
    ) async throws(Problem) -> Ending? {
        var place = start
        for _ in 0..<Self.turn {
            if shouldStop() { return .stopped }
            let began = ContinuousClock.now
            let failures = memory.failures[part] ?? 0
            do throws(Problem) {
                let step = try await store.step(
                    part.task,
                    of: part.organization,
                    after: place,
                    // the limit is halved after each failure, because a smaller step locks fewer lanes and takes less
                    // time
                    limit: max(1, pace() >> failures),
                    cutoffs,
                    lease: lease
                )
                guard let step else { return .lost }
                memory.failures[part] = nil
                memory.failuresInAll = 0
                result.report[part.task.kind] += step.changed
                if step.left > 0 { result.isComplete = false }
                place = step.next
                try await report(part.task.kind, step, .now - began)
            } catch {
                memory.places[part] = place
                memory.failures[part] = failures + 1
                memory.failuresInAll += 1
                if memory.failuresInAll >= Self.maxConsecutiveFailures { throw error }
                // the other jobs of the turn come before the next attempt
                if failures + 1 >= Self.maxFailuresPerTask { leave(part, error, &memory, &result) }
                if lease != nil { try? await Task.sleep(for: .milliseconds(50 * (failures + 1))) }
                return nil
            }
            if place == nil {
                memory.done.insert(part)
                memory.places[part] = nil
                return nil
            }
        }
        memory.places[part] = place
        return nil
    }

    /// Leaves a job that fails repeatedly to the next run, so that one organization's failure does not stop the others.
    private func leave(_ part: Job, _ error: Problem, _ memory: inout Memory, _ result: inout Result) {
        logger.warning(
            "Retention leaves rows to its next run",
            metadata: [
                "organization": "\(part.organization.lowercased)",
                "what": "\(part.task.table ?? part.task.kind.rawValue)",
                "code": "\(error.code.rawValue)",
            ]
        )
        memory.done.insert(part)
        result.isComplete = false
    }

    private func report(_ kind: RetentionKind, _ step: RetentionStep, _ elapsed: Duration) async throws(Problem) {
        do {
            try await onStep(kind, step, elapsed)
        } catch is CancellationError {
            // the next step detects the reason to stop
        } catch {
            throw Problem(.internalError, "\(error)")
        }
    }
}
