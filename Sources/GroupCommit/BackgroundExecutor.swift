import DequeModule
import Dispatch
import FoundationEssentials
import Glibc
import Postgres
import Synchronization

/// Runs long computations on separate threads, such as reading bodies of megabytes, planning their mutations, and
/// writing pages.
///
/// The system schedules these threads with lower priority. All other tasks share one thread for each core, and would
/// have to wait for such a computation there.
package enum BackgroundExecutor {
    /// Runs tasks on one thread fewer than there are cores, at least one, so that other requests are served without
    /// delay.
    package static let executor: any TaskExecutor = ThreadExecutor(
        "heavy",
        threads: max(1, ProcessInfo.processInfo.activeProcessorCount - 1),
        niceness: 5
    )
}

/// Runs tasks on separate threads, where they may block or compute for long.
final class ThreadExecutor: TaskExecutor {
    /// The same stack size as on the shared threads, because reading JSON recurses as deep as the JSON is nested.
    private static let stackSize = 8 << 20

    private let threads: Int
    private let jobs = Mutex<Deque<UnownedJob>>([])
    /// It is raised once for each job, and finally once for each thread.
    private let signals = DispatchSemaphore(value: 0)

    /// - Parameter niceness: the value by which the priority of the threads is lowered (nice(1)).
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

    /// Ends the threads after their work is done. No task may use them after that.
    func end() {
        for _ in 0..<threads { signals.signal() }
    }

    /// Waits for the next job; returns nil at the end, after all jobs.
    private func nextJob() -> UnownedJob? {
        signals.wait()
        return jobs.withLock { $0.popFirst() }
    }
}
