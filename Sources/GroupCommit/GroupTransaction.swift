package import Postgres
package import SyncModel
import Synchronization

/// The work of a committer on a group: one transaction.
package protocol GroupTransaction: Sendable {
    associatedtype Job: GroupJob
    /// Reads, decides, writes and commits, and answers the jobs.
    ///
    /// - Parameter context: the data that must not be read from a cache.
    /// - Throws: `PostgresError`, ``CommitFailure``, or the errors of `Catalog`. Nothing of the group is committed in
    ///   that case.
    func commit(_ group: [Job], on connection: Connection, _ context: RetryContext) async throws

    /// Returns the problem for a job that failed. The details are logged.
    func problem(_ error: any Error) -> Problem

    /// The problem for a job that failed alone, in the time of a whole group.
    func problem(_ error: PostgresError, ofLone job: Job) -> Problem

    /// Whether a database error means that the cached organizations are out of date.
    func isStale(_ error: PostgresError) -> Bool

    /// Fetches users' keys that values are sealed with, or are to be.
    func fetchMissingKeys(_ error: SealError) async throws

    /// Drops a group's organizations from the cache.
    func invalidateCache(_ group: [Job])
}

extension GroupTransaction {
    package func problem(_ error: PostgresError, ofLone job: Job) -> Problem { problem(error) }
}

/// One piece of work on one lane that is committed together with others.
package protocol GroupJob: Sendable {
    /// A lane takes part in a group once.
    var lane: LaneKey { get }
    /// Its part of a group's bound on mutations.
    var weight: Int { get }
    /// Its part of a group's bound on bytes.
    var bytes: Int { get }
    var enqueuedAt: ContinuousClock.Instant { get }
    /// Whether its caller has stopped waiting.
    var isAnswered: Bool { get }
    /// Answers that the job was not done.
    func refuse(_ problem: Problem)
}

/// The reply to a job's caller. Only the first answer counts.
///
/// A push that was answered at its time-out may still be committed. If it is sent again, it is a repeat.
package final class JobCompletion<Value: Sendable>: Sendable {
    package typealias Answer = Result<Value, Problem>
    /// Called once, on any thread. It must return quickly.
    package typealias Receiver = @Sendable (Answer) -> Void

    private let receiver: Mutex<Receiver?>

    package init(to receiver: @escaping Receiver) {
        self.receiver = Mutex(receiver)
    }

    package convenience init(_ continuation: CheckedContinuation<Answer, Never>) {
        self.init { continuation.resume(returning: $0) }
    }

    package var isSent: Bool { receiver.withLock { $0 == nil } }

    /// Sends an answer, unless one was sent before.
    package func send(_ answer: Answer) {
        let waiting = receiver.withLock { receiver in
            defer { receiver = nil }
            return receiver
        }
        waiting?(answer)
    }
}

/// Why a group was not committed, and how to continue.
package enum CommitFailure: Error {
    /// Try again, and look up everything.
    case readAgain
    /// Try again after a short pause.
    case contended(PostgresError)
    /// A statement took too long, or waited too long for a lock.
    ///
    /// The cause is a job in the group, and not the database.
    case tooLong(PostgresError)
    /// These lanes' jobs change so much that no other job may wait for them.
    case heavy(Set<LaneKey>)
    /// The cached organizations are out of date.
    case stale
    /// The database refuses something in the group.
    case refused(PostgresError)
    case unavailable(PostgresError)
}

/// The lessons of a group's earlier tries.
package struct RetryContext: Sendable {
    /// Whether to look up all keys, ids and watermarks.
    package var looksUpAll = false
    /// Whether data keys were read again after a value under an unknown one was met.
    ///
    /// If so, the value stays closed.
    package var hasNewestKeys = false
    /// Whether heavy jobs may be done: the group has no other organization's jobs.
    package var takesHeavy = false
}
