package import SyncModel
import Synchronization

/// The reply to a job's caller. Only the first answer counts: a push that was answered for want of time may still be
/// committed, and is a replay when it comes again.
package final class OnceReply<Value: Sendable>: Sendable {
    package typealias Continuation = CheckedContinuation<Result<Value, Problem>, Never>

    private let continuation: Mutex<Continuation?>

    package init(_ continuation: Continuation) {
        self.continuation = Mutex(continuation)
    }

    package var isSent: Bool { continuation.withLock { $0 == nil } }

    /// Answers, unless that was done.
    package func send(_ result: Result<Value, Problem>) {
        let waiting = continuation.withLock { continuation in
            defer { continuation = nil }
            return continuation
        }
        waiting?.resume(returning: result)
    }
}
