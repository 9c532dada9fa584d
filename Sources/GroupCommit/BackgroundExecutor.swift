import DequeModule
import Foundation
import Glibc

/// Runs long computations on separate threads.
///
/// Examples are reading bodies of megabytes, planning their mutations, and writing pages.
///
/// The system schedules these threads with lower priority. On the threads that all tasks share, one for each core, all
/// other requests would wait for such a computation.
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
///
/// It is `@unchecked` because the jobs are accessed only under the condition's lock, and the threads are private.
final class ThreadExecutor: TaskExecutor, @unchecked Sendable {
    /// The same stack size as on the shared threads, because reading JSON recurses as deep as the JSON is nested.
    private static let stackSize = 8 << 20

    private let condition = NSCondition()
    private var jobs: Deque<UnownedJob> = []
    private var hasEnded = false

    /// - Parameter niceness: how much the priority of the threads is lowered (nice(1)).
    init(_ name: String, threads: Int = 1, niceness: Int32 = 0) {
        for _ in 0..<threads {
            let thread = Thread { [self] in
                // on Linux, 0 means the calling thread
                if niceness != 0 { setpriority(__priority_which_t(PRIO_PROCESS.rawValue), 0, niceness) }
                while let job = nextJob() { job.runSynchronously(on: asUnownedTaskExecutor()) }
            }
            thread.name = name
            thread.stackSize = Self.stackSize
            thread.start()
        }
    }

    func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        condition.withLock {
            jobs.append(job)
            condition.signal()
        }
    }

    /// Ends the threads after their work is done. No task may use them any more.
    func end() {
        condition.withLock {
            hasEnded = true
            condition.broadcast()
        }
    }

    private func nextJob() -> UnownedJob? {
        condition.withLock {
            while true {
                if let job = jobs.popFirst() { return job }
                if hasEnded { return nil }
                condition.wait()
            }
        }
    }
}
