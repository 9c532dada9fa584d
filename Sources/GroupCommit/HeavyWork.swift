import DequeModule
import Foundation
import Glibc

/// Runs long computations: reading bodies of megabytes, planning what they hold, writing pages.
///
/// It has threads of its own, which the system prefers less than others. On the threads that all tasks share, of which
/// there are as many as cores, all other requests would wait until it is over.
package enum HeavyWork {
    /// Runs one piece of work fewer at a time than there are cores, so that other requests are served without delay.
    package static let executor: any TaskExecutor = HeavyExecutor()
}

/// `@unchecked`: the jobs are touched under the condition's lock alone, and the thread is private.
private final class HeavyExecutor: TaskExecutor, @unchecked Sendable {
    /// How much less the system prefers the thread (nice(1)).
    private static let niceness: Int32 = 5
    /// As on the shared threads: reading JSON recurses as deep as it is nested.
    private static let stackSize = 8 << 20

    private let condition = NSCondition()
    private var jobs: Deque<UnownedJob> = []

    init() {
        for _ in 0..<max(1, ProcessInfo.processInfo.activeProcessorCount - 1) {
            let thread = Thread { [self] in
                // on Linux 0 is the calling thread
                setpriority(__priority_which_t(PRIO_PROCESS.rawValue), 0, Self.niceness)
                while true { nextJob().runSynchronously(on: asUnownedTaskExecutor()) }
            }
            thread.name = "heavy"
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

    private func nextJob() -> UnownedJob {
        condition.withLock {
            while true {
                if let job = jobs.popFirst() { return job }
                condition.wait()
            }
        }
    }
}
