import DequeModule
import Dispatch
import FoundationEssentials
import Glibc
import Postgres
import Synchronization

/// Runs long computations on separate threads. Examples are parsing request bodies of several megabytes, planning the
/// mutations in them, and writing pages.
///
/// The operating system schedules these threads with lower priority. All other tasks share a pool with one thread for
/// each core, and a long computation in this pool would delay them.
package enum BackgroundExecutor {
    /// Runs tasks on as many threads as there are cores, minus one for all other work, but on at least one thread.
    package static let executor: any TaskExecutor = ThreadExecutor(
        "heavy",
        threads: max(1, ProcessInfo.processInfo.activeProcessorCount - 1),
        niceness: 5
    )
}

/// Runs tasks on separate threads. Such tasks may block, or compute for a long time.
final class ThreadExecutor: TaskExecutor {
    /// The stack size of the shared threads. The stack must not be smaller, because parsing recurses as deep as the
    /// JSON is nested.
    private static let stackSize = 8 << 20

    private let threads: Int
    private let jobs = Mutex<Deque<UnownedJob>>([])
    /// The semaphore is signaled once for each job, and at the end once for each thread.
    private let signals = DispatchSemaphore(value: 0)

    /// - Parameter niceness: the nice value of the threads. A higher value means a lower priority (nice(1)).
    init(_ name: String, threads: Int = 1, niceness: Int32 = 0) {
        self.threads = threads
        for _ in 0..<threads {
            let hasStarted = DedicatedThread.start(name, stackSize: Self.stackSize) { [self] in
                // on Linux, 0 means the calling thread
                if niceness != 0 { setpriority(__priority_which_t(PRIO_PROCESS.rawValue), 0, niceness) }
                while let job = nextJob() { job.runSynchronously(on: asUnownedTaskExecutor()) }
            }
            precondition(hasStarted, "the system has no more threads")
        }
    }

    func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        jobs.withLock { $0.append(job) }
        signals.signal()
    }

    /// Ends the threads after all queued jobs are done. After this call, no task may use the threads.
    func end() {
        for _ in 0..<threads { signals.signal() }
    }

    /// Waits for the next job. Returns nil if the executor has ended and no job is left.
    private func nextJob() -> UnownedJob? {
        signals.wait()
        return jobs.withLock { $0.popFirst() }
    }
}
