import Foundation
import JSONText
public import Logging
public import SyncModel

/// One run of retention over all organizations, step by step.
///
/// Organizations take turns, so that one with a year's worth of rows does not keep the others waiting. A run can be cut
/// off anywhere; the next one goes on.
public struct RetentionRun: Sendable {
    /// Steps of one kind before the next organization has its turn.
    static let turn = 64
    /// Steps of one kind that found their lanes locked, before it is left to the next run.
    static let patience = 5

    /// How a run came to its end.
    public enum Ending: Sendable, Hashable {
        /// Nothing is left.
        case finished
        /// It was asked to stop.
        case stopped
        /// Another replica has taken the turn.
        case lost
    }

    /// What a run has done, or would have.
    public struct Result: Sendable {
        /// How much of what.
        public var report = RetentionReport()
        /// How it ended.
        public var ending = Ending.finished
        /// For how long the oldest row has been overdue, in seconds, when it began; 0 where nothing was.
        public var overdue: Double = 0
        /// Whether something was left because its lanes stayed locked.
        public var isComplete = true
    }

    /// A part of the work.
    private struct Part: Hashable {
        let organization: UUID
        let kind: RetentionKind
    }

    /// What the run remembers of parts.
    private struct Memory {
        var places: [Part: RetentionPlace] = [:]
        var done: Set<Part> = []
        var failures: [Part: Int] = [:]
    }

    private let store: RetentionStore
    private let cutoffs: RetentionCutoffs
    private let lease: RetentionLease?
    private let logger: Logger
    private let shouldStop: @Sendable () -> Bool
    private let onStep: @Sendable (RetentionKind, RetentionStep, Duration) async throws -> Void

    /// Prepares a run.
    ///
    /// - Parameters:
    ///   - cutoffs: what is old.
    ///   - lease: the turn; nil to look only, and change nothing.
    ///   - shouldStop: asked before every step.
    ///   - onStep: told of every step, and how long it took; pauses there, if at all.
    public init(
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

    /// Does all there is to do.
    ///
    /// - Parameter pace: how many rows the next step may have.
    /// - Throws: `store_unavailable`, and what `onStep` throws.
    public func run(pace: @Sendable () -> Int) async throws(Problem) -> Result {
        var result = Result()
        var memory = Memory()
        var isFirst = true
        while true {
            var isAnythingLeft = false
            var organization: UUID?
            while true {
                let debts = try await store.debts(after: organization, cutoffs)
                guard let last = debts.last else { break }
                organization = last.organization
                for debt in debts {
                    if isFirst { result.overdue = max(result.overdue, debt.overdue.values.max() ?? 0) }
                    for kind in RetentionKind.allCases where debt.overdue[kind] != nil {
                        let part = Part(organization: debt.organization, kind: kind)
                        if memory.done.contains(part) { continue }
                        // records first: what goes whole need not lose its payload before
                        let records = Part(organization: debt.organization, kind: .records)
                        if kind == .payloads, debt.overdue[.records] != nil, !memory.done.contains(records) {
                            isAnythingLeft = true
                            continue
                        }
                        let place = memory.places[part] ?? debt.places[kind]
                        if let ending = try await work(on: part, from: place, &memory, &result, pace: pace) {
                            result.ending = ending
                            return result
                        }
                        if !memory.done.contains(part) { isAnythingLeft = true }
                    }
                }
            }
            if !isAnythingLeft { return result }
            isFirst = false
        }
    }

    /// A turn of one part; answers an ending where the run is over.
    private func work(
        on part: Part,
        from start: RetentionPlace?,
        _ memory: inout Memory,
        _ result: inout Result,
        pace: @Sendable () -> Int
    ) async throws(Problem) -> Ending? {
        var place = start
        for _ in 0..<Self.turn {
            if shouldStop() { return .stopped }
            let began = ContinuousClock.now
            do throws(Problem) {
                let step = try await store.step(
                    part.kind,
                    of: part.organization,
                    after: place,
                    limit: pace(),
                    cutoffs,
                    lease: lease
                )
                guard let step else { return .lost }
                result.report[part.kind] += step.changed
                place = step.next
                try await tell(part.kind, step, .now - began)
            } catch {
                // where nobody has the organization's keys nothing can be discarded; the rest goes on
                guard error.code == .overloaded || (part.kind == .unsettled && error.code == .storeUnavailable) else {
                    throw error
                }
                // a lane was locked for long; others first
                memory.failures[part, default: 0] += 1
                if memory.failures[part, default: 0] >= Self.patience {
                    logger.warning(
                        "retention leaves locked rows to its next run",
                        metadata: ["organization": "\(part.organization.lowercased)", "what": "\(part.kind.rawValue)"]
                    )
                    memory.done.insert(part)
                    result.isComplete = false
                }
                memory.places[part] = place
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

    private func tell(_ kind: RetentionKind, _ step: RetentionStep, _ elapsed: Duration) async throws(Problem) {
        do {
            try await onStep(kind, step, elapsed)
        } catch is CancellationError {
            // the next step finds that it is to stop
        } catch {
            throw Problem(.internalError, "\(error)")
        }
    }
}
