import FoundationEssentials
package import Postgres
import Spans
import SyncModel
import Synchronization

/// Commits one group of jobs after another on its own connection, each group in one transaction.
package final class Committer<Work: GroupTransaction>: Sendable {
    /// The maximum number of attempts to commit a group, if attempts fail by serialization failures, deadlocks or
    /// races.
    static var attempts: Int { 6 }
    /// The largest divisor of a statement's usual time limit. However often a group is halved, each part gets at least
    /// an eighth of that time.
    static var maxTimeoutDivisor: Int { 8 }

    package let queue: GroupQueue<Work.Job>
    /// The worker whose groups this committer commits.
    let worker: Int
    private let work: Work
    private let connection: CommitterConnection
    private let metrics: CommitMetrics
    private let routes: ShardRouting?
    /// A write of one row, which tests whether writes are possible. If it is empty, the committer sends no probes.
    private let probe: [Query]
    private let health = Mutex(WriteHealth())
    /// The group that is being committed.
    private let current = Mutex(CurrentGroup())

    private struct CurrentGroup {
        var jobs: [Work.Job] = []
        var startedAt = ContinuousClock.now
        /// The lock conflict or time-out of the last attempt to commit the group.
        var failure: PostgresError?
    }

    package init(
        work: Work,
        queue: GroupQueue<Work.Job>,
        worker: Int,
        connection: CommitterConnection,
        metrics: CommitMetrics,
        routes: ShardRouting? = nil,
        probe: [Query] = []
    ) {
        self.probe = probe
        self.work = work
        self.queue = queue
        self.worker = worker
        self.connection = connection
        self.metrics = metrics
        self.routes = routes
    }

    /// Runs until the queue is closed and empty.
    package func run() async {
        var took: Duration?
        while let group = await queue.next(at: worker, took: took) {
            if group.isEmpty {
                took = nil
                await probeConnection()
                continue
            }
            let start = ContinuousClock.now
            let before = connection.traffic
            let span = Spans.commit(group, of: metrics.noun)
            current.withLock { $0 = CurrentGroup(jobs: group) }
            if let routes { connection.selectServer(queue.shard(at: worker).flatMap(routes.server)) }
            await commit(group, timeoutDivisor: 1)
            current.withLock { $0 = CurrentGroup() }
            took = .now - start
            metrics.group(
                jobs: group.count,
                mutations: group.reduce(0) { $0 + $1.weight },
                traffic: connection.traffic - before,
                took: took ?? .zero
            )
            span?.end(traffic: connection.traffic - before)
        }
        connection.close()
    }

    // MARK: - Health

    /// The reason why this committer cannot write; nil while it can.
    func writeFailure(at now: ContinuousClock.Instant) -> PostgresError? {
        health.withLock { $0.writeFailure(at: now) }
    }

    /// Requests a probe if the committer is idle and a probe is due.
    func probeIfDue(at now: ContinuousClock.Instant) {
        guard !probe.isEmpty, health.withLock({ $0.isProbeDue(at: now) }) else { return }
        queue.wakeForProbe(worker)
    }

    private func probeConnection() async {
        connection.selectServer(nil)
        do throws(PostgresError) {
            _ = try await connection.open().run(probe)
            health.withLock { $0.probed(at: .now) }
        } catch {
            // a write of one row times out only if the disk hangs
            let isLate = error.kind == .timedOut
            health.withLock { $0.failedProbe(isLate ? PostgresError(.unresponsive, error.message) : error, at: .now) }
        }
    }

    /// Answers jobs that have waited too long, either in the queue or for a response from the database.
    ///
    /// If the heavy worker has spent most of this time on a single job, the job's own work is the cause, and the job
    /// would expire again if its caller repeated it. Therefore the job gets the answer for a job that takes too long
    /// even alone.
    func expire(after age: Duration, now: ContinuousClock.Instant = .now) {
        let group = current.withLock(\.self)
        let late = group.jobs.filter { !$0.isAnswered && now - $0.enqueuedAt >= age }
        if worker == queue.workers, group.jobs.count == 1, let job = late.first, group.failure == nil,
            now - group.startedAt >= age * 3 / 4
        {
            job.refuse(work.problem(PostgresError(.timedOut, "the job takes longer than \(age)"), ofLone: job))
        } else if !late.isEmpty {
            // a known failure, such as a lock of another session, shows that the database does respond
            let problem = group.failure.map { work.problem($0) } ?? .storeUnavailable
            for job in late { job.refuse(problem) }
        }
        for job in queue.expired(age, now: now) { job.refuse(Problem.storeUnavailable) }
    }

    // MARK: - One group

    /// - Parameter timeoutDivisor: the divisor of the usual time limit of statements (``CommitterConnection``).
    private func commit(_ group: [Work.Job], timeoutDivisor: Int) async {
        guard let error = await tryAgain(group, timeoutDivisor: timeoutDivisor) else { return }
        metrics.retry(.tooLong)
        await split(group, error, timeoutDivisor: timeoutDivisor)
    }

    /// Tries to commit a group, until the group is committed or has failed permanently.
    ///
    /// - Parameter takesHeavy: whether jobs may change any amount of data. If false, jobs that change much data are
    ///   left to the heavy worker.
    /// - Returns: nil if all jobs have an answer; otherwise the error of a group that took too long.
    private func tryAgain(_ group: [Work.Job], timeoutDivisor: Int, takesHeavy: Bool = false) async -> PostgresError? {
        var context = RetryContext()
        context.takesHeavy = takesHeavy || worker == queue.workers
        var last: PostgresError?
        for attempt in 1...Self.attempts {
            // no caller waits for these jobs any more, but other jobs wait for this committer
            if attempt > 1 || timeoutDivisor > 1, group.allSatisfy(\.isAnswered) { return nil }
            do {
                try await tryOnce(group, context, timeoutDivisor: timeoutDivisor)
                return nil
            } catch CommitFailure.readAgain {
                metrics.retry(.readAgain)
                context.looksUpAll = true
            } catch CommitFailure.stale {
                metrics.retry(.staleTypes)
                work.invalidateCache(group)
            } catch CommitFailure.contended(let error) {
                metrics.retry(.contended)
                // if a job waits for a lock, other jobs must not wait for this job
                if error.isTooLong, timeoutDivisor > 1 || queue.hasWork(at: worker) {
                    fail(group, error)
                    return nil
                }
                last = error
                try? await Task.sleep(for: .milliseconds(Int.random(in: 1...10) * attempt))
            } catch CommitFailure.tooLong(let error) {
                return error
            } catch CommitFailure.heavy(let lanes) {
                metrics.retry(.heavy)
                await deferToHeavyWorker(lanes, of: group, timeoutDivisor: timeoutDivisor)
                return nil
            } catch CommitFailure.refused(let error) {
                await bisect(group, error, timeoutDivisor: timeoutDivisor)
                return nil
            } catch CommitFailure.tooMuch {
                await bisect(group, CommitFailure.tooMuch, timeoutDivisor: timeoutDivisor)
                return nil
            } catch SealError.unknownKey where !context.hasNewestKeys {
                metrics.retry(.staleKeys)
                context.hasNewestKeys = true
                work.invalidateCache(group)
            } catch let error as SealError where error.lacksUserKeys && attempt < Self.attempts {
                metrics.retry(.userKeys)
                if let failure = await fetchMissingKeys(error) {
                    fail(group, failure)
                    return nil
                }
            } catch let error as SealError {
                await bisect(group, error, timeoutDivisor: timeoutDivisor)
                return nil
            } catch CommitFailure.unavailable(let error) {
                // the usual cause is a restart that closed the idle connection, so the group is tried again on a new
                // connection. If the error is that the commit was not replicated, the group is already committed. A
                // second attempt would report the group's mutations as successful repeats, although a failover may lose
                // them
                let isCommitted = error.kind == .unreplicated
                if !isCommitted { metrics.retry(.connection) }
                if attempt > 1 || isCommitted {
                    fail(group, error)
                    return nil
                }
                last = error
            } catch {
                fail(group, error)
                return nil
            }
        }
        fail(group, last ?? PostgresError(.timedOut, "the group could not be committed"))
        return nil
    }

    /// Leaves heavy jobs to the heavy worker, and tries the other jobs again.
    ///
    /// During shutdown, the heavy worker accepts no jobs. In that case, this committer commits the heavy jobs itself,
    /// after the other jobs.
    private func deferToHeavyWorker(_ lanes: Set<LaneKey>, of group: [Work.Job], timeoutDivisor: Int) async {
        let others = group.filter { !lanes.contains($0.lane) }
        let here = group.filter { lanes.contains($0.lane) && !queue.deferToHeavyWorker($0) }
        if !others.isEmpty { await commit(others, timeoutDivisor: timeoutDivisor) }
        for job in here {
            guard queue.isClosed else {
                // the organization already has its share of waiting jobs; if this committer committed the heavy job
                // itself, other jobs would have to wait
                job.refuse(.overloaded("too many writes are waiting"))
                continue
            }
            if let error = await tryAgain([job], timeoutDivisor: timeoutDivisor, takesHeavy: true) {
                fail([job], error)
            }
        }
    }

    /// Fetches the users' keys that a group needs and that are not in memory.
    ///
    /// - Returns: the error if the keys cannot be fetched.
    private func fetchMissingKeys(_ error: SealError) async -> (any Error)? {
        do {
            try await work.fetchMissingKeys(error)
            return nil
        } catch {
            return error
        }
    }

    /// Halves a group that the database refuses, or that contains a value that cannot be decrypted.
    ///
    /// The halves are halved again until the failing job is alone, so that no other job fails because of this job.
    private func bisect(_ group: [Work.Job], _ error: any Error, timeoutDivisor: Int) async {
        guard group.count > 1 else { return fail(group, error) }
        metrics.retry(.bisected)
        await commit(Array(group[..<(group.count / 2)]), timeoutDivisor: timeoutDivisor)
        await commit(Array(group[(group.count / 2)...]), timeoutDivisor: timeoutDivisor)
    }

    /// Halves a group that took too long, until each part has the jobs of only one organization.
    ///
    /// Each half has half of the time. If a part has only one organization, its jobs are tried one by one, with a
    /// quarter of the usual time for each. A job that takes too long alone is refused. Because jobs of other groups
    /// wait, the jobs that have not been tried within twice the usual time are also refused.
    ///
    /// A group of one job is not tried again. If a heavy job had the usual time, the job itself may be the cause. The
    /// work of other jobs is bounded, so their cause is the database or the machine.
    private func split(_ group: [Work.Job], _ error: PostgresError, timeoutDivisor: Int) async {
        guard group.count > 1 else {
            if timeoutDivisor == 1, worker == queue.workers, let job = group.first, !error.isRetryable {
                job.refuse(work.problem(error, ofLone: job))
            } else {
                fail(group, error)
            }
            return
        }
        var organizations: [UUID] = []
        for job in group where !organizations.contains(job.lane.organization) {
            organizations.append(job.lane.organization)
        }
        guard organizations.count > 1 else {
            let end = ContinuousClock.now + connection.statementTimeout * 2
            for job in group {
                if ContinuousClock.now >= end {
                    fail([job], error)
                } else if let error = await tryAgain([job], timeoutDivisor: 4) {
                    await retryWithFullTime(job, error)
                }
            }
            return
        }
        let first = Set(organizations[..<(organizations.count / 2)])
        let timeoutDivisor = min(timeoutDivisor * 2, Self.maxTimeoutDivisor)
        await commit(group.filter { first.contains($0.lane.organization) }, timeoutDivisor: timeoutDivisor)
        await commit(group.filter { !first.contains($0.lane.organization) }, timeoutDivisor: timeoutDivisor)
    }

    /// Tries a job again with the usual time limit, after the job took too long with a part of that time.
    ///
    /// Only an attempt with the usual limit shows whether the job itself takes too long. The heavy worker makes this
    /// attempt, so other committers leave the job to the heavy worker.
    private func retryWithFullTime(_ job: Work.Job, _ error: PostgresError) async {
        if error.isTooLong, !error.isRetryable {
            if worker != queue.workers {
                if queue.deferToHeavyWorker(job) { return }
            } else if let error = await tryAgain([job], timeoutDivisor: 1) {
                return job.refuse(work.problem(error, ofLone: job))
            }
        }
        fail([job], error)
    }

    private func fail(_ group: [Work.Job], _ error: any Error) {
        let problem = work.problem(error)
        for job in group { job.refuse(problem) }
        // if the database is unavailable, the queued jobs are refused now, because they would fail in the same way; if
        // only one of several servers is unavailable, jobs of other shards may succeed and are not refused
        guard let error = error as? PostgresError, error.isUnavailable, let first = group.first else { return }
        let isOneOfSeveral = error.sqlState != nil || connection.hasSelectedServer
        for job in queue.drain(at: worker, fromShardOf: isOneOfSeveral ? first.lane.organization : nil) {
            job.refuse(problem)
        }
    }

    private func tryOnce(_ group: [Work.Job], _ context: RetryContext, timeoutDivisor: Int) async throws {
        let connection = try await connected(timeoutDivisor)
        let commits = connection.commits
        do {
            try await work.commit(group, on: connection, context)
            if connection.commits > commits { health.withLock { $0.committed(at: .now) } }
        } catch let error as PostgresError {
            health.withLock { $0.failed(error, at: .now) }
            throw await failure(error, connection, isAlone: group.count == 1)
        } catch {
            await leaveTransaction(connection)
            throw error
        }
    }

    private func connected(_ timeoutDivisor: Int) async throws -> Connection {
        do throws(PostgresError) {
            return try await connection.open(timeoutDivisor: timeoutDivisor)
        } catch {
            health.withLock { $0.failed(error, at: .now) }
            throw CommitFailure.unavailable(error)
        }
    }

    private func leaveTransaction(_ connection: Connection) async {
        guard connection.isUsable, connection.isInTransaction else { return }
        do { _ = try await connection.run([.rollback]) } catch { connection.close() }
    }

    /// Ends the transaction on the connection, and returns how to continue after the error.
    private func failure(_ error: PostgresError, _ connection: Connection, isAlone: Bool) async -> CommitFailure {
        // a job that expires gets this error as its answer; after errors of other kinds, it gets `store_unavailable`
        current.withLock { $0.failure = error.isRetryable || error.isTooLong ? error : nil }
        await leaveTransaction(connection)
        if work.isStale(error) { return .stale }
        if error.sqlState == "23505" { return .readAgain }
        // a job that is alone in its group may wait for a lock as long as its caller waits, because it does not delay
        // other jobs of a group
        if error.isTooLong, !(isAlone && error.isRetryable) { return .tooLong(error) }
        if error.isRetryable { return .contended(error) }
        if error.isUnavailable { return .unavailable(error) }
        return .refused(error)
    }
}
