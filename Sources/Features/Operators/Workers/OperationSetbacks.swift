import FoundationEssentials
import SyncModel
import Synchronization

/// Failures of operations at this gateway, by which it works on fewer mutations at a time.
///
/// They outlast an operation's lease: each failure releases the lease for a pause.
final class OperationSetbacks: Sendable {
    /// Attempts at a step after which a mutation that takes too long alone is counted as failed.
    static let attempts = 10
    /// Operations that are remembered.
    private static let capacity = 1_000

    private struct Setback {
        /// Steps and mutations that failed since the last mutation that was settled or skipped.
        var failures: Int64 = 0
        /// Failures of the present step.
        var attempts = 0
        /// How often the page is halved.
        var halvings = 0
    }

    private let state = Mutex([UUID: Setback]())

    /// Mutations of the next step.
    func limit(of operation: UUID, atMost limit: Int) -> Int {
        state.withLock { max(1, limit >> ($0[operation]?.halvings ?? 0)) }
    }

    /// Whether a mutation that takes too long is counted as failed, so that the others are settled.
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
            // a page of one mutation is not halved further
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
