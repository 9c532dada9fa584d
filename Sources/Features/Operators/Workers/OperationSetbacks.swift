import FoundationEssentials
import SyncModel
import Synchronization

/// The failures of operations on this gateway, after which it processes fewer mutations at a time.
///
/// They outlast an operation's lease: each failure releases the lease for a pause.
final class OperationSetbacks: Sendable {
    /// The number of attempts at a step after which a single mutation that takes too long counts as failed.
    static let attempts = 10
    /// The maximum number of operations whose failures are stored.
    private static let capacity = 1_000

    private struct Setback {
        /// The number of steps and mutations that failed since the last mutation that was settled or skipped.
        var failures: Int64 = 0
        /// The number of failures of the present step.
        var attempts = 0
        /// The number of times that the page was halved.
        var halvings = 0
    }

    private let state = Mutex([UUID: Setback]())

    /// Returns the maximum number of mutations in the next step.
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
