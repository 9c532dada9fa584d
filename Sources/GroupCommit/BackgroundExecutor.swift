import Foundation

/// Runs long computations on separate threads.
///
/// Examples are reading bodies of megabytes, planning what they hold, and writing pages.
///
/// The system prefers its threads less than others. On the threads that all tasks share, of which there are as many as
/// cores, all other requests would wait until it is over.
package enum BackgroundExecutor {
    /// Runs fewer pieces of work at a time than there are cores.
    ///
    /// One fewer, so that other requests are served without delay.
    package static let executor: any TaskExecutor = ThreadExecutor(
        "heavy",
        threads: max(1, ProcessInfo.processInfo.activeProcessorCount - 1),
        niceness: 5
    )
}
