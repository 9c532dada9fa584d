import Foundation
import SyncModel
import Synchronization

/// One push on its way through a committer: what came in, and whom to tell.
struct PushJob: Sendable {
    let push: PushRequest
    let organization: Organization
    let user: UUID
    let isStrict: Bool
    let enqueuedAt: ContinuousClock.Instant
    let reply: PushReply

    /// A lane takes part in a group once.
    var lane: LaneKey { LaneKey(organization: organization.id, user: user) }

    /// What the push adds to a group's bound on mutations.
    var weight: Int { max(1, push.entries.count) }
}

/// Where the answer to a push goes. The first one counts: a push that was answered for want of time may still be
/// committed, and is a repetition when it comes again.
final class PushReply: Sendable {
    typealias Continuation = CheckedContinuation<Result<PushAnswer, Problem>, Never>

    private let continuation: Mutex<Continuation?>

    init(_ continuation: Continuation) {
        self.continuation = Mutex(continuation)
    }

    /// Whether it was answered.
    var isSent: Bool { continuation.withLock { $0 == nil } }

    /// Answers, unless that was done.
    func send(_ result: Result<PushAnswer, Problem>) {
        let waiting = continuation.withLock { continuation in
            defer { continuation = nil }
            return continuation
        }
        waiting?.resume(returning: result)
    }
}
