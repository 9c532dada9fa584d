import Glibc
import Logging
import UnixSignals

/// Ends the gateway at a second Ctrl-C during shutdown, without waiting for work in progress.
enum SecondInterrupt {
    /// The code that a shell reports for a program ended by Ctrl-C.
    private static let exitCode: Int32 = 128 + SIGINT

    /// Watches signals until it is cancelled: the first one begins the shutdown, a SIGINT after it ends the process.
    static func watch(logger: Logger) async {
        var isEnding = false
        for await signal in await UnixSignalsSequence(trapping: [.sigterm, .sigint]) {
            if isEnding, signal == .sigint {
                logger.warning("Interrupted again; work in progress was aborted")
                _exit(exitCode)
            }
            isEnding = true
        }
    }
}
