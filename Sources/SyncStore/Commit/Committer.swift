import Foundation
import Logging
import Postgres
import SyncModel
import Synchronization

/// Commits one group after another on a connection of its own.
final class Committer<Work: GroupWork>: Sendable {
    /// Tries of one group at serialization failures, deadlocks, lock time-outs and races.
    static var attempts: Int { 6 }

    let queue: GroupQueue<Work.Job>
    private let work: Work
    private let connection: CommitterConnection
    private let failure: StoreFailure
    private let metrics: CommitMetrics
    /// The group that is being committed.
    private let inHand = Mutex([Work.Job]())

    init(
        work: Work,
        limits: GroupLimits,
        connection: CommitterConnection,
        failure: StoreFailure,
        metrics: CommitMetrics
    ) {
        self.work = work
        queue = GroupQueue(limits: limits)
        self.connection = connection
        self.failure = failure
        self.metrics = metrics
    }

    /// Runs until the queue is closed and empty.
    func run() async {
        while let group = await queue.next() {
            let start = ContinuousClock.now
            inHand.withLock { $0 = group }
            await commit(group)
            inHand.withLock { $0 = [] }
            metrics.group(jobs: group.count, mutations: group.reduce(0) { $0 + $1.weight }, took: .now - start)
        }
        connection.close()
    }

    /// Answers what has waited too long, in the queue or for a database that does not answer.
    func expire(after age: Duration) {
        let now = ContinuousClock.now
        let late = inHand.withLock { $0.filter { now - $0.enqueuedAt >= age } } + queue.expired(age, now: now)
        for job in late { job.refuse(StoreFailure.unavailable) }
    }

    // MARK: - One group

    private func commit(_ group: [Work.Job]) async {
        var isCertain = false
        var hasForgotten = false
        var last: PostgresError?
        for attempt in 1...Self.attempts {
            // nobody waits for it any more, and others wait behind it
            if attempt > 1, group.allSatisfy(\.isAnswered) { return }
            do {
                return try await tryOnce(group, isCertain: isCertain)
            } catch Setback.readAgain {
                metrics.retry(.readAgain)
                isCertain = true
            } catch Setback.stale {
                metrics.retry(.staleTypes)
                work.forget(group)
            } catch Setback.contended(let error) {
                metrics.retry(.contended)
                last = error
                try? await Task.sleep(for: .milliseconds(Int.random(in: 1...10) * attempt))
            } catch Setback.refused(let error) {
                return await bisect(group, error)
            } catch SealError.unknownKey where !hasForgotten {
                metrics.retry(.staleKeys)
                hasForgotten = true
                work.forget(group)
            } catch let error as SealError {
                return await bisect(group, error)
            } catch Setback.unavailable(let error) {
                // a connection that was cut while idle is the usual case after a restart: one more try on a new one
                metrics.retry(.connection)
                if attempt > 1 { return fail(group, error) }
                last = error
            } catch {
                return fail(group, error)
            }
        }
        fail(group, last ?? PostgresError(.timedOut, "the group could not be committed"))
    }

    /// A group in which the database refuses something, or something does not open, is halved until the culprit stands
    /// alone, so that it fails nobody else.
    private func bisect(_ group: [Work.Job], _ error: any Error) async {
        guard group.count > 1 else { return fail(group, error) }
        metrics.retry(.bisected)
        await commit(Array(group[..<(group.count / 2)]))
        await commit(Array(group[(group.count / 2)...]))
    }

    private func fail(_ group: [Work.Job], _ error: any Error) {
        let problem = failure.problem(error, doing: work.what)
        for job in group { job.refuse(problem) }
        // nobody behind gets another answer while the database is away: tell them now
        guard (error as? PostgresError)?.isUnavailable == true else { return }
        for job in queue.drain() { job.refuse(problem) }
    }

    private func tryOnce(_ group: [Work.Job], isCertain: Bool) async throws {
        let connection = try await connected()
        do {
            try await work.commit(group, on: connection, isCertain: isCertain)
        } catch let error as PostgresError {
            throw await setback(error, connection)
        } catch {
            await leaveTransaction(connection)
            throw error
        }
    }

    private func connected() async throws -> Connection {
        do throws(PostgresError) {
            return try await connection.open()
        } catch {
            throw Setback.unavailable(error)
        }
    }

    private func leaveTransaction(_ connection: Connection) async {
        guard connection.isUsable, connection.isInTransaction else { return }
        do { _ = try await connection.run([.rollback]) } catch { connection.close() }
    }

    /// Leaves the connection outside a transaction and says what to do.
    private func setback(_ error: PostgresError, _ connection: Connection) async -> Setback {
        await leaveTransaction(connection)
        if work.isStale(error) { return .stale }
        if error.sqlState == "23505" { return .readAgain }
        if error.isRetryable { return .contended(error) }
        if error.isUnavailable { return .unavailable(error) }
        return .refused(error)
    }
}
