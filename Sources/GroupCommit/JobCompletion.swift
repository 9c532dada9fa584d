package import SyncModel
import Synchronization

/// The reply to a job's caller. Only the first answer counts.
///
/// A push that was answered because its time was over may still be committed, and is a replay when it is sent again.
package final class JobCompletion<Value: Sendable>: Sendable {
    package typealias Answer = Result<Value, Problem>
    /// Called once, on any thread; must be quick.
    package typealias Receiver = @Sendable (Answer) -> Void

    private let receiver: Mutex<Receiver?>

    package init(to receiver: @escaping Receiver) {
        self.receiver = Mutex(receiver)
    }

    package convenience init(_ continuation: CheckedContinuation<Answer, Never>) {
        self.init { continuation.resume(returning: $0) }
    }

    package var isSent: Bool { receiver.withLock { $0 == nil } }

    /// Answers, unless that was done.
    package func send(_ answer: Answer) {
        let waiting = receiver.withLock { receiver in
            defer { receiver = nil }
            return receiver
        }
        waiting?(answer)
    }
}
