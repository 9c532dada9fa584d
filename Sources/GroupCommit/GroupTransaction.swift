package import Postgres
package import Spans
package import SyncModel
import Synchronization

/// The work that a committer does for a group, in one transaction.
package protocol GroupTransaction: Sendable {
    associatedtype Job: GroupJob
    /// Reads, decides, writes and commits, and answers the jobs.
    ///
    /// - Parameter context: the information from earlier attempts, for example whether cached data are out of date.
    /// - Throws: `PostgresError`, ``CommitFailure``, or the errors of `Catalog`. In these cases, nothing is committed.
    func commit(_ group: [Job], on connection: Connection, _ context: RetryContext) async throws

    /// Returns the problem for a job that failed, and logs the details.
    func problem(_ error: any Error) -> Problem

    /// Returns the problem for a job that failed alone, although it had the time of a whole group.
    func problem(_ error: PostgresError, ofLone job: Job) -> Problem

    /// Whether a database error means that the cached organizations are out of date.
    func isStale(_ error: PostgresError) -> Bool

    /// Fetches the users' keys that the error lists as missing.
    func fetchMissingKeys(_ error: SealError) async throws

    /// Drops a group's organizations from the cache.
    func invalidateCache(_ group: [Job])
}

extension GroupTransaction {
    package func problem(_ error: PostgresError, ofLone job: Job) -> Problem { problem(error) }
}

/// Work on one lane, which is committed together with other jobs.
package protocol GroupJob: Sendable {
    /// The lane of the job. A group contains at most one job of each lane.
    var lane: LaneKey { get }
    /// The number of mutations, which counts towards the group's limit.
    var weight: Int { get }
    /// The number of bytes, which counts towards the group's limit.
    var bytes: Int { get }
    var enqueuedAt: ContinuousClock.Instant { get }
    /// The job's span; nil if it is not recorded.
    var span: GatewaySpan? { get }
    /// Whether the job's caller has stopped waiting.
    var isAnswered: Bool { get }
    /// Answers the caller with a problem, because the job was not done.
    func refuse(_ problem: Problem)
}

extension GroupJob {
    package var span: GatewaySpan? { nil }
}

/// The reply to a job's caller. Only the first answer counts.
///
/// A push that was answered because of a time-out may still be committed. If the client sends the push again, it is a
/// repeat.
package final class JobCompletion<Value: Sendable>: Sendable {
    package typealias Answer = Result<Value, Problem>
    /// A closure that receives the answer. It is called once, on any thread, and must return quickly.
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

/// The reason why a group was not committed. The reason determines how the committer continues.
package enum CommitFailure: Error {
    /// The group has to be tried again with all look-ups (``RetryContext/looksUpAll``).
    case readAgain
    /// The group has to be tried again after a short pause.
    case contended(PostgresError)
    /// A statement took too long, or waited too long for a lock.
    ///
    /// The database is available, so the cause is a job of the group.
    case tooLong(PostgresError)
    /// The jobs of these lanes change so much data that other jobs must not wait for them.
    case heavy(Set<LaneKey>)
    /// The cached organizations are out of date.
    case stale
    /// The database refuses a part of the group.
    case refused(PostgresError)
    /// The jobs of the group together change too much data.
    case tooMuch
    case unavailable(PostgresError)
}

/// The information from earlier attempts to commit a group.
package struct RetryContext: Sendable {
    /// Whether to look up all keys, ids and watermarks.
    package var looksUpAll = false
    /// Whether data keys were read again, because a value was sealed under an unknown data key.
    ///
    /// After that, a value with a data key that is still unknown counts as unreadable.
    package var hasNewestKeys = false
    /// Whether heavy jobs may be committed, because this is the heavy worker or the gateway shuts down.
    package var takesHeavy = false
}

extension Spans {
    /// Starts the span of a group's commit, if a trace of at least one of the group's jobs is recorded.
    ///
    /// A span has only one parent, so the span of the commit is in the trace of the first recorded job. The span of the
    /// commit and the spans of all recorded jobs are linked with each other.
    static func commit(_ group: [some GroupJob], of noun: String) -> GatewaySpan? {
        guard isOn else { return nil }
        let jobs = group.compactMap(\.span)
        guard let span = child("commit \(noun)", .client, of: jobs.first?.context) else { return nil }
        for job in jobs {
            span.link(to: job.context)
            job.link(to: span.context)
        }
        span.set(.database, "postgresql")
        span.set(.databaseOperation, "COMMIT")
        // a single operation is not a batch (OpenTelemetry, Database spans)
        if group.count > 1 { span.set(.batchSize, group.count) }
        span.set(.mutations, group.reduce(0) { $0 + $1.weight })
        return span
    }
}

extension GatewaySpan {
    /// Ends the span of a commit.
    func end(traffic: Traffic) {
        set(.statements, traffic.statements)
        set(.roundTrips, traffic.roundTrips)
        end()
    }
}
